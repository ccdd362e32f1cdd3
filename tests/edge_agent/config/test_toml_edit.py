"""Changing the text of a configuration: comments and order kept, odd spellings right or refused."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_agent.config.toml_edit import with_tables, with_values, without_table
from edge_agent.errors import ConfigError
from tests.edge_agent.config.written import NAMES, TEXTS, WRITTEN


def test_a_camera_is_added_after_everything_else() -> None:
    """What was there stays byte for byte; the new table follows it."""
    text = with_tables(
        WRITTEN, ("cameras",), {"hall": {"url": "rtsp://10.0.0.7/s", "fps": 2.0, "min_score": 0.25}}
    )

    assert text == WRITTEN + '\n[cameras.hall]\nurl = "rtsp://10.0.0.7/s"\nfps = 2\nmin_score = 0.25\n'


def test_a_key_is_changed_where_it_stands() -> None:
    """Spelling, comments and order around a value stay."""
    text = with_values(WRITTEN, ("cameras", "door"), {"url": "rtsp://10.0.0.9/s"})

    assert text == WRITTEN.replace(
        'url   = "rtsp://10.0.0.5/s"   # the', 'url   = "rtsp://10.0.0.9/s"   # the'
    )


def test_a_new_key_stands_among_its_tables_keys() -> None:
    """The comment above the next table stays with the next table."""
    text = with_values(WRITTEN, ("cameras", "door"), {"loop": True})

    assert text == WRITTEN.replace("fps = 5\n", "fps = 5\nloop = true\n")


def test_a_key_is_taken_away_alone() -> None:
    """Its line goes, and nothing else."""
    assert with_values(WRITTEN, ("cameras", "door"), {}, ["fps"]) == WRITTEN.replace("fps = 5\n", "")


def test_a_camera_is_taken_away_with_its_own_comments_only() -> None:
    """The comments that follow its last key speak of what follows, and stay."""
    text = without_table(WRITTEN, ("cameras", "door"))

    assert (
        text
        == """\
# The hall's gateway.

[server]
address = "127.0.0.1:50051"  # the box in the cellar

# Front door, since 2021.

# The yard, where the cars are.
[cameras.yard]
url = 'rtsp://10.0.0.6/s'
labels = [
  "car",     # ours
  "person",
]
# the end
"""
    )


def test_the_last_table_goes_and_leaves_no_blank_lines() -> None:
    """Adding and removing again is no change."""
    added = with_tables(WRITTEN, ("cameras",), {"hall": {"url": "rtsp://h"}})

    assert without_table(added, ("cameras", "hall")) == WRITTEN


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# only a comment",
        "cameras = {}\n",
        'cameras = { a = { url = "x" } }\n',
        '[cameras]\na = { url = "x" }  # a\n',
        '[cameras]\na.url = "x"\n',
        '[cameras.a]\nurl = "x"\n\n[server]\naddress = "y"\n\n[cameras.b]\nurl = "z"\n',
        '[cameras]\n\n[cameras.a]\nurl = "x"\n',
        '[cameras."a"]\r\nurl = "x" # a\r\n\r\n# b\r\n[server]\r\naddress = "y"\r\n',
        '[server]\naddress = """\n[cameras.a]\n"""\n\n[cameras.a]\nurl = "x"\n',
    ],
)
def test_every_spelling_of_tables_is_changed_rightly(text: str) -> None:
    """Whatever the form, the parser finds exactly what was asked for."""
    before = tomllib.loads(text)
    cameras = before.get("cameras", {})

    added = with_tables(text, ("cameras",), {"n.w": {"url": "new", "labels": ("p", "q")}})
    changed = with_values(added, ("cameras", "n.w"), {"url": "newer"}, ["labels"])
    gone = without_table(changed, ("cameras", "n.w"))

    assert tomllib.loads(added)["cameras"] == {**cameras, "n.w": {"url": "new", "labels": ["p", "q"]}}
    assert tomllib.loads(changed)["cameras"] == {**cameras, "n.w": {"url": "newer"}}
    assert tomllib.loads(gone).get("cameras", {}) == cameras
    for step in (added, changed, gone):
        assert tomllib.loads(step).get("server") == before.get("server")


def test_a_spelling_too_odd_for_a_safe_change_is_refused() -> None:
    """Where the result would not be what was asked for, a person is asked to do it."""
    mixed = 'cameras.a.url = "x"\n\n[cameras.b]\nurl = "y"\n'
    with pytest.raises(ConfigError, match="change it in an editor"):
        without_table(mixed, ("cameras", "a"))
    misleading = '[server]\naddress = """\n[cameras.a]\n"""\n\n[cameras.a]\nurl = "x"\n'
    with pytest.raises(ConfigError, match="change it in an editor"):
        without_table(misleading, ("cameras", "a"))


KEYS = st.text("abcXYZ019_-", min_size=1, max_size=5)
VALUES = (
    TEXTS
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False)
    | st.lists(TEXTS, max_size=3)
)
TABLES = st.dictionaries(KEYS, VALUES, max_size=4)


@given(cameras=st.dictionaries(NAMES, TABLES, min_size=1, max_size=4), change=TABLES, data=st.data())
def test_any_values_survive_any_order_of_changes(
    cameras: dict[str, dict[str, object]], change: dict[str, object], data: st.DataObject
) -> None:
    """Added, changed and removed tables read back as they were meant, beside comments that stay."""
    text = with_tables("# head\n", ("cameras",), cameras)
    name = data.draw(st.sampled_from(sorted(cameras)))
    text = with_values(text, ("cameras", name), change)
    assert tomllib.loads(text)["cameras"] == {**cameras, name: {**cameras[name], **change}}

    for gone in data.draw(st.permutations(sorted(cameras))):
        text = without_table(text, ("cameras", gone))
    assert tomllib.loads(text).get("cameras", {}) == {}
    assert text.startswith("# head\n")
