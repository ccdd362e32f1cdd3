"""Reading the configuration: what it may hold, and errors with file, line and column."""

import os
from pathlib import Path

import pytest

from edge_agent.config import AgentConfig, CameraConfig, ServerConfig
from edge_agent.config.file import default_path, load, load_camera, load_to_run
from edge_agent.config.secrets import secrets_path
from edge_agent.errors import ConfigError

GOOD = """\
# The gateway in the hall.
[server]
address = "192.0.2.1:50051"
ca = "central.pem"

[cameras.door]
url = "rtsp://10.0.0.5/stream1"
user = "viewer"
fps = 5
max_width = 1280
jpeg_quality = 90
transport = "udp"
labels = ["person", "car"]
min_score = 0.5
max_age_ms = 500
connect_timeout_s = 2.5
read_timeout_s = 3
enabled = false

[cameras."yard.2"]
url = "clips/yard.mp4"
loop = true
"""


@pytest.fixture
def path(config_path: Path) -> Path:
    config_path.parent.mkdir()
    return config_path


def error_of(path: Path, text: str) -> str:
    """Read a configuration that cannot be read, and give the error without the directory."""
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(path)
    message = str(caught.value)
    assert "\n" not in message
    return message.removeprefix(f"{path.parent}/")


def test_a_whole_configuration_is_read(path: Path) -> None:
    """Every key lands in its field; relative paths are meant from the file's directory; order is kept."""
    path.write_text(GOOD)

    config = load(path)

    assert config.server == ServerConfig(address="192.0.2.1:50051", ca=str(path.parent / "central.pem"))
    assert list(config.cameras) == ["door", "yard.2"]
    assert config.cameras["door"] == CameraConfig(
        name="door",
        url="rtsp://10.0.0.5/stream1",
        user="viewer",
        fps=5.0,
        max_width=1280,
        jpeg_quality=90,
        transport="udp",
        labels=("person", "car"),
        min_score=0.5,
        max_age_ms=500,
        connect_timeout_s=2.5,
        read_timeout_s=3.0,
        enabled=False,
    )
    assert config.cameras["yard.2"] == CameraConfig(
        name="yard.2", url=str(path.parent / "clips/yard.mp4"), loop=True
    )


def test_what_is_read_cannot_be_changed(path: Path) -> None:
    """The configuration is a value."""
    path.write_text(GOOD)
    config = load(path)

    with pytest.raises(TypeError):
        config.cameras["new"] = config.cameras["door"]  # type: ignore[index]


def test_line_ends_and_a_byte_order_mark_of_other_systems_are_read(path: Path) -> None:
    """A file that went through another system's editor is the same configuration."""
    path.write_text(GOOD)
    plain = load(path)

    path.write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())

    assert load(path) == plain


def test_a_missing_file_is_an_empty_configuration(path: Path) -> None:
    """There is nothing yet; only `run` needs more, and says how to begin."""
    assert load(path) == AgentConfig(server=None, cameras={})
    with pytest.raises(
        ConfigError, match="no configuration here; begin with `edge-agent set-server HOST:PORT`"
    ):
        load_to_run(path)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            '[cameras.door]\nurl = "rtsp://h/s"\n',
            "no central server is set; begin with `edge-agent set-server",
        ),
        (
            '[server]\naddress = "127.0.0.1:1"\n',
            "no camera yet; add one with `edge-agent add-camera NAME URL`",
        ),
    ],
)
def test_run_needs_a_server_and_a_camera(path: Path, text: str, problem: str) -> None:
    """What is missing is said together with the command that adds it."""
    path.write_text(text)
    with pytest.raises(ConfigError, match=problem):
        load_to_run(path)


def test_run_gets_the_passwords_too(path: Path) -> None:
    """Configuration and secrets come together."""
    path.write_text('[server]\naddress = "127.0.0.1:1"\n' + GOOD[GOOD.index("[cameras.door]") :])
    secrets_path(path).write_text('[cameras]\ndoor = "hunter2"\n')
    secrets_path(path).chmod(0o600)

    config, secrets = load_to_run(path)

    assert (secrets.password("door"), secrets.password("yard.2")) == ("hunter2", None)
    assert load_camera(path, "door") == (config.cameras["door"], "hunter2")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[server\n", "agent.toml:1:8: not TOML: "),
        ('[server]\naddress = "x\n', "agent.toml:2:13: not TOML: "),
        ("[server]\n  address 1\n", "agent.toml:2:11: not TOML: "),
        ("[server]\naddress = ", "agent.toml:2:11: not TOML: "),
        ("[server]\n[server]\n", "agent.toml:2:8: not TOML: "),
    ],
)
def test_syntax_errors_have_line_and_column(path: Path, text: str, expected: str) -> None:
    """Where the parser stopped, and why."""
    assert error_of(path, text).startswith(expected)


DOOR = '[cameras.door]\nurl = "rtsp://10.0.0.5/s"\n'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            DOOR + 'fps = "fast"\n',
            'agent.toml:3:1: cameras.door.fps: found "fast", expected a number from 0.1 to 60',
        ),
        (
            DOOR + "# x\n\n  fps = 0\n",
            "agent.toml:5:3: cameras.door.fps: found 0, expected a number from 0.1 to 60",
        ),
        (
            DOOR + "fps = 61.5\n",
            "agent.toml:3:1: cameras.door.fps: found 61.5, expected a number from 0.1 to 60",
        ),
        (
            DOOR + "fps = nan\n",
            "agent.toml:3:1: cameras.door.fps: found nan, expected a number from 0.1 to 60",
        ),
        (
            DOOR + "fps = inf\n",
            "agent.toml:3:1: cameras.door.fps: found inf, expected a number from 0.1 to 60",
        ),
        (
            DOOR + "fps = true\n",
            "agent.toml:3:1: cameras.door.fps: found true, expected a number from 0.1 to 60",
        ),
        (
            DOOR + "jpeg_quality = 80.5\n",
            "agent.toml:3:1: cameras.door.jpeg_quality: found 80.5, expected a whole number from 1 to 100",
        ),
        (
            DOOR + "max_width = [640]\n",
            "agent.toml:3:1: cameras.door.max_width: found an array,"
            " expected a whole number from 16 to 16384",
        ),
        (
            DOOR + 'transport = "TCP"\n',
            'agent.toml:3:1: cameras.door.transport: found "TCP", expected "tcp" or "udp"',
        ),
        (DOOR + "loop = 1\n", "agent.toml:3:1: cameras.door.loop: found 1, expected true or false"),
        (
            DOOR + 'labels = "person"\n',
            'agent.toml:3:1: cameras.door.labels: found "person", expected an array of labels,'
            " each of 1 to 64 characters, 4096 bytes as sent",
        ),
        (
            DOOR + 'labels = ["person", ""]\n',
            "agent.toml:3:1: cameras.door.labels: found an array, expected an array of labels,"
            " each of 1 to 64 characters, 4096 bytes as sent",
        ),
        (
            DOOR + 'user = "a\\nb"\n',
            'agent.toml:3:1: cameras.door.user: found "a�b", expected a user: 1 to 256 characters,'
            " no control characters",
        ),
        (DOOR + "fsp = 5\n", 'agent.toml:3:1: cameras.door.fsp: unknown key "fsp"; did you mean fps?'),
        (
            DOOR + "colour = 5\n",
            'agent.toml:3:1: cameras.door.colour: unknown key "colour"; known: url, user, fps, max_width,'
            " jpeg_quality, transport, labels, min_score, max_age_ms, decode, motion, motion_sensitivity,"
            " motion_masks, privacy_masks, max_kbit, loop, connect_timeout_s, read_timeout_s, enabled",
        ),
        (
            DOOR + 'password = "hunter2"\n',
            "agent.toml:3:1: cameras.door.password: has no place here:"
            " `edge-agent set-camera door --user USER` asks for it",
        ),
        (
            DOOR + '"a\\nb" = 5\n',
            'agent.toml:3:1: cameras.door."a�b": unknown key "a�b"; known: url, user, fps, max_width,'
            " jpeg_quality, transport, labels, min_score, max_age_ms, decode, motion, motion_sensitivity,"
            " motion_masks, privacy_masks, max_kbit, loop, connect_timeout_s, read_timeout_s, enabled",
        ),
        (
            DOOR + "privacy_masks = [[[0, 0], [0.5, 0]]]\n",
            "agent.toml:3:1: cameras.door.privacy_masks: found an array, expected at most 32 polygons, each"
            ' of 3 to 64 points x,y from 0 to 1 (in the file [[[0, 0], [0.5, 0], [0.5, 1]]], typed "0,0 0.5,0'
            ' 0.5,1")',
        ),
        (
            "[gateway]\nspool_mb = 0\n",
            "agent.toml:2:1: gateway.spool_mb: found 0, expected a whole number from 1 to 100000",
        ),
        ("[cameras.door]\nfps = 5\n", "agent.toml:1:1: cameras.door: url is missing"),
        ("[cameras]\ndoor = 5\n", "agent.toml:2:1: cameras.door: found 5, expected a table"),
        ("cameras = []\n", "agent.toml:1:1: cameras: found an array, expected a table"),
        (
            '[cameras."the door"]\nurl = "rtsp://h"\n',
            'agent.toml:1:1: a camera\'s name: found "the door", expected 1 to 64 letters,'
            " digits, '.', '_' and '-', the first a letter or digit",
        ),
        ("[sever]\n", 'agent.toml:1:1: unknown table "sever"; did you mean server?'),
        ("verbose = true\n", 'agent.toml:1:1: unknown table "verbose"; known: server, gateway, cameras'),
        ("[server]\ntls = true\n", "agent.toml:1:1: server: address is missing"),
        (
            '[server]\naddress = "192.0.2.1"\n',
            'agent.toml:2:1: server.address: found "192.0.2.1": the port is missing; expected HOST:PORT,'
            " like 192.0.2.1:50051 or [::1]:50051",
        ),
        ("[server]\naddress = 5\n", "agent.toml:2:1: server.address: found 5, expected text: HOST:PORT"),
        (
            '[server]\naddress = "192.0.2.1:50051"\n',
            "agent.toml:1:1: server: 192.0.2.1:50051 is not loopback: give --ca FILE, --tls or --insecure",
        ),
        (
            "[cameras.door]\nurl = 5\n",
            "agent.toml:2:1: cameras.door.url: expected text: a URL, or the path of a device or file",
        ),
        (
            '[cameras.door]\nurl = "rtmp://h/s"\n',
            "agent.toml:2:1: cameras.door.url: unknown scheme rtmp://: expected rtsp://, rtsps://, http://, https://,"
            " v4l2://, file:// or the path of a device or file",
        ),
        (
            '[cameras.door]\nurl = "rtsp:///s"\n',
            "agent.toml:2:1: cameras.door.url: URL without host: expected rtsp://[USER:PASSWORD@]HOST[:PORT][/PATH]",
        ),
        (
            '[cameras.door]\nurl = "/clip.mp4"\nuser = "a"\n',
            "agent.toml:3:1: cameras.door.user: a device or a file has no user",
        ),
        # Other spellings of the same tables.
        (
            'cameras.door.url = "rtsp://h"\ncameras.door.fps = 0\n',
            "agent.toml:2:1: cameras.door.fps: found 0, expected a number from 0.1 to 60",
        ),
        (
            '[cameras]\ndoor = { url = "rtsp://h", fps = 0 }\n',
            "agent.toml:2:1: cameras.door.fps: found 0, expected a number from 0.1 to 60",
        ),
        (
            DOOR + 'labels = [\n  "person",\n  "car",\n]\nfps = 0\n',
            "agent.toml:7:1: cameras.door.fps: found 0, expected a number from 0.1 to 60",
        ),
        (
            '[cameras."a.b"]\nurl = "rtsp://h"\n"fps" = 0\n',
            'agent.toml:3:1: cameras."a.b".fps: found 0, expected a number from 0.1 to 60',
        ),
    ],
)
def test_errors_in_values_have_line_and_column(path: Path, text: str, expected: str) -> None:
    """Where it is, what was found, what was expected, in one line."""
    assert error_of(path, text) == expected


@pytest.mark.parametrize(
    "url",
    [
        "rtsp://admin:hunter2@10.0.0.5/s",
        "rtsp://admin:hunter2/x@10.0.0.5/s",
        "rtsp://hunter2@10.0.0.5/s",
        "rtsp://10.0.0.5:hunter2",
    ],
)
def test_an_error_about_a_url_does_not_show_what_may_be_a_password(path: Path, url: str) -> None:
    """A password has no place in the configuration, and none in the error about it."""
    message = error_of(path, f'[cameras.door]\nurl = "{url}"\n')

    assert message.startswith("agent.toml:2:1: cameras.door.url: ")
    assert "hunter2" not in message


def test_bytes_that_are_not_text_are_refused_with_their_place(path: Path) -> None:
    """UTF-8 is what TOML is written in."""
    path.write_bytes(b"# a\n# \xff\n")

    with pytest.raises(ConfigError, match=r"agent\.toml:2:3: found a byte that is not UTF-8 text"):
        load(path)


def test_a_file_that_cannot_be_a_configuration_is_refused(path: Path) -> None:
    """A directory, a file beyond all measure, a nesting beyond all measure: one line each."""
    path.mkdir()
    with pytest.raises(ConfigError, match=r"agent\.toml: cannot be read: Is a directory"):
        load(path)
    path.rmdir()
    path.write_text("#" * (4 * 1024 * 1024 + 1))
    with pytest.raises(ConfigError, match=r"agent\.toml: larger than 4194304 bytes"):
        load(path)
    assert "nested too deeply" in error_of(path, "a = " + "[" * 100_000)


def test_the_default_file_is_the_users_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Root's is the system's; another user's follows XDG, which ignores a relative directory."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert default_path() == Path("/etc/camera-ai/agent.toml")

    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    assert default_path() == tmp_path / "xdg/camera-ai/agent.toml"
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    assert default_path() == tmp_path / ".config/camera-ai/agent.toml"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    assert default_path() == tmp_path / ".config/camera-ai/agent.toml"
