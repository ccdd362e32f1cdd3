"""RTSP cameras that redirect, and what else may come before the handshake."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from edge_agent.capture.errors import CaptureError
from edge_agent.capture.redirect import refuse_redirect
from edge_agent.state import CameraState
from tests.edge_agent.capture.conftest import Watch

Answer = Callable[[bytes], bytes]


@contextmanager
def speaking(answer: Answer) -> Iterator[int]:
    """Answer each request on each connection to a free port, which is given; b"" says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def take() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection, suppress(OSError):
                        while request := connection.recv(4096):
                            connection.sendall(answer(request))

        thread = threading.Thread(target=take, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


def redirect(location: str) -> bytes:
    return f"RTSP/1.0 302 Moved\r\nCSeq: 1\r\nLocation: {location}\r\n\r\n".encode()


def test_no_password_goes_to_another_host(watch: Watch) -> None:
    """A camera that redirects is offline, with the address that is to be given in its place."""
    elsewhere: list[bytes] = []

    def other(request: bytes) -> bytes:
        elsewhere.append(request)
        return b'RTSP/1.0 401 Unauthorized\r\nCSeq: 1\r\nWWW-Authenticate: Basic realm="x"\r\n\r\n'

    with speaking(other) as other_port:
        location = f"rtsp://its:own@127.0.0.1:{other_port}/live"
        with speaking(lambda _: redirect(location)) as port:
            watcher = watch(f"rtsp://127.0.0.1:{port}/live", "secret", user="yard")
            status = watcher.wait_for_state(CameraState.OFFLINE)

    assert status.reason == (
        f"RTSP handshake: 127.0.0.1:{port} redirects to 127.0.0.1:{other_port}: give that address instead"
    )
    assert elsewhere == []


def asked(answer: Answer, timeout_s: float = 5.0) -> None:
    with speaking(answer) as port, socket.create_connection(("127.0.0.1", port)) as connection:
        refuse_redirect(connection, f"rtsp://127.0.0.1:{port}/live", "yard:554", timeout_s)


def test_the_request_asks_for_the_stream_without_credentials() -> None:
    """One DESCRIBE; an answer that is no redirect, whatever it is, is left to the handshake."""
    requests: list[bytes] = []

    def unauthorized(request: bytes) -> bytes:
        requests.append(request)
        return b"RTSP/1.0 401 Unauthorized\r\nCSeq: 1\r\n\r\n"

    asked(unauthorized)

    assert len(requests) == 1
    assert requests[0].startswith(b"DESCRIBE rtsp://127.0.0.1:")
    assert b"Authorization" not in requests[0]


@pytest.mark.parametrize("nonsense", [b"A" * (1 << 20), b"\r\n\r\n", b"HTTP/1.0 302 Found\r\n\r\n"])
def test_nonsense_is_left_to_the_handshake(nonsense: bytes) -> None:
    """No more is read than the head of an answer may have."""
    asked(lambda _: nonsense)


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("rtsp://user:secret@[2001:db8::1]:8554/x", "[2001:db8::1]:8554"),
        ("rtsp://gate.example/x", "gate.example"),
        ("rtsp://a\x1b[31mb.example:99999/", "another address"),
        ("/elsewhere", "another address"),
    ],
)
def test_where_it_redirects_to_is_named(location: str, target: str) -> None:
    """Host and port, without credentials; something else where there is none."""
    with pytest.raises(CaptureError) as caught:
        asked(lambda _: redirect(location))

    assert str(caught.value) == f"RTSP handshake: yard:554 redirects to {target}: give that address instead"


def test_silence_is_bounded() -> None:
    """A camera that takes the connection and says nothing has a reason of its own."""
    with pytest.raises(CaptureError, match=r"^RTSP handshake: yard:554 did not answer within 0\.2 s$"):
        asked(lambda _: b"", timeout_s=0.2)


def test_errors_are_one_line() -> None:
    """What a camera puts into a reason can neither begin a line of the log nor colour a terminal."""
    assert str(CaptureError("it says \x1b[31mred\r\nand more")) == "it says [31mred and more"
