"""A real RTSP camera: GStreamer's RTSP server playing a file or a test pattern.

Run by the interpreter that has GStreamer's bindings, not by the project's:

    /usr/bin/python3 gst_rtsp_server.py --file walkers.mp4 --loop

It prints `ready PORT` once it serves rtsp://127.0.0.1:PORT/live, and ends on SIGTERM. The media is shared:
everybody sees the same picture, and the first client after none gets the file from its beginning.
"""

import argparse
import signal
from pathlib import Path

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstApp", "1.0")
gi.require_version("GstPbutils", "1.0")
gi.require_version("GstRtsp", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import GLib, Gst, GstApp, GstPbutils, GstRtsp, GstRtspServer  # noqa: E402

MAX_FILE_BYTES = 256 * 1024 * 1024
"""A file's packets are held in memory."""

CAPS = {
    "h264": "video/x-h264,stream-format=byte-stream,alignment=au",
    "h265": "video/x-h265,stream-format=byte-stream,alignment=au",
    "mjpeg": "image/jpeg",
}
PARSERS = {
    "h264": "h264parse config-interval=-1",
    "h265": "h265parse config-interval=-1",
    "mjpeg": "jpegparse",
}
# Parameter sets come from the parsers: the payloaders would put them before every slice of a keyframe.
PAYLOADERS = {
    "h264": "rtph264pay name=pay0 pt=96",
    "h265": "rtph265pay name=pay0 pt=96",
    "mjpeg": "rtpjpegpay name=pay0 pt=26",
}


def encoder(codec: str, gop: int, bframes: int = 0) -> str:
    """Describe an encoder that a camera could have: a keyframe every `gop` pictures."""
    if bframes and codec == "h264":
        return (
            f"x264enc speed-preset=veryfast bframes={bframes} b-adapt=false rc-lookahead=0 sync-lookahead=0"
            f" bitrate=2000 key-int-max={gop}"
        )
    return {
        "h264": f"x264enc tune=zerolatency speed-preset=veryfast bitrate=2000 key-int-max={gop}",
        "h265": f"x265enc tune=zerolatency speed-preset=ultrafast bitrate=2000 key-int-max={gop}",
        "mjpeg": "jpegenc quality=85",
    }[codec]


class FileFactory(GstRtspServer.RTSPMediaFactory):
    """Plays the packets of a file, encoded beforehand when the file has another codec."""

    def __init__(self, path: Path, codec: str, gop: int, frames: int | None, loop: bool) -> None:
        super().__init__()
        self._loop = loop
        self._caps, self._buffers = read_file(path, codec, gop, frames)
        starts = [
            time
            for buffer in self._buffers
            for time in (buffer.pts, buffer.dts)
            if time != Gst.CLOCK_TIME_NONE
        ]
        self._start_ns = min(starts)
        self._length_ns = max(buffer.pts + buffer.duration for buffer in self._buffers) - self._buffers[0].pts
        self._next = 0
        self.set_launch(
            f"( appsrc name=source format=time stream-type=seekable"
            f" ! {PARSERS[codec]} ! {PAYLOADERS[codec]} )"
        )

    def do_configure(self, media: GstRtspServer.RTSPMedia) -> None:
        """Begin at the first packet: GStreamer makes a media when a client comes and none is there."""
        GstRtspServer.RTSPMediaFactory.do_configure(self, media)
        source = media.get_element().get_by_name_recurse_up("source")
        source.set_property("caps", self._caps)
        source.connect("need-data", self._push)
        source.connect("seek-data", self._seek)
        self._next = 0

    def _push(self, source: GstApp.AppSrc, _wanted: int) -> None:
        rounds, index = divmod(self._next, len(self._buffers))
        if rounds and not self._loop:
            source.emit("end-of-stream")
            return
        shift_ns = rounds * self._length_ns - self._start_ns
        # Not copy(): the bindings make it another reference, and the times would be shifted again and again.
        buffer = self._buffers[index].copy_deep()
        # A time that is none stays none; one before the beginning is the beginning.
        if buffer.pts != Gst.CLOCK_TIME_NONE:
            buffer.pts = max(0, buffer.pts + shift_ns)
        if buffer.dts != Gst.CLOCK_TIME_NONE:
            buffer.dts = max(0, buffer.dts + shift_ns)
        self._next += 1
        source.emit("push-buffer", buffer)

    def _seek(self, _source: GstApp.AppSrc, position_ns: int) -> bool:
        self._next = 0
        return position_ns == 0


def read_file(path: Path, codec: str, gop: int, frames: int | None) -> tuple[Gst.Caps, list[Gst.Buffer]]:
    """Read the packets of the file's video, all or the first so many, encoded if the codec is another."""
    found = GstPbutils.Discoverer.new(10 * Gst.SECOND).discover_uri(path.resolve().as_uri())
    streams = found.get_video_streams()
    if not streams:
        raise SystemExit(f"{path}: no video stream in it")
    has_codec = streams[0].get_caps().get_structure(0).get_name() == CAPS[codec].partition(",")[0]
    middle = (
        "parsebin"
        if has_codec
        else f"decodebin ! videoconvert ! video/x-raw,format=I420 ! {encoder(codec, gop)}"
    )
    pipeline = Gst.parse_launch(
        f"filesrc name=file ! {middle} ! {PARSERS[codec]} ! {CAPS[codec]}"
        " ! appsink name=packets sync=false max-buffers=8"
    )
    pipeline.get_by_name("file").set_property("location", str(path))
    packets = pipeline.get_by_name("packets")
    pipeline.set_state(Gst.State.PLAYING)
    buffers: list[Gst.Buffer] = []
    size = 0
    caps = None
    while len(buffers) != frames and (sample := packets.emit("pull-sample")) is not None:
        caps = sample.get_caps()
        buffers.append(sample.get_buffer())
        size += buffers[-1].get_size()
        if size > MAX_FILE_BYTES:
            raise SystemExit(f"{path}: more than {MAX_FILE_BYTES} bytes of video")
    problem = pipeline.get_bus().pop_filtered(Gst.MessageType.ERROR)
    pipeline.set_state(Gst.State.NULL)
    if problem is not None or not buffers:
        raise SystemExit(f"{path}: {problem.parse_error()[0].message if problem else 'no picture in it'}")
    return caps, buffers


def pattern_factory(
    codec: str, size: str, fps: int, gop: int, bframes: int
) -> GstRtspServer.RTSPMediaFactory:
    """Show a moving ball for ever."""
    width, height = size.split("x")
    picture = f"video/x-raw,format=I420,width={width},height={height},framerate={fps}/1"
    factory = GstRtspServer.RTSPMediaFactory()
    factory.set_launch(
        f"( videotestsrc is-live=true pattern=ball ! {picture} ! {encoder(codec, gop, bframes)}"
        f" ! {PARSERS[codec]} ! {PAYLOADERS[codec]} )"
    )
    return factory


def demand_credentials(
    server: GstRtspServer.RTSPServer,
    factory: GstRtspServer.RTSPMediaFactory,
    user: str,
    password: str,
    scheme: str,
) -> None:
    """Let only this user in."""
    auth = GstRtspServer.RTSPAuth()
    token = GstRtspServer.RTSPToken.new()
    token.set_string("media.factory.role", "viewer")
    if scheme == "basic":
        auth.set_supported_methods(GstRtsp.RTSPAuthMethod.BASIC)
        auth.add_basic(GstRtspServer.RTSPAuth.make_basic(user, password), token)
    else:
        auth.set_supported_methods(GstRtsp.RTSPAuthMethod.DIGEST)
        auth.add_digest(user, password, token)
    server.set_auth(auth)
    permissions = GstRtspServer.RTSPPermissions.new()
    for permission in ("media.factory.access", "media.factory.construct"):
        permissions.add_permission_for_role("viewer", permission, True)
    factory.set_permissions(permissions)


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--file", type=Path)
    what.add_argument("--pattern", action="store_true")
    parser.add_argument("--frames", type=int, help="serve only the first so many of the file")
    parser.add_argument("--loop", action="store_true", help="begin the file again at its end")
    parser.add_argument("--codec", choices=sorted(CAPS), default="h264")
    parser.add_argument("--size", default="640x480", help="of the pattern, WxH")
    parser.add_argument("--fps", type=int, default=10, help="of the pattern")
    parser.add_argument("--gop", type=int, default=10, help="where it is encoded")
    parser.add_argument("--bframes", type=int, default=0, help="of the pattern in H.264, in a row")
    parser.add_argument("--user")
    parser.add_argument("--password")
    parser.add_argument("--auth", choices=("basic", "digest"), default="digest")
    parser.add_argument("--port", type=int, default=0)
    return parser.parse_args()


def main() -> None:
    """Serve until SIGTERM."""
    arguments = parse_arguments()
    Gst.init(None)
    if arguments.pattern:
        factory = pattern_factory(
            arguments.codec, arguments.size, arguments.fps, arguments.gop, arguments.bframes
        )
    else:
        factory = FileFactory(
            arguments.file, arguments.codec, arguments.gop, arguments.frames, arguments.loop
        )
    factory.set_shared(True)
    server = GstRtspServer.RTSPServer()
    server.set_address("127.0.0.1")
    server.set_service(str(arguments.port))
    server.get_mount_points().add_factory("/live", factory)
    if arguments.user is not None:
        demand_credentials(server, factory, arguments.user, arguments.password or "", arguments.auth)
    if server.attach(None) == 0:
        raise SystemExit(f"cannot listen on 127.0.0.1:{arguments.port}")
    loop = GLib.MainLoop()
    GLib.unix_signal_add(GLib.PRIORITY_HIGH, signal.SIGTERM, loop.quit)
    # Of clients that went without a word, sessions are only given up when somebody looks.
    GLib.timeout_add_seconds(2, lambda: server.get_session_pool().cleanup() >= 0)
    print("ready", server.get_bound_port(), flush=True)
    loop.run()


if __name__ == "__main__":
    main()
