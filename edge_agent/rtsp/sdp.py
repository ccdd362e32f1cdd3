"""What a camera says of its stream: a session description (RFC 4566) made from codec and parameter sets."""

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

TRACK = "trackID=0"
"""The control name of the one video stream."""
_START_CODE = re.compile(rb"\x00*\x00\x00\x01")
_ENCODINGS = {"h264": "H264", "hevc": "H265", "mjpeg": "JPEG"}


@dataclass(frozen=True, slots=True)
class VideoDescription:
    """The facts of one video stream that its SDP is made of."""

    codec: str
    """libav's name: h264, hevc or mjpeg."""
    parameter_sets: bytes
    """SPS and PPS (VPS too for H.265) with Annex B start codes; empty when unknown or not to be told."""
    frame_rate: Fraction | None

    @property
    def payload_type(self) -> int:
        """RTP's number of the format: JPEG has a static one."""
        return 26 if self.codec == "mjpeg" else 96

    def sdp(self, host: str) -> str:
        """Write the whole description, CRLF line ends; `host` is the camera's address."""
        kind = self.payload_type
        lines = [
            "v=0",
            f"o=- 0 1 IN {_address(host)}",
            "s=camera",
            f"c=IN {_address('::' if ':' in host else '0.0.0.0')}",  # noqa: S104 -- SDP's word for "ask SETUP"
            "t=0 0",
            "a=control:*",
            f"m=video 0 RTP/AVP {kind}",
            f"a=rtpmap:{kind} {_ENCODINGS[self.codec]}/90000",
        ]
        if parameters := self._format_parameters():
            lines.append(f"a=fmtp:{kind} {parameters}")
        if self.frame_rate:
            lines.append(f"a=framerate:{float(self.frame_rate):g}")
        return "\r\n".join([*lines, f"a=control:{TRACK}", ""])

    def _format_parameters(self) -> str:
        units = [unit for unit in _START_CODE.split(self.parameter_sets) if unit]
        if self.codec == "h264":
            sps = [unit for unit in units if unit[0] & 0x1F == 7]
            pps = [unit for unit in units if unit[0] & 0x1F == 8]
            parts = ["packetization-mode=1"]
            if sps and pps:
                parts.append(f"profile-level-id={sps[0][1:4].hex()}")
                parts.append(f"sprop-parameter-sets={_base64_list(sps + pps)}")
            return ";".join(parts)
        if self.codec == "hevc":
            names = {32: "sprop-vps", 33: "sprop-sps", 34: "sprop-pps"}
            found = {name: [u for u in units if u[0] >> 1 & 0x3F == kind] for kind, name in names.items()}
            return ";".join(f"{name}={_base64_list(sets)}" for name, sets in found.items() if sets)
        return ""


def _address(host: str) -> str:
    return f"IP6 {host}" if ":" in host else f"IP4 {host}"


def _base64_list(units: Sequence[bytes]) -> str:
    return ",".join(base64.b64encode(unit).decode() for unit in units)
