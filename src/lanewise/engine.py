"""Runs the rules on a trace: isolates failures, prices findings by replay, and lets no two claim the same time."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from lanewise.analyses.replay import Change
from lanewise.model.intervals import gaps, intersection, length, union
from lanewise.model.trace import Trace
from lanewise.report import Check, Evidence, Finding, us
from lanewise.rules import rules
from lanewise.rules.base import Clear, Draft, NotChecked, Rule
from lanewise.rules.context import Context
from lanewise.rules.data_starvation import unrecorded_wait
from lanewise.rules.reasons import REASONS

__all__ = ["Diagnosis", "diagnose", "evidence_of"]

# A finding that would save less than this share of the step is there, but not worth a reader's time: steps vary by more.
LEAST_SHARE = 0.01
# A finding of which less than this part remains once others have claimed their time says nothing of its own.
_LEAST_REMAINDER = 0.3
_MOST_EVIDENCE = 12
# Events; below, a second thread would start for some milliseconds of work.
_SHARED_FROM = 100_000


@dataclass(slots=True)
class _Priced:
    rule: Rule
    draft: Draft
    saving_ns: float | None
    low_ns: float | None = None
    high_ns: float | None = None
    folded: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What the rules say: findings, the dearest first, good news last; and the outcome of every rule."""

    findings: list[Finding]
    checks: list[Check]


def diagnose(context: Context, lang: str = "en") -> Diagnosis:
    """Run all rules."""
    checks: dict[str, Check] = {}
    drafts: list[tuple[Rule, Draft]] = []
    for rule, (found, check) in _outcomes(context, lang):
        drafts += [(rule, d) for d in found]
        checks[rule.id] = check
    priced = _folded(_priced(context, drafts))
    step_ns = context.replay.real_ns if context.replay is not None else None
    kept = [p for p in priced if _worth_it(p, step_ns)]
    for rule_id in {p.rule.id for p in priced} - {p.rule.id for p in kept}:
        checks[rule_id] = Check(rule_id, "clear", REASONS("minor", lang))
    for p in priced:
        for rule_id in p.folded:
            if not any(k.rule.id == rule_id for k in kept):
                checks[rule_id] = Check(rule_id, "clear", REASONS("folded", lang, by=p.rule.id))
    kept.sort(key=lambda p: (p.draft.good, -_worth(p), p.rule.precedence, p.rule.id))
    return Diagnosis([_finding(context, p, step_ns, lang) for p in kept], [checks[i] for i in sorted(checks)])


def _outcomes(context: Context, lang: str) -> list[tuple[Rule, tuple[list[Draft], Check]]]:
    """What each rule finds, in their order. On large traces two threads share the rules, since NumPy lets both work at once."""
    every = list(rules())
    found: dict[str, tuple[list[Draft], Check]] = {}
    rest = iter(every)

    def check_rest() -> None:
        for rule in rest:
            found[rule.id] = _outcome(rule, context, lang)

    if len(context.trace) >= _SHARED_FROM:
        other = threading.Thread(target=check_rest, daemon=True)
        other.start()
        check_rest()
        other.join()
    else:
        check_rest()
    return [(rule, found[rule.id]) for rule in every]


def _outcome(rule: Rule, context: Context, lang: str) -> tuple[list[Draft], Check]:
    """What one rule finds; a failure is that rule's outcome and nobody else's."""
    missing = next((n for n in rule.needs if not _has(context, n)), None)
    if missing is not None:
        return [], Check(rule.id, "not-checked", REASONS(f"no-{missing}", lang))
    try:
        outcome = rule.check(context)
    except Exception as error:  # noqa: BLE001  one rule's failure must not cost the report; it is shown as such
        return [], Check(rule.id, "failed", REASONS("failed", lang, error=f"{type(error).__name__}: {error}"))
    if isinstance(outcome, NotChecked):
        return [], Check(rule.id, "not-checked", REASONS(outcome.reason, lang))
    if isinstance(outcome, Clear) or not outcome:
        return [], Check(rule.id, "clear")
    return outcome, Check(rule.id, "found")


def _has(context: Context, need: str) -> bool:
    if need == "steps":
        return len(context.steps) > 0
    if need == "idle":
        return context.coverage.gpu_timing == "ok"
    if need == "launches":
        return len(context.launches.call) > 0
    if need == "device":
        return context.device is not None
    return need in context.trace.capabilities or (need == "shapes" and _all_compiled(context.trace))


def _all_compiled(trace: Trace) -> bool:
    """Whether shapes were recorded and compiled code runs everything: no op of ATen is left that could have any."""
    if trace.header.get("record_shapes") != 1:
        return False
    ops = np.unique(trace.name[trace.column("cpu_ops", "event")])
    names = [trace.strings[n] for n in ops]
    return any(n.startswith("Torch-Compiled Region") for n in names) and not any(n.startswith("aten::") for n in names)


def _priced(context: Context, drafts: list[tuple[Rule, Draft]]) -> list[_Priced]:
    """Price the drafts in order of their right to the time that they claim."""
    alone = [_saving(context, d, d.change) for _, d in drafts]
    order = sorted(range(len(drafts)), key=lambda i: (drafts[i][0].precedence, -(alone[i] or 0.0)))
    taken_rows: set[int] = set()
    room = _Room(context)
    taken_cpu: Any = (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
    out = []
    for i in order:
        rule, draft = drafts[i]
        if draft.good or draft.change is None:
            out.append(_Priced(rule, draft, alone[i]))
            continue
        change = _less(draft.change, taken_rows, taken_cpu)
        saving = alone[i] if change is draft.change else _saving(context, draft, change)
        if saving is not None and alone[i] and saving < _LEAST_REMAINDER * (alone[i] or 0.0):
            claimed = [_shared(context, p.draft.change, draft.change) for p in out]
            out[int(np.argmax(claimed))].folded.append(rule.id)
            continue
        saving = room.within(saving, change)
        ends = (None if end is None else _less(end, taken_rows, taken_cpu) for end in (draft.low, draft.high))
        low, high = (room.within(_saving(context, draft, end), change) for end in ends)
        out.append(_Priced(rule, draft, saving, low, high))
        room.take(saving, change)
        taken_rows |= set(change.gpu)
        if change.cpu is not None and not rule.general:
            taken_cpu = union(np.r_[taken_cpu[0], change.cpu[0]], np.r_[taken_cpu[1], change.cpu[1]])
    return out


class _Room:
    """What is left of a step once earlier findings have had their share: its time, less the GPU work that remains."""

    def __init__(self, context: Context) -> None:
        self._replay = context.replay
        self._saved_ns = 0.0
        self._made = Change()
        self._last: tuple[Change, float] | None = None

    def within(self, saving_ns: float | None, change: Change) -> float | None:
        """A saving, but no more than is left."""
        if saving_ns is None or self._replay is None:
            return saving_ns
        if self._last is None or self._last[0] is not change:
            self._last = change, self._replay.most_saving(self._with(change)) - self._saved_ns
        return min(saving_ns, max(self._last[1], 0.0))

    def take(self, saving_ns: float | None, change: Change) -> None:
        """Count a finding that stays."""
        self._saved_ns += saving_ns or 0.0
        self._made, self._last = self._with(change), None

    def _with(self, change: Change) -> Change:
        """What is changed on the GPU by this and by what was counted before."""
        made = self._made.gpu
        gpu = {**made, **change.gpu}
        if not made.keys().isdisjoint(change.gpu):
            gpu.update((row, min(ns, made[row])) for row, ns in change.gpu.items() if row in made)
        aside = [rows for rows in (self._made.aside, change.aside) if rows is not None]
        return Change(gpu=gpu, aside=np.unique(np.concatenate(aside)) if aside else None)


def _shared(context: Context, one: Change | None, other: Change) -> float:
    """Time in ns, GPU's and CPU's together, that two changes both take away."""
    if one is None:
        return 0.0
    rows = np.array(sorted(set(one.gpu) & set(other.gpu)), dtype=np.int64)
    ns = float(context.gpu_ns[rows].sum())
    if one.cpu is not None and other.cpu is not None and len(one.cpu[0]) and len(other.cpu[0]):
        ns += length(intersection(union(*one.cpu), union(*other.cpu)))
    return ns


def _saving(context: Context, draft: Draft, change: Change | None) -> float | None:
    if draft.saving_ns is not None and change is draft.change:
        return draft.saving_ns
    if change is None or context.replay is None:
        return None
    # Waiting that the recorded steps do not show is nothing that a change to them saves.
    seen = 1 - context.answer(unrecorded_wait) / context.replay.real_ns if context.replay.real_ns else 1.0
    return context.replay.saving(change) * seen


def _less(change: Change, rows: set[int], cpu: Any) -> Change:
    """A change without what others have claimed; the same object when nothing of it is claimed."""
    gpu = {row: ns for row, ns in change.gpu.items() if row not in rows}
    own = change.cpu
    if own is not None and len(cpu[0]) and len(own[0]):
        own = union(*own)
        rest = intersection(own, gaps(cpu, int(own[0][0]), int(own[1][-1])))
        if int((rest[1] - rest[0]).sum()) == int((own[1] - own[0]).sum()):
            rest = own
        else:
            return replace(change, gpu=gpu, cpu=rest)
    return change if len(gpu) == len(change.gpu) else replace(change, gpu=gpu)


def _folded(priced: list[_Priced]) -> list[_Priced]:
    """Fold symptoms under the finding that explains them, unless the symptom is worth clearly more."""
    gone: set[int] = set()
    for p in priced:
        for i, other in enumerate(priced):
            explains = other.rule.id in p.draft.symptoms and other is not p and i not in gone
            if explains and _worth(other) <= 1.2 * _worth(p):
                gone.add(i)
                p.folded.append(other.rule.id)
    return [p for i, p in enumerate(priced) if i not in gone]


def _worth(p: _Priced) -> float:
    """What a finding would save; where that is not known, as without steps, what it costs."""
    return float((p.draft.cost_ns if p.saving_ns is None else p.saving_ns) or 0.0)


def _worth_it(p: _Priced, step_ns: float | None) -> bool:
    if p.draft.good or p.saving_ns is None or not step_ns:
        return True
    return p.saving_ns >= (LEAST_SHARE if p.draft.least_share is None else p.draft.least_share) * step_ns


def _finding(context: Context, p: _Priced, step_ns: float | None, lang: str) -> Finding:
    title, text, fix = p.rule.words(p.draft, lang)
    return Finding(
        id=p.rule.id,
        title=title,
        text=text,
        fix=fix,
        cost_us_per_step=us(_plain(_cost(p))),
        saving_us_per_step=us(_plain(p.saving_ns)) if not p.draft.good else None,
        share_ratio=None if p.draft.good or p.saving_ns is None or not step_ns else round(float(p.saving_ns) / step_ns, 4),
        confidence=p.draft.confidence,
        evidence=evidence_of(context.trace, p.draft.evidence),
        saving_low_us_per_step=us(_plain(p.low_ns)),
        saving_high_us_per_step=us(_plain(p.high_ns)),
        good=p.draft.good,
        where=p.draft.where,
        folded=p.folded,
    )


def _cost(p: _Priced) -> float | None:
    """What it costs, and never less than what a fix saves: the saving counts what the problem holds up besides its own time."""
    if p.draft.cost_ns is None or p.saving_ns is None or p.draft.good:
        return p.draft.cost_ns
    return max(p.draft.cost_ns, p.saving_ns)


def _plain(ns: float | None) -> float | None:
    """A Python number: rules compute with NumPy, whose scalars JSON does not know."""
    return None if ns is None else float(ns)


def evidence_of(trace: Trace, events: Any, most: int | None = _MOST_EVIDENCE) -> list[Evidence]:
    """Events as evidence rows, the first `most` of them."""
    rows = []
    for event in list(events)[:most]:
        lane = trace.lanes[trace.lane[event]]
        rows.append(
            Evidence(
                ts_us=int(trace.ts[event]) / 1000,
                dur_us=int(trace.dur[event]) / 1000,
                lane=lane.name or f"{lane.pid} / {lane.tid}",
                name=trace.name_of(int(event)),
            )
        )
    return rows
