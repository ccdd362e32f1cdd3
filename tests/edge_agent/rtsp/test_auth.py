"""Who is let in to watch a camera."""

import urllib.request
from pathlib import Path

import av
import pytest

from edge_agent.rtsp.auth import Credentials, Gate, Scheme
from edge_agent.rtsp.camera import DemoCamera
from tests.edge_agent.rtsp.viewers import HandViewer, watch_in_thread, with_credentials

HARD_PASSWORDS = ["a@b", "a:b", "a/b", "a?b", "a#b", "a%41b", "a^b", "a!b", "@:/?#%^!", "na\u00efve pass"]


@pytest.mark.parametrize("password", HARD_PASSWORDS)
@pytest.mark.parametrize("scheme", ["basic", "digest"])
async def test_a_hard_password_lets_in(h264_clip: Path, scheme: Scheme, password: str) -> None:
    """Percent-encoded once in the URL it arrives as it is, and a picture comes."""
    credentials = Credentials(user="viewer", password=password, scheme=scheme)
    async with DemoCamera(h264_clip, credentials=credentials) as camera:
        assert len(await watch_in_thread(with_credentials(camera.url, credentials), 1)) == 1

    assert camera.counts.refused == 0


@pytest.mark.parametrize("scheme", ["basic", "digest"])
async def test_a_wrong_password_is_refused_and_never_told(
    h264_clip: Path, scheme: Scheme, caplog: pytest.LogCaptureFixture
) -> None:
    """The viewer gets 401, the camera counts it, and neither password is in the log."""
    caplog.set_level("DEBUG")
    credentials = Credentials(user="viewer", password="the-right-one", scheme=scheme)
    wrong = Credentials(user="viewer", password="the-wrong-one", scheme=scheme)
    async with DemoCamera(h264_clip, credentials=credentials) as camera:
        with pytest.raises(av.error.HTTPUnauthorizedError):
            await watch_in_thread(with_credentials(camera.url, wrong), 1)

    assert camera.counts.refused >= 1
    assert "refused" in caplog.text
    assert "right-one" not in caplog.text + repr(credentials)
    assert "wrong-one" not in caplog.text


@pytest.mark.parametrize("scheme", ["basic", "digest"])
async def test_without_credentials_the_camera_says_what_it_wants(h264_clip: Path, scheme: Scheme) -> None:
    """OPTIONS is free; anything more is answered with the challenge."""
    credentials = Credentials(user="viewer", password="secret", scheme=scheme)
    async with DemoCamera(h264_clip, credentials=credentials) as camera, HandViewer(camera.url) as viewer:
        assert (await viewer.ask("OPTIONS")).status == 200
        for method in ("DESCRIBE", "SETUP", "PLAY", "GET_PARAMETER"):
            answer = await viewer.ask(method)
            assert answer.status == 401
            assert answer.headers["www-authenticate"].lower().startswith(f'{scheme} realm="camera"')
    assert camera.counts.refused == 0


class _Answerer(urllib.request.AbstractDigestAuthHandler):
    """The standard library's Digest: a second opinion on what the right answer is."""

    def authorization(self, challenge: str, method: str, uri: str, user: str, password: str) -> str:
        self.add_password("camera", "http://camera", user, password)
        fields = urllib.request.parse_keqv_list(urllib.request.parse_http_list(challenge.partition(" ")[2]))
        request = urllib.request.Request(f"http://camera{uri}", method=method)
        return f"Digest {self.get_authorization(request, fields)}"


@pytest.mark.parametrize("qop", [False, True])
def test_digest_agrees_with_the_standard_library(qop: bool) -> None:
    """With and without quality of protection; for the same method, URI and nonce only."""
    credentials = Credentials(user="vi,ew er", password='p"w,1', qop=qop)
    gate = Gate(credentials)
    answer = _Answerer().authorization(gate.challenge, "DESCRIBE", "/live", "vi,ew er", 'p"w,1')

    assert gate.opens(answer, "DESCRIBE", "/live")
    assert not gate.opens(answer, "SETUP", "/live")
    assert not gate.opens(answer, "DESCRIBE", "/live2")
    assert not Gate(credentials).opens(answer, "DESCRIBE", "/live")


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Basic",
        "Basic !!!",
        "Basic bm8=",
        "Digest",
        "Digest x",
        'Digest username="viewer"',
        "Bearer abc",
        "Digest ,,=,",
    ],
)
@pytest.mark.parametrize("scheme", ["basic", "digest"])
def test_a_malformed_header_opens_nothing(scheme: Scheme, header: str) -> None:
    """Whatever it is, it is a refusal and not an error."""
    assert not Gate(Credentials(user="viewer", password="secret", scheme=scheme)).opens(
        header, "PLAY", "/live"
    )
