"""What doctor says of a camera: real cameras that are well, refuse, are silent, or send too little."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edge_agent.config import CameraConfig
from edge_agent.doctor import camera_check
from edge_agent.doctor.camera_check import check_camera
from edge_agent.doctor.finding import Finding
from edge_agent.rtsp.auth import Credentials
from edge_agent.rtsp.faults import Faults
from edge_agent.uplink.lateness import NOT_CONNECTED
from tests.demo_cameras import DemoCameras


@pytest.fixture(scope="module")
def cameras() -> Iterator[DemoCameras]:
    with DemoCameras() as cameras:
        yield cameras


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(camera_check, "LOOK_S", 1.0)
    monkeypatch.setattr(camera_check, "LONGEST_LOOK_S", 6.0)
    monkeypatch.setattr(camera_check, "LONGEST_STAGE_S", 0.5)


def examined(
    url: str,
    password: str | None = None,
    told: dict[str, Any] | None = None,
    input_wh: tuple[int, int] | None = None,
    **options: Any,
) -> list[Finding]:
    return list(check_camera(CameraConfig(name="yard", url=url, **options), password, told, input_wh))


def told(state: str, reason: str = "", **others: Any) -> dict[str, Any]:
    """Give what the running agent would say of it."""
    return {"state": state, "reason": reason, "for_s": 60.0, "fps": 10.0, "capture": {}} | others


def problems(findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.level == "problem"]


def test_a_camera_that_is_well(cameras: DemoCameras, walkers: Path) -> None:
    """Codec, transport, size and rate; what is wanted beyond what it gives is worth a note."""
    camera = cameras.serve(walkers)
    found = examined(camera.url)

    assert not [finding for finding in found if finding.level != "ok"]
    assert "h264 over TCP, 768 x 576 px, 10.0 frames/s" in found[-1].found

    texts = [finding.found for finding in examined(camera.url, fps=25.0, decode="keyframes", max_width=1920)]
    assert any("10.0 frames/s come; wanted are 25" in text for text in texts)
    assert any("--decode keyframes gives" in text for text in texts)
    assert any("narrower than --max-width 1920" in text for text in texts)
    small = [finding.found for finding in examined(camera.url, input_wh=(1280, 1280), max_width=640)]
    assert "--max-width 640 is less than the model's 1280 px: detail is lost" in small
    assert "its pictures are smaller than the model's 1280 x 1280 px" in small


@pytest.mark.parametrize(
    ("password", "expected"),
    [("canary", "refuses the user or the password"), (None, "wants a user and password")],
)
def test_a_password_that_is_wrong_or_missing(
    cameras: DemoCameras, walkers: Path, password: str | None, expected: str
) -> None:
    """Said as such, with the command that asks for it; the password is not repeated."""
    camera = cameras.serve(walkers, credentials=Credentials(user="viewer", password="right"))
    [found] = problems(examined(camera.url, password, user="viewer" if password else None))

    assert expected in found.found
    assert found.advice.startswith("edge-agent set-camera yard --user ")
    assert "canary" not in found.found + found.advice


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ({"silent_from": "OPTIONS"}, "RTSP"),
        ({"stall_after_frames": 0}, "no packet"),
        ({"malformed_sdp": "unknown codec"}, "X-ODD"),
        ({"malformed_sdp": "audio only"}, "offers no video"),
    ],
    ids=str,
)
def test_each_stage_has_its_reason(
    cameras: DemoCameras, walkers: Path, fault: dict[str, Any], expected: str
) -> None:
    """The port is reached, then it says what does not come."""
    camera = cameras.serve(walkers, faults=Faults(**fault))
    found = examined(camera.url)

    assert found[0].level == "ok"
    [reason] = problems(found)
    assert expected.lower() in reason.found.lower() or "codec" in reason.found
    assert reason.advice


def test_nobody_is_there(walkers: Path) -> None:
    """A port that is refused, and a name that does not resolve: each with what to look at."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    [refused] = examined(f"rtsp://127.0.0.1:{port}/live")
    [unknown] = examined("rtsp://camera.invalid/live")

    assert (refused.level, unknown.level) == ("problem", "problem")
    assert "the connection is refused" in refused.found
    assert "camera.invalid does not resolve" in unknown.found
    assert "address" in unknown.advice
    [missing] = examined(str(walkers.with_name("nowhere.mp4")))
    assert missing.level == "problem"


def test_what_opens_here_and_not_for_the_agent(walkers: Path) -> None:
    """A file in a home that the service does not see: root, who asks, sees it."""
    told_so = told("offline", "cannot open it: Permission denied")
    [hidden] = problems(examined(str(walkers), told=told_so))

    assert "not for the agent" in hidden.found
    assert "/etc/camera-ai" in hidden.advice
    assert not problems(examined(str(walkers), told=told("connecting")))


def test_a_camera_that_streams_is_left_alone(cameras: DemoCameras, walkers: Path) -> None:
    """Many cameras allow few sessions: the agent knows; nor is a wrong password tried once more."""
    camera = cameras.serve(walkers)
    well = examined(camera.url, told=told("streaming"))
    lossy = examined(
        camera.url,
        told=told("streaming", capture={"packets": 1000, "frames_corrupt": 50, "frames_seen": 900}),
        transport="udp",
        fps=20.0,
    )
    slow = examined(camera.url, told=told("slow", "answers take 2 s"))
    without_server = examined(camera.url, told=told("slow", NOT_CONNECTED))
    refused = examined(camera.url, told=told("refused by the server", "over capacity"))
    locked = examined(camera.url, "canary", told("authentication failed", "no entry"), user="u")
    disabled = examined(camera.url, enabled=False)

    assert camera.counts.connections == 0
    assert [finding.level for finding in well] == ["ok"]
    assert any("--transport tcp" in finding.advice for finding in lossy)
    assert any("10.0 frames/s come; wanted are 20" in finding.found for finding in lossy)
    assert [finding.found for finding in problems(slow)] == ["slow: answers take 2 s"]
    assert [(finding.level, finding.advice) for finding in without_server] == [
        ("note", "see the server above")
    ]
    assert "over capacity" in problems(refused)[0].found
    assert "--user u" in problems(locked)[0].advice
    assert disabled[0].advice == "edge-agent enable yard"
