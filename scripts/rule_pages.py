#!/usr/bin/env python3
"""Write docs/rules/ from the rules: a page each, in English and Japanese, and the index.

python scripts/rule_pages.py            write the pages
python scripts/rule_pages.py --check    exit status 1 when a page is not what the rules say
"""

from __future__ import annotations

import sys
from pathlib import Path

from lanewise.rules import rules
from lanewise.rules.pages import rule_index, rule_page

FOLDER = Path(__file__).parent.parent / "docs" / "rules"


def pages() -> dict[Path, str]:
    """All pages, by where they go."""
    out: dict[Path, str] = {}
    for lang, folder, languages in (
        ("en", FOLDER, "English · [日本語](ja/{name})"),
        ("ja", FOLDER / "ja", "[English](../{name}) · 日本語"),
    ):
        texts = {"README.md": rule_index(rules(), lang)} | {f"{rule.id}.md": rule_page(rule, lang) for rule in rules()}
        out.update({folder / name: f"{languages.format(name=name)}\n\n{text}" for name, text in texts.items()})
    return out


def main() -> int:
    """Write or check."""
    wanted = pages()
    if "--check" in sys.argv:
        stale = [path for path, text in wanted.items() if not path.is_file() or path.read_text("utf-8") != text]
        for path in stale:
            print(f"{path}: not what the rules say; run make docs", file=sys.stderr)
        return 1 if stale else 0
    for path, text in wanted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    for path in {*FOLDER.glob("*.md"), *(FOLDER / "ja").glob("*.md")} - set(wanted):
        path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
