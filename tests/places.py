"""Folders that tests read from."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHARED = Path(os.environ.get("LANEWISE_SHARED", ROOT.parent / "shared"))
DATA = Path(__file__).resolve().parent / "data"
CASES = Path(__file__).resolve().parent / "cases"
