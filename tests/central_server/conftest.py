"""Fixtures for the central server's own tests."""

from tests.cython_ext.conftest import longest_stall

__all__ = ["longest_stall"]
