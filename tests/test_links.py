"""Relative links of every Markdown page lead to files and headings that exist."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

import pytest

from markdown_pages import anchors, links
from places import ROOT

# Dependencies and outputs of tools; golden outputs of tests have names of traces where links would be.
_ELSEWHERE = {"node_modules", "golden", "build", "dist"}
PAGES = sorted(
    path
    for path in ROOT.rglob("*.md")
    if not any(part.startswith(".") or part in _ELSEWHERE for part in path.relative_to(ROOT).parts)
)


def broken(page: Path) -> list[str]:
    """Links of a page that lead nowhere."""
    return [target for target in links(page.read_text("utf-8")) if "://" not in target and not leads_somewhere(page, target)]


def leads_somewhere(page: Path, target: str) -> bool:
    """Whether a relative link leads to something in this repository, and to a heading there if it names one."""
    name, _, anchor = unquote(target).partition("#")
    path = (page.parent / name).resolve() if name else page.resolve()
    if not path.exists() or ROOT not in (path, *path.parents):
        return False
    return not anchor or (path.suffix == ".md" and anchor in anchors(path.read_text("utf-8")))


def test_pages_are_found() -> None:
    names = {str(path.relative_to(ROOT)) for path in PAGES}
    assert {"README.md", "README.ja.md", "docs/README.md", "docs/ja/README.md", "docs/rules/host-sync.md"} <= names


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_every_picture_is_shown() -> None:
    shown = {
        (page.parent / target).resolve()
        for page in PAGES
        for target in links(page.read_text("utf-8"))
        if target.endswith(".png")
    }
    assert shown == set((ROOT / "docs" / "screenshots").glob("*.png"))


def test_links_that_lead_nowhere_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    (tmp_path / "other.md").write_text("# Two words\n\n## 2 つの「記録」\n\n## Two `words`\n", "utf-8")
    page = tmp_path / "page.md"
    good = "[a](other.md) [b](other.md#two-words) [c](other.md#2-つの記録) [d](other.md#two-words-1) [e](#here) [f](https://x.org/y#z)"
    bad = ["none.md", "other.md#three-words", "#nowhere", "../above.md", "none.png"]
    text = f"# Here\n\n{good}\n\n`[code](none.md)`\n\n```\n[code](none.md)\n```\n\n    [code](none.md)\n\n"
    page.write_text(text + " ".join(f"[x]({target})" for target in bad[:-1]) + f' <img src="{bad[-1]}">\n', "utf-8")
    assert broken(page) == bad
