"""Fixtures of tests of stores."""

from tests.conformance.stores import calls, clock, make

__all__ = ["calls", "clock", "make"]
