"""Several processes of the asyncio control on one port, by SO_REUSEPORT.

Asyncio and not the synchronous server, because a stream beyond that one's pool of threads is not
served at all. The kernel deals connections, not calls: a client with one connection for all of its
cameras has them all in one process. This process imports no gRPC and does no work.
"""

import signal
import socket
import subprocess
import sys
import threading

from bench.controls.options import ControlOptions, options, parser

LOOK_S = 0.5
MOST = 256


def main() -> None:
    """Serve until SIGTERM, or until one of the processes ends; prints `listening HOST:PORT` once ready."""
    taking = parser("asyncio gRPC in Python, several processes on one port")
    taking.add_argument("--processes", type=int, required=True, metavar="N", help=f"1 to {MOST}")
    found = taking.parse_args()
    if not 1 <= found.processes <= MOST:
        taking.error(f"--processes: found {found.processes}, expected 1 to {MOST}")
    sys.exit(run(options(found), found.processes))


def run(told: ControlOptions, count: int) -> int:
    """Start the processes as programs of their own (never by fork), and end them together."""
    ending = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ending.set())
    host, _, port = told.listen.rpartition(":")
    started: list[subprocess.Popen[str]] = []
    with socket.socket() as kept:
        # Bound but not listening: it keeps the port, and no connection comes to it.
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        kept.bind((host, int(port)))
        real_port = kept.getsockname()[1]
        try:
            # One by one, so that those that did start are ended if another cannot.
            started.extend(_start(told, f"{host}:{real_port}") for _ in range(count))
            if not all(_is_ready(process) for process in started):
                return 1
            print(told.listening(real_port), flush=True)
            while not ending.wait(LOOK_S):
                if any(process.poll() is not None for process in started):
                    return 1
        finally:
            for process in started:
                process.terminate()
            for process in started:
                process.wait()
    return 0


def _start(told: ControlOptions, address: str) -> subprocess.Popen[str]:
    work = ("--work-ms", str(told.work_ms), "--spin", told.spin)
    # They end with this process, even if it is killed.
    command = (
        "setpriv",
        "--pdeathsig",
        "KILL",
        "--",
        sys.executable,
        "-m",
        "bench.controls.asyncio_server",
        "--listen",
        address,
        *work,
    )
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _is_ready(process: subprocess.Popen[str]) -> bool:
    return process.stdout is not None and process.stdout.readline().startswith("listening ")


if __name__ == "__main__":
    main()
