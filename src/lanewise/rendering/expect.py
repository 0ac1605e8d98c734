"""What came of expectations, as a terminal shows it."""

from __future__ import annotations

from rich.text import Text

from lanewise.expectations.document import Outcome, Outcomes
from lanewise.expectations.texts import EXPECT
from lanewise.rendering.layout import Column, columns, printed, shortened_path, wrapped

__all__ = ["explained", "render"]

# Keys whose words must not be found.
_NEGATIVE = ("_absent", "_forbidden")
_STYLES = {"held": "green", "breached": "bold red", "not-checked": "yellow"}


def render(
    found: Outcomes, lang: str = "en", *, width: int = 80, color: bool = False, verbose: bool = False, strict: bool = False
) -> str:
    """Breaches first, each with what was found and the evidence, then what could not be checked, then a line of numbers."""
    lines = [Text(shortened_path(found.trace, width), style="bold")]
    lines += [Text(line) for line in wrapped(EXPECT("steps-are", lang, steps=found.steps), width)]
    for row in found.of("breached"):
        lines += [Text(), *_breach(row, lang, width)]
    unchecked = found.of("not-checked")
    if unchecked:
        lines += [Text(), Text(EXPECT("status-not-checked", lang), style="yellow")]
        lines += _unchecked(unchecked, width)
    if verbose and found.of("held"):
        lines += [Text(), Text(EXPECT("status-held", lang), style="green"), *_held(found.of("held"), lang, width)]
    lines += [Text(), *(Text(line, style="bold") for line in wrapped(_score(found, lang, strict), width))]
    return printed(lines, color=color)


def explained(found: Outcomes, lang: str = "en", width: int = 80) -> str:
    """Breaches alone, for a failed test."""
    lines = [line for row in found.of("breached") for line in _breach(row, lang, width)]
    return printed(lines, color=False).rstrip()


def _breach(row: Outcome, lang: str, width: int) -> list[Text]:
    head = f"{EXPECT('status-breached', lang)} {row.where}: {row.key}"
    lines = [Text(line, style="bold red") for line in wrapped(head, width)]
    wanted = EXPECT("no-such", lang, name=row.wanted) if row.key.endswith(_NEGATIVE) else row.wanted
    told = EXPECT("wanted-found", lang, wanted=wanted, found=row.found or "?")
    lines += [Text(f"  {line}") for line in wrapped(told, width - 2)]
    if row.reason:
        lines += [
            Text(f"  ({line})" if len(row.reason) < width - 4 else f"  {line}") for line in wrapped(row.reason, width - 4)
        ]
    for evidence in row.evidence:
        first, *others = wrapped(evidence, width - 6)
        lines.append(Text(f"    {first}"))
        lines += [Text(f"      {line}") for line in others]
    return lines


def _unchecked(rows: list[Outcome], width: int) -> list[Text]:
    """One line a reason, with what it holds for; of words that must not be found, which ones."""
    reasons: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        words = reasons.setdefault(row.reason or "?", {}).setdefault(f"{row.where}: {row.key}", [])
        if row.key.endswith(_NEGATIVE):
            words.append(row.wanted)
    lines: list[Text] = []
    for reason, keys in reasons.items():
        told = "; ".join(f"{key} ({', '.join(words)})" if words else key for key, words in keys.items())
        lines += [Text(f"  {line}") for line in wrapped(told, width - 2)]
        lines += [Text(f"    {line}", style="dim") for line in wrapped(reason, width - 4)]
    return lines


def _held(rows: list[Outcome], lang: str, width: int) -> list[Text]:
    heads = [
        Column(EXPECT("column-what", lang), least=20),
        Column(EXPECT("column-wanted", lang), least=8),
        Column(EXPECT("column-found", lang), least=8),
    ]
    cells = [[f"{r.where}: {r.key}", r.wanted, (r.found or "") + (f" ({r.reason})" if r.reason else "")] for r in rows]
    return columns(heads, cells, width)


def _score(found: Outcomes, lang: str, strict: bool) -> str:
    held, breached, unchecked = (len(found.of(s)) for s in ("held", "breached", "not-checked"))
    count = len(found.rows)
    if held == count:
        return EXPECT("all-held", lang, count=count)
    parts = [EXPECT("some-held", lang, held=held, count=count)]
    if breached:
        parts.append(EXPECT("breached-count", lang, count=breached))
    if unchecked:
        parts.append(EXPECT("unchecked-count", lang, count=unchecked))
        if strict:
            parts.append(EXPECT("strict", lang))
    return ("" if lang == "ja" else " ").join(parts)
