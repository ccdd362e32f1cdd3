"""A disk that neither works nor fails: told by the spool, for the disk says nothing."""

import os
from pathlib import Path

from edge_agent.spool import spool
from tests.edge_agent.spool.spools import opened, record
from tests.polling import wait_until


def test_a_disk_that_does_not_answer_is_told(tmp_path: Path, monkeypatch) -> None:
    """A pipe, whose opening waits for its other end: records are taken, and it is said where they lie."""
    monkeypatch.setattr(spool, "SILENT_DISK_S", 0.3)
    path = tmp_path / "spool.db"
    os.mkfifo(path)
    with opened(path) as opening:
        opening.put(record(1))
        wait_until(lambda: "the disk has not answered for" in opening.status().trouble, "it is told")
        assert opening.status().in_memory == 1
        # The opening returns; what is there is no spool, and stays trouble of another kind.
        other_end = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        wait_until(lambda: "not answered" not in opening.status().trouble, "it has answered")
        path.unlink()
        os.close(other_end)
        wait_until(lambda: not opening.status().in_memory, "it is written")
        assert not opening.status().trouble
