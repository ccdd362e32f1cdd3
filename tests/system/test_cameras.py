"""A camera speaking RTSP, the agent, the server, and the answers back: each as it is run in the field."""

import os
import signal
import socket
import time
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from edge_agent.rtsp.faults import Faults
from tests.demo_cameras import DemoCameras
from tests.footage import frame
from tests.tracks import iou

PASSWORD = "p@:/?#%^! x"


@pytest.mark.parametrize("transport", ["tcp", "udp"])
@pytest.mark.parametrize("codec", ["h264", "h265", "mjpeg"])
def test_codecs_and_transports(
    gst_camera, start_server, gateway, walkers: Path, codec: str, transport: str
) -> None:
    """Whatever the codec and whatever carries it, people are found in the camera's pictures."""
    camera = gst_camera(file=walkers, codec=codec, frames=60, loop=True)
    server = start_server("--workers", "1")
    gateway.command("set-server", server.address)
    gateway.command("add-camera", "street", camera.url, "--transport", transport, "--fps", "5")
    gateway.start()
    gateway.wait_for_more(5)
    gateway.stop()

    found = Counter(item["label"] for record in gateway.detected() for item in record["objects"])
    assert found["person"] >= 5
    assert {(record["width"], record["height"]) for record in gateway.detected()} == {(768, 576)}
    assert {record["camera"] for record in gateway.results()} == {"street"}


def still(path: Path, picture: NDArray[np.uint8], width: int, height: int) -> Path:
    """Make a clip of one picture, as it is for three seconds, in any size: odd ones take 4:4:4."""
    with av.open(str(path), "w") as clip:
        stream = clip.add_stream("libx264", rate=10, options={"preset": "veryfast", "g": "5", "crf": "18"})
        assert isinstance(stream, av.VideoStream)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv444p"
        frame = av.VideoFrame.from_ndarray(picture, format="rgb24").reformat(width, height, "yuv444p")
        for number in range(30):
            frame.pts, frame.time_base = number, Fraction(1, 10)
            clip.mux(stream.encode(frame))
        clip.mux(stream.encode(None))
    return path


def boxes(record: dict[str, Any], least_score: float) -> list[tuple[str, NDArray[np.float32]]]:
    """Give a result's objects with boxes (left, top, right, bottom) in fractions of the frame."""
    size = np.array([record["width"], record["height"]] * 2, np.float32)
    found = []
    for item in record["objects"]:
        left, top, width, height = (item["bbox"][key] for key in ("x", "y", "width", "height"))
        if item["confidence"] >= least_score:
            box = np.array([left, top, left + width, top + height], np.float32) / size
            found.append((item["label"], box))
    return found


def test_boxes_are_right_on_both_sides_of_a_change_of_size(
    start_server, gateway, walkers: Path, tmp_path: Path
) -> None:
    """The camera goes over to an odd size: the same people stand at the same places of the frame."""
    picture = frame(walkers, 300)
    before = still(tmp_path / "before.mp4", picture, 768, 576)
    after = still(tmp_path / "after.mp4", picture, 641, 477)
    with DemoCameras() as cameras:
        camera = cameras.serve(before, faults=Faults(switch_to=after, switch_after_frames=25))
        server = start_server("--workers", "1")
        gateway.command("set-server", server.address)
        gateway.command("add-camera", "street", camera.url, "--fps", "5", "--max-width", "768")
        gateway.start()
        gateway.wait_for(
            lambda: sum(record["width"] == 641 for record in gateway.detected()) >= 5,
            "frames of the new size",
        )
        said = "\n".join(gateway.agent.errors)
        gateway.stop()

    records = gateway.detected()
    sizes = [(record["width"], record["height"]) for record in records]
    assert sizes == sorted(sizes, reverse=True)
    assert set(sizes) == {(768, 576), (641, 477)}
    certain = boxes(records[0], 0.75)
    assert len(certain) >= 4
    for record in records:
        seen = boxes(record, 0.5)
        for label, box in certain:
            assert max(iou(box, other) for kind, other in seen if kind == label) > 0.65
        assert all(box.min() >= 0 and box.max() <= 1 for _, box in seen)
    assert said.count("camera street: connecting: RTSP handshake") == 1


@pytest.mark.parametrize("auth", ["basic", "digest"])
def test_a_hard_password(gst_camera, start_server, gateway, walkers: Path, tmp_path: Path, auth: str) -> None:
    """A password of hard characters works end to end, and stands nowhere but in its own file."""
    camera = gst_camera(file=walkers, frames=30, loop=True, user="viewer", password=PASSWORD, auth=auth)
    server = start_server("--detector", "simulated:1")
    (tmp_path / "password").write_text(PASSWORD)
    gateway.command("set-server", server.address)
    gateway.command(
        "add-camera", "door", camera.url, "--user", "viewer", "--password-file", str(tmp_path / "password")
    )
    gateway.start()
    gateway.wait_for_more(5)
    gateway.stop()

    said = "\n".join(gateway.agent.errors + gateway.agent.lines)
    assert PASSWORD not in said + gateway.config.read_text() + gateway.command("show-camera", "door")
    assert (tmp_path / "agent.secrets.toml").stat().st_mode & 0o777 == 0o600


def test_the_demo_camera_is_a_camera(start_program, start_server, gateway) -> None:
    """`edge-agent demo-camera` serves the packaged clip to the agent, and people are seen in it."""
    camera = start_program("edge-agent", "demo-camera", "--listen", "127.0.0.1:0")
    url = camera.wait_for_line(r"(rtsp://\S+)")[1]
    server = start_server()
    gateway.command("set-server", server.address)
    gateway.command("add-camera", "street", url, "--label", "person")
    gateway.start()
    gateway.wait_for_more(10)
    gateway.stop()

    labels = {item["label"] for record in gateway.detected() for item in record["objects"]}
    assert labels == {"person"}


def test_one_camera_that_is_down_harms_no_other(gst_camera, start_server, gateway) -> None:
    """A refused port and a name that does not resolve delay nothing and stop nothing."""
    camera = gst_camera(pattern=True, size="320x240", fps=10)
    server = start_server("--detector", "simulated:1")
    gateway.command("set-server", server.address)
    gateway.command("add-camera", "refused", "rtsp://127.0.0.1:1/live")
    gateway.command("add-camera", "nowhere", "rtsp://camera.invalid/live")
    gateway.command("add-camera", "door", camera.url)
    gateway.start()
    gateway.wait_for_more(20, "door")
    gateway.stop()

    said = "\n".join(gateway.agent.errors)
    assert {record["camera"] for record in gateway.results()} == {"door"}
    assert "camera refused: offline" in said
    assert "camera nowhere: offline" in said


def test_the_configuration_is_read_again_on_sighup(gst_camera, start_server, gateway) -> None:
    """A camera added to the file begins, one removed ends, and the others' streams are not touched."""
    camera = gst_camera(pattern=True, size="320x240", fps=10)
    server = start_server("--detector", "simulated:1")
    gateway.command("set-server", server.address)
    gateway.command("add-camera", "door", camera.url)
    gateway.command("add-camera", "yard", camera.url)
    gateway.start()
    gateway.wait_for_more(5, "door")
    gateway.wait_for_more(5, "yard")
    gateway.command("remove-camera", "yard")
    gateway.command("add-camera", "gate", camera.url)
    gateway.agent.signal(signal.SIGHUP)
    gateway.wait_for_more(5, "gate")
    after = len(gateway.results("yard"))
    gateway.wait_for_more(5, "door")

    # What cannot be used changes nothing.
    good = gateway.config.read_text()
    gateway.config.write_text(good + "\nnonsense\n")
    gateway.agent.signal(signal.SIGHUP)
    gateway.wait_for(lambda: any("stays as it was" in line for line in gateway.agent.errors), "the refusal")
    gateway.wait_for_more(5, "door")

    # Once the last camera is removed, nothing is captured any more.
    gateway.config.write_text(good)
    gateway.command("remove-camera", "gate")
    gateway.command("remove-camera", "door")
    gateway.agent.signal(signal.SIGHUP)
    gateway.wait_for(lambda: any("again: 0 cameras" in line for line in gateway.agent.errors), "the reload")
    assert any("camera door: stopped" in line for line in gateway.agent.errors)
    gateway.stop()

    assert len(gateway.results("yard")) == after
    ids = [record["frame_id"] for record in gateway.results("door")]
    assert len(ids) == len(set(ids))
    assert sum("camera door: connecting" in line for line in gateway.agent.errors) <= 3


def test_a_call_that_never_comes_back_holds_up_nothing(
    gst_camera, start_server, gateway, tmp_path: Path
) -> None:
    """A file whose opening hangs: others stream, the file is read again, SIGTERM ends the agent at once."""
    path = tmp_path / "mount.mp4"
    path.touch()
    camera = gst_camera(pattern=True, size="320x240", fps=10)
    server = start_server("--detector", "simulated:1")
    gateway.command("set-server", server.address)
    gateway.command("add-camera", "hangs", str(path), "--connect-timeout-s", "0.1")
    path.unlink()
    os.mkfifo(path)
    gateway.command("add-camera", "door", camera.url)
    gateway.start()
    said = gateway.agent.errors
    gateway.wait_for(lambda: any("camera hangs: stalled" in line for line in said), "it is given up")
    gateway.command("add-camera", "gate", camera.url)
    gateway.agent.signal(signal.SIGHUP)
    gateway.wait_for_more(5, "gate")
    gateway.wait_for_more(5, "door")
    names = Counter((task / "comm").read_text().strip() for task in tasks_of(gateway.agent.process.pid))
    gateway.command("remove-camera", "hangs")
    gateway.agent.signal(signal.SIGHUP)
    gateway.wait_for(lambda: any("camera hangs: stopped" in line for line in said), "it is left out")
    gateway.wait_for_more(5, "door")
    begun_s = time.monotonic()
    code = gateway.stop()

    assert (code, names["hung-hangs"]) == (0, 1)
    assert time.monotonic() - begun_s < 5.0
    assert "camera hangs: stalled: opening the file hangs for" in "\n".join(said)


def tasks_of(pid: int) -> list[Path]:
    return list(Path(f"/proc/{pid}/task").iterdir())


def test_hung_cameras_do_not_hold_up_the_end(start_server, gateway) -> None:
    """Twenty cameras that accept and stay silent, each in a library call: SIGTERM ends the agent at once."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as silent:
        url = f"rtsp://127.0.0.1:{silent.getsockname()[1]}/live"
        server = start_server("--detector", "simulated:1")
        gateway.command("set-server", server.address)
        table = "".join(f"camera{number},{url}\n" for number in range(20))
        (gateway.config.parent / "cameras.csv").write_text("name,url\n" + table)
        gateway.command("import-cameras", str(gateway.config.parent / "cameras.csv"))
        gateway.start()
        said = gateway.agent.errors
        gateway.wait_for(
            lambda: sum("RTSP handshake" in line for line in said) == 20, "all are in their call"
        )
        begun_s = time.monotonic()
        code = gateway.stop()

    assert code == 0
    # Two seconds of patience for all of them together, and what a loaded machine takes on top.
    assert time.monotonic() - begun_s < 8.0
