#!/usr/bin/env python3
"""Write docs/reports/: what lanewise says of the ladder as recorded on an H200, in English and Japanese.

python scripts/reports.py
"""

from __future__ import annotations

from pathlib import Path

import lanewise
from lanewise.rendering import terminal

ROOT = Path(__file__).parent.parent
TRACES = ROOT / "examples" / "ladder_h200"
FOLDER = ROOT / "docs" / "reports"


def main() -> None:
    """One file a trace and language, and an index with the verdicts."""
    rows = []
    for path in sorted(TRACES.glob("*/*.json.gz")):
        name = f"{path.parent.name}/{path.name.removesuffix('.json.gz')}"
        trace = lanewise.load(path)
        for lang in ("en", "ja"):
            report = lanewise.explain(trace, lang)
            target = FOLDER / lang / f"{name}.txt"
            target.parent.mkdir(parents=True, exist_ok=True)
            text = terminal.render(report, width=100, color=False)
            target.write_text(text.replace(str(path), f"examples/ladder_h200/{name}.json.gz"), "utf-8")
            if lang == "en":
                found = ", ".join(f.id for f in report.findings) or "-"
                links = f"[en](en/{name}.txt) [ja](ja/{name}.txt)"
                rows.append(f"| `{name}` | {report.verdict.text} | {found} | {links} |")
    head = (
        "# Reports of the ladder\n\nWhat `lanewise explain` says of each rung as recorded on an H200 "
        "([traces](../../examples/ladder_h200)). Made by `make docs`.\n\n"
        "| trace | verdict | findings | report |\n|---|---|---|---|\n"
    )
    (FOLDER / "README.md").write_text(head + "\n".join(rows) + "\n", "utf-8")


if __name__ == "__main__":
    main()
