"""A video stream cut into RTP packets: libavformat's RTP muxer, whose output is caught packet by packet."""

from typing import Literal

import av
from av.bitstream import BitStreamFilterContext
from av.packet import Packet
from av.video.stream import VideoStream

from edge_agent.rtsp.sdp import VideoDescription

MAX_RTP_PACKET_BYTES = 1400
"""Fits an Ethernet frame together with the headers of IP, UDP and a tunnel."""

ParameterSets = Literal["everywhere", "sdp", "in-band", "nowhere"]
"""Where a viewer finds SPS and PPS: in the SDP and before every keyframe, in one of the two, or in none."""

_QUANTIZATION_TABLE_BYTES = 64

_PARAMETER_SET_UNITS = {"h264": "7-8", "hevc": "32-34"}
"""The NAL unit types of SPS and PPS (H.264), and of VPS, SPS and PPS (H.265)."""


class RtpPacker:
    """Cuts the packets of one video stream: H.264 (RFC 6184), H.265 (RFC 7798) or JPEG (RFC 2435).

    The headers' sequence numbers, timestamps and source are the muxer's own: they are to be stamped over.
    """

    def __init__(self, stream: VideoStream, parameter_sets: ParameterSets) -> None:
        codec = stream.codec_context.name
        self._written = _Writes()
        # The buffer's size is what the muxer takes for the network's packet size.
        size = MAX_RTP_PACKET_BYTES - (_QUANTIZATION_TABLE_BYTES if codec == "mjpeg" else 0)
        self._muxer = av.open(self._written, "w", format="rtp", buffer_size=size)
        self._stream = self._muxer.add_stream_from_template(stream)
        chain = _filters(codec, stream.codec_context.extradata, parameter_sets)
        # It also rewrites the parameter sets of the muxer's stream to Annex B, as its packets will be.
        self._filter = BitStreamFilterContext(chain, stream, self._stream) if chain else None
        is_told = codec in _PARAMETER_SET_UNITS and parameter_sets in ("everywhere", "sdp")
        told = self._stream.codec_context.extradata if is_told else None
        self.description = VideoDescription(codec, told or b"", stream.average_rate)
        self._count = 0

    def pack(self, packet: "Packet[VideoStream]") -> tuple[bytes, ...]:
        """Cut one packet, which is used up; nothing comes of a picture that its RTP format cannot carry."""
        for filtered in self._filter.filter(packet) if self._filter else [packet]:
            filtered.stream = self._stream
            # Its times are stamped over; the muxer wants decoding times, which some containers leave out.
            filtered.pts = filtered.dts = self._count
            self._count += 1
            self._muxer.mux(filtered)
        packets = self._written.take()
        if self.description.codec == "mjpeg" and packets:
            packets[0] = _with_both_tables(packets[0])
        return tuple(packets)


class _Writes:
    """The file that the muxer writes to: one call for each RTP or RTCP packet."""

    def __init__(self) -> None:
        self._packets: list[bytes] = []

    def write(self, data: bytes) -> int:
        is_rtcp = 200 <= data[1] <= 204
        if not is_rtcp:
            self._packets.append(bytes(data))
        return len(data)

    def take(self) -> list[bytes]:
        taken, self._packets = self._packets, []
        return taken


def _with_both_tables(packet: bytes) -> bytes:
    """Give a picture's first JPEG packet the table of chrominance, where one serves for it and luminance.

    The RFC's types have two; the muxer passes on what the file has, and some viewers read on behind it.
    """
    tables = 12 + 8 + 4  # behind the headers of RTP, JPEG and the tables
    if packet[tables - 2 : tables] != _QUANTIZATION_TABLE_BYTES.to_bytes(2):
        return packet
    table = packet[tables : tables + _QUANTIZATION_TABLE_BYTES]
    length = (2 * _QUANTIZATION_TABLE_BYTES).to_bytes(2)
    return packet[: tables - 2] + length + table + packet[tables:]


def _filters(codec: str, extradata: bytes | None, parameter_sets: ParameterSets) -> str:
    """Name the bit stream filters that put the parameter sets before every keyframe, or take them out."""
    if codec not in _PARAMETER_SET_UNITS or not extradata:
        return ""
    has_start_codes = extradata[0] == 0
    chain = ["dump_extra=freq=keyframe" if has_start_codes else f"{codec}_mp4toannexb"]
    if parameter_sets in ("sdp", "nowhere"):
        chain.append(f"filter_units=remove_types={_PARAMETER_SET_UNITS[codec]}")
    return ",".join(chain)
