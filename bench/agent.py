"""The agent's processor time against the ffmpeg command line that does the same, both at one camera at once.

The camera is a file that is made once, with ffmpeg and x264 as cameras' encoders are: no look-ahead, no
B-frames, one reference, a constant rate within half a second. GStreamer serves it over RTSP.
"""

import contextlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench import programs
from bench.images import Comparison, compared
from bench.report import Report, Target
from bench.usage import Usage

FILMS = programs.ROOT / "build" / "bench"
FILM_S = 16
GOP = 25
MBITS = (4, 2)
"""What cameras of this size are usually set to."""
FILTER = "scale=1920:1440:flags=bicubic,crop=1920:1080,noise=c0s=6:c0f=t,format=yuv420p"
X264 = (
    f"keyint={GOP}:min-keyint={GOP}:scenecut=0:bframes=0:ref=1:rc-lookahead=0:sync-lookahead=0:mbtree=0"
    ":sliced-threads=0:slices=1:bitrate={kbit}:vbv-maxrate={kbit}:vbv-bufsize={half_kbit}"
)
WIDTH, HEIGHT = 640, 360
QUALITY = 80
FULL_FPS, KEYFRAME_FPS = 10, 1
AT_MOST = 1.0
KEYFRAMES_AT_MOST = 0.15
START_TIMEOUT_S = 30.0
FEWEST_SHARE = 0.95
"""Of the frames that the rate makes, what each side has to have sent for its figure to count."""


@dataclass(frozen=True, slots=True)
class Job:
    """What is asked of both: a rate, and which pictures are decoded for it."""

    name: str
    fps: int
    decode: str
    skip: tuple[str, ...]
    """ffmpeg's flags for the same."""


JOBS = (
    Job("all pictures decoded, 10 fps", FULL_FPS, "all", ()),
    Job("keyframes alone, 1 fps", KEYFRAME_FPS, "keyframes", ("-skip_frame", "nokey")),
)
THREADS = {"ffmpeg -threads 1": ("-threads", "1"), "ffmpeg": ()}


@dataclass(frozen=True, slots=True)
class Side:
    """What one of them used and sent in the measured time."""

    processor_ms: float
    """Processor time for each second, user and system."""
    frames: int


def measure(*, quick: bool) -> Report:
    """Measure both jobs.

    Raises:
        RuntimeError: there is no ffmpeg, or somebody did not send the frames that the figure is for.

    """
    report = Report(
        f"one 1920 x 1080 camera at 25 fps, H.264 over TCP, {15 if quick else 60} s each",
        ("film", "job", "who", "frames sent", "processor time, ms/s", "agent to it"),
        notes=[
            "the films: walkers.mp4 scaled up and cropped, with noise, a keyframe a second, no B-frames, a"
            " constant rate within half a second",
            f"both: {WIDTH} x {HEIGHT} by area; ffmpeg {area_scale((WIDTH, HEIGHT))}, to /dev/null; the agent"
            " over gRPC to a server that answers each frame, results to a file",
        ],
    )
    with programs.server("--detector", "simulated:1") as server:
        for mbit in MBITS:
            _add_film(report, mbit, server.said, seconds=15 if quick else 60)
    return report


def _add_film(report: Report, mbit: int, server: str, seconds: float) -> None:
    """Measure both jobs at a camera of this rate."""
    film, name = made_film(mbit), f"{mbit} Mbit/s"
    comparison = compared(film, (WIDTH, HEIGHT), QUALITY)
    report.notes += _notes(name, comparison)
    ours: list[float] = []
    with programs.gstreamer_camera("--file", str(film), "--loop") as camera:
        url = f"rtsp://127.0.0.1:{camera.said}/live"
        for job in JOBS:
            sides = _at_once(job, server, url, seconds, comparison.scale)
            ours.append(sides["edge-agent"].processor_ms)
            for who, side in sides.items():
                report.add(name, job.name, who, side.frames, side.processor_ms, ours[-1] / side.processor_ms)
            for who in THREADS if job is JOBS[0] else ():
                ratio = ours[0] / sides[who].processor_ms
                report.targets.append(Target(f"{name}: agent to {who}, {job.name}", ratio, "<=", AT_MOST))
    ratio = ours[1] / ours[0]
    report.targets.append(
        Target(f"{name}: agent with keyframes alone to all", ratio, "<=", KEYFRAMES_AT_MOST)
    )


def made_film(mbit: int, folder: Path = FILMS, seconds: int = FILM_S) -> Path:
    """Give the film of a camera of this rate; made where there is none, as a whole or not at all.

    Raises:
        RuntimeError: there is no ffmpeg, or it failed.

    """
    if shutil.which("ffmpeg") is None:
        raise RuntimeError("found no ffmpeg, expected Debian's: apt-get install ffmpeg")
    file = folder / f"1080p25-{mbit}mbit-{seconds}s.mp4"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        part = file.with_name(f"part-{file.name}")
        source = ("-stream_loop", "-1", "-r", "25", "-i", programs.WALKERS, "-t", str(seconds), "-vf", FILTER)
        how = X264.format(kbit=mbit * 1000, half_kbit=mbit * 500)
        run_ffmpeg(*source, "-c:v", "libx264", "-preset", "veryfast", "-x264-params", how, part)
        part.replace(file)
    return file


def run_ffmpeg(*arguments: str | Path) -> None:
    """Run it to its end; raises RuntimeError with what it complained of."""
    done = subprocess.run(
        ["ffmpeg", "-v", "error", "-nostdin", "-y", *arguments], check=False, capture_output=True, text=True
    )
    if done.returncode != 0:
        raise RuntimeError(f"ffmpeg: {' '.join(done.stderr.split())[-500:]}")


def _at_once(job: Job, server: str, url: str, seconds: float, scale: int) -> dict[str, Side]:
    """Let the agent and both forms of ffmpeg do a job at the same camera at the same time."""
    with tempfile.TemporaryDirectory() as scratch, contextlib.ExitStack() as running:
        config, results = Path(scratch) / "agent.toml", Path(scratch) / "results.jsonl"
        programs.edge_agent(config, "set-server", server)
        options = ("--fps", str(job.fps), "--decode", job.decode, "--max-width", str(WIDTH))
        programs.edge_agent(config, "add-camera", "street", url, *options, "--jpeg-quality", str(QUALITY))
        agent = running.enter_context(programs.running_agent(config, results))
        others = {
            who: running.enter_context(_ffmpeg(job, url, scale, threads, Path(scratch) / f"{number}.txt"))
            for number, (who, threads) in enumerate(THREADS.items())
        }
        programs.wait_for_results(results, 3 * job.fps, START_TIMEOUT_S)
        usages = {"edge-agent": agent} | {who: usage for who, (usage, _) in others.items()}

        def frames() -> dict[str, int]:
            answered = sum(record["outcome"] == "detected" for record in programs.read_results(results))
            return {"edge-agent": answered} | {who: _frames(said) for who, (_, said) in others.items()}

        before_s = {who: usage.processor_s() for who, usage in usages.items()}
        frames_before, begun_s = frames(), time.monotonic()
        time.sleep(seconds)
        used_s = {who: usage.processor_s() - before_s[who] for who, usage in usages.items()}
        frames_after, took_s = frames(), time.monotonic() - begun_s
    sides = {who: Side(used_s[who] * 1e3 / took_s, frames_after[who] - frames_before[who]) for who in usages}
    for who, side in sides.items():
        # What ffmpeg reports is up to a second old.
        if side.frames < FEWEST_SHARE * job.fps * (took_s - 1):
            raise RuntimeError(f"{who}, {job.name}: found {side.frames} frames in {took_s:.0f} s")
    return sides


@contextlib.contextmanager
def _ffmpeg(
    job: Job, url: str, scale: int, threads: tuple[str, ...], said: Path
) -> Iterator[tuple[Usage, Path]]:
    """Run the command line; what it says of its progress goes to a file."""
    command: list[str | Path] = ["ffmpeg", "-v", "error", "-nostdin", "-nostats", "-progress", said]
    command += [*threads, *job.skip, "-rtsp_transport", "tcp", "-i", url, "-an"]
    command += ["-vf", f"fps={job.fps},{area_scale((WIDTH, HEIGHT))}"]
    command += ["-c:v", "mjpeg", "-q:v", str(scale), *threads, "-f", "mjpeg", "-y", "/dev/null"]
    process = subprocess.Popen([*programs.TIED, *command])
    try:
        yield Usage(process.pid), said
    finally:
        process.kill()
        process.wait()


def area_scale(frame_wh: tuple[int, int]) -> str:
    """Name ffmpeg's filters for what the agent does: by area, to the full range of JPEG."""
    return f"scale={frame_wh[0]}:{frame_wh[1]}:flags=area:out_range=full,format=yuvj420p"


def _frames(said: Path) -> int:
    """Give the frames that ffmpeg has encoded, as it last said."""
    lines = said.read_text().splitlines() if said.exists() else []
    counts = [line.partition("=")[2] for line in lines if line.startswith("frame=")]
    return int(counts[-1]) if counts else 0


def _notes(name: str, comparison: Comparison) -> list[str]:
    return [
        f"{name}: keyframes {comparison.keyframe_bytes / 1e3:.0f} kB, others"
        f" {comparison.other_bytes / 1e3:.1f} kB; JPEGs of the same pictures: agent, quality {QUALITY}:"
        f" {comparison.our_bytes / 1e3:.1f} kB, {comparison.our_psnr_db:.1f} dB; ffmpeg,"
        f" -q:v {comparison.scale} (nearest in bytes): {comparison.their_bytes / 1e3:.1f} kB,"
        f" {comparison.their_psnr_db:.1f} dB; before JPEG the two scaled pictures are"
        f" {comparison.scaled_psnr_db:.1f} dB apart",
    ]
