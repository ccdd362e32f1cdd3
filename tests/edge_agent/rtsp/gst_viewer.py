"""Watch an RTSP camera with GStreamer and print the pictures' fingerprints.

URL FRAMES TRANSPORT [USER PASSWORD]. Run by the interpreter that has GStreamer's bindings.
"""

import hashlib
import sys

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstApp", "1.0")
from gi.repository import Gst, GstApp  # noqa: E402, F401

WAIT_NS = 20 * 10**9


def main() -> None:
    """Print one fingerprint a line: of the bytes of Y, U and V without padding."""
    url, frames, transport, *credentials = sys.argv[1:]
    Gst.init(None)
    # Of two decoders that are both right to the last bit but one, the one that the file is compared with.
    Gst.Registry.get().lookup_feature("jpegdec").set_rank(Gst.Rank.NONE)
    pipeline = Gst.parse_launch(
        f"rtspsrc name=camera protocols={transport} latency=200 ! decodebin"
        " ! video/x-raw,format=I420 ! appsink name=pictures sync=false"
    )
    camera = pipeline.get_by_name("camera")
    camera.set_property("location", url)
    if credentials:
        camera.set_property("user-id", credentials[0])
        camera.set_property("user-pw", credentials[1])
    pictures = pipeline.get_by_name("pictures")
    pipeline.set_state(Gst.State.PLAYING)
    for _ in range(int(frames)):
        sample = pictures.emit("try-pull-sample", WAIT_NS)
        if sample is None:
            problem = pipeline.get_bus().pop_filtered(Gst.MessageType.ERROR)
            raise SystemExit(problem.parse_error()[0].message if problem else "no picture came")
        buffer = sample.get_buffer()
        print(hashlib.sha256(buffer.extract_dup(0, buffer.get_size())).hexdigest()[:16], flush=True)
    pipeline.set_state(Gst.State.NULL)


if __name__ == "__main__":
    main()
