"""The first stage of a network source: resolve and connect."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from edge_agent.capture.errors import CaptureError
from edge_agent.capture.reach import reach


@pytest.fixture
def full_listener() -> Iterator[int]:
    """Give the port of a server whose backlog is full: connection attempts to it stay unanswered."""
    with ExitStack() as sockets:
        listener = sockets.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        while True:
            connection = sockets.enter_context(socket.socket())
            connection.settimeout(0.2)
            try:
                connection.connect(("127.0.0.1", port))
            except TimeoutError:
                break
        yield port


def test_a_port_that_listens() -> None:
    """The connection is made."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        reach("127.0.0.1", server.getsockname()[1], 5.0) as connection,
    ):
        assert connection.getpeername() == server.getsockname()


def test_every_address_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name with several addresses is reached if any of them listens: here the second."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        stream = (socket.AF_INET, socket.SOCK_STREAM, 0, "")
        answers = [(*stream, ("127.0.0.2", port)), (*stream, ("127.0.0.1", port))]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answers)
        with reach("camera.example", port, 5.0) as connection:
            assert connection.getpeername() == ("127.0.0.1", port)


def test_a_port_that_refuses() -> None:
    """The system's reason, with host and port."""
    with pytest.raises(CaptureError, match=r"^TCP connect: 127\.0\.0\.1 port 1: Connection refused$"):
        reach("127.0.0.1", 1, 5.0)


def test_a_host_that_does_not_answer(full_listener: int) -> None:
    """No answer at all is bounded by the timeout."""
    began_s = time.monotonic()
    with pytest.raises(CaptureError) as caught:
        reach("127.0.0.1", full_listener, 0.3)

    assert str(caught.value) == f"TCP connect: no answer from 127.0.0.1 port {full_listener} within 0.3 s"
    assert time.monotonic() - began_s < 5.0


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 64 + ".example", "..", "\N{SNOWMAN}" * 70])
def test_a_name_that_is_none(host: str) -> None:
    """A name without address, and one that cannot be a name, are told from a host that does not answer."""
    with pytest.raises(CaptureError, match=r"^cannot resolve "):
        reach(host, 554, 5.0)
