"""What stands between a camera and its frames; a camera that streams well is asked of the agent alone."""

import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

import av

from edge_agent.capture.errors import CaptureError
from edge_agent.capture.opening import DEFAULT_PORTS, open_source
from edge_agent.capture.source import Source
from edge_agent.config import CameraConfig
from edge_agent.config.source_url import source_kind
from edge_agent.doctor.finding import Finding, note, ok, problem
from edge_agent.doctor.network_check import connect, resolve
from edge_agent.state import CameraState
from edge_agent.uplink.lateness import NOT_CONNECTED

LONGEST_STAGE_S = 5.0
LOOK_S = 5.0
LONGEST_LOOK_S = 12.0
SETTLED_S = 5.0
LONG_GOP_S = 4.0
MUCH_LOSS = 0.01
ENOUGH_FPS = 0.8
LEAST_PACKETS = 100

# What the agent knows, without another attempt: cameras lock a user out who tries too often.
STREAMS = frozenset({"streaming", "slow", "refused by the server"})


@dataclass(slots=True)
class Look:
    """What a few seconds of a camera's stream showed."""

    codec: str
    transport: str | None
    width: int = 0
    height: int = 0
    fps: float = 0.0
    first_keyframe_s: float | None = None
    keyframe_period_s: float | None = None
    pictures: int = 0
    damaged: int = 0
    """Of these, how many had lost packets."""


def check_camera(
    camera: CameraConfig,
    password: str | None,
    told: dict[str, Any] | None,
    input_wh: Sequence[int] | None = None,
) -> Iterator[Finding]:
    """Look at a camera.

    Args:
        camera: as it is configured.
        password: its password.
        told: what the running agent says of it.
        input_wh: pixels that the server's model looks at, where that is known.

    """
    subject = f"camera {camera.name}"
    if not camera.enabled:
        yield note(subject, "is disabled", f"edge-agent enable {camera.name}")
        return
    if camera.max_width is not None and input_wh is not None and camera.max_width < input_wh[0]:
        yield note(
            subject,
            f"--max-width {camera.max_width} is less than the model's {input_wh[0]} px: detail is lost",
            f"edge-agent set-camera {camera.name} --max-width {input_wh[0]}",
        )
    if told is not None and told["state"] in STREAMS:
        yield from _as_told(subject, camera, told)
        return
    if told is not None and told["state"] == CameraState.AUTHENTICATION_FAILED:
        # Not tried once more.
        yield problem(subject, told["reason"], _login_advice(camera))
        return
    if told is not None:
        reason = f": {told['reason']}" if told["reason"] else ""
        yield note(subject, f"the agent says: {told['state']}{reason}, for {told['for_s']:.0f} s")
    if source_kind(camera.url) in ("rtsp", "http"):
        reachable = yield from _reachable(subject, camera)
        if not reachable:
            return
    opened = yield from _tried(subject, camera, password, input_wh)
    if opened and told is not None and told["state"] == CameraState.OFFLINE:
        yield from _only_here(subject, camera)


def _only_here(subject: str, camera: CameraConfig) -> Iterator[Finding]:
    """Tell of what opens here and not in the agent, which runs as another user and sees less."""
    advice = {
        "file": "the service sees no homes: put it where its user may read it, best in /etc/camera-ai",
        "device": "the service sees no devices without the drop-in edge-agent-video-devices.conf",
    }.get(source_kind(camera.url))
    if advice is not None:
        yield problem(subject, "opens here, and not for the agent", advice)


def _reachable(subject: str, camera: CameraConfig) -> Generator[Finding, None, bool]:
    parts = urlsplit(camera.url)
    host, port = parts.hostname or "", parts.port or DEFAULT_PORTS[parts.scheme]
    findings, addresses = resolve(subject, host, port)
    yield from findings
    if not addresses:
        return False
    reached, connection = connect(subject, host, port, "the camera")
    yield reached
    if connection is None:
        return False
    connection.close()
    return True


def _tried(
    subject: str, camera: CameraConfig, password: str | None, input_wh: Sequence[int] | None
) -> Generator[Finding, None, bool]:
    """Open it and look; gives whether it opened."""
    bounded = replace(
        camera,
        connect_timeout_s=min(camera.connect_timeout_s, LONGEST_STAGE_S),
        read_timeout_s=min(camera.read_timeout_s, LONGEST_STAGE_S),
    )
    begun_s = time.monotonic()
    try:
        with open_source(bounded, password, lambda _: None) as source:
            look = _looked(source, begun_s)
    except CaptureError as error:
        yield problem(subject, str(error), _advice(camera, error))
        return False
    yield from _of_look(subject, camera, look)
    if input_wh is not None and 0 < look.width < input_wh[0] and look.height < input_wh[1]:
        size = f"{input_wh[0]} x {input_wh[1]} px"
        yield note(
            subject, f"its pictures are smaller than the model's {size}", "choose a larger stream in it"
        )
    return True


def _looked(source: Source, begun_s: float) -> Look:
    look = Look(source.codec, source.transport)
    times_s: list[float] = []
    keyframes_s: list[float] = []
    looking_s = time.monotonic()
    for coded in source.pictures():
        packet = coded.packet
        if packet.size == 0:
            break
        look.pictures += 1
        look.damaged += packet.is_corrupt
        presentation_s = source.presentation_s(packet.pts)
        times_s.append(coded.arrived_s if presentation_s is None else presentation_s)
        if packet.is_keyframe or source.is_intra_only:
            keyframes_s.append(times_s[-1])
            if look.first_keyframe_s is None:
                look.first_keyframe_s = coded.arrived_s - begun_s
        if look.first_keyframe_s is not None and not look.width:
            look.width, look.height = _size(source, packet)
        lasted_s = time.monotonic() - looking_s
        if lasted_s >= LONGEST_LOOK_S or (lasted_s >= LOOK_S and len(keyframes_s) > 1):
            break
    span_s = max(times_s) - min(times_s) if times_s else 0.0
    look.fps = (len(times_s) - 1) / span_s if span_s > 0 else 0.0
    if len(keyframes_s) > 1 and not source.is_intra_only:
        look.keyframe_period_s = (keyframes_s[-1] - keyframes_s[0]) / (len(keyframes_s) - 1)
    return look


def _size(source: Source, packet: "av.Packet[av.VideoStream]") -> tuple[int, int]:
    try:
        pictures = source.decoder.decode(packet)
    except av.error.FFmpegError:
        return 0, 0
    return (pictures[0].width, pictures[0].height) if pictures else (0, 0)


def _of_look(subject: str, camera: CameraConfig, look: Look) -> Iterator[Finding]:
    over = f" over {look.transport}" if look.transport else ""
    size = f", {look.width} x {look.height} px" if look.width else ""
    if look.first_keyframe_s is None:
        yield problem(
            subject,
            f"{look.codec}{over}: packets come, but no keyframe within {LONGEST_LOOK_S:g} s",
            "set a shorter interval between I-frames in the camera: 1 to 2 s",
        )
        return
    yield ok(subject, f"{look.codec}{over}{size}, {look.fps:.1f} frames/s")
    yield from _rate(subject, camera, look.fps)
    yield from _loss(subject, camera, look.damaged, look.pictures)
    period_s = look.keyframe_period_s
    if period_s is None and look.first_keyframe_s > LONG_GOP_S:
        period_s = look.first_keyframe_s
    if period_s is not None and period_s > LONG_GOP_S:
        yield note(
            subject,
            f"a keyframe only every {period_s:.1f} s: after each reconnect no picture comes for so long",
            "set the interval between I-frames in the camera to 1 to 2 s",
        )
    if camera.decode == "keyframes" and period_s is not None and period_s * camera.fps > 1.25:
        yield note(
            subject,
            f"--decode keyframes gives {1 / period_s:.2f} frames/s; wanted are {camera.fps:g}",
            f"edge-agent set-camera {camera.name} --decode auto, or a keyframe every {1 / camera.fps:.1f} s",
        )
    if camera.max_width is not None and 0 < look.width < camera.max_width:
        yield note(subject, f"its pictures are narrower than --max-width {camera.max_width}")


def _as_told(subject: str, camera: CameraConfig, told: dict[str, Any]) -> Iterator[Finding]:
    if told["state"] == CameraState.REFUSED:
        yield problem(subject, f"the server refuses it: {told['reason']}", "see the server above")
        return
    if told["state"] == CameraState.SLOW and told["reason"] == NOT_CONNECTED:
        # The fault is the server's, and told there.
        yield note(subject, f"slow: {told['reason']}", "see the server above")
    elif told["state"] == CameraState.SLOW:
        yield problem(
            subject,
            f"slow: {told['reason']}",
            f"edge-agent set-camera {camera.name} --max-kbit or --fps less; see uplink and server",
        )
    else:
        yield ok(subject, f"streams for {told['for_s']:.0f} s; {told['fps']:.1f} answered frames/s")
    capture = told["capture"]
    packets, corrupt = capture.get("packets", 0), capture.get("frames_corrupt", 0)
    if packets >= LEAST_PACKETS:
        yield from _loss(subject, camera, corrupt, packets)
    seen, thinned = capture.get("frames_seen", 0), capture.get("frames_thinned", 0)
    if told["for_s"] >= SETTLED_S and camera.motion == "off" and thinned == 0 and seen > 0:
        yield from _rate(subject, camera, told["fps"])


def _loss(subject: str, camera: CameraConfig, damaged: int, pictures: int) -> Iterator[Finding]:
    if damaged > MUCH_LOSS * pictures:
        advice = "see cable and Wi-Fi"
        if camera.transport == "udp":
            advice = f"edge-agent set-camera {camera.name} --transport tcp; {advice}"
        yield note(subject, f"{damaged} of {pictures} pictures were damaged on their way", advice)


def _rate(subject: str, camera: CameraConfig, fps: float) -> Iterator[Finding]:
    if 0 < fps < ENOUGH_FPS * camera.fps:
        yield note(
            subject,
            f"{fps:.1f} frames/s come; wanted are {camera.fps:g}",
            f"set the rate in the camera, or edge-agent set-camera {camera.name} --fps {max(fps, 0.1):.0f}",
        )


def _advice(camera: CameraConfig, error: CaptureError) -> str:
    if error.state is CameraState.AUTHENTICATION_FAILED:
        return _login_advice(camera)
    if error.state is CameraState.STALLED:
        return "the camera goes silent: see its load and network, or start it again"
    kind = source_kind(camera.url)
    if kind == "device":
        return "see that it is plugged in, and that this user may open it (group video)"
    if kind == "file":
        return f"edge-agent set-camera {camera.name} --url another file"
    return f"see the path in its URL (edge-agent show-camera {camera.name}) and the camera's own settings"


def _login_advice(camera: CameraConfig) -> str:
    user = camera.user or "USER"
    return f"edge-agent set-camera {camera.name} --user {user} (asks for the password)"
