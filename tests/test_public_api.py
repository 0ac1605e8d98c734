"""What ``import lanewise`` offers: sorted, documented, and free until it is used."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import lanewise

PACKAGE = Path(lanewise.__file__).parent
MODULES = sorted(p for p in PACKAGE.rglob("*.py") if "bootstrap" not in p.parts)


def test_all_is_sorted_and_there() -> None:
    assert lanewise.__all__ == sorted(lanewise.__all__)
    for name in lanewise.__all__:
        assert getattr(lanewise, name) is not None
    assert set(lanewise.__all__) <= set(dir(lanewise))
    with pytest.raises(AttributeError, match="no attribute 'absent'"):
        _ = lanewise.absent


@pytest.mark.parametrize("name", [n for n in lanewise.__all__ if n != "__version__"])
def test_everything_public_is_documented(name: str) -> None:
    item = getattr(lanewise, name)
    assert inspect.getdoc(item)
    if inspect.isclass(item):
        for member, value in vars(item).items():
            if not member.startswith("_") and (inspect.isfunction(value) or isinstance(value, property | staticmethod)):
                assert inspect.getdoc(value), f"{name}.{member}"


def _run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


def test_import_loads_nothing_heavy() -> None:
    heavy = "numpy polars msgspec rich click torch isal lanewise.loading lanewise.model"
    assert _run(f"import sys, lanewise; print([m for m in '{heavy}'.split() if m in sys.modules])") == "[]"


def test_loading_needs_no_polars() -> None:
    """It takes as long to import as to read 20 MB of trace; frames load it when they are asked for."""
    path = PACKAGE.parent.parent / "tests" / "cases" / "numbers-two-streams.json"
    if not path.exists():
        pytest.skip("the cases are not here")
    code = f"import sys, lanewise; t = lanewise.load({str(path)!r}); print('polars' in sys.modules, 'torch' in sys.modules)"
    assert _run(code) == "False False"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_names_in_all_are_sorted_and_defined(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"))
    listed = next(
        (
            [element.value for element in node.value.elts if isinstance(element, ast.Constant)]
            for node in tree.body
            if isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and node.targets[0].id == "__all__"
            and isinstance(node.value, ast.List)
        ),
        [],
    )
    # Constants, classes and functions in this order, as the formatter sorts them; no name twice.
    assert len(set(listed)) == len(listed)
    nodes = list(ast.walk(tree))
    defined = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    defined |= {n.name for n in nodes if isinstance(n, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)}
    defined |= {a.asname or a.name for n in nodes if isinstance(n, ast.Import | ast.ImportFrom) for a in n.names}
    assert set(listed) - defined == set()


def test_errors_are_a_family() -> None:
    assert issubclass(lanewise.NotATraceError, lanewise.LoadError)
    assert issubclass(lanewise.EmptyTraceError, lanewise.LoadError)
    assert issubclass(lanewise.LoadError, lanewise.LanewiseError)
    assert issubclass(lanewise.UsageError, lanewise.LanewiseError)
    error = lanewise.LoadError("x.json", "no such file.", "Did you mean y.json?")
    assert str(error) == "x.json: no such file. Did you mean y.json?"
    assert str(lanewise.LanewiseError("", "nothing.")) == "nothing."


def test_explain_takes_a_path_too_and_names_a_wrong_language() -> None:
    path = PACKAGE.parent.parent / "examples" / "mlp.json.gz"
    assert lanewise.explain(path) == lanewise.explain(lanewise.load(path))
    with pytest.raises(ValueError, match="'fr' is none of en, ja"):
        lanewise.explain(path, lang="fr")


def test_a_report_shows_itself_in_a_line() -> None:
    report = lanewise.explain(PACKAGE.parent.parent / "examples" / "mlp.json.gz")
    assert repr(report).endswith("Findings: launch-bound.>")
    assert len(repr(report)) < 400
