"""One viewer's end of the broadcast: it begins at a keyframe, and drops when the network is slow."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from edge_agent.rtsp.counts import CameraCounts
from edge_agent.rtsp.faults import Faults
from edge_agent.rtsp.transport import RtpTransport

MAX_BACKLOG_BYTES = 1 << 20
"""A viewer whose backlog is larger gets nothing more, up to the next keyframe that finds it smaller."""

FILLER = b"\x0c" + b"\xff" * 20 + b"\x80"
"""A unit of H.264 that means nothing."""

_log = logging.getLogger(__name__)


class Viewer:
    """Shows one viewer what the camera sees; a slow one loses packets of its own, which are counted."""

    def __init__(
        self,
        name: str,
        transport: RtpTransport,
        faults: Faults,
        counts: CameraCounts,
        end: Callable[[], None],
    ) -> None:
        self._name = name
        self._transport = transport
        self._faults = faults
        self._counts = counts
        self._end = end
        self._sent_frames = 0
        self._dropped_packets = 0
        self._latest_timestamp = b""
        self._awaits_keyframe = faults.withhold_keyframes_s == 0
        self._keyframes_from_s = asyncio.get_running_loop().time() + faults.withhold_keyframes_s

    def show(self, packets: Sequence[bytes], report: bytes | None) -> None:
        """Send the packets of one picture; a keyframe comes with a sender report, another does not."""
        is_keyframe = report is not None
        if self._sent_frames in (self._faults.stall_after_frames, self._faults.close_after_frames):
            return
        if self._sent_frames == self._faults.endless_after_frames:
            self._transport.send([self._piece(packets[0])])
            return
        if is_keyframe and asyncio.get_running_loop().time() < self._keyframes_from_s:
            return
        if self._transport.backlog_bytes > MAX_BACKLOG_BYTES:
            self._drop(len(packets))
        elif self._awaits_keyframe and not is_keyframe:
            if self._dropped_packets:
                self._drop(len(packets))
        else:
            self._send(packets, report)

    def say_goodbye(self, goodbye: bytes) -> None:
        """End the stream: no picture follows."""
        self._transport.send_control(goodbye)
        self._end()

    def _piece(self, packet: bytes) -> bytes:
        """Make of a picture's first packet another piece of the picture that was sent last."""
        return (
            packet[:1]
            + bytes([packet[1] & 0x7F])
            + packet[2:4]
            + self._latest_timestamp
            + packet[8:12]
            + FILLER
        )

    def _drop(self, packets: int) -> None:
        if not self._dropped_packets:
            _log.warning("%s reads too slowly: packets are dropped", self._name)
        self._dropped_packets += packets
        self._counts.dropped_packets += packets
        self._awaits_keyframe = True

    def _send(self, packets: Sequence[bytes], report: bytes | None) -> None:
        if self._dropped_packets:
            _log.warning("%s goes on, %d packets were dropped", self._name, self._dropped_packets)
        self._dropped_packets = 0
        self._awaits_keyframe = False
        if report is not None:
            self._transport.send_control(report)
        self._transport.send(packets)
        self._latest_timestamp = packets[0][4:8]
        self._sent_frames += 1
        if self._sent_frames == self._faults.close_after_frames:
            self._end()
