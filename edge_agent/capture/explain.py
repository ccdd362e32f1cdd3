"""What FFmpeg's errors mean for a person, in one line without the URL (it may hold a password)."""

import errno

from av import error as av_error

from edge_agent.capture.errors import CaptureError
from edge_agent.config import CameraConfig
from edge_agent.config.source_url import SourceKind
from edge_agent.state import CameraState


def explained(
    error: av_error.FFmpegError | OSError,
    camera: CameraConfig,
    kind: SourceKind,
    place: str,
    *,
    timed_out: bool,
) -> CaptureError:
    """Say why a source did not open; TCP connect to a network source had succeeded."""
    if isinstance(error, av_error.HTTPError | av_error.HTTPClientError):
        return _refused(error, camera, kind, place)
    if kind in ("device", "file"):
        return CaptureError(_local(error, kind, place))
    stage = "RTSP handshake" if kind == "rtsp" else "HTTP request"
    if timed_out:
        return CaptureError(f"{stage}: {place} did not answer within {camera.connect_timeout_s:g} s")
    if kind == "rtsp" and error.errno == errno.EPROTONOSUPPORT:
        return CaptureError(f"{stage}: {place} does not offer RTP over {camera.transport.upper()}")
    if kind == "rtsp":
        return CaptureError(
            f"{stage}: {place} closed the connection, does not speak RTSP or sent an SDP that cannot be read"
        )
    return CaptureError(
        f"{stage}: {place} closed the connection, redirects elsewhere or does not answer with multipart MJPEG"
    )


def _refused(error: av_error.FFmpegError, camera: CameraConfig, kind: SourceKind, place: str) -> CaptureError:
    if isinstance(error, av_error.HTTPUnauthorizedError):
        text = "wants a user and password" if camera.user is None else "refuses the user or the password"
        return CaptureError(f"{place} {text}", CameraState.AUTHENTICATION_FAILED)
    if isinstance(error, av_error.HTTPForbiddenError):
        return CaptureError(f"{place} forbids this stream (403)", CameraState.AUTHENTICATION_FAILED)
    if isinstance(error, av_error.HTTPNotFoundError):
        return CaptureError(f"{place} has no such stream (404): check the path of the URL")
    if isinstance(error, av_error.HTTPServerError):
        return CaptureError(f"{place} answers with an error of its own (5xx)")
    # FFmpeg asks a camera to play even when its SDP offered nothing that could be set up.
    hint = ": it may have no room for another viewer, or its SDP offers no video" if kind == "rtsp" else ""
    return CaptureError(f"{place} refuses the request (4xx){hint}")


def _local(error: av_error.FFmpegError | OSError, kind: SourceKind, place: str) -> str:
    if isinstance(error, FileNotFoundError):
        return f"no such {kind}: {place}"
    if isinstance(error, av_error.InvalidDataError):
        return f"no video that can be read in {place}"
    return f"cannot open {place}: {error.strerror}"
