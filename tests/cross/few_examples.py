"""A plugin for tests that an emulator runs: of generated examples a few, whatever the test asks for."""

import os

import pytest
from hypothesis import HealthCheck, settings

EXAMPLES = int(os.environ.get("EXAMPLES", "8"))
# Where Hypothesis keeps a test's own settings.
OWN = "_hypothesis_internal_use_settings"

settings.register_profile(
    "few", max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)


def pytest_configure() -> None:
    """Come after the profile of tests/conftest.py."""
    settings.load_profile("few")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Limit the tests that ask for more."""
    for item in items:
        test = getattr(item, "obj", None)
        own = getattr(test, OWN, None)
        if own is not None and own.max_examples > EXAMPLES:
            setattr(test, OWN, settings(own, max_examples=EXAMPLES))
