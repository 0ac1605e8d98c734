"""The section on limits, as a terminal shows it."""

from __future__ import annotations

import msgspec
import pytest
from made_up import full_report
from rich.cells import cell_len

from lanewise.rendering import markdown, terminal
from lanewise.report import KernelLimitRow, LimitTimes, Report, Roofline


def _row(
    label: str, headroom: float | None, share: float | None, remark: str | None = None, bound: str = "memory"
) -> KernelLimitRow:
    return KernelLimitRow(
        name=label,
        label=label,
        count=10,
        total_us=1000.0,
        known_us=None if headroom is None else 1000.0,
        limit_us=None if headroom is None else 500.0,
        headroom_us_per_step=headroom,
        flops_per_s=None if share is None else 687e12,
        bytes_per_s=None if share is None else 1.2e12,
        share_ratio=share,
        bound=bound,
        source="op" if share is not None else "helper",
        at_least=False,
        launch=None,
        remark=remark,
    )


def _report(lang: str = "en", known: float = 900.0) -> Report:
    section = Roofline(
        text="The figures.",
        ceilings_text="The ceilings.",
        hint=None,
        ceilings=[],
        step=LimitTimes(1000.0, known, 600.0, 300.0, 500.0, 200.0, 50.0, 50.0, 200.0),
        steps=[],
        kernels=[
            _row("first", 100.0, 0.8, "near its limit"),
            _row("second", 200.0, 0.3, "far from it"),
            _row("third", 50.0, None, "helps"),
            _row("fourth", 40.0, None, "helps"),
            _row("tiny", 4.9, 0.1, "hardly there"),
            _row("nobody knows", None, None),
        ],
    )
    return msgspec.structs.replace(full_report(lang), roofline=section)


def _section(text: str) -> list[str]:
    lines = text.splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith("DISTANCE"))
    return lines[begin : lines.index("", begin)]


def test_section() -> None:
    assert _section(terminal.render(_report())) == [
        "DISTANCE FROM THE CARD'S LIMITS  67 % of the limit",
        "  The figures.",
        "  The ceilings.",
        "  kernel  TFLOP/s   GB/s  of limit  bound by  headroom",
        "  second      687  1,200      30 %  memory      200 µs",
        "  first       687  1,200      80 %  memory      100 µs",
        "  third                             helper     50.0 µs",
        "  fourth                            helper     40.0 µs",
        "  - second: far from it",
        "  - third, fourth: helps",
    ]


def test_verbose_shows_all_with_a_known_limit() -> None:
    section = _section(terminal.render(_report(), verbose=True))
    assert "  - first: near its limit" in section
    assert "  - tiny: hardly there" in section
    assert not any("nobody knows" in line for line in section)


def test_share_only_where_most_is_known() -> None:
    assert _section(terminal.render(_report(known=499.0)))[0] == "DISTANCE FROM THE CARD'S LIMITS"


def test_no_section_without_gpu_work() -> None:
    report = msgspec.structs.replace(full_report(), roofline=Roofline("", None, None, [], None, [], []))
    assert "DISTANCE" not in terminal.render(report)
    assert "DISTANCE" not in terminal.render(full_report())


@pytest.mark.parametrize("width", [60, 80, 120])
def test_width(width: int) -> None:
    assert all(cell_len(line) <= width for line in terminal.render(_report("ja"), width=width).splitlines()[:-1])


def test_markdown() -> None:
    text = markdown.render(_report())
    section = text[text.index("## Distance") :]
    assert section.startswith(
        "## Distance from the card's limits (67 % of the limit)\n\nThe figures.\n\nThe ceilings.\n\n| kernel |"
    )
    assert "| second | 687 | 1,200 | 30 % | memory | 200 µs |" in section
    assert "- third, fourth: helps" in section
    assert "Distance" not in markdown.render(full_report())
