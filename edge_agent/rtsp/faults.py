"""What a bad camera does, as a script for the responder: the tests' seam; a demo camera has none of it."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from edge_agent.rtsp.packing import ParameterSets

Stage = Literal["OPTIONS", "DESCRIBE", "SETUP", "PLAY", "GET_PARAMETER"]
_STAGES: tuple[Stage, ...] = ("OPTIONS", "DESCRIBE", "SETUP", "PLAY", "GET_PARAMETER")


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Faults of one camera; each is off by default, and they combine."""

    silent_from: Stage | None = None
    """Accept the connection, answer what comes before this method, then nothing more, without closing.

    OPTIONS answers nothing at all.
    """
    drips_from: Stage | None = None
    """From the answer to this method on, send everything a byte at a time, slowly, for ever."""
    malformed_sdp: str | None = None
    """A key of MALFORMED_SDP."""
    parameter_sets: ParameterSets = "everywhere"
    """Where SPS and PPS are told."""
    withhold_keyframes_s: float = 0.0
    """After PLAY send other pictures at once, but no keyframe for this long."""
    stall_after_frames: int | None = None
    """Send a viewer this many pictures, then nothing, without closing; 0 answers PLAY and sends no packet."""
    close_after_frames: int | None = None
    """Send a viewer this many pictures, then close the connection."""
    get_parameter_status: int = 200
    """The answer to GET_PARAMETER, which is announced all the same; 501 and 551 are what cameras give."""
    closes_on_get_parameter: bool = False
    """Close the connection in place of answering it."""
    endless_after_frames: int | None = None
    """After so many pictures, of H.264, the last never ends: small pieces of it come, again and again."""
    timestamps_restart_after_frames: int | None = None
    """RTP timestamps begin at zero when the clip begins, and again after this many pictures."""
    switch_to: Path | None = None
    """Another clip of the same codec, which goes on in place of the first, its size as it is."""
    switch_after_frames: int = 0
    """How many pictures come before the other clip."""

    def silences(self, method: str) -> bool:
        """Tell whether a request stays without an answer."""
        return self.silent_from is not None and _is_from(self.silent_from, method)

    def drips(self, method: str) -> bool:
        """Tell whether the answer to a request, and what follows it, comes a byte at a time."""
        return self.drips_from is not None and _is_from(self.drips_from, method)


def _is_from(stage: Stage, method: str) -> bool:
    return method in _STAGES[_STAGES.index(stage) :] or method not in _STAGES


MALFORMED_SDP: Mapping[str, Callable[[str], str]] = MappingProxyType(
    {
        "empty": lambda _: "",
        "a web page": lambda _: "<html><body>Camera</body></html>\r\n",
        "cut off": lambda sdp: sdp[: sdp.index("m=video") + 4],
        "audio only": lambda sdp: re.sub(
            r"m=video.*", "m=audio 0 RTP/AVP 0\r\na=control:trackID=0\r\n", sdp, flags=re.S
        ),
        "no media": lambda sdp: sdp[: sdp.index("m=video")],
        "no rtpmap": lambda sdp: re.sub(r"a=rtpmap.*\r\n", "", sdp),
        "unknown codec": lambda sdp: re.sub(r"(a=rtpmap:\d+) \w+", r"\1 X-ODD", sdp),
        "broken parameter sets": lambda sdp: re.sub(r"(sprop-[\w-]+)=[^;\r]+", r"\1=%%not*base64", sdp),
        "no control": lambda sdp: re.sub(r"a=control.*\r\n", "", sdp),
        "bare newlines": lambda sdp: sdp.replace("\r\n", "\n"),
    }
)
"""Ways in which the SDP of cheap cameras is wrong, by name: each makes the wrong one of the right one."""
