"""Golden files: what a renderer printed when somebody last looked at it and found it good.

Rewrite them all, then review the difference:  LANEWISE_GOLDEN=write python -m pytest tests/rendering
"""

from __future__ import annotations

import os
from pathlib import Path

_FOLDER = Path(__file__).resolve().parent / "golden"


def check_golden(name: str, text: str) -> None:
    """Compare a text with its golden file, or write the file when asked to."""
    path = _FOLDER / name
    if os.environ.get("LANEWISE_GOLDEN") == "write":
        path.write_text(text, "utf-8")
    assert text == path.read_text("utf-8"), f"{name} differs; if the new text is better: LANEWISE_GOLDEN=write"
