"""Whether RTP packets were lost: FFmpeg says so only in its log."""

import logging
from typing import Self

import av

# FFmpeg's log names URLs, passwords included: it is read here and shown nowhere.
logging.getLogger("libav").setLevel(logging.CRITICAL + 1)
av.logging.set_level(av.logging.WARNING)
av.logging.set_skip_repeated(False)

LOSS = "RTP: missed"


class LossLog:
    """Listens, while entered, to what FFmpeg logs in this thread."""

    def __enter__(self) -> Self:
        self._capture = av.logging.Capture(local=True)
        self._lines = self._capture.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._capture.__exit__(None, None, None)

    def any_since_last_asked(self) -> bool:
        """Tell whether packets were missing since the last call."""
        if not self._lines:  # asked for every packet
            return False
        lost = any(text.startswith(LOSS) for _, _, text in self._lines)
        self._lines.clear()
        return lost
