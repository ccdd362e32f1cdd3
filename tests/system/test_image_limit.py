"""A server that takes small images only: the agent learns it at the start of a stream and encodes smaller."""

from pathlib import Path

import pytest

LIMIT_BYTES = 20_000


@pytest.mark.parametrize("codec", ["h264", "mjpeg"])
def test_images_are_made_to_fit(gst_camera, start_server, gateway, walkers: Path, codec: str) -> None:
    """Frames far above the limit are answered all the same, and the stream is never broken for it.

    A full-size picture of this camera takes about three times the limit; what comes through as it is, as
    MJPEG does, is encoded again.
    """
    camera = gst_camera(file=walkers, codec=codec, frames=30, loop=True)
    server = start_server("--workers", "1", "--max-image-bytes", str(LIMIT_BYTES))
    gateway.command("set-server", server.address)
    gateway.command("add-camera", "street", camera.url, "--fps", "5")
    gateway.start()
    gateway.wait_for_more(15)
    gateway.stop()

    outcomes = {record["outcome"] for record in gateway.results()}
    streams = sum("stream of camera 'street' from" in line for line in server.errors)
    assert outcomes == {"detected"}
    assert streams == 1
    for record in gateway.detected():
        for item in record["objects"]:
            box = item["bbox"]
            assert 0 <= box["x"] <= box["x"] + box["width"] <= record["width"]
            assert 0 <= box["y"] <= box["y"] + box["height"] <= record["height"]
    assert any(item["label"] == "person" for record in gateway.detected() for item in record["objects"])
