"""What the server tells of images at the start of a stream: the agent makes them no larger than that."""

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


def test_images_are_no_larger_than_the_model_makes_use_of(gst_camera, start_server, gateway) -> None:
    """Of 1280 x 720 as much is sent as a model of 300 x 300 uses, or as much as the camera's setting says."""
    camera = gst_camera(pattern=True, size="1280x720", fps=10, gop=10)
    server = start_server("--workers", "1")
    gateway.command("set-server", server.address)
    gateway.command("add-camera", "useful", camera.url, "--fps", "2")
    gateway.command("add-camera", "as-set", camera.url, "--fps", "2", "--max-width", "1280")
    gateway.start()

    def sizes(name: str) -> list[tuple[int, int]]:
        return [(record["width"], record["height"]) for record in gateway.detected(name)]

    gateway.wait_for(lambda: len(sizes("useful")) >= 5 and len(sizes("as-set")) >= 5, "frames of both")
    gateway.stop()

    # The first may have been made before the server told.
    assert set(sizes("useful")[2:]) == {(1067, 600)}
    assert set(sizes("as-set")) == {(1280, 720)}
