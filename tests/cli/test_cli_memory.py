"""What the process asks of the C library."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest

from lanewise.cli.memory import keep_freed_memory


def test_asks_glibc_to_keep_what_is_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[int, int] = {}
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace(mallopt=asked.__setitem__))
    keep_freed_memory()
    assert asked == {-1: 2**31 - 1, -3: 32 << 20}  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD of malloc.h


@pytest.mark.parametrize("error", [OSError, TypeError, AttributeError])
def test_leaves_other_libraries_alone(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def library(name: Any) -> Any:
        raise error("no glibc")

    monkeypatch.setattr(ctypes, "CDLL", library)
    keep_freed_memory()
