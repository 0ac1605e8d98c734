"""The stages of ARCHITECTURE.md: each imports only those to its left, and torch is imported where it is needed alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "lanewise"

# Folders and modules from left to right. Those of one set may know one another.
STAGES: tuple[frozenset[str], ...] = (
    frozenset({"version", "translations", "errors", "units", "document"}),
    frozenset({"model"}),
    frozenset({"loading", "kernels", "work", "devices"}),
    frozenset({"analyses"}),
    frozenset({"report"}),
    frozenset({"rules", "engine", "verdict", "roofline", "roofline_texts"}),
    frozenset({"explaining", "timeline"}),
    frozenset({"rendering", "comparison", "expectations"}),
    frozenset({"viewing"}),
    frozenset({"recording"}),
    frozenset({"ladder"}),
    frozenset({"cli", "pytest_plugin", "__init__", "__main__"}),
)
# Files are all that recording and the ladder share with the stages of reading.
ASIDE = {"recording": {"loading", "model", "analyses", "rules", "report", "explaining", "rendering"}}
ASIDE["ladder"] = ASIDE["recording"]
TORCH = {"recording", "ladder", "devices"}


def place(name: str) -> int:
    return next((i for i, stage in enumerate(STAGES) if name in stage), -1)


def home(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Full names that a file imports, and whether within a function."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside = {id(n) for f in ast.walk(tree) if isinstance(f, ast.FunctionDef | ast.AsyncFunctionDef) for n in ast.walk(f)}
    package = ["lanewise", *path.relative_to(PACKAGE).parts[:-1]]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, id(node) in inside) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*start, *([node.module] if node.module else [])])
            yield from ((f"{base}.{alias.name}", id(node) in inside) for alias in node.names)


FILES = sorted(PACKAGE.rglob("*.py"))


def test_every_module_has_a_stage() -> None:
    assert len(FILES) > 50
    assert {home(p) for p in FILES if place(home(p)) < 0} == set()


@pytest.mark.parametrize("name", sorted({home(p) for p in FILES}))
def test_imports_lead_to_the_left(name: str) -> None:
    wrong = []
    for path in (p for p in FILES if home(p) == name):
        for imported, _ in imports(path):
            parts = imported.split(".")
            if parts[0] != "lanewise" or len(parts) < 2 or place(parts[1]) < 0 or parts[1] == name:
                continue
            if place(parts[1]) > place(name) or parts[1] in ASIDE.get(name, ()):
                wrong.append(f"{path.relative_to(PACKAGE)} imports {imported}")
    assert wrong == []


def test_torch_is_imported_within_functions_of_recording() -> None:
    found = [(p, late) for p in FILES for name, late in imports(p) if name.split(".")[0] == "torch"]
    assert [str(p.relative_to(PACKAGE)) for p, late in found if not late or home(p) not in TORCH] == []
