"""A machine of its own with systemd really booted, in about a second: a container without an image.

Its root is an empty folder with the host's /usr, this checkout and the interpreter bound into it, read-only;
what the host has enabled, configured or running is not in it, and for a network it has its own loopback.
systemd-nspawn needs a root that is a mount: the host's is bound to a folder; in a chroot it would be none.
"""

import contextlib
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).parents[2]
INIT = Path("/usr/lib/systemd/systemd")
BOOT_TIMEOUT_S = 30.0
COMMAND_TIMEOUT_S = 60.0
POLL_S = 0.02
MACHINE_ID = "00000000000000000000000000000001"
# The host's /etc holds more than a machine of its own should see.
ETC = {
    "machine-id": MACHINE_ID,
    "hostname": "gateway",
    "hosts": "127.0.0.1 localhost\n::1 localhost",
    "passwd": "root:x:0:0:root:/root:/bin/sh",
    "group": "root:x:0:",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns",
}


class CannotBootError(Exception):
    """No container can be booted here; the text says why not."""


class Machine:
    """One booted machine; commands are run in it as root."""

    def __init__(self, folder: Path) -> None:
        """Boot it, its root in an empty folder.

        Raises:
            CannotBootError: with the reason.

        """
        if os.geteuid() != 0:
            raise CannotBootError("systemd-nspawn needs root")
        if shutil.which("systemd-nspawn") is None or not INIT.exists():
            raise CannotBootError("systemd-nspawn or systemd is not installed (Debian's systemd-container)")
        self.root = folder / "root"
        self._outer = folder / "outer"
        self._outer.mkdir()
        _lay_out(self.root)
        self._said: list[bytes] = []
        self._nspawn = self._start_nspawn(f"gateway-{os.getpid()}")
        try:
            self._leader = self._wait_for_leader()
            self._wait_until_up()
        except BaseException:
            self.close()
            raise

    def run(
        self, *command: str, check: bool = True, stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the machine to its end; a failure fails the test, unless `check` is off."""
        done = subprocess.run(
            self.inside(*command), capture_output=True, text=True, input=stdin, timeout=COMMAND_TIMEOUT_S
        )
        assert done.returncode == 0 or not check, f"{command}: {done.stdout}{done.stderr}"
        return done

    def inside(self, *command: str) -> list[str]:
        """Give the command that runs another one in the machine."""
        # All namespaces, the leader's root and working directory.
        enter = ["nsenter", "-t", str(self._leader), "-m", "-u", "-i", "-n", "-p", "-C", "-r", "-w"]
        path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"
        return [*enter, "env", "-i", path, "LANG=C.UTF-8", *command]

    def show(self, unit: str, name: str) -> str:
        """Give a unit's property."""
        return self.run("systemctl", "show", "--property", name, "--value", unit).stdout.strip()

    def journal(self, unit: str, *options: str) -> list[dict[str, Any]]:
        """Give what the journal has of a unit, oldest first."""
        self.run("journalctl", "--sync")
        done = self.run("journalctl", "--output=json", f"--unit={unit}", "--no-pager", *options)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def write(self, path: str, text: str) -> None:
        """Write a file of the machine."""
        target = self.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def close(self) -> None:
        """Switch it off, hard: its namespace's first process takes all others with it."""
        if self._nspawn.poll() is None:
            for process in (*psutil.Process(self._nspawn.pid).children(), self._nspawn):
                process.send_signal(signal.SIGKILL)
        self._nspawn.wait(COMMAND_TIMEOUT_S)
        # Where the host shares its mounts, the outer one has come to it, too.
        subprocess.run(["umount", "--lazy", self._outer], stderr=subprocess.DEVNULL, check=False)

    def _start_nspawn(self, name: str) -> subprocess.Popen[bytes]:
        binds = [f"--bind-ro={path}" for path in _bound()]
        nspawn = [
            "systemd-nspawn", "--quiet", f"--directory={self.root}", "--boot", f"--machine={name}",
            "--register=no", "--keep-unit", "--private-network", *binds,
        ]  # fmt: skip
        private = subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode == 0
        outside = ["unshare", "--mount", *([] if private else ["--propagation", "unchanged"])]
        as_a_mount = 'mount --rbind / "$0" && mount --make-rslave "$0" && exec chroot "$0" "$@"'
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [*outside, "sh", "-c", as_a_mount, str(self._outer), *nspawn],
            stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        self._reader = threading.Thread(target=self._read_console, args=(ours,), daemon=True)
        self._reader.start()
        return process

    def _read_console(self, terminal: int) -> None:
        # A terminal whose other end is closed gives an error instead of its end.
        try:
            while text := os.read(terminal, 4096):
                self._said.append(text)
        except OSError:
            pass
        os.close(terminal)

    def _wait_for_leader(self) -> int:
        deadline_s = time.monotonic() + BOOT_TIMEOUT_S
        while self._nspawn.poll() is None and time.monotonic() < deadline_s:
            for child in psutil.Process(self._nspawn.pid).children():
                # Others of its children come and go.
                with contextlib.suppress(psutil.Error):
                    if Path(child.exe()).name == INIT.name:
                        return child.pid
            time.sleep(POLL_S)
        raise CannotBootError(f"systemd-nspawn does not boot: {self._console()}")

    def _wait_until_up(self) -> None:
        deadline_s = time.monotonic() + BOOT_TIMEOUT_S
        while self._nspawn.poll() is None and time.monotonic() < deadline_s:
            if self.run("systemctl", "is-system-running", check=False).stdout.strip() in {
                "running",
                "degraded",
            }:
                return
            time.sleep(POLL_S)
        raise CannotBootError(f"systemd does not come up: {self._console()}")

    def _console(self) -> str:
        if self._nspawn.poll() is not None:
            self._reader.join(COMMAND_TIMEOUT_S)
        return " ".join(b"".join(self._said).decode(errors="replace").split())[-1000:]


def _lay_out(root: Path) -> None:
    for name in ("usr", "etc", "var", "run", "tmp", "proc", "sys", "dev"):
        (root / name).mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        if Path("/usr", name).exists():
            (root / name).symlink_to(f"usr/{name}")
    for name, text in ETC.items():
        (root / "etc" / name).write_text(text + "\n")
    # It is looked for before anything is bound.
    shutil.copy(Path("/etc/os-release").resolve(), root / "etc" / "os-release")


def _bound() -> Sequence[Path]:
    """Give what the machine has of the host: programs and libraries, the checkout, the interpreter."""
    wanted = {Path("/usr"), ROOT, Path(sys.prefix), Path(sys.base_prefix)}
    return sorted(path for path in wanted if not wanted & set(path.parents))
