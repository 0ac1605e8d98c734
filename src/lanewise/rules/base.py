"""What a rule is, what it sees, and what it hands back.

A rule is one file with one `RULE`: its documentation, its texts, its thresholds with their reasons, and a `check` that selects
the evidence of one problem and says what would change if it were gone. It never prices by itself: the engine replays the
steps with the change (`lanewise.analyses.replay`), so that GPU time counts only where the GPU is the bottleneck and CPU time
only where the CPU is, and so that no two findings claim the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lanewise import units
from lanewise.analyses.replay import Change
from lanewise.translations import Catalog

from .context import Context

__all__ = [
    "DOC_KEYS",
    "Clear",
    "Draft",
    "NotChecked",
    "Outcome",
    "Quantity",
    "Rule",
    "bandwidth",
    "count",
    "duration",
    "flops_rate",
]
__all__ += ["percent", "size"]

# Sections of a rule's page, in order. Every rule has all of them, in both languages.
DOC_KEYS = ("doc_finds", "doc_why", "doc_fix", "doc_fine", "doc_measured")


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number in a text: what it is and in which unit, worded per language by `units`."""

    value: float | int | None
    word: Callable[..., str]

    def text(self, lang: str) -> str:
        """The number as a reader of `lang` writes it."""
        return _Number(self.word(self.value, lang), self.value)


class _Number(str):
    """A number in words, which a text may have with what it counts: ``{waits:wait}`` is ``1 wait`` or ``71 waits``."""

    def __new__(cls, text: str, value: float | int | None) -> _Number:
        made = super().__new__(cls, text)
        made.value = value
        return made

    value: float | int | None

    def __format__(self, spec: str) -> str:
        if not spec.isalpha() or len(spec) < 2:
            return super().__format__(spec)
        return f"{self} {spec}{'' if self.value == 1 else 's'}"


def duration(ns: float | None) -> Quantity:
    """A time in ns."""
    return Quantity(ns, units.duration)


def percent(ratio: float | None) -> Quantity:
    """A ratio from 0 to 1."""
    return Quantity(ratio, units.percent)


def count(number: float | int | None) -> Quantity:
    """A number of things; one per step may be a fraction, which is rounded."""
    return Quantity(None if number is None else round(number), units.count)


def size(n_bytes: float | None) -> Quantity:
    """An amount of memory in bytes."""
    return Quantity(n_bytes, units.size)


def bandwidth(bytes_per_s: float | None) -> Quantity:
    """Bytes per second."""
    return Quantity(bytes_per_s, units.bandwidth)


def flops_rate(flops_per_s: float | None) -> Quantity:
    """Floating-point operations per second."""
    return Quantity(flops_per_s, units.flops_rate)


@dataclass(slots=True)
class Draft:
    """A finding before it is priced and worded.

    Attributes:
        slots: what the texts name: quantities, or text that is the same in every language (names of ops and kernels).
        change: what would be different if this were fixed; None where nothing would be faster (good news).
        cost_ns: what it costs now per step: GPU time, CPU time or idle time that it explains; None where not known.
        evidence: event numbers that prove it, the most telling first (some ten).
        variant: which wording: keys ``title``, ``text`` and ``fix`` take ``_<variant>`` where given.
        fix_variant: the same for the fix alone, where the advice depends on what is already in place.
        confidence: ``high`` (the trace shows it), ``medium`` (one assumption, stated in the text) or ``low``.
        low, high: changes for the ends of the saving's range, where there is one.
        saving_ns: a saving that cannot be replayed, stated by the rule; wins over `change`.
        symptoms: ids of rules whose findings this one explains: they are folded under it.
        good: good news: what was done well and what it saved.
        where: module, annotation or Python line to change, where recorded.
        least_share: share of the step from which on it is reported, where that is below what is worth a reader's time otherwise.
    """

    slots: Mapping[str, Quantity | str]
    change: Change | None
    cost_ns: float | None
    evidence: Sequence[int]
    variant: str = ""
    fix_variant: str = ""
    confidence: str = "high"
    low: Change | None = None
    high: Change | None = None
    saving_ns: float | None = None
    symptoms: tuple[str, ...] = ()
    good: bool = False
    where: str | None = None
    least_share: float | None = None


@dataclass(frozen=True, slots=True)
class Clear:
    """Looked for and not there."""


@dataclass(frozen=True, slots=True)
class NotChecked:
    """Could not be looked for.

    Attributes:
        reason: key of the reason in `lanewise.rules.reasons`.
    """

    reason: str


Outcome = list[Draft] | Clear | NotChecked


@dataclass(frozen=True, slots=True)
class Rule:
    """One problem that lanewise knows.

    Attributes:
        id: noun of the problem, with dashes.
        english: texts by key: ``name`` (what the problem is called), ``title``, ``text`` and ``fix`` of a finding (with
            slots, and with variants), and the sections of `DOC_KEYS`.
        check: looks for it.
        needs: capabilities without which it is not checked: ``gpu_events``, ``idle`` (complete GPU records), ``steps``,
            ``shapes``, ``stacks``, ``memory``, ``sequence``, ``launches``.
        precedence: which of two findings keeps time that both claim: the lower one. 10 structure of one kernel or op that is
            simply wrong (SDPA's math backend) and time that is nobody else's (driver allocations, data loading), 20 groups with
            one fix (attention by hand, an optimizer; waits and what is there only for them), 30 single wasteful ops (copies,
            casts), 40 chains of pointwise ops, 60 copies that could overlap, 80 general symptoms (launch-bound).
        general: a general symptom, which a specific cause explains.
    """

    id: str
    english: Mapping[str, str]
    check: Callable[[Context], Outcome]
    needs: tuple[str, ...] = ()
    precedence: int = 50
    general: bool = False
    catalog: Catalog = field(init=False)

    def __post_init__(self) -> None:
        missing = [key for key in ("name", "title", "text", "fix", *DOC_KEYS) if key not in self.english]
        if missing:
            raise ValueError(f"rule {self.id} has no text for {', '.join(missing)}")
        object.__setattr__(self, "catalog", Catalog(f"rules/{self.id}", self.english))

    def words(self, draft: Draft, lang: str) -> tuple[str, str, str]:
        """Title, text and fix of a finding."""
        slots: dict[str, Any] = {k: v.text(lang) if isinstance(v, Quantity) else v for k, v in draft.slots.items()}

        def worded(key: str, variant: str) -> str:
            chosen = f"{key}_{variant}" if variant and f"{key}_{variant}" in self.english else key
            return self.catalog(chosen, lang, **slots)

        return worded("title", draft.variant), worded("text", draft.variant), worded("fix", draft.fix_variant or draft.variant)


def first_events(events: Any, n: int = 8) -> list[int]:
    """The first few of some event numbers, as evidence."""
    return [int(e) for e in np.asarray(events)[:n]]
