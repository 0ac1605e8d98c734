"""A guess of what a step runs, set beside what ran: matched, missing, not thought of, and why."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from lanewise.errors import UsageError
from lanewise.expectations.items import Item, part_items
from lanewise.expectations.parts import Part, chosen_part
from lanewise.expectations.reasons import caller, short_name, why_it_ran, why_not
from lanewise.expectations.texts import GUESS
from lanewise.expectations.vocabulary import canonical, matches, parts_of_fused, word_of
from lanewise.model.trace import Trace

__all__ = ["STATUSES", "Guess", "GuessRow", "guess", "guess_text", "guessed_words"]

Fits = Callable[[str, Item], bool]
# Status and word of what was guessed of each op, by its place.
Found = dict[int, list[tuple[str, str]]]

STATUSES = ("matched", "inside", "moved", "missing", "unexpected")
"""matched: guessed and ran. inside: guessed, and done by a kernel that does other things too. moved: guessed and ran at another
place. missing: guessed, did not run. unexpected: ran, not guessed."""

_MOST = 10_000  # of one word: a step has fewer GPU ops than that, and a slip must not fill the memory
# Words times ops from which on the order is no longer compared, only how many of each: a table of so many cells takes a second.
_MOST_CELLS = 4_000_000
_TOKEN = re.compile(r"[^\W\d](?:[\w:]|-(?=\w))*(?:\s*[*x×]\s*\d+(?![\w]))?|\d+")
_ENDS = re.compile(r"(\w[\w:-]*?)\s*[*x×]\s*(\d+)")


@dataclass(frozen=True, slots=True)
class GuessRow:
    """One line of the comparison.

    Attributes:
        status: one of STATUSES.
        word: the guessed word; for what was not guessed, the word that it would have been.
        name: name of the op that ran, None where nothing did.
        label: the same in short.
        op: the op or annotation that launched it (of a CPU op, that called it), None where not known.
        number: its number in the order of the launches, from 1; None where nothing ran.
        why: the reason, where there is one to give.
        ns: its duration, 0 where nothing ran.
    """

    status: str
    word: str
    name: str | None
    label: str | None
    op: str | None
    number: int | None
    why: str | None
    ns: int


@dataclass(frozen=True, slots=True)
class Guess:
    """A guess beside what ran.

    Attributes:
        part: what was looked at.
        calls: calls of the annotation in that step, of which this is the first; 1 for a step.
        words: the guess, each word in its canonical form.
        rows: one row a guessed word or op, in the order of the run.
        gpu: whether GPU ops were compared; else the innermost CPU ops.
        ran: ops that ran.
    """

    part: Part
    calls: int
    words: tuple[str, ...]
    rows: tuple[GuessRow, ...]
    gpu: bool
    ran: int

    def of(self, *statuses: str) -> list[GuessRow]:
        """Rows of some statuses."""
        return [r for r in self.rows if r.status in statuses]

    @property
    def right(self) -> bool:
        """Whether all that was guessed ran in this order, and nothing else."""
        return all(r.status in ("matched", "inside") for r in self.rows)


def guessed_words(text: str, subject: str = "guess") -> list[str]:
    """The words of a guess in their canonical form; ``2 gemm``, ``gemm*2`` and ``gemm x2`` stand for two.

    Raises:
        UsageError: there is no word in it, or far too many.
    """
    words: list[str] = []
    times = 1
    for token in _TOKEN.findall(text.lower()):
        if token.isdigit():
            times = int(token)
            continue
        counted = _ENDS.fullmatch(token)
        word, number = (counted.group(1), int(counted.group(2))) if counted else (token, times)
        if number > _MOST:
            raise UsageError(subject, GUESS.message("too-many", number=number, most=_MOST))
        words += [canonical(word.removeprefix("aten::"))] * number
        times = 1
    if not words:
        raise UsageError(subject, GUESS.message("no-word"), GUESS.message("no-word-next"))
    return words


def guess(trace: Trace, words: Sequence[str], *, within: str | None = None, step: int | None = None, lang: str = "en") -> Guess:
    """Set a guess beside what a step or an annotation ran.

    Args:
        trace: the trace.
        words: canonical words, as `guessed_words` gives them.
        within: annotation to look into; None for the whole step.
        step: number of the step; None for the usual one.
        lang: language of the reasons.

    Raises:
        UsageError: there is no such annotation or step.
    """
    part, _, calls = chosen_part(trace, within, step)
    items = part_items(trace, part)
    rows = _rows(trace, part, items, list(words), lang)
    return Guess(part, calls, tuple(words), tuple(rows), bool(items) and items[0].gpu, len(items))


def guess_text(path: str, words: Sequence[str], lang: str = "en", width: int = 80) -> str:
    """A guess beside the usual step of a trace's file, as text; for those who have just recorded it."""
    from lanewise.loading import load
    from lanewise.rendering.guess import render

    return render(guess(load(path), words, lang=lang), lang, width=width)


def _rows(trace: Trace, part: Part, items: list[Item], words: list[str], lang: str) -> list[GuessRow]:
    fits = _fitting(items)
    pairs = _aligned(words, items, fits)
    by_item: Found = {j: [("matched", words[i])] for i, j in pairs.items()}
    left = [i for i in range(len(words)) if i not in pairs]
    left = _absorbed(words, items, pairs, left, by_item)
    left = _moved(words, items, left, by_item, fits)
    missing_at = _missing_places(left, pairs, len(items))
    guessed = Counter(words)
    rows: list[GuessRow] = []
    for j in range(len(items) + 1):
        for i in missing_at.get(j, ()):
            why = why_not(trace, part, items, words[i], guessed[words[i]], lang)
            rows.append(GuessRow("missing", words[i], None, None, None, None, why, 0))
        if j < len(items):
            rows += _item_rows(trace, items, j, by_item.get(j, []), lang)
    return rows


def _fitting(items: list[Item]) -> Fits:
    """Whether a word means an item; items of one name and op are asked once."""

    @cache
    def asked(word: str, name: str, owner: str, alone: tuple[str, ...]) -> bool:
        return matches(word, by_name[name, owner, alone])

    by_name = {(x.name, x.owner, x.alone): x for x in items}
    return lambda word, item: asked(word, item.name, item.owner, item.alone)


def _aligned(words: list[str], items: list[Item], fits: Fits) -> dict[int, int]:
    """Words paired with items in order, as many as possible: a longest common subsequence."""
    n, m = len(words), len(items)
    if n * m > _MOST_CELLS:
        return _in_order(words, items, fits)
    best = [[0] * (m + 1) for _ in range(n + 1)]
    for i in range(n - 1, -1, -1):
        row, below = best[i], best[i + 1]
        for j in range(m - 1, -1, -1):
            row[j] = max(below[j], row[j + 1], below[j + 1] + 1 if fits(words[i], items[j]) else 0)
    pairs: dict[int, int] = {}
    i = j = 0
    while i < n and j < m:
        if fits(words[i], items[j]) and best[i][j] == best[i + 1][j + 1] + 1:
            pairs[i] = j
            i, j = i + 1, j + 1
        elif best[i + 1][j] >= best[i][j + 1]:
            i += 1
        else:
            j += 1
    return pairs


def _in_order(words: list[str], items: list[Item], fits: Fits) -> dict[int, int]:
    """The first item that fits each word after the one before."""
    pairs: dict[int, int] = {}
    j = 0
    for i, word in enumerate(words):
        at = next((k for k in range(j, len(items)) if fits(word, items[k])), None)
        if at is not None:
            pairs[i] = at
            j = at + 1
    return pairs


def _absorbed(words: list[str], items: list[Item], pairs: dict[int, int], left: list[int], by_item: Found) -> list[int]:
    """Give words to kernels that do them along with other things, the nearest at their place; returns those still left."""
    rest = []
    taken: set[tuple[int, str]] = set()
    for i in left:
        low = max((j for k, j in pairs.items() if k < i), default=0)
        high = min((j for k, j in pairs.items() if k > i), default=len(items) - 1)
        able = [j for j, x in enumerate(items) if (j, words[i]) not in taken and parts_of_fused(words[i], x.kernel)]
        able.sort(key=lambda j: (not low <= j <= high, abs(j - low)))
        if able:
            by_item.setdefault(able[0], []).append(("inside", words[i]))
            taken.add((able[0], words[i]))
        else:
            rest.append(i)
    return rest


def _moved(words: list[str], items: list[Item], left: list[int], by_item: Found, fits: Fits) -> list[int]:
    """Give words to ops that fit and that nothing else has, wherever they ran; returns those still left."""
    rest = []
    for i in left:
        at = next((j for j, x in enumerate(items) if j not in by_item and fits(words[i], x)), None)
        if at is None:
            rest.append(i)
        else:
            by_item[at] = [("moved", words[i])]
    return rest


def _missing_places(left: list[int], pairs: dict[int, int], n: int) -> dict[int, list[int]]:
    """Where in the run each missing word would have been: before the op of the next word that was found."""
    places: dict[int, list[int]] = {}
    for i in left:
        places.setdefault(min((j for k, j in pairs.items() if k > i), default=n), []).append(i)
    return places


def _item_rows(trace: Trace, items: list[Item], j: int, found: list[tuple[str, str]], lang: str) -> list[GuessRow]:
    item = items[j]
    label = item.kernel.label(lang) if item.gpu else item.name
    op = short_name(item.owner) or None
    if not item.gpu:
        op = caller(trace, item)
    if not found:
        return [GuessRow("unexpected", word_of(item), item.name, label, op, j + 1, why_it_ran(trace, items, j, lang), item.ns)]
    rows: list[GuessRow] = []
    for status, word in found:
        why = None
        if status == "inside":
            key = "not-in-epilogue" if item.kernel.kind in ("gemm", "gemv") else "not-in-fused"
            why = GUESS(key, lang, label=label)
        elif status == "moved":
            why = GUESS("moved", lang, ran=j + 1)
        rows.append(GuessRow(status, word, item.name, label, op, j + 1, why, item.ns if not rows else 0))
    return rows
