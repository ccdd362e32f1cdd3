"""The one load generator of the project: `run_load` starts it in a process of its own.

The loop is open. Each camera has a fixed schedule of instants, and a frame is due at its instant whatever
became of those before it; latency counts from that instant to the arrival of the answer. A server that
stalls, or a sender that has to wait for it, hides nothing.

`python -m central_server.capacity.load` reads a spec as JSON on standard input and writes the result to
standard output.
"""

import asyncio
import gc
import os
import signal
import subprocess
import sys

from central_server.capacity.child import end_with_parent
from central_server.capacity.load_result import LoadResult
from central_server.capacity.load_spec import LoadError, LoadSpec
from central_server.errors import ServerError

__all__ = ["LoadError", "LoadResult", "LoadSpec", "run_load"]

# For the interpreter's start, the cameras' memory and the result's way back.
MARGIN_S = 30.0


def run_load(spec: LoadSpec) -> LoadResult:
    """Run a load in a process of its own, and wait for its end.

    It ends by itself: after the last frame's instant and the grace at the latest.

    Raises:
        LoadError: the server cannot be reached, an image not be read, or the process failed.

    """
    timeout_s = spec.connect_timeout_s + spec.last_due_s + spec.grace_s + MARGIN_S
    with subprocess.Popen(
        [sys.executable, "-m", "central_server.capacity.load"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            out, err = process.communicate(spec.to_json().encode(), timeout_s)
        except subprocess.TimeoutExpired:
            raise LoadError(f"the load on {spec.address} did not end by itself") from None
        finally:
            process.kill()
            process.wait()
    return _read(process.returncode, out, err)


def _read(code: int, out: bytes, err: bytes) -> LoadResult:
    lines = err.decode(errors="replace").strip().splitlines()
    if code != 0:
        raise LoadError(lines[-1] if lines else f"the load generator ended with code {code}")
    try:
        return LoadResult.from_bytes(out)
    except ValueError as error:
        last_words = f"; the load generator's last words: {lines[-1]}" if lines else ""
        raise LoadError(f"{error}{last_words}") from error


def main() -> None:
    """Be the generator's process."""
    end_with_parent()
    # The caller answers for Ctrl-C; no traceback of this process stands beside its line.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # gRPC reads it when it is imported. What goes wrong with a call is in the result.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    import uvloop

    from central_server.capacity.generator import generate

    try:
        spec = LoadSpec.from_json(sys.stdin.read())
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            gc.collect()
            gc.freeze()
            gc.disable()
            result = runner.run(generate(spec))
    except (ServerError, ValueError) as error:
        sys.exit(str(error))
    sys.stdout.buffer.write(result.to_bytes())
    # Now, and not at the interpreter's end: what cannot be written is an error of this process.
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
