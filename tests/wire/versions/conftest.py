"""Every contract that was ever released, one after the other."""

import pytest

from tests.wire.versions.contract import RELEASED, Contract


@pytest.fixture(params=RELEASED)
def contract(request: pytest.FixtureRequest) -> Contract:
    """Give the messages of a released version."""
    return Contract.released(request.param)
