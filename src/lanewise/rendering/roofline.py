"""How far the GPU's work is from what the card could do: the section of the terminal report."""

from __future__ import annotations

from lanewise import units
from lanewise.report import KernelLimitRow, LimitTimes, Report, Roofline
from lanewise.roofline_texts import TEXTS as LIMIT_TEXTS
from lanewise.roofline_texts import bound_text

from .layout import Column, columns
from .page import Page, us_text
from .texts import TEXTS

__all__ = ["roofline_lines"]

_MOST_ROWS = 6
_MOST_REMARKS = 3
# A kernel that reaches more than this of its limit needs no explanation in a summary.
_FAR_RATIO = 0.5
_MOST_RATIO = 0.5
# Headroom below this share of the GPU's work in a step would not be seen.
_LEAST_RATIO = 0.005


def roofline_lines(page: Page, report: Report) -> None:
    """Add the figures of a step, the ceilings, and the kernels with most time above their limit."""
    found, lang = report.roofline, page.lang
    if found is None or found.step is None:
        return
    page.heading(LIMIT_TEXTS("title", lang), _share(found.step, lang))
    for text in (found.text, found.ceilings_text, found.hint):
        if text:
            page.paragraph(text, indent=2)
    rows = _worst(page, found)
    if rows:
        page.lines += columns(_heads(lang), [_cells(row, lang) for row in rows], page.width)
        for text, labels in _remarks(page, rows).items():
            page.item(LIMIT_TEXTS("remark", lang, kernel=", ".join(dict.fromkeys(labels)), text=text), style="dim")


def _share(step: LimitTimes, lang: str) -> str:
    """The share of the limit that a step reaches, where it is known of most of its work."""
    share = units.ratio_of(step.limit_us, step.known_us)
    known = share is not None and step.known_us >= _MOST_RATIO * step.gpu_us
    return LIMIT_TEXTS("detail", lang, share=units.percent(share, lang)) if known else ""


def _worst(page: Page, found: Roofline) -> list[KernelLimitRow]:
    """The kernels with most headroom; all with a known one when everything is wanted."""
    known = [row for row in found.kernels if row.headroom_us_per_step is not None]
    known.sort(key=lambda row: -(row.headroom_us_per_step or 0.0))
    if page.verbose or found.step is None:
        return known
    worth = [row for row in known if (row.headroom_us_per_step or 0.0) >= _LEAST_RATIO * found.step.gpu_us]
    return worth[: min(page.limit, _MOST_ROWS)]


def _remarks(page: Page, rows: list[KernelLimitRow]) -> dict[str, list[str]]:
    """Remarks, and the kernels that each is on: of those far from their limit, unless everything is wanted."""
    told: dict[str, list[str]] = {}
    for row in rows:
        if row.remark and (page.verbose or row.share_ratio is None or row.share_ratio < _FAR_RATIO):
            told.setdefault(row.remark, []).append(row.label)
    return told if page.verbose else dict(list(told.items())[:_MOST_REMARKS])


def _heads(lang: str) -> list[Column]:
    numbers = ["col-flops", "col-bandwidth", "col-of-limit"]
    return [
        Column(TEXTS("col-kernel", lang), least=20),
        *(Column(TEXTS(key, lang), right=True) for key in numbers),
        Column(TEXTS("col-bound", lang)),
        Column(TEXTS("col-headroom", lang), right=True),
    ]


def _cells(row: KernelLimitRow, lang: str) -> list[str]:
    return [
        row.label,
        "" if row.flops_per_s is None else units.teraflops(row.flops_per_s, lang),
        "" if row.bytes_per_s is None else units.gigabytes_per_s(row.bytes_per_s, lang),
        "" if row.share_ratio is None else units.percent(row.share_ratio, lang),
        bound_text("helper" if row.source == "helper" else row.bound, lang),
        us_text(row.headroom_us_per_step, lang),
    ]
