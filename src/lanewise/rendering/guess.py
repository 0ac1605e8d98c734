"""A guess beside what ran, as a terminal shows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from rich.cells import cell_len
from rich.text import Text

from lanewise import units
from lanewise.expectations.guessing import Guess, GuessRow
from lanewise.expectations.texts import GUESS
from lanewise.rendering.layout import Column, columns, printed, shortened, wrapped

__all__ = ["part_title", "render"]

_MARKS = {"matched": "=", "inside": "=", "moved": "~", "missing": "-", "unexpected": "+"}
_STYLES = {"matched": "", "inside": "", "moved": "yellow", "missing": "red", "unexpected": "yellow"}
_MOST_ROWS = 40
_MOST_REASONS = 12
_MOST_PLACES = 8
_MOST_WORDS = 6


def part_title(found: Guess, lang: str) -> str:
    """What was looked at, in words."""
    part = found.part
    if part.event < 0:
        return GUESS("part-whole", lang)
    if part.name.startswith("ProfilerStep#"):
        return GUESS("part-step", lang, step=part.step)
    name = GUESS("part-call", lang, name=part.name)
    if part.step is not None and found.part.name:
        name = GUESS("part-annotation", lang, name=part.name, step=part.step)
    return name if found.calls == 1 else f"{name} ({GUESS('one-of', lang, calls=found.calls)})"


def render(found: Guess, lang: str = "en", *, width: int = 80, color: bool = False, verbose: bool = False) -> str:
    """The comparison as text: what ran in order beside the guess, then a reason for each difference."""
    lines = [Text(line, style="bold") for line in wrapped(_title(found, lang), width)]
    lines += [Text(line) for line in wrapped(GUESS("guessed", lang, words=" ".join(found.words)), width)]
    lines.append(Text())
    lines += _table(found, lang, width, verbose)
    for status in ("missing", "inside", "moved", "unexpected"):
        lines += _reasons(found.of(status), status, lang, width, verbose)
    lines += [Text(), *(Text(line, style="bold") for line in wrapped(_score(found, lang), width))]
    return printed(lines, color=color)


def _title(found: Guess, lang: str) -> str:
    count = units.count(found.ran, lang)
    if not found.gpu and found.ran:
        return GUESS("title-cpu", lang, part=part_title(found, lang), count=count)
    time = units.duration(sum(r.ns for r in found.rows), lang)
    return GUESS("title", lang, part=part_title(found, lang), count=count, time=time)


def _table(found: Guess, lang: str, width: int, verbose: bool) -> list[Text]:
    if not found.rows:
        return [Text(f"  {GUESS('nothing', lang)}")]
    heads = [
        Column(""),
        Column(GUESS("column-word", lang), least=8),
        Column(GUESS("column-ran", lang), least=20),
        Column(GUESS("column-op" if found.gpu else "column-cpu-op", lang), least=12),
    ]
    folded = len(found.rows) > _MOST_ROWS and not verbose
    groups = _folded(found.rows) if folded else [[r] for r in found.rows]
    shown = groups[:_MOST_ROWS] if folded else groups
    single = [g[0] for g in shown if len(g) == 1]
    nothing = GUESS("nothing", lang)
    cells = [[_MARKS[r.status], "" if r.status == "unexpected" else r.word, r.label or nothing, r.op or ""] for r in single]
    head, *lines = columns(heads, cells, width) if cells else [Text()]
    for line, row in zip(lines, single, strict=True):
        line.stylize(_STYLES[row.status])
    following = iter(lines)
    table = [head, *(next(following) if len(g) == 1 else _run_of(g, lang, width) for g in shown)]
    rest = sum(len(g) for g in groups[len(shown) :])
    return [*table, Text(f"  … {units.count(rest)}", style="dim")] if rest else table


def _folded(rows: Sequence[GuessRow]) -> list[list[GuessRow]]:
    """Rows, those that nobody guessed and that follow one another as one group."""
    groups: list[list[GuessRow]] = []
    for row in rows:
        if row.status == "unexpected" and groups and groups[-1][-1].status == "unexpected":
            groups[-1].append(row)
        else:
            groups.append([row])
    return groups


def _run_of(group: Sequence[GuessRow], lang: str, width: int) -> Text:
    """One line for several ops that nobody guessed."""
    words = Counter(r.word for r in group)
    texts = [_first_words(words, n, len(group), lang) for n in range(min(_MOST_WORDS, len(words)), 0, -1)]
    text = next((t for t in texts if cell_len(t) <= width - 5), shortened(texts[-1], width - 5))
    return Text(f"  {_MARKS['unexpected']}  {text}", style=_STYLES["unexpected"])


def _first_words(words: Counter[str], most: int, count: int, lang: str) -> str:
    """How many ops, and the most frequent of them by name."""
    told = _counted(dict(words.most_common(most)), lang) + (" ..." if len(words) > most else "")
    return GUESS("run-of", lang, count=units.count(count), words=told)


def _counted(words: Mapping[str, int], lang: str) -> str:
    return ", ".join(word if n == 1 else f"{GUESS('times', lang, count=units.count(n))} {word}" for word, n in words.items())


def _reasons(rows: list[GuessRow], status: str, lang: str, width: int, verbose: bool) -> list[Text]:
    """A reason a line; the same for several ops is said once, with how many."""
    if not rows:
        return []
    words: dict[str, Counter[str]] = {}
    if status == "moved":
        rows = _places(rows, lang)
    for row in rows:
        words.setdefault(row.why or "", Counter())[row.word] += 1
    shown = sorted(words.items(), key=lambda x: -sum(x[1].values())) if len(words) > _MOST_REASONS else list(words.items())
    shown = shown if verbose else shown[:_MOST_REASONS]
    lines = [Text(), Text(GUESS(f"why-{status}", lang), style="bold")]
    for why, counted in shown:
        named = _counted(counted, lang)
        first, *others = wrapped(f"{named}: {why}", width - 4)
        lines.append(Text(f"  {_MARKS[status]} {first}", style=_STYLES[status]))
        lines += [Text(f"    {line}", style=_STYLES[status]) for line in others]
    if len(shown) < len(words):
        lines.append(Text(f"    {GUESS('more', lang, count=len(words) - len(shown))}", style="dim"))
    return lines


def _places(rows: Sequence[GuessRow], lang: str) -> list[GuessRow]:
    """Of what ran elsewhere, all places of a word together."""
    numbers: dict[str, list[str]] = {}
    for row in rows:
        numbers.setdefault(row.word, []).append(str(row.number))
    whys = {
        w: GUESS("moved", lang, ran=", ".join(n[:_MOST_PLACES]) + (" ..." if len(n) > _MOST_PLACES else ""))
        for w, n in numbers.items()
    }
    return [replace(row, why=whys[row.word]) for row in rows]


def _score(found: Guess, lang: str) -> str:
    missing, unexpected, moved = (len(found.of(s)) for s in ("missing", "unexpected", "moved"))
    guessed = len(found.words)
    if not missing and not unexpected and not moved:
        key = "right" if not found.of("inside") else "right-else"
        return GUESS(key, lang, **({"count": guessed} if key == "right" else {}))
    slots = {"guessed": guessed, "unexpected": units.count(unexpected), "ran": units.count(found.ran)}
    if not missing:
        return GUESS("score-right-words", lang, **slots)
    return GUESS("score", lang, found=guessed - missing, **slots)
