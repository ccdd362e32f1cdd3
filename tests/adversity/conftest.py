"""The fixture `networks`: two networks, and what may go wrong between them."""

import os
import shutil
from collections.abc import Iterator

import pytest

from tests.networks import Networks, joined_networks

TOOLS = ("ip", "tc", "nft", "unshare", "nsenter")


@pytest.fixture
def networks() -> Iterator[Networks]:
    """Give the two networks, joined by a line that carries everything."""
    if os.geteuid() != 0:
        pytest.skip("only root can make network namespaces")
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
        pytest.skip(f"not installed: {', '.join(missing)}")
    with joined_networks() as networks:
        yield networks
