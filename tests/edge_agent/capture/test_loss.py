"""What FFmpeg logs: read for losses, and shown nowhere."""

import logging
import threading

import av
import pytest

from edge_agent.capture.loss import LossLog


def test_losses_are_heard_once() -> None:
    """A line about missing packets is one loss; other lines are none; each is heard once."""
    with LossLog() as losses:
        av.logging.log(av.logging.WARNING, "rtsp", "max delay reached. need to consume packet\n")
        assert not losses.any_since_last_asked()
        av.logging.log(av.logging.WARNING, "rtsp", "RTP: missed 3 packets\n")
        av.logging.log(av.logging.WARNING, "rtsp", "RTP: missed 3 packets\n")
        assert losses.any_since_last_asked()
        assert not losses.any_since_last_asked()


def test_losses_of_other_threads_are_not() -> None:
    """Each camera hears of its own."""
    with LossLog() as losses:
        other = threading.Thread(
            target=av.logging.log, args=(av.logging.WARNING, "rtsp", "RTP: missed 3 packets\n")
        )
        other.start()
        other.join()

        assert not losses.any_since_last_asked()


def test_nothing_of_it_is_shown(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    """FFmpeg's lines may hold a URL with its password: with or without a listener they end here."""
    caplog.set_level(logging.DEBUG)
    for level in (av.logging.FATAL, av.logging.ERROR, av.logging.WARNING):
        av.logging.log(level, "rtsp", "rtsp://user:secret@camera/")
        with LossLog():
            av.logging.log(level, "rtsp", "rtsp://user:secret@camera/")
    captured = capfd.readouterr()

    assert "secret" not in caplog.text + captured.out + captured.err
