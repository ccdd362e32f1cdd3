"""RTP and RTCP headers (RFC 3550) of one camera: one numbering that all its viewers share."""

import secrets
import struct
from collections.abc import Sequence

CLOCK_HZ = 90_000
"""The RTP clock of every video format."""
_NTP_EPOCH_S = 2_208_988_800
"""Seconds from 1900, where NTP's time begins, to 1970."""


class RtpNumbering:
    """Stamps packets with sequence number, timestamp and source, and reports on what was sent."""

    def __init__(self) -> None:
        self._ssrc = secrets.randbits(32)
        self._sequence = secrets.randbits(16)
        self._packets = 0
        self._octets = 0

    def stamp(self, packets: Sequence[bytes], timestamp: int) -> list[bytes]:
        """Give the RTP packets of one access unit their place in the stream; payloads stay as they are."""
        stamped = []
        for packet in packets:
            header = struct.pack(">HII", self._sequence, timestamp, self._ssrc)
            stamped.append(packet[:2] + header + packet[12:])
            self._sequence = (self._sequence + 1) & 0xFFFF
            self._octets += len(packet) - 12
        self._packets += len(packets)
        return stamped

    def sender_report(self, timestamp: int, unix_s: float) -> bytes:
        """Say which instant of the clock an RTP timestamp was captured at: a report and the source's name."""
        seconds, fraction = divmod(unix_s, 1.0)
        report = struct.pack(
            ">BBHIIIIII",
            0x80,  # version 2, no reception blocks
            200,
            6,  # length in words of 32 bits, less one
            self._ssrc,
            (int(seconds) + _NTP_EPOCH_S) & 0xFFFFFFFF,
            int(fraction * 2**32),
            timestamp,
            self._packets & 0xFFFFFFFF,
            self._octets & 0xFFFFFFFF,
        )
        # One chunk, CNAME "camera" of six bytes, the list ended and padded by zeros to a whole word.
        name = struct.pack(">BBHIBB6sxxxx", 0x81, 202, 4, self._ssrc, 1, 6, b"camera")
        return report + name

    def goodbye(self) -> bytes:
        """Say that the source sends no more: BYE, behind the empty report that must come first."""
        return struct.pack(">BBHIBBHI", 0x80, 201, 1, self._ssrc, 0x81, 203, 1, self._ssrc)
