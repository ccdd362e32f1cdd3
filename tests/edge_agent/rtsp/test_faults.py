"""Each scripted fault does what it says, and nothing else."""

import asyncio
import time
from pathlib import Path

import av
import pytest

from edge_agent.rtsp.camera import DemoCamera
from edge_agent.rtsp.faults import MALFORMED_SDP, Faults, Stage
from edge_agent.rtsp.packing import ParameterSets
from tests.edge_agent.rtsp.clips import FPS, decode, make_clip
from tests.edge_agent.rtsp.viewers import HandViewer, RtpPacket, watch_in_thread

SILENCE_S = 0.4
PARAMETER_SETS = {7, 8}
KEYFRAME = 5


def units(picture: list[RtpPacket]) -> set[int]:
    return set().union(*(packet.h264_units() for packet in picture))


@pytest.mark.parametrize("stage", ["OPTIONS", "DESCRIBE", "SETUP", "PLAY", "GET_PARAMETER"])
async def test_silent_from_a_stage(h264_clip: Path, stage: Stage) -> None:
    """What comes before is answered; then nothing more, and the connection stays open."""
    faults = Faults(silent_from=stage)
    async with DemoCamera(h264_clip, faults=faults) as camera, HandViewer(camera.url) as viewer:
        for method in ("OPTIONS", "DESCRIBE", "SETUP", "PLAY", "GET_PARAMETER"):
            if method == stage:
                break
            answer = await (viewer.set_up() if method == "SETUP" else viewer.ask(method))
            assert answer.status == 200
        viewer.send(stage)
        if stage == "GET_PARAMETER":
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(viewer.answer(), SILENCE_S)
        else:
            assert await viewer.hears_nothing_for(SILENCE_S)


@pytest.mark.parametrize("frames", [0, 5])
async def test_stall(h264_clip: Path, frames: int) -> None:
    """After so many pictures nothing comes, and the connection stays open and answers."""
    faults = Faults(stall_after_frames=frames)
    async with DemoCamera(h264_clip, faults=faults) as camera, HandViewer(camera.url) as viewer:
        await viewer.play()
        await viewer.pictures(frames)
        assert await viewer.hears_nothing_for(SILENCE_S)
        assert (await viewer.ask("GET_PARAMETER")).status == 200


async def test_close(h264_clip: Path) -> None:
    """After so many pictures, all of which arrive, the connection ends."""
    async with DemoCamera(h264_clip, faults=Faults(close_after_frames=5)) as camera:
        assert len(await watch_in_thread(camera.url, None)) == 5


async def test_a_camera_can_be_mended(h264_clip: Path) -> None:
    """Other faults hold for the connections that are made from then on."""
    faults = Faults(silent_from="OPTIONS")
    async with DemoCamera(h264_clip, faults=faults) as camera, HandViewer(camera.url) as early:
        early.send("OPTIONS")
        assert await early.hears_nothing_for(SILENCE_S)
        camera.faults = Faults()
        assert len(await watch_in_thread(camera.url, 3)) == 3
        assert await early.hears_nothing_for(SILENCE_S)


@pytest.mark.parametrize("codec", ["h264", "hevc"])
@pytest.mark.parametrize("where", ["sdp", "in-band"])
async def test_parameter_sets_in_one_place_only(
    clips: dict[str, Path], codec: str, where: ParameterSets
) -> None:
    """Either the SDP has them or the stream; a viewer decodes every picture all the same."""
    async with DemoCamera(clips[codec], faults=Faults(parameter_sets=where)) as camera:
        async with HandViewer(camera.url) as viewer:
            described = await viewer.ask("DESCRIBE")
            assert (b"sprop" in described.body) == (where == "sdp")
            if codec == "h264":
                await viewer.play()
                found = set().union(*(units(picture) for picture in await viewer.pictures(11)))
                assert found >= {KEYFRAME, 1}
                assert (found & PARAMETER_SETS) == (set() if where == "sdp" else PARAMETER_SETS)
        seen = await watch_in_thread(camera.url, 12)
    assert [picture.fingerprint for picture in seen] == decode(clips[codec])[:12]


async def test_parameter_sets_are_everywhere_by_default(h264_clip: Path) -> None:
    """In the SDP, and in the stream before every keyframe."""
    async with DemoCamera(h264_clip) as camera, HandViewer(camera.url) as viewer:
        assert b"sprop" in (await viewer.ask("DESCRIBE")).body
        await viewer.play()
        pictures = await viewer.pictures(21)
    assert [number for number, picture in enumerate(pictures) if units(picture) >= PARAMETER_SETS] == [
        0,
        10,
        20,
    ]


async def test_withheld_keyframes(h264_clip: Path) -> None:
    """Other pictures come at once; a keyframe only after the time that was set."""
    faults = Faults(withhold_keyframes_s=0.6)
    async with DemoCamera(h264_clip, faults=faults) as camera, HandViewer(camera.url) as viewer:
        begin_s = time.monotonic()
        await viewer.play()
        before = 0
        while KEYFRAME not in units((await viewer.pictures(1))[0]):
            before += 1
        assert time.monotonic() - begin_s >= 0.6
        assert before >= 9


@pytest.mark.parametrize("status", [501, 551])
async def test_get_parameter_is_refused(h264_clip: Path, status: int) -> None:
    """With the status that was set, although OPTIONS announces the method; the stream goes on."""
    faults = Faults(get_parameter_status=status)
    async with DemoCamera(h264_clip, faults=faults) as camera, HandViewer(camera.url) as viewer:
        assert "GET_PARAMETER" in (await viewer.ask("OPTIONS")).headers["public"]
        await viewer.play()
        assert (await viewer.ask("GET_PARAMETER")).status == status
        await viewer.pictures(3)


async def test_timestamps_restart_at_zero(h264_clip: Path) -> None:
    """From picture to picture they grow; at the picture that was set they begin again."""
    faults = Faults(timestamps_restart_after_frames=8)
    async with DemoCamera(h264_clip, faults=faults) as camera, HandViewer(camera.url) as viewer:
        await viewer.play()
        pictures = await viewer.pictures(12)
    wanted = [90_000 // FPS * number for number in [*range(8), *range(4)]]
    assert [picture[0].timestamp for picture in pictures] == wanted


async def test_the_picture_changes_its_size(h264_clip: Path, tmp_path: Path) -> None:
    """Another clip goes on in place of the first, of an odd size too; every picture is whole."""
    other = make_clip(tmp_path / "odd.mp4", size=(401, 303), pixels="yuv444p", frames=10)
    faults = Faults(switch_to=other, switch_after_frames=20)
    async with DemoCamera(h264_clip, faults=faults) as camera:
        seen = await watch_in_thread(camera.url, 35)

    assert [picture.size for picture in seen] == [(320, 240)] * 20 + [(401, 303)] * 15
    wanted = decode(h264_clip)[:20] + decode(other) + decode(other)[:5]
    assert [picture.fingerprint for picture in seen] == wanted
    times = [picture.pts_s for picture in seen[1:]]
    assert times == pytest.approx([number / FPS for number in range(1, 35)], abs=1e-4)


async def test_closing_on_get_parameter(h264_clip: Path) -> None:
    """The stream comes until the viewer asks; then the connection ends."""
    faults = Faults(closes_on_get_parameter=True)
    async with DemoCamera(h264_clip, faults=faults) as camera, HandViewer(camera.url) as viewer:
        await viewer.play()
        await viewer.pictures(3)
        viewer.send("GET_PARAMETER")
        assert await viewer.hears_end()


async def test_dripping(h264_clip: Path) -> None:
    """What comes before is answered as ever; then byte after byte, so that no answer is whole in time."""
    faults = Faults(drips_from="DESCRIBE")
    async with DemoCamera(h264_clip, faults=faults) as camera, HandViewer(camera.url) as viewer:
        assert (await viewer.ask("OPTIONS")).status == 200
        viewer.send("DESCRIBE")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(viewer.answer(), SILENCE_S)
        assert not await viewer.hears_nothing_for(SILENCE_S)


async def test_a_picture_without_end(h264_clip: Path) -> None:
    """After so many pictures only pieces come, all with the timestamp of the last one."""
    faults = Faults(endless_after_frames=4)
    async with DemoCamera(h264_clip, faults=faults) as camera, HandViewer(camera.url) as viewer:
        await viewer.play()
        last = (await viewer.pictures(4))[-1][-1]
        viewer.send("GET_PARAMETER")
        await viewer.answer()
        await asyncio.sleep(SILENCE_S)  # the time in which whole pictures would come
        viewer.send("GET_PARAMETER")
        await viewer.answer()
        pieces = viewer.packets

    assert len(pieces) > 3
    assert {(piece.timestamp, piece.ends_picture) for piece in pieces} == {(last.timestamp, False)}


async def test_parameter_sets_nowhere(h264_clip: Path) -> None:
    """Neither the SDP has them nor the stream."""
    faults = Faults(parameter_sets="nowhere")
    async with DemoCamera(h264_clip, faults=faults) as camera, HandViewer(camera.url) as viewer:
        assert b"sprop" not in (await viewer.ask("DESCRIBE")).body
        await viewer.play()
        found = set().union(*(units(picture) for picture in await viewer.pictures(11)))
    assert found >= {KEYFRAME, 1}
    assert not found & PARAMETER_SETS


@pytest.mark.parametrize("kind", sorted(MALFORMED_SDP))
async def test_malformed_sdp(h264_clip: Path, kind: str) -> None:
    """The SDP is wrong in the way that was set; libav shows pictures all the same, or refuses in time."""
    async with DemoCamera(h264_clip) as camera, HandViewer(camera.url) as viewer:
        right = (await viewer.ask("DESCRIBE")).body
    async with DemoCamera(h264_clip, faults=Faults(malformed_sdp=kind)) as camera:
        async with HandViewer(camera.url) as viewer:
            wrong = (await viewer.ask("DESCRIBE")).body
        tolerated = kind in ("bare newlines", "no control", "broken parameter sets")
        if tolerated:
            assert len(await watch_in_thread(camera.url, 3)) == 3
        else:
            with pytest.raises((av.error.FFmpegError, IndexError)):
                await watch_in_thread(camera.url, 3, timeout_s=1.0)
    assert wrong != right
