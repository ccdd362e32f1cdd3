"""Camera URLs: credentials in every form, hosts, schemes, and what is refused."""

import re
import string
from urllib.parse import quote, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_agent.config import CameraConfig
from edge_agent.config.source_url import (
    parse_source,
    redacted,
    source_kind,
    source_path,
    source_url,
)

SPECIAL = "@:/?#%^!"
HOSTS = st.sampled_from(
    ["10.0.0.5", "10.0.0.5:8554", "cam", "cam.example.org:554", "[fe80::1]", "[::1]:8554"]
)
PATHS = st.sampled_from(["", "/", "/stream1", "/live?channel=1&subtype=0", "/a%20b#part", "/user%40home"])
# No hexadecimal digit, so that no '%' begins what could be percent-encoding.
RAW_PASSWORDS = st.text(SPECIAL + "xyzXYZ~$&+,;=\"'`{}|\\<> é€", min_size=1, max_size=20)
PRINTABLE = string.digits + string.ascii_letters + string.punctuation + " é€中\N{GRINNING FACE}\u2028"
ANY_PASSWORDS = st.text(PRINTABLE, max_size=30)
USERS = st.text(PRINTABLE, min_size=1, max_size=10)


@given(password=RAW_PASSWORDS, host=HOSTS)
def test_a_raw_password_is_taken_as_it_is(password: str, host: str) -> None:
    """Whatever stands between the first colon and the last @ before the host is the password."""
    source = parse_source(f"rtsp://admin:{password}@{host}/stream1?channel=2")

    assert (source.user, source.password) == ("admin", password)
    assert source.url == f"rtsp://{host}/stream1?channel=2"


@pytest.mark.parametrize("character", SPECIAL)
@pytest.mark.parametrize("template", ["{}", "{}a", "a{}", "a{}z", "{0}{0}", "1{}2", "pass{}word{}"])
@pytest.mark.parametrize("host", ["192.0.2.7", "192.0.2.7:554", "camera", "[2001:db8::7]:554"])
def test_every_special_character_works_raw_at_every_place(character: str, template: str, host: str) -> None:
    """One special character at the start, the end or inside, twice, or after a digit."""
    password = template.format(character, character)

    source = parse_source(f"rtsp://admin:{password}@{host}/live")

    assert (source.url, source.user, source.password) == (f"rtsp://{host}/live", "admin", password)


@given(user=USERS, password=ANY_PASSWORDS, host=HOSTS, path=PATHS)
def test_an_encoded_password_is_decoded_once(user: str, password: str, host: str, path: str) -> None:
    """Percent-encoded credentials come back whatever they are, and whatever the path holds."""
    source = parse_source(f"rtsp://{quote(user, safe='')}:{quote(password, safe='')}@{host}{path}")

    assert (source.user, source.password) == (user, password)
    assert source.url == f"rtsp://{host}{path}"


@given(user=USERS, password=ANY_PASSWORDS, host=HOSTS, path=PATHS)
def test_the_url_for_capture_means_the_same_to_the_standard_library(
    user: str, password: str, host: str, path: str
) -> None:
    """source_url() encodes such that a strict parser finds user, password, host and path again."""
    camera = CameraConfig(name="door", url=f"rtsp://{host}{path}", user=user)

    split = urlsplit(source_url(camera, password))

    assert unquote(split.username or "") == user
    assert unquote(split.password or "") == password
    assert split.netloc.rpartition("@")[2] == host


@pytest.mark.parametrize(
    ("typed", "url", "user", "password"),
    [
        # A person's own spellings.
        ("rtsp://10.0.0.5/s", "rtsp://10.0.0.5/s", None, None),
        ("RTSP://10.0.0.5/s", "rtsp://10.0.0.5/s", None, None),
        ("rtsp://admin@10.0.0.5/s", "rtsp://10.0.0.5/s", "admin", None),
        ("rtsp://admin:@10.0.0.5/s", "rtsp://10.0.0.5/s", "admin", ""),
        ("rtsp://a@b.org:pw@10.0.0.5/s", "rtsp://10.0.0.5/s", "a@b.org", "pw"),
        ("https://u:p@cam.example.org/mjpg", "https://cam.example.org/mjpg", "u", "p"),
        # Percent signs: an escape is decoded once, any other stands for itself.
        ("rtsp://u:100%@h/s", "rtsp://h/s", "u", "100%"),
        ("rtsp://u:%zz%4@h/s", "rtsp://h/s", "u", "%zz%4"),
        ("rtsp://u:p%40ss@h/s", "rtsp://h/s", "u", "p@ss"),
        ("rtsp://u:p%2540ss@h/s", "rtsp://h/s", "u", "p%40ss"),
        ("rtsp://u:100%25@h/s", "rtsp://h/s", "u", "100%"),
        ("rtsp://u:%E2%82%AC@h/s", "rtsp://h/s", "u", "€"),
        ("rtsp://u:%ff@h/s", "rtsp://h/s", "u", "%ff"),
        ("rtsp://u:p%40s@s@h/s", "rtsp://h/s", "u", "p@s@s"),
        # An @ in the path stays there where the standard's host is surely one.
        ("rtsp://10.0.0.5/user@home", "rtsp://10.0.0.5/user@home", None, None),
        ("rtsp://10.0.0.5:554/live@main", "rtsp://10.0.0.5:554/live@main", None, None),
        ("rtsp://cam.org:554/live@main", "rtsp://cam.org:554/live@main", None, None),
        ("rtsp://localhost:554/live@main", "rtsp://localhost:554/live@main", None, None),
        ("rtsp://[::1]:554/live@main", "rtsp://[::1]:554/live@main", None, None),
        ("rtsp://cam/live@main", "rtsp://cam/live@main", None, None),
        ("rtsp://u:p@10.0.0.5/s?to=a@b.org", "rtsp://10.0.0.5/s?to=a@b.org", "u", "p"),
        ("rtsp://u:p@cam.org:554/s?to=a@b.org", "rtsp://cam.org:554/s?to=a@b.org", "u", "p"),
        ("rtsp://u:p@cam/s?to=a@&x", "rtsp://cam/s?to=a@&x", "u", "p"),
        # … and is read as the end of a raw password where it is not; %40 says which.
        ("rtsp://u:p@ss/word@10.0.0.5/s", "rtsp://10.0.0.5/s", "u", "p@ss/word"),
        ("rtsp://u:12/34@10.0.0.5/s", "rtsp://10.0.0.5/s", "u", "12/34"),
        ("rtsp://u:p@cam/s?to=a%40b.org", "rtsp://cam/s?to=a%40b.org", "u", "p"),
    ],
)
def test_forms_of_urls(typed: str, url: str, user: str | None, password: str | None) -> None:
    """Each spelling comes apart as a person would have meant it."""
    source = parse_source(typed)

    assert (source.url, source.user, source.password) == (url, user, password)


@pytest.mark.parametrize(
    ("typed", "problem"),
    [
        ("rtsp://", "URL without host"),
        ("rtsp:///stream", "URL without host"),
        ("rtsp://:554/stream", "URL without host"),
        ("rtsp://admin:hunter2@/stream", "URL without host"),
        ("rtsp://admin:hunter2@", "URL without host"),
        ("http://?x=1", "URL without host"),
        ("rtsp://:hunter2@host/s", "no user"),
        ("rtsp://host:0/s", "port"),
        ("rtsp://host:65536/s", "port"),
        ("rtsp://host:/s", "port"),
        ("rtsp://host:port/s", "port"),
        ("rtsp://host:\uff11\uff12/s", "port"),
        ("rtsp://admin:hunter2", "port"),
        ("rtsp://admin:hunter2@host:99999/s", "port"),
        ("rtsp://admin:hun@ter2/x@host:99999/s", "port"),
        ("rtsp://fe80::1/s", "brackets"),
        ("rtsp://[::1/s", "brackets"),
        ("rtsp://[::1]x/s", "brackets"),
        ("rtsp://[hunter2]/s", "IPv6"),
        ("rtsp://300.1.1.1/s", "IPv4"),
        ("rtsp://1.2.3/s", "IPv4"),
        ("rtsp://a b/s", "host"),
        ("rtsp://-cam/s", "host"),
        ("rtsp://cam..org/s", "host"),
        ("rtsp://host/a b", "space"),
        ("rtsp://host/a\r\nTEARDOWN", "control character"),
        ("rtsp://admin:hun%0d%0ater2@host/s", "control character"),
        ("rtsp://host/" + "a" * 5000, "4096"),
        ("rtmp://host/s", "unknown scheme rtmp://: expected rtsp://, rtsps://, http://, https://"),
        ("admin:hunter2@rtsp://host", "unknown scheme: expected"),
        ("file://host/clip.mp4", "absolute path"),
        ("v4l2://video0", "absolute path"),
        ("", "empty"),
    ],
)
def test_what_cannot_be_a_source_is_refused_by_name(typed: str, problem: str) -> None:
    """The error says what is wrong, and never repeats what may be a password."""
    with pytest.raises(ValueError, match=re.escape(problem)) as caught:
        parse_source(typed)

    assert "hunter2" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_credentials_can_be_forbidden() -> None:
    """Where user and password come from elsewhere, the URL is read by the standard alone."""
    assert parse_source("rtsp://cam:554/live@main", credentials=False).url == "rtsp://cam:554/live@main"
    with pytest.raises(ValueError, match="holds a user or password"):
        parse_source("rtsp://admin:hunter2@cam/s", credentials=False)


@pytest.mark.parametrize(
    ("url", "kind", "opened"),
    [
        ("rtsp://h/s", "rtsp", "rtsp://h/s"),
        ("rtsps://h/s", "rtsp", "rtsps://h/s"),
        ("http://h/s", "http", "http://h/s"),
        ("https://h/s", "http", "https://h/s"),
        ("/dev/video0", "device", "/dev/video0"),
        ("/dev/v4l/by-id/usb-cam", "device", "/dev/v4l/by-id/usb-cam"),
        ("v4l2:///dev/video2", "device", "/dev/video2"),
        ("/var/clips/walk.mp4", "file", "/var/clips/walk.mp4"),
        ("/var/clips/100%41.mp4", "file", "/var/clips/100%41.mp4"),
        ("file:///var/my%20clips/walk.mp4", "file", "/var/my clips/walk.mp4"),
    ],
)
def test_kinds_of_sources(url: str, kind: str, opened: str) -> None:
    """Each known form has its kind and the name under which it is opened."""
    assert parse_source(url).url == url
    assert source_kind(url) == kind
    assert source_url(CameraConfig(name="c", url=url), None) == opened
    if kind in ("device", "file"):
        assert source_path(url) == opened


def test_what_people_read_shows_no_password() -> None:
    """The redacted form shows the user, and that there is a password; a source's repr leaves it out."""
    camera = CameraConfig(name="door", url="rtsp://h/s", user="a b")

    assert redacted(camera, "hunter2") == "rtsp://a%20b:***@h/s"
    assert redacted(camera) == "rtsp://a%20b@h/s"
    assert redacted(CameraConfig(name="door", url="rtsp://h/s")) == "rtsp://h/s"
    assert "hunter2" not in repr(parse_source("rtsp://a:hunter2@h/s"))
