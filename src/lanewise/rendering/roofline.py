"""How far the GPU's work is from what the card could do: the section of the terminal report, and its parts for other forms."""

from __future__ import annotations

from lanewise import units
from lanewise.report import KernelLimitRow, LimitTimes, Report, Roofline
from lanewise.roofline_texts import TEXTS as LIMIT_TEXTS
from lanewise.roofline_texts import bound_text

from .layout import Column, columns
from .page import Page, us_text
from .texts import TEXTS

__all__ = ["limit_cells", "limit_remarks", "roofline_lines", "share_text", "worst_kernels"]

_MOST_ROWS = 6
_MOST_REMARKS = 3
# A kernel that reaches more than this of its limit needs no explanation in a summary.
_FAR_RATIO = 0.5
_MOST_RATIO = 0.5  # of the GPU's time: where less of it is known, its share says little about the step
# Headroom below this share of the GPU's work in a step would not be seen.
_LEAST_RATIO = 0.005


def roofline_lines(page: Page, report: Report) -> None:
    """Add the figures of a step, the ceilings, and the kernels with most time above their limit."""
    found, lang = report.roofline, page.lang
    if found is None or found.step is None:
        return
    page.heading(LIMIT_TEXTS("title", lang), share_text(found.step, lang))
    for text in (found.text, found.ceilings_text, found.hint):
        if text:
            page.paragraph(text, indent=2)
    rows = worst_kernels(found, page.verbose, page.limit)
    if rows:
        page.lines += columns(_heads(lang), [limit_cells(row, lang) for row in rows], page.width)
        for text in limit_remarks(rows, page.verbose, lang):
            page.item(text, style="dim")


def share_text(step: LimitTimes, lang: str) -> str:
    """The share of the limit that a step reaches, where it is known of most of its work."""
    share = units.ratio_of(step.limit_us, step.known_us)
    known = share is not None and step.known_us >= _MOST_RATIO * step.gpu_us
    return LIMIT_TEXTS("detail", lang, share=units.percent(share, lang)) if known else ""


def worst_kernels(found: Roofline, verbose: bool, limit: int) -> list[KernelLimitRow]:
    """The kernels with most headroom, at most `limit` (0 for as many as are worth it); all with a known one if `verbose`."""
    known = [row for row in found.kernels if row.headroom_us_per_step is not None]
    known.sort(key=lambda row: -(row.headroom_us_per_step or 0.0))
    if verbose or found.step is None:
        return known
    worth = [row for row in known if (row.headroom_us_per_step or 0.0) >= _LEAST_RATIO * found.step.gpu_us]
    return worth[: min(limit or _MOST_ROWS, _MOST_ROWS)]


def limit_remarks(rows: list[KernelLimitRow], verbose: bool, lang: str) -> list[str]:
    """Remarks, each with the kernels that it is on: those far from their limit, all if `verbose`."""
    told: dict[str, list[str]] = {}
    for row in rows:
        if row.remark and (verbose or row.share_ratio is None or row.share_ratio < _FAR_RATIO):
            told.setdefault(row.remark, []).append(row.label)
    texts = [LIMIT_TEXTS("remark", lang, kernel=", ".join(dict.fromkeys(labels)), text=text) for text, labels in told.items()]
    return texts if verbose else texts[:_MOST_REMARKS]


def _heads(lang: str) -> list[Column]:
    numbers = ["col-flops", "col-bandwidth", "col-of-limit"]
    return [
        Column(TEXTS("col-kernel", lang), least=20),
        *(Column(TEXTS(key, lang), right=True, optional=key == "col-flops") for key in numbers),
        Column(TEXTS("col-bound", lang)),
        Column(TEXTS("col-headroom", lang), right=True),
    ]


def limit_cells(row: KernelLimitRow, lang: str) -> list[str]:
    """A row of the table: label, TFLOP/s, GB/s, share, bound, headroom; empty where not known."""
    return [
        row.label,
        "" if row.flops_per_s is None else units.teraflops(row.flops_per_s, lang),
        "" if row.bytes_per_s is None else units.gigabytes_per_s(row.bytes_per_s, lang),
        "" if row.share_ratio is None else units.percent(row.share_ratio, lang),
        bound_text("helper" if row.source == "helper" else row.bound, lang),
        us_text(row.headroom_us_per_step, lang),
    ]
