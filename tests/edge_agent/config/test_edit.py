"""Changing the configuration and its secrets: nothing half-written, nothing lost in a race."""

import os
import signal
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_agent.config import atomic_file
from edge_agent.config.atomic_file import locked
from edge_agent.config.edit import editing
from edge_agent.config.file import load
from edge_agent.config.rules import BadValueError
from edge_agent.config.secrets import Secrets, secrets_path
from edge_agent.errors import ConfigError
from tests.edge_agent.config.written import NAMES, TEXTS, WRITTEN


@pytest.fixture
def path(config_path: Path) -> Path:
    config_path.parent.mkdir()
    return config_path


def test_a_change_writes_both_files(path: Path) -> None:
    """The password is in its own file; the configuration has none."""
    with editing(path) as edit:
        edit.add_cameras({"door": {"url": "rtsp://h/s", "user": "u"}})
        edit.set_password("door", 'hu"n\\ter2€')

    assert load(path).cameras["door"].user == "u"
    assert Secrets.load(path).password("door") == 'hu"n\\ter2€'
    assert "ter2" not in path.read_text()
    assert [entry.name for entry in sorted(path.parent.iterdir())] == ["agent.secrets.toml", "agent.toml"]


def test_a_camera_and_its_password_go_together(path: Path) -> None:
    """Removed, or added again without one, a camera has no password of before."""
    with editing(path) as edit:
        edit.add_cameras(
            {"door": {"url": "rtsp://h/s", "user": "u"}, "yard": {"url": "rtsp://g/s", "user": "u"}}
        )
        edit.set_password("door", "hunter2")
        edit.set_password("yard", "hunter3")
    with editing(path) as edit:
        edit.remove_camera("door")
    assert tomllib.loads(secrets_path(path).read_text()) == {"cameras": {"yard": "hunter3"}}

    # As a change that was interrupted between the two files would leave it.
    secrets_path(path).write_text('[cameras]\ndoor = "orphan"\nyard = "hunter3"\n')
    with editing(path) as edit:
        edit.add_cameras({"door": {"url": "rtsp://h/s", "user": "u"}})
    assert tomllib.loads(secrets_path(path).read_text()) == {"cameras": {"yard": "hunter3"}}


def test_an_error_inside_leaves_both_files_untouched(path: Path) -> None:
    """A change that fails half-way has not happened."""
    path.write_text(WRITTEN)

    def fail() -> None:
        with editing(path) as edit:
            edit.add_cameras({"hall": {"url": "rtsp://h/s", "user": "u"}})
            edit.set_password("hall", "hunter2")
            edit.add_cameras({"door": {"url": "rtsp://h/s"}})

    with pytest.raises(ConfigError, match="there is a camera door already"):
        fail()
    assert path.read_text() == WRITTEN
    assert [entry.name for entry in path.parent.iterdir()] == ["agent.toml"]


def test_no_command_writes_an_invalid_file(path: Path) -> None:
    """What comes out is checked as a whole; what was wrong before can be put right, and only that."""
    path.write_text(WRITTEN.replace("fps = 5", 'fps = "fast"'))

    def set_and_leave(**values: object) -> None:
        with editing(path) as edit:
            edit.set_camera("door", values)

    with pytest.raises(ConfigError, match=r'agent\.toml:10:1: cameras\.door\.fps: found "fast"'):
        set_and_leave(max_width=640)
    with pytest.raises(BadValueError, match="found 0, expected a number from"):
        set_and_leave(fps=0)
    set_and_leave(fps=7)
    assert path.read_text() == WRITTEN.replace("fps = 5", "fps = 7")


def test_modes_and_links_are_kept(path: Path, tmp_path: Path) -> None:
    """A new file is as the umask says; an existing one keeps its mode, and stays behind its symbolic link."""
    before = os.umask(0o027)
    try:
        with editing(path) as edit:
            edit.add_cameras({"a": {"url": "rtsp://h/s"}})
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640

    path.chmod(0o604)
    real = tmp_path / "real.toml"
    path.rename(real)
    path.symlink_to(real)
    with editing(path) as edit:
        edit.add_cameras({"b": {"url": "rtsp://h/s"}})
    assert path.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o604
    assert list(load(real).cameras) == ["a", "b"]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["etc", "real.toml"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_an_owner_is_kept(path: Path) -> None:
    """Root changes a service's configuration: it stays the service's, and what is new is its directory's."""
    path.write_text(WRITTEN)
    os.chown(path, 1234, 2345)
    os.chown(path.parent, 3456, 4567)

    with editing(path) as edit:
        edit.add_cameras({"hall": {"url": "rtsp://h/s", "user": "u"}})
        edit.set_password("hall", "hunter2")

    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 2345)
    assert (secrets_path(path).stat().st_uid, secrets_path(path).stat().st_gid) == (3456, 4567)


WATCH_MODES = """
import os, stat, sys
from pathlib import Path
from edge_agent.config.edit import editing

made = []
really_open = os.open
def watched(path, flags, mode=0o777, **more):
    descriptor = really_open(path, flags, mode, **more)
    if "secrets" in os.fspath(path) and flags & os.O_CREAT:
        made.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
    return descriptor
os.open = watched
os.umask(0)
with editing(Path(sys.argv[1])) as edit:
    edit.add_cameras({"door": {"url": "rtsp://h/s", "user": "u"}})
    edit.set_password("door", "hunter2")
print(*map(oct, made))
"""


def test_the_passwords_are_for_their_owner_from_the_first_byte(path: Path) -> None:
    """Even with no umask the file is never, not for a moment, readable by others."""
    done = subprocess.run(
        [sys.executable, "-c", WATCH_MODES, str(path)], capture_output=True, text=True, check=True, timeout=60
    )

    assert done.stdout.split() == ["0o600"]
    assert stat.S_IMODE(secrets_path(path).stat().st_mode) == 0o600


def test_passwords_that_others_can_read_are_closed_to_them(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The file is tightened where it stands, and one line says so."""
    secrets_path(path).write_text('[cameras]\ndoor = "hunter2"\n')
    secrets_path(path).chmod(0o644)

    secrets = Secrets.load(path)

    assert stat.S_IMODE(secrets_path(path).stat().st_mode) == 0o600
    assert "was readable by others (mode 0644): closed to them (mode 0600)" in caplog.text
    assert "hunter2" not in caplog.text + repr(secrets)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[cameras]\ndoor = hunter2\n", r"secrets\.toml:2:8: not TOML"),
        ('[cameras]\ndoor "hunter2"\n', r"secrets\.toml:2:6: not TOML"),
        ("[cameras]\ndoor = 42424242\n", "the password of door is not in quotes"),
        ('door = "hunter2"\n', r"expected one table, \[cameras\]"),
    ],
)
def test_an_unreadable_secrets_file_is_refused_without_showing_it(
    path: Path, text: str, problem: str
) -> None:
    """The place and the problem, never the content."""
    secrets_path(path).write_text(text)

    with pytest.raises(ConfigError, match=problem) as caught:
        Secrets.load(path)

    assert "hunter2" not in str(caught.value)
    assert "4242" not in str(caught.value)


def test_the_secrets_file_keeps_its_comments(path: Path) -> None:
    """A person may note there what a password is for."""
    path.write_text('[cameras.door]\nurl = "rtsp://h/s"\nuser = "u"\n')
    secrets_path(path).write_text('# mine\n[cameras]\n# the installer\'s\ndoor = "hunter2"  # weak\n')

    with editing(path) as edit:
        edit.set_password("door", "hunter3")

    assert (
        secrets_path(path).read_text() == '# mine\n[cameras]\n# the installer\'s\ndoor = "hunter3"  # weak\n'
    )


@given(passwords=st.dictionaries(NAMES, TEXTS, max_size=5))
def test_any_password_comes_back(tmp_path_factory: pytest.TempPathFactory, passwords: dict[str, str]) -> None:
    """Quotes, backslashes, control characters, other scripts: what is saved is what is loaded."""
    path = tmp_path_factory.mktemp("secrets") / "agent.toml"

    Secrets(passwords).save(path)

    assert {name: Secrets.load(path).password(name) for name in passwords} == passwords


ADD_MANY = """
import sys
from edge_agent.cli import main
for number in range(4):
    name = f"{sys.argv[2]}-{number}"
    code = main(["--config", sys.argv[1], "add-camera", name, f"rtsp://u:pw-{name}@10.0.0.5/s"])
    assert code == 0, name
"""


def test_commands_at_the_same_time_lose_nothing(path: Path) -> None:
    """Six processes add four cameras each: all are there, each with its own password, and no lock is left."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", ADD_MANY, str(path), f"p{number}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(6)
    ]
    for process in processes:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors

    names = {f"p{process}-{number}" for process in range(6) for number in range(4)}
    secrets = Secrets.load(path)
    assert set(load(path).cameras) == names
    assert {name: secrets.password(name) for name in names} == {name: f"pw-{name}" for name in names}
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["agent.secrets.toml", "agent.toml"]


KILLED_BEFORE_REPLACEMENT = """
import os, signal, sys
from pathlib import Path
from edge_agent.config.edit import editing

left = int(sys.argv[2])
really_replace = Path.replace
def replace(self, target):
    global left
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1
    return really_replace(self, target)
Path.replace = replace
with editing(Path(sys.argv[1])) as edit:
    edit.add_cameras({"hall": {"url": "rtsp://h/s", "user": "u"}})
    edit.set_password("hall", "hunter2")
    edit.remove_camera("yard")
"""


@pytest.mark.parametrize("replacements", [0, 1, 2])
def test_a_kill_between_the_files_leaves_each_camera_with_its_password(path: Path, replacements: int) -> None:
    """Killed before the first, second or third file is put in place: what is there is whole, and works."""
    with editing(path) as edit:
        edit.add_cameras({name: {"url": "rtsp://h/s", "user": "u"} for name in ("door", "yard")})
        edit.set_password("door", "hunter3")
        edit.set_password("yard", "hunter4")

    done = subprocess.run(
        [sys.executable, "-c", KILLED_BEFORE_REPLACEMENT, str(path), str(replacements)],
        check=False,
        timeout=60,
    )

    assert done.returncode == -signal.SIGKILL
    cameras, secrets = load(path).cameras, Secrets.load(path)
    assert list(cameras) == (["door", "hall"] if replacements == 2 else ["door", "yard"])
    expected = {"door": "hunter3", "hall": "hunter2", "yard": "hunter4"}
    assert {name: secrets.password(name) for name in cameras} == {name: expected[name] for name in cameras}

    with editing(path) as edit:
        edit.remove_camera("door")
    assert "door" not in load(path).cameras
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["agent.secrets.toml", "agent.toml"]


def test_a_lock_that_is_never_given_back_is_not_waited_for_for_ever(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wait is bounded, and ends in one clear line."""
    monkeypatch.setattr(atomic_file, "LOCK_TIMEOUT_S", 0.1)

    with (
        locked(path),
        pytest.raises(
            ConfigError, match="cannot be changed: another command has been changing it for too long"
        ),
        locked(path),
    ):
        pytest.fail("the lock was given twice")


def test_a_lock_file_that_cannot_be_removed_locks_nobody_out(path: Path) -> None:
    """As when its disk has become read-only meanwhile; a running agent keeps what it leaves open."""
    lock = path.with_name(f".{path.name}.lock")
    before = len(list(Path("/proc/self/fd").iterdir()))
    with locked(path):
        lock.unlink()
        lock.mkdir()
    lock.rmdir()

    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_directory_that_cannot_be_written_is_one_clear_line(tmp_path: Path) -> None:
    """A file stands where a directory is to be."""
    (tmp_path / "etc").write_text("")

    with (
        pytest.raises(ConfigError, match=r"agent\.toml: cannot be changed: (File exists|Not a directory)"),
        editing(tmp_path / "etc" / "agent.toml"),
    ):
        pytest.fail("nothing can be changed here")
