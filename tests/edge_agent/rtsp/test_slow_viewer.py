"""A viewer that does not read, beside one that does."""

import itertools
from collections.abc import Sequence
from pathlib import Path

from edge_agent.rtsp.camera import DemoCamera
from edge_agent.rtsp.viewer import MAX_BACKLOG_BYTES
from tests.edge_agent.rtsp.clips import make_clip
from tests.edge_agent.rtsp.viewers import HandViewer, RtpPacket, sequences

KERNEL_BYTES = 2 << 20
"""More than the sockets' own buffers hold, which are told to be small."""


async def test_a_viewer_that_does_not_read_loses_its_own_packets_only(tmp_path: Path) -> None:
    """It gets what fits, then a gap as long as the count of dropped packets, then a keyframe.

    What waits for it stays bounded however long it sleeps; who reads misses nothing.
    """
    clip = make_clip(tmp_path / "noise.mp4", gop=10, noise=True, options={"qp": "20"})
    async with DemoCamera(clip) as camera, HandViewer(camera.url, receive_buffer_bytes=65536) as asleep:
        async with HandViewer(camera.url) as awake:
            await awake.play()
            await asleep.play()
            read = await awake.pictures(1)
            while camera.counts.dropped_packets < 4000:
                read += await awake.pictures(1)
        numbers = sequences(read)
        assert numbers == [(numbers[0] + step) % 65536 for step in range(len(numbers))]

        late = await asleep.pictures(1)
        while (gap := missing(late)) == 0:
            late += await asleep.pictures(1)
        assert gap == camera.counts.dropped_packets
        assert 5 in set().union(*(packet.h264_units() for packet in late[-1]))
        largest = max(sum(len(packet.payload) for packet in picture) for picture in read)
        held = sum(len(packet.payload) for picture in late[:-1] for packet in picture)
        assert held < MAX_BACKLOG_BYTES + largest + KERNEL_BYTES


def missing(pictures: Sequence[Sequence[RtpPacket]]) -> int:
    """Count the packets that their numbers show to be missing."""
    return sum((after - before - 1) % 65536 for before, after in itertools.pairwise(sequences(pictures)))
