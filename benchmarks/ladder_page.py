"""The table of docs/ladder.md, in the language of the page, from the figures of `record.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

__all__ = ["fill", "table"]

BEGIN, END = "<!-- record.py: begin -->", "<!-- record.py: end -->"
_EN = {
    "device": "{device}, torch {torch}.",
    "head": "| command | GPU ops a step | step | trace |",
    "file": "`{name}`, {size} KiB",
    "cost": "A training step of small layers, medians of {steps} steps each, in one process:\n{bare} µs without a profiler,\n"
    "{profiled} µs under torch.profiler alone,\n{recorded} µs under lanewise ({more} %).\n"
    "Outside its window the recorder costs {before} µs a step, afterwards {after} µs.",
    "script": "The same step in a script: {alone} µs alone,\n{under} µs under\n"
    "`lanewise record` outside the window ({more} %).",
}
_JA = {
    "device": "{device}、torch {torch}。",
    "head": "| コマンド | 1 ステップの GPU op | ステップ | トレース |",
    "file": "`{name}`、{size} KiB",
    "cost": "小さな層の学習ステップ、同じプロセスで各 {steps} ステップの中央値: プロファイラなし {bare} µs、"
    "torch.profiler のみ {profiled} µs、lanewise {recorded} µs（{more} %）。"
    "記録する区間の外での負担は、区間の前が 1 ステップ {before} µs、後が {after} µs です。",
    "script": "同じステップをスクリプトで: 単独で {alone} µs、"
    "`lanewise record` の下の、記録する区間の外で {under} µs（{more} %）。",
}


def table(figures: dict[str, Any], lang: str = "en") -> str:
    """The figures as Markdown."""
    texts = _JA if lang == "ja" else _EN
    lines = [texts["device"].format(**figures), "", texts["head"], "|---|---|---|---|"]
    for row in figures["rungs"]:
        command = f"`lanewise run {' '.join([row['rung'], *row['flags']])}`"
        if "error" in row:
            lines.append(f"| {command} | | | {row['error'][-1]} |")
            continue
        times = row["unprofiled_step_us"]
        step = "" if times is None else f"{times['median']:,.1f} µs"
        trace = texts["file"].format(name=Path(row["traces"][0]).name, size=f"{row['file_bytes'] / 1024:.0f}")
        lines.append(f"| {command} | {row['gpu_ops']} | {step} | {trace} |")
    cost = figures.get("Step time, recorder and bare profiler", {})
    if "recorder_us" in cost:
        text = texts["cost"].format(
            steps=cost["steps"],
            bare=f"{cost['no_profiler_us']:,.0f}",
            profiled=f"{cost['bare_profiler_us']:,.0f}",
            recorded=f"{cost['recorder_us']:,.0f}",
            more=f"{(cost['recorder_to_bare'] - 1) * 100:+.1f}",
            before=f"{cost['boundary_before_window_ns'] / 1e3:.2f}",
            after=f"{cost['boundary_after_window_ns'] / 1e3:.2f}",
        )
        lines += ["", text]
    script = figures.get("An unmodified script, alone and under lanewise record", {})
    if "ratio" in script:
        text = texts["script"].format(
            alone=f"{script['alone_us']:,.0f}",
            under=f"{script['under_lanewise_record_us']:,.0f}",
            more=f"{(script['ratio'] - 1) * 100:+.1f}",
        )
        lines += ["", text]
    return "\n".join(lines)


def fill(page: Path, figures: dict[str, Any]) -> None:
    """Replace what is between the marks of a page by the table; pages in a folder `ja` are Japanese."""
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n\n{table(figures, page.parent.name)}\n\n{END}{after}", encoding="utf-8")
