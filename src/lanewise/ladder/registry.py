"""The rungs of the ladder: their names, and where their scripts are.

A rung is a script of the folder `ladder/`, which the package ships as `lanewise/ladder/scripts`. Nothing
about a rung is written
twice: `lanewise run` executes the script that a reader opens.
"""

from __future__ import annotations

import ast
from pathlib import Path

from lanewise.errors import UsageError
from lanewise.recording.texts import TEXTS

__all__ = ["RUNGS", "rung_named", "rung_title", "script_path"]

RUNGS = (
    "01_matmul_add",
    "02_linear",
    "03_simple_mlp",
    "03_kernels_mlp",
    "04_a_naive_attention",
    "04_b_inplace_ops_attention",
    "04_c_sdpa_attention",
    "04_d_kernels_attention",
    "05_transformer",
    "06_decode",
    "07_data_pipeline",
    "08_distributed",
)


def rung_named(text: str) -> str:
    """The one rung whose name contains the text: ``05``, ``matmul``, ``04_c``, or the whole name.

    Raises:
        UsageError: none or several do.
    """
    wanted = text.removesuffix(".py").replace("-", "_").lower()
    if wanted in RUNGS:
        return wanted
    found = [rung for rung in RUNGS if rung.startswith(wanted)] or [rung for rung in RUNGS if wanted in rung]
    if len(found) == 1:
        return found[0]
    if not found:
        raise UsageError(text, TEXTS.message("no-rung"), TEXTS.message("no-rung-next", rungs=", ".join(RUNGS)))
    raise UsageError(text, TEXTS.message("several-rungs", rungs=" / ".join(found)), TEXTS.message("several-rungs-next"))


def script_path(rung: str) -> Path:
    """The script of a rung: in the package where it is installed, in the folder `ladder/` of a checkout.

    Raises:
        UsageError: the scripts are in neither place.
    """
    here = Path(__file__).resolve().parent
    for folder in (here / "scripts", here.parents[2] / "ladder"):
        path = folder / f"{rung}.py"
        if path.is_file():
            return path
    raise UsageError(rung, TEXTS.message("no-script"), TEXTS.message("no-script-next"))


def rung_title(rung: str) -> str:
    """The first line of a rung's lesson, read without running it."""
    doc = ast.get_docstring(ast.parse(script_path(rung).read_text(encoding="utf-8"))) or ""
    return doc.splitlines()[0] if doc else ""
