"""Skips tests that need the shared traces where there are none; no test fails for a slow machine."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

from places import SHARED

# Hypothesis takes an example of more than 0.2 s for a failure, which a machine with other work does not mean. A run of the same
# commit tries the same examples, so that a change is what breaks it; with LANEWISE_EXPLORE=1 each run tries new ones.
settings.register_profile("any-machine", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
settings.load_profile("explore" if os.environ.get("LANEWISE_EXPLORE") else "any-machine")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if (SHARED / "traces").is_dir():
        return
    skip = pytest.mark.skip(reason=f"no shared traces in {SHARED} (set LANEWISE_SHARED)")
    for item in items:
        if item.get_closest_marker("shared"):
            item.add_marker(skip)
