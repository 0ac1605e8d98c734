"""Expectations against a trace. What holds, what does not and why, and what this trace cannot tell: that is never a pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from lanewise.errors import UsageError
from lanewise.expectations.counting import Counting
from lanewise.expectations.document import SCHEMA, Outcome, Outcomes
from lanewise.expectations.measuring import Measuring
from lanewise.expectations.parts import Part, annotation_parts, step_parts, usual_parts, whole_part
from lanewise.expectations.reading import Entry, Expectations, Section
from lanewise.expectations.texts import EXPECT
from lanewise.expectations.witnesses import Witnesses
from lanewise.model.trace import Trace

__all__ = ["Scope", "checked", "scope_of"]

_MOST_PARTS_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Scope:
    """What a section speaks of.

    Attributes:
        parts: the usual ones, each of which must hold.
        all: all of them.
        calls: of an annotation, all its calls, where the parts are the steps that they are counted in.
    """

    parts: list[Part]
    all: list[Part]
    calls: tuple[Part, ...] = ()

    @property
    def first(self) -> list[Part]:
        """Those that are not usual: of the first step."""
        return [p for p in self.all if p not in self.parts]


def scope_of(trace: Trace, kind: str, name: str) -> Scope:
    """The parts that a section speaks of.

    Raises:
        UsageError: there is no such annotation, or the trace has no steps.
    """
    if kind == "trace":
        whole = [whole_part(trace)]
        return Scope(whole, whole)
    found = step_parts(trace) if kind == "step" else annotation_parts(trace, name)
    if not found:
        raise UsageError("step", EXPECT.message("no-steps"))
    return Scope(usual_parts(found), found)


def checked(trace: Trace, expected: Expectations, lang: str = "en") -> Outcomes:
    """Check all expectations.

    Args:
        trace: a trace as `lanewise.load` gives it.
        expected: expectations as `read_expectations` or `expectations_of` give them.
        lang: language of the texts.

    Raises:
        UsageError: the baseline trace cannot be read.
    """
    checks = _Checks(trace, lang)
    rows = [row for section in expected.sections for row in checks.section(section)]
    measuring = Measuring(trace, lang)
    rows += [measuring.ratio(r) for r in expected.ratios]
    if expected.baseline is not None:
        rows += measuring.against(expected.baseline, expected.folder)
    return Outcomes(SCHEMA, trace.path, expected.source, _steps_text(trace, lang), rows)


def _steps_text(trace: Trace, lang: str) -> str:
    """What "a step" stands for in this trace."""
    found = step_parts(trace)
    usual = usual_parts(found)
    if not found:
        return EXPECT("steps-none", lang)
    numbers = ", ".join(str(p.step) for p in usual[:6]) + (" ..." if len(usual) > 6 else "")
    key = "steps-all" if len(usual) == len(found) else "steps-usual"
    slots = {"steps": numbers, "count": len(usual)}
    return EXPECT(key, lang, **slots, **({} if key == "steps-all" else {"first": found[0].step}))


class _Checks:
    """Checks of one trace."""

    def __init__(self, trace: Trace, lang: str) -> None:
        self.trace, self.lang = trace, lang
        self.counting = Counting(trace)
        self.witnesses = Witnesses(trace, self.counting, lang)
        self.measuring = Measuring(trace, lang)

    def section(self, section: Section) -> list[Outcome]:
        try:
            scope = scope_of(self.trace, section.kind, section.name)
        except UsageError as error:
            # A step or an annotation that is not there: nothing about it is known, and nothing has passed.
            reason = error.text(self.lang).partition(": ")[2]
            return [Outcome(section.label, e.label, e.wanted, "not-checked", reason=reason) for e in section.entries]
        self.witnesses.expected_ops = tuple(e.sub for e in section.entries if e.key.name == "ops")
        return [self._entry(section.label, e, scope) for e in section.entries]

    def _entry(self, where: str, entry: Entry, scope: Scope) -> Outcome:
        key = entry.key
        if key.name == "findings_absent":
            return self._findings(where, entry)
        if key.form in ("ratio", "size"):
            return self.measuring.figure(where, entry, scope.parts)
        missing = self.counting.missing(key.needs, scope.parts)
        if missing is not None:
            return Outcome(where, entry.label, entry.wanted, "not-checked", reason=EXPECT(missing, self.lang))
        if key.name == "calls":  # of every step, also of one without a call
            found = step_parts(self.trace)
            scope = Scope(usual_parts(found), found, tuple(scope.all))
        if key.form in ("count", "counts", "table"):
            return self._count(where, entry, scope)
        answers = {"sdpa": self._sdpa, "tensor_cores": self._tensor_cores}
        return answers.get(key.name, self._names)(where, entry, scope)

    # ---- counts
    def counts(self, entry: Entry, scope: Scope, parts: Sequence[Part]) -> list[int]:
        """What an entry counts in each of some parts."""
        if entry.key.name == "graph_breaks":
            return self.counting.frames(parts)
        if entry.key.name == "calls":
            of_step = Counter(p.step for p in scope.calls)
            return [of_step[p.step] for p in parts]
        return self.counting.tally(entry.key.name, entry.sub).counts(parts)

    def _count(self, where: str, entry: Entry, scope: Scope) -> Outcome:
        assert entry.bound is not None
        values = self.counts(entry, scope, scope.parts)
        wrong = [i for i, n in enumerate(values) if not entry.bound.holds(n)]
        found = self._found(values, scope.parts)
        if not wrong:
            return Outcome(where, entry.label, entry.wanted, "held", found, reason=self._first(entry, scope, values))
        part = scope.parts[wrong[0]]
        evidence = self.witnesses.of_count(entry, part, [p for i, p in enumerate(scope.parts) if i not in wrong])
        return Outcome(where, entry.label, entry.wanted, "breached", found, evidence, self._first(entry, scope, values))

    def _found(self, values: Sequence[int], parts: Sequence[Part]) -> str:
        """One number where all parts agree, else the numbers with the steps that have them."""
        if len(set(values)) == 1:
            return str(values[0])
        steps: dict[int, list[str]] = {}
        for value, part in zip(values, parts, strict=True):
            steps.setdefault(value, []).append(str(part.step))
        texts = []
        for value, numbers in sorted(steps.items(), key=lambda x: -len(x[1])):
            distinct = list(dict.fromkeys(numbers))
            shown = ", ".join(distinct[:_MOST_PARTS_SHOWN]) + (" ..." if len(distinct) > _MOST_PARTS_SHOWN else "")
            texts.append(EXPECT("in-steps", self.lang, value=value, steps=shown))
        return "; ".join(texts[:_MOST_PARTS_SHOWN]) + (" ..." if len(texts) > _MOST_PARTS_SHOWN else "")

    def _first(self, entry: Entry, scope: Scope, values: Sequence[int]) -> str | None:
        """What to know about the first step, where it is another."""
        if not scope.first:
            return None
        others = self.counts(entry, scope, scope.first)
        if set(others) <= set(values):
            return None
        return EXPECT("first-differs", self.lang, step=scope.first[0].step, value=self._found(others, scope.first))

    # ---- names
    def _names(self, where: str, entry: Entry, scope: Scope) -> Outcome:
        (name,) = entry.names
        required = entry.key.name.endswith("required")
        libraries = entry.key.name.startswith("libraries")
        wanted = name.lower()
        for part in scope.parts:
            kernels = self.witnesses.items(part)
            mine = [
                k
                for k in kernels
                if (k.kernel.library == wanted if libraries else k.name == name or fnmatchcase(k.name.lower(), wanted))
            ]
            if required != bool(mine):
                evidence = self.witnesses.listed(part, kernels if required else mine)
                found = EXPECT("none-of", self.lang) if required else EXPECT("some-of", self.lang, count=len(mine))
                return Outcome(where, entry.label, name, "breached", f"{found} ({self._part(part)})", evidence)
        return Outcome(where, entry.label, name, "held", EXPECT("found" if required else "none-of", self.lang))

    def _part(self, part: Part) -> str:
        if part.step is None:
            return part.name or EXPECT("whole", self.lang)
        return EXPECT("in-step", self.lang, step=part.step)

    def _sdpa(self, where: str, entry: Entry, scope: Scope) -> Outcome:
        (wanted,) = entry.names
        for part in scope.parts:
            backends = self.witnesses.sdpa(part)
            if set(backends) != {wanted}:
                found = ", ".join(f"{b} ({n})" for b, n in sorted(backends.items())) or EXPECT("no-attention", self.lang)
                evidence = self.witnesses.attention(part)
                return Outcome(where, entry.label, wanted, "breached", found, evidence)
        return Outcome(where, entry.label, wanted, "held", wanted)

    def _tensor_cores(self, where: str, entry: Entry, scope: Scope) -> Outcome:
        known = 0
        for part in scope.parts:
            products = [x for x in self.witnesses.items(part) if x.kernel.kind in ("gemm", "conv", "attention")]
            told = [x for x in products if x.kernel.tensor_cores is not None]
            known += len(told)
            wrong = [x for x in told if x.kernel.tensor_cores is not entry.flag]
            if wrong:
                found = EXPECT("without-cores" if entry.flag else "with-cores", self.lang, count=len(wrong), of=len(told))
                return Outcome(where, entry.label, entry.wanted, "breached", found, self.witnesses.listed(part, wrong))
        if not known:
            return Outcome(where, entry.label, entry.wanted, "not-checked", reason=EXPECT("no-products", self.lang))
        return Outcome(where, entry.label, entry.wanted, "held", EXPECT("all-products", self.lang))

    # ---- findings
    def _findings(self, where: str, entry: Entry) -> Outcome:
        (name,) = entry.names
        diagnosis = self.measuring.diagnosis
        found = [f for f in diagnosis.findings if not f.good and name in ("*", f.id)]
        if found:
            at = [f"{f.id}: {f.title}" for f in found]
            evidence = [
                EXPECT("at-place", self.lang, what=t, where=f.where) if f.where else t for t, f in zip(at, found, strict=True)
            ]
            return Outcome(where, entry.label, name, "breached", ", ".join(f.id for f in found), evidence)
        unknown = [c for c in diagnosis.checks if c.outcome in ("not-checked", "failed") and name == c.id]
        if unknown:
            return Outcome(where, entry.label, name, "not-checked", reason=unknown[0].reason)
        return Outcome(where, entry.label, name, "held", EXPECT("none-of", self.lang))
