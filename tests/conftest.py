"""Skips tests that need the shared traces where there are none."""

from __future__ import annotations

import pytest

from places import SHARED


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if (SHARED / "traces").is_dir():
        return
    skip = pytest.mark.skip(reason=f"no shared traces in {SHARED} (set LANEWISE_SHARED)")
    for item in items:
        if item.get_closest_marker("shared"):
            item.add_marker(skip)
