"""A camera that speaks HTTP: multipart MJPEG, with or without a password, and what goes wrong with it."""

import base64
import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.request import parse_http_list, parse_keqv_list

NONCE = "0123456789abcdef"


@dataclass
class MjpegCamera:
    """What the camera does; `pictures` are whole JPEGs, sent `interval_s` apart, again and again."""

    pictures: list[bytes]
    interval_s: float = 0.05
    with_lengths: bool = True
    stop_after: int | None = None
    """Send so many pictures, then nothing more, without closing; 0 accepts the request and says nothing."""
    close_after: int | None = None
    is_web_page: bool = False
    redirect_to: str = ""
    endless_part: tuple[bytes, bytes] | None = None
    """In place of pictures: how a part's header goes on after its type, and what follows again and again."""
    status: int = 200
    user: str = ""
    password: str = ""
    scheme: str = ""
    requests: int = 0
    ended: threading.Event = field(default_factory=threading.Event)
    port: int = 0

    @property
    def url(self) -> str:
        """Where to watch it, without credentials."""
        return f"http://127.0.0.1:{self.port}/video?stream=1"


@contextmanager
def serving(camera: MjpegCamera) -> Iterator[MjpegCamera]:
    """Serve a camera on a free port of loopback."""

    class Handler(_Handler):
        pass

    Handler.camera = camera
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    camera.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield camera
    finally:
        camera.ended.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    camera: MjpegCamera

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name is the base class's
        pass

    def do_GET(self) -> None:
        self.camera.requests += 1
        with suppress(OSError):
            self._answer()

    def _answer(self) -> None:
        camera = self.camera
        if camera.stop_after == 0:
            camera.ended.wait()
        elif camera.scheme and not self._is_admitted():
            self.send_response(401)
            self.send_header("WWW-Authenticate", _challenge(camera.scheme))
            self.end_headers()
        elif camera.redirect_to:
            self.send_response(302)
            self.send_header("Location", camera.redirect_to)
            self.end_headers()
        elif camera.status != 200:
            self.send_error(camera.status)
        else:
            kind = "text/html" if camera.is_web_page else "multipart/x-mixed-replace; boundary=frame"
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self._send_page() if camera.is_web_page else self._send_pictures()

    def _send_page(self) -> None:
        self.wfile.write(b"<html><body>Please sign in</body></html>" * 100)

    def _send_pictures(self) -> None:
        camera = self.camera
        if camera.endless_part:
            head, again = camera.endless_part
            self.wfile.write(b"--frame\r\nContent-Type: image/jpeg\r\n" + head)
            while not camera.ended.is_set():
                self.wfile.write(again)
        sent = 0
        while not camera.ended.wait(camera.interval_s):
            if sent == camera.close_after:
                return
            if sent == camera.stop_after:
                camera.ended.wait()
                return
            picture = camera.pictures[sent % len(camera.pictures)]
            length = f"Content-Length: {len(picture)}\r\n" if camera.with_lengths else ""
            self.wfile.write(
                f"--frame\r\nContent-Type: image/jpeg\r\n{length}\r\n".encode() + picture + b"\r\n"
            )
            sent += 1

    def _is_admitted(self) -> bool:
        scheme, _, rest = self.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != self.camera.scheme:
            return False
        expected: Callable[[str], bool] = self._basic if scheme == "Basic" else self._digest
        return expected(rest)

    def _basic(self, token: str) -> bool:
        return base64.b64decode(token) == f"{self.camera.user}:{self.camera.password}".encode()

    def _digest(self, text: str) -> bool:
        fields = parse_keqv_list(parse_http_list(text))
        known = _md5(f"{self.camera.user}:camera:{self.camera.password}")
        asked = _md5(f"GET:{fields['uri']}")
        return fields["response"] == _md5(f"{known}:{NONCE}:{asked}")


def _challenge(scheme: str) -> str:
    return 'Basic realm="camera"' if scheme == "basic" else f'Digest realm="camera", nonce="{NONCE}"'


def _md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
