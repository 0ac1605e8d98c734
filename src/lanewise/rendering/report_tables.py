"""The tables of a terminal report: the ops and kernels that take most of the time."""

from __future__ import annotations

from rich.text import Text

from lanewise import units
from lanewise.report import KernelRow, OpRow, Report

from .layout import Column, columns
from .page import Page, us_text
from .texts import TEXTS

__all__ = ["kernel_lines", "op_lines"]


def op_lines(page: Page, report: Report) -> None:
    """Add the ops with most GPU time of their own, or most CPU time where there is no GPU work."""
    lang = page.lang
    with_gpu = any(r.gpu_total_us for r in report.ops)
    # Annotations have no work of their own worth a row beside the ops inside them.
    ops = [r for r in report.ops if page.verbose or r.cat == "cpu_op"] or report.ops
    if not with_gpu:
        ops = sorted(ops, key=lambda r: -r.cpu_self_us)
    if not ops:
        return
    shown = ops[: page.limit]
    numbers = ["calls", "cpu-self", "cpu-total"] + (["gpu-self", "gpu-total"] if with_gpu else [])
    # Where there is no room, the totals go: they are those of the ops inside.
    heads = [Column(TEXTS("col-op", lang), least=18)]
    heads += [_number(key, lang, optional=key.endswith("total")) for key in numbers]
    page.heading(TEXTS("ops", lang))
    page.lines += columns(heads, [_op_cells(r, with_gpu, lang) for r in shown], page.width)
    _more(page, len(ops) - len(shown), "ops")


def _op_cells(row: OpRow, with_gpu: bool, lang: str) -> list[str]:
    times = [row.cpu_self_us, row.cpu_total_us] + ([row.gpu_self_us, row.gpu_total_us] if with_gpu else [])
    return [row.name, units.count(row.count, lang), *(us_text(t, lang) for t in times)]


def kernel_lines(page: Page, report: Report) -> None:
    """Add the kernels with most time, by what their names say, and the ops that launched them."""
    lang, kernels = page.lang, report.kernels
    if not kernels:
        return
    shown = kernels[: page.limit]
    whole = sum(row.sum_us for row in report.gpu)
    heads = [
        Column(TEXTS("col-kernel", lang), least=24),
        _number("calls", lang),
        _number("time", lang),
        _number("share", lang, optional=True),
        _number("mean", lang, optional=True),
        Column(TEXTS("col-from", lang), least=14),
    ]
    page.heading(TEXTS("kernels", lang))
    page.lines += columns(heads, [_kernel_cells(r, whole, lang) for r in shown], page.width)
    _more(page, len(kernels) - len(shown), "kernels")


def _kernel_cells(row: KernelRow, whole: float, lang: str) -> list[str]:
    share = units.percent(units.ratio_of(row.total_us, whole), lang)
    launched = row.ops[0] if row.ops else ""
    if len(row.ops) > 1:
        launched += f" +{len(row.ops) - 1}"
    time, mean = us_text(row.total_us, lang), us_text(row.mean_us, lang)
    return [row.label, units.count(row.count, lang), time, share, mean, launched]


def _number(key: str, lang: str, *, optional: bool = False) -> Column:
    return Column(TEXTS(f"col-{key}", lang), right=True, optional=optional)


def _more(page: Page, hidden: int, command: str) -> None:
    if hidden > 0:
        text = TEXTS("more-rows", page.lang, count=units.count(hidden, page.lang), command=f"lanewise {command} TRACE")
        page.add(Text(f"  {text}", style="dim"))
