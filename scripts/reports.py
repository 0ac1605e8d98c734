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
# The index of each language: where it is, where the reports are from there, and its head.
INDEXES = {
    "en": (
        FOLDER / "README.md",
        "en/",
        "English · [日本語](ja/README.md)\n\n"
        "# Reports of the ladder\n\nWhat `lanewise explain` says of each rung as recorded on "
        "an H200 ([traces](../../examples/ladder_h200)). Made by `make docs`.\n\n"
        "| trace | verdict | findings |\n|---|---|---|\n",
    ),
    "ja": (
        FOLDER / "ja" / "README.md",
        "",
        "[English](../README.md) · 日本語\n\n# ladder のレポート\n\n"
        "H200 で記録した各題材（[トレース](../../../examples/ladder_h200)）を "
        "`lanewise explain` で読んだ結果です。`make docs` が生成します。\n\n| トレース | 判定 | 指摘 |\n|---|---|---|\n",
    ),
}


def main() -> None:
    """One file a trace and language, and an index in each with the verdicts."""
    rows: dict[str, list[str]] = {lang: [] for lang in INDEXES}
    for path in sorted(TRACES.glob("*/*.json.gz")):
        name = f"{path.parent.name}/{path.name.removesuffix('.json.gz')}"
        trace = lanewise.load(path)
        for lang, (_, place, _) in INDEXES.items():
            report = lanewise.explain(trace, lang)
            target = FOLDER / lang / f"{name}.txt"
            target.parent.mkdir(parents=True, exist_ok=True)
            text = terminal.render(report, width=100, color=False)
            target.write_text(text.replace(str(path), f"examples/ladder_h200/{name}.json.gz"), "utf-8")
            found = ", ".join(f.id for f in report.findings) or "-"
            rows[lang].append(f"| [`{name}`]({place}{name}.txt) | {report.verdict.text} | {found} |")
    for lang, (index, _, head) in INDEXES.items():
        index.write_text(head + "\n".join(rows[lang]) + "\n", "utf-8")


if __name__ == "__main__":
    main()
