"""import-cameras: a table of cameras, all of them or none."""

from pathlib import Path

import pytest

from edge_agent.config import CameraConfig
from edge_agent.config.file import load
from edge_agent.config.secrets import Secrets
from tests.edge_agent.conftest import RunAgent

TABLE = """\
name,url,user,password,fps,max-width,label,loop,transport,enabled
door,rtsp://10.0.0.5/s,viewer,"p@:/?#%^!,""w",5,640,person; car,,udp,
yard,rtsp://u:raw@/pw@10.0.0.6/s,,,,,,,,no

hall,rtsp://u:p%40ss@10.0.0.7/s,,,2.5,,,no,tcp,yes
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "cameras.csv"
    path.write_text(TABLE)
    return path


def test_a_table_of_cameras_is_added(run_agent: RunAgent, config_path: Path, table: Path) -> None:
    """Each row is a camera, in order; empty cells leave defaults; passwords go to their own file."""
    done = run_agent("import-cameras", str(table))

    assert (done.code, done.out, done.err) == (0, "added 3 cameras\n", "")
    assert list(load(config_path).cameras.values()) == [
        CameraConfig(
            name="door",
            url="rtsp://10.0.0.5/s",
            user="viewer",
            fps=5.0,
            max_width=640,
            labels=("person", "car"),
            transport="udp",
        ),
        CameraConfig(name="yard", url="rtsp://10.0.0.6/s", user="u", enabled=False),
        CameraConfig(name="hall", url="rtsp://10.0.0.7/s", user="u", fps=2.5),
    ]
    secrets = Secrets.load(config_path)
    assert [secrets.password(name) for name in ("door", "yard", "hall")] == [
        'p@:/?#%^!,"w',
        "raw@/pw",
        "p@ss",
    ]


def test_a_spreadsheets_table_is_read(run_agent: RunAgent, config_path: Path, table: Path) -> None:
    """With a byte order mark, CRLF, capitals and spaces in the first line."""
    table.write_bytes(b"\xef\xbb\xbfName, URL ,JPEG-Quality\r\ndoor,rtsp://h/s, 70\r\n")

    assert run_agent("import-cameras", str(table)).code == 0
    assert load(config_path).cameras == {"door": CameraConfig(name="door", url="rtsp://h/s", jpeg_quality=70)}


def test_a_dry_run_changes_nothing(run_agent: RunAgent, config_path: Path, table: Path) -> None:
    """Everything is checked, nothing is made."""
    done = run_agent("import-cameras", "--dry-run", str(table))

    assert (done.code, done.out) == (0, "3 cameras could be added\n")
    assert not config_path.parent.exists()


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_every_bad_row_is_said_and_nothing_is_added(
    run_agent: RunAgent, config_path: Path, table: Path, options: tuple[str, ...]
) -> None:
    """One line for each, with file and line; a single bad one is enough to change nothing."""
    run_agent("add-camera", "taken", "rtsp://h/s")
    before = config_path.read_bytes()
    table.write_text(
        "name,url,user,password,fps,transport\n"  # 1
        "good,rtsp://10.0.0.5/s,,,5,\n"
        "a b,rtsp://10.0.0.5/s,,,,\n"  # 3
        "b,rtsp:///s,,,,\n"
        "c,rtsp://10.0.0.5/s,,,fast,\n"
        'd,"rtsp://10.0.0.5/s",u,"two\nlines",,\n'  # 6 and 7
        "good,rtsp://10.0.0.6/s,,,,\n"  # 8
        "taken,rtsp://10.0.0.6/s,,,,\n"
        "e,rtsp://10.0.0.5/s,,hunter2,,\n"  # 10
        "f,,,,,\n"
        ",rtsp://10.0.0.5/s,,,,\n"
        "g,rtsp://10.0.0.5/s,,,,tcp,7,8\n"  # 13
        "h,rtsp://10.0.0.5/s,,,,TCP\n"
        "i,rtsp://u:hunter2@10.0.0.5/s,,hunter3,,\n"
        "j,nowhere.mp4,,,,\n"  # 16
    )

    done = run_agent("import-cameras", str(table), *options)

    assert (done.code, done.out) == (1, "")
    assert done.err.replace(f"edge-agent: {table}:", "") == (
        '3: name: found "a b", expected 1 to 64 letters, digits, '
        "'.', '_' and '-', the first a letter or digit\n"
        "4: URL: URL without host: expected rtsp://[USER:PASSWORD@]HOST[:PORT][/PATH]\n"
        '5: fps: found "fast", expected a number from 0.1 to 60\n'
        "6: the password is to be one line of at most 1024 characters\n"
        "8: name: good is used in line 2 already\n"
        "9: name: there is a camera taken already\n"
        "10: a password needs a user: give --user\n"
        "11: url: missing\n"
        "12: name: missing\n"
        "13: found 8 cells, expected at most 6\n"
        '14: transport: found "TCP", expected "tcp" or "udp"\n'
        "15: password: given twice, in the URL as well\n"
        "16: URL: there is no such file; a URL begins with rtsp://, rtsps://, http:// or https://\n"
        "edge-agent: nothing was added\n"
    )
    assert config_path.read_bytes() == before


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", ": empty, expected a first line with the columns name and url"),
        ("\n\n", ": empty, expected a first line with the columns name and url"),
        ("name,fps\n", ":1: the column url is missing"),
        ("url\n", ":1: the column name is missing"),
        ("\nname,url,fpz\n", ':2: unknown column "fpz"; did you mean fps?'),
        ("name;url\n", ':1: unknown column "name;url"'),
        ("name,url,label,labels\n", ":1: the column labels is there twice"),
        ('name,url\ndoor,"rtsp://h/s\n', ": not CSV: unexpected end of data"),
        (b"name,url\n\xff,x\n", ":2:1: found a byte that is not UTF-8 text"),
        (None, ": there is no such file"),
    ],
)
def test_a_table_that_cannot_be_read_is_one_clear_line(
    run_agent: RunAgent, config_path: Path, table: Path, content: str | bytes | None, problem: str
) -> None:
    """What is wrong, and in which line."""
    table.unlink()
    if content is not None:
        table.write_bytes(content.encode() if isinstance(content, str) else content)

    done = run_agent("import-cameras", str(table))

    assert done.code == 1
    assert done.err.startswith(f"edge-agent: {table}{problem}")
    assert len(done.err.splitlines()) == 1
    assert not config_path.parent.exists()


def test_a_large_table_is_added_at_once(run_agent: RunAgent, config_path: Path, table: Path) -> None:
    """A thousand cameras are one change of the files."""
    table.write_text(
        "name,url\n" + "".join(f"c{n},rtsp://u:p{n}@10.0.{n // 250}.{n % 250}/s\n" for n in range(1000))
    )

    assert run_agent("import-cameras", str(table)).out == "added 1000 cameras\n"
    assert len(load(config_path).cameras) == 1000
    assert Secrets.load(config_path).password("c999") == "p999"
