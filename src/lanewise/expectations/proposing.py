"""A file of expectations out of a trace that is as it should be, with comments: structure exactly, times hardly."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePath

from lanewise import units
from lanewise.errors import UsageError
from lanewise.expectations.checking import scope_of
from lanewise.expectations.counting import Counting
from lanewise.expectations.items import cpu_items, has_gpu_work
from lanewise.expectations.keys import COPIES, KEYS, SDPA_BACKENDS, Key
from lanewise.expectations.measuring import Measuring
from lanewise.expectations.parts import Part, annotation_names, step_parts, usual_parts
from lanewise.expectations.texts import EXPECT
from lanewise.expectations.witnesses import Witnesses
from lanewise.model.trace import Trace

__all__ = ["proposed"]

# Rules whose outcome depends on the machine and its load as much as on the program: between ten recordings of one program
# launch-bound comes and goes.
_OF_THE_MACHINE = frozenset(
    {
        "cold-start",
        "gc-pause",
        "incomplete-trace",
        "launch-bound",
        "outlier-step",
        "profiler-overhead",
        "python-overhead",
        "underfilled-gpu",
    }
)
# Annotations that are proposed: of the user's own, those in every step; more would be a list that nobody keeps.
_MOST_ANNOTATIONS = 6
_LIBRARY_ANNOTATIONS = (
    "Optimizer.",
    "enumerate(DataLoader)",
    "autograd::",
    "DistributedDataParallel",
    "nccl:",
    "## ",
    "Torch-",
)
_COUNTS = ("launches", "memsets", "host_syncs", "allocations", "compiled_regions", "recompiles", "graph_breaks", "collectives")
_ONLY_IN_STEPS = frozenset({"recompiles", "graph_breaks", "allocations", "compiled_regions", "collectives"})
# Room that a proposed share of GPU busy time leaves: another machine's CPU may be slower by so much.
_BUSY_ROOM = 0.85
# Room of a proposed memory peak: cached workspaces differ between cards and versions.
_PEAK_ROOM = 1.1
_LINE = 96
# What `.item()`, `if tensor:` and `float(tensor)` end in.
_READ = "aten::_local_scalar_dense"
_MOST_OPS = 16


def proposed(trace: Trace, lang: str = "en") -> str:
    """A commented TOML file that this trace satisfies.

    Raises:
        UsageError: there is nothing in the trace to expect anything of.
    """
    if not step_parts(trace) and not annotation_names(trace) and "cpu_ops" not in trace.capabilities:
        raise UsageError(trace.path, EXPECT.message("nothing-to-expect"), EXPECT.message("nothing-to-expect-next"))
    writer = _Writer(trace, lang)
    return "\n".join(writer.lines()) + "\n"


class _Writer:
    def __init__(self, trace: Trace, lang: str) -> None:
        self.trace, self.lang = trace, lang
        self.counting = Counting(trace)
        self.witnesses = Witnesses(trace, self.counting, lang)
        self.measuring = Measuring(trace, lang)
        self.unknown: dict[str, list[str]] = {}

    def lines(self) -> Iterator[str]:
        file = PurePath(self.trace.path).name
        yield f"# {EXPECT('file-title', self.lang, name=file)}"
        yield from _comment(EXPECT("file-about", self.lang))
        found = step_parts(self.trace)
        if found:
            numbers = ", ".join(str(p.step) for p in usual_parts(found)[:6])
            yield f"# {EXPECT('file-steps', self.lang, steps=numbers)}"
            yield from ("", "[step]")
            yield from self._part_lines(usual_parts(found), step=True)
        for name in self._annotations():
            yield from ("", f"[annotation.{_quoted(name)}]")
            scope = scope_of(self.trace, "annotation", name)
            calls = Counter(p.step for p in scope.parts)
            if len(set(calls.values())) == 1 and None not in calls:
                yield f"calls = {next(iter(calls.values()))}"
            yield from self._part_lines(scope.parts, step=False)
        yield from self._findings()
        yield from self._not_told()
        yield from ("", f"# {EXPECT('file-times', self.lang)}")
        yield from ("# [[ratio]]", '# of = "forward"', '# to = "step"', '# time = "gpu"', '# is = "<=40%"')
        yield from ("# [baseline]", f"# trace = {_quoted(file)}", '# gpu_time = "<=1.05"')

    # ---- a step or an annotation
    def _part_lines(self, parts: Sequence[Part], *, step: bool) -> Iterator[str]:
        for key in KEYS:
            if key.name in _COUNTS and (step or key.name not in _ONLY_IN_STEPS):
                yield from self._count(key, parts)
            elif key.name in ("kernels", "copies"):
                yield from self._table(key, parts)
        if not has_gpu_work(self.trace) and self.counting.missing("ops", parts) is None:
            yield from self._ops(parts)
        yield from self._backends(parts)
        if step:
            yield from self._figures(parts)

    def _count(self, key: Key, parts: Sequence[Part]) -> Iterator[str]:
        missing = self.counting.missing(key.needs, parts)
        if missing is not None:
            self.unknown.setdefault(missing, []).append(key.name)
            return
        values = self.counting.frames(parts) if key.name == "graph_breaks" else self.counting.tally(key.name).counts(parts)
        yield self._number(key.name, values)

    def _number(self, name: str, values: Sequence[int]) -> str:
        low, high = min(values), max(values)
        if low == high:
            return f"{name} = {low}"
        shown = ", ".join(map(str, values[:8])) + (" ..." if len(values) > 8 else "")
        return f'{name} = "{low}..{high}"  # {EXPECT("file-varies", self.lang, values=shown)}'

    def _table(self, key: Key, parts: Sequence[Part]) -> Iterator[str]:
        missing = self.counting.missing(key.needs, parts)
        if missing is not None:
            self.unknown.setdefault(missing, []).append(key.name)
            return
        subs = list(COPIES) if key.name == "copies" else self._kinds(parts)
        entries = []
        for sub in ["total", *subs]:
            values = self.counting.tally(key.name, sub).counts(parts)
            if sub != "total" and not any(values):
                continue
            low, high = min(values), max(values)
            entries.append(f"{_bare(sub)} = {low}" if low == high else f'{_bare(sub)} = "{low}..{high}"')
        if len(entries) == 1:
            yield f"{key.name} = {entries[0].partition(' = ')[2]}"
        else:
            yield from _table_lines(key.name, entries)

    def _kinds(self, parts: Sequence[Part]) -> list[str]:
        counts: Counter[str] = Counter()
        for part in parts:
            counts.update(x.kernel.kind for x in self.witnesses.items(part) if x.kernel.kind is not None)
        return [kind for kind, _ in counts.most_common() if not kind.startswith("mem")]

    def _ops(self, parts: Sequence[Part]) -> Iterator[str]:
        """Without a GPU: the ops that do the work, where all parts have as many."""
        counts = [Counter(x.name for x in cpu_items(self.trace, p)) for p in parts]
        names = sorted(set().union(*counts), key=lambda n: (-counts[0][n], n))
        entries = [
            f"{_quoted(n)} = {self.counting.tally('ops', n).counts(parts)[0]}"
            for n in names
            if len(set(self.counting.tally("ops", n).counts(parts))) == 1
        ]
        if entries:
            yield f"# {EXPECT('file-ops', self.lang)}"
            yield from _table_lines("ops", entries[:_MOST_OPS])
        reads = self.counting.tally("ops", _READ).counts(parts)
        if len(set(reads)) == 1:
            yield f"# {EXPECT('file-reads', self.lang)}"
            yield f"ops.{_quoted(_READ)} = {reads[0]}"

    def _backends(self, parts: Sequence[Part]) -> Iterator[str]:
        backends = {b for p in parts for b in self.witnesses.sdpa(p)}
        if len(backends) == 1 and backends <= set(SDPA_BACKENDS):
            yield f"sdpa = {_quoted(next(iter(backends)))}  # {EXPECT('file-sdpa', self.lang)}"
        told = [
            x.kernel.tensor_cores
            for p in parts
            for x in self.witnesses.items(p)
            if x.kernel.kind in ("gemm", "conv", "attention") and x.kernel.tensor_cores is not None
        ]
        if told and all(told):
            yield "tensor_cores = true"

    def _figures(self, parts: Sequence[Part]) -> Iterator[str]:
        share, _, _ = self.measuring.busy_share(parts)
        room = int((share or 0.0) * _BUSY_ROOM * 20) * 5
        # Commented out: ten recordings of one program had shares from 37 to 94 %, by what the machine's CPU did that day.
        if room:
            value = units.percent(share, self.lang)
            yield f'# gpu_busy_share = ">={room}%"  # {EXPECT("file-busy", self.lang, value=value)}'
        peak, _, _ = self.measuring.peak_bytes(parts)
        if peak is None:
            self.unknown.setdefault("no-memory", []).append("peak_memory")
        else:
            mib = int(peak * _PEAK_ROOM / 2**20) + 1
            yield f'peak_memory = "<={mib} MiB"  # {EXPECT("file-peak", self.lang, value=units.size(peak, self.lang))}'

    # ---- the rest
    def _annotations(self) -> list[str]:
        found = usual_parts(step_parts(self.trace))
        numbers = {p.step for p in found}
        names = [n for n in annotation_names(self.trace) if not n.startswith(_LIBRARY_ANNOTATIONS)]
        kept = []
        for name in names:
            mine = {p.step for p in scope_of(self.trace, "annotation", name).all}
            if numbers <= mine and not self._is_whole_step(name):
                kept.append(name)
        return kept[:_MOST_ANNOTATIONS]

    def _is_whole_step(self, name: str) -> bool:
        """Whether an annotation launches all that its steps launch (without a GPU: calls all ops), so that it adds nothing."""
        tally = self.counting.tally("launches") if has_gpu_work(self.trace) else self.counting.tally("ops", "*::*")
        inside, around = scope_of(self.trace, "annotation", name).parts, usual_parts(step_parts(self.trace))
        return bool(around) and sum(tally.counts(inside)) == sum(tally.counts(around))

    def _findings(self) -> Iterator[str]:
        diagnosis = self.measuring.diagnosis
        found = {f.id for f in diagnosis.findings if not f.good}
        absent = [c.id for c in diagnosis.checks if c.outcome == "clear" and c.id not in found | _OF_THE_MACHINE]
        if not absent:
            return
        yield from ("", "[trace]")
        if found:
            yield f"# {EXPECT('file-findings', self.lang, ids=', '.join(sorted(found)))}"
        yield "findings_absent = ["
        yield from (f"  {line}" for line in _lines([f"{_quoted(i)}," for i in absent]))
        yield "]"

    def _not_told(self) -> Iterator[str]:
        if self.unknown:
            yield from ("", f"# {EXPECT('file-unknown', self.lang)}")
        for reason, names in self.unknown.items():
            yield f"#   {', '.join(dict.fromkeys(names))}: {EXPECT(reason, self.lang)}"


def _table_lines(name: str, entries: Sequence[str]) -> list[str]:
    """A table on one line where it is short, else one entry a line, so that a change of one is a line in a diff."""
    line = f"{name} = {{ {', '.join(entries)} }}"
    return [line] if len(line) <= _LINE else [f"{name}.{entry}" for entry in entries]


def _lines(words: Sequence[str]) -> list[str]:
    """Words as lines of a readable length."""
    lines = [""]
    for word in words:
        if len(lines[-1]) + len(word) > _LINE:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def _comment(text: str) -> list[str]:
    from lanewise.rendering.layout import wrapped

    return [f"# {line}" for line in wrapped(text, _LINE)]


def _quoted(text: str) -> str:
    """A basic TOML string: JSON's escapes are TOML's."""
    return json.dumps(text, ensure_ascii=False)


def _bare(word: str) -> str:
    """A key of an inline table; kinds are words with dashes, which are bare keys."""
    return word if word.replace("-", "").replace("_", "").isalnum() else _quoted(word)
