"""Counts of a trace to assert on: ``step.kernels``, ``step.ops["aten::mm"]``, ``uses("flash")``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property

from lanewise.expectations.counting import Counting
from lanewise.expectations.items import Item, cpu_items, gpu_items, has_gpu_work
from lanewise.expectations.keys import COPIES
from lanewise.expectations.parts import Part, annotation_parts, step_parts, usual_parts, whole_part
from lanewise.expectations.texts import EXPECT
from lanewise.expectations.vocabulary import canonical, matches
from lanewise.kernels import KINDS, Kernel
from lanewise.model.trace import Trace

__all__ = ["CannotTellError", "Counts", "DiffersError", "Observed"]

# Words for what only a GPU's record shows.
_ONLY_ON_GPU = frozenset(
    {"memset", "htod", "dtoh", "dtod", "triton", "workspace", "layout", "cublas", "cudnn", "cutlass", "nvjet"}
)
_COUNTED = (
    "launches",
    "gpu_ops",
    "kernels",
    "copies",
    "memsets",
    "host_syncs",
    "allocations",
    "tensor_allocations",
    "compiled_regions",
    "recompiles",
    "collectives",
)
_NEEDS = {
    "launches": "calls",
    "host_syncs": "calls",
    "allocations": "calls",
    "tensor_allocations": "memory",
    "compiled_regions": "ops",
    "recompiles": "ops",
    "collectives": "ops",
    "ops": "ops",
}


class CannotTellError(Exception):
    """This trace does not tell, for a reason that the message names: no GPU, no memory events."""


class DiffersError(AssertionError):
    """Usual steps differ, so there is no one number."""


class _Table(Mapping[str, int]):
    """Counts by name or pattern; of what is not there, 0."""

    def __init__(self, counts: Counts, key: str, names: Sequence[str]) -> None:
        self._counts, self._key, self._names = counts, key, names

    def __getitem__(self, name: str) -> int:
        if self._key != "ops" and name not in self._names:
            raise KeyError(f"{name!r} is none of {', '.join(self._names)}")
        return self._counts.number(self._key, name)

    def __iter__(self):  # type: ignore[no-untyped-def]
        return (name for name in self._names if self[name])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return repr(dict(self))


class Counts:
    """What some parts of a trace hold, each of them alike.

    Attributes that count: ``launches``, ``gpu_ops``, ``kernels``, ``copies``, ``memsets``, ``host_syncs``, ``allocations``,
    ``tensor_allocations``, ``compiled_regions``, ``recompiles``, ``collectives``.

    Raises:
        CannotTellError: the trace does not tell.
        DiffersError: the parts do not agree.
    """

    launches: int
    gpu_ops: int
    kernels: int
    copies: int
    memsets: int
    host_syncs: int
    allocations: int
    tensor_allocations: int
    compiled_regions: int
    recompiles: int
    collectives: int

    def __init__(self, counting: Counting, parts: Sequence[Part]) -> None:
        self._counting, self.parts = counting, list(parts)

    def __getattr__(self, name: str) -> int:
        if name not in _COUNTED:
            raise AttributeError(f"nothing called {name!r} is counted; known: {', '.join(_COUNTED)}, kinds, directions, ops")
        return self.number(name)

    def number(self, key: str, sub: str = "") -> int:
        """The count of a key in each part, as `lanewise expect` counts it."""
        trace = self._counting.trace
        if key == "copies" and not sub and not has_gpu_work(trace):
            copying = [sum(matches("copy", x) for x in cpu_items(trace, p)) for p in self.parts]
            return self._one(key, sub, copying)
        missing = self._counting.missing(_NEEDS.get(key, "gpu"), self.parts)
        if missing is not None:
            raise CannotTellError(f"{f'{key}.{sub}' if sub else key}: {EXPECT(missing)}")
        return self._one(key, sub, self._counting.tally(key, sub).counts(self.parts))

    def _one(self, key: str, sub: str, values: Sequence[int]) -> int:
        if len(set(values)) > 1:
            told = ", ".join(f"{n} in step {p.step}" for n, p in zip(values, self.parts, strict=True))
            raise DiffersError(f"{f'{key}[{sub}]' if sub else key} differs between the usual steps: {told}")
        return values[0] if values else 0

    @property
    def kinds(self) -> Mapping[str, int]:
        """Kernels by kind, as `lanewise kernel` names them."""
        return _Table(self, "kernels", KINDS)

    @property
    def directions(self) -> Mapping[str, int]:
        """Copies by direction: ``htod``, ``dtoh``, ``dtod``, ``ptop``."""
        return _Table(self, "copies", COPIES)

    @property
    def ops(self) -> Mapping[str, int]:
        """CPU ops by name or pattern; iterating gives the ops that do the work."""
        names: Counter[str] = Counter()
        for part in self.parts:
            names.update(x.name for x in cpu_items(self._counting.trace, part))
        return _Table(self, "ops", sorted(names))

    @property
    def sequence(self) -> list[str]:
        """The CPU ops that do the work, in order: no views, nothing that an op only calls to do its own work.

        Raises:
            CannotTellError: no CPU ops were recorded.
            DiffersError: the parts do not agree.
        """
        missing = self._counting.missing("ops", self.parts)
        if missing is not None:
            raise CannotTellError(f"sequence: {EXPECT(missing)}")
        first, *others = ([x.name for x in cpu_items(self._counting.trace, p)] for p in self.parts)
        for part, other in zip(self.parts[1:], others, strict=True):
            if other != first:
                raise DiffersError(f"the ops of step {self.parts[0].step} are {first}, those of step {part.step} {other}")
        return first

    def uses(self, word: str) -> bool:
        """Whether a kernel, op or library of a word of `lanewise guess` ran in each part.

        Raises:
            CannotTellError: only a GPU's record would show it.
        """
        meant = canonical(word.removeprefix("aten::"))
        trace = self._counting.trace
        gpu = has_gpu_work(trace)
        found = [any(matches(meant, x) for x in (gpu_items(trace, p) if gpu else self._all_ops(p))) for p in self.parts]
        if not gpu and not any(found) and meant in _ONLY_ON_GPU:
            raise CannotTellError(f"{word}: {EXPECT('no-gpu')}")
        return all(found) and bool(found)

    def _all_ops(self, part: Part) -> list[Item]:
        """Every CPU op of a part once by name, whatever it calls or is called by."""
        trace = self._counting.trace
        events, _ = self._counting.tally("ops", "*").within(part)
        names = dict.fromkeys(trace.name_of(int(e)) for e in events)
        return [Item(-1, n, Kernel(n), False, (), -1, -1, 0, n) for n in names]


class Observed:
    """A trace with its steps and annotations, to assert on."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._counting = Counting(trace)

    @cached_property
    def gpu(self) -> bool:
        """Whether GPU work was recorded."""
        return has_gpu_work(self.trace)

    @cached_property
    def step(self) -> Counts:
        """The usual steps; without step marks the whole trace."""
        return Counts(self._counting, usual_parts(step_parts(self.trace)) or [whole_part(self.trace)])

    def annotation(self, name: str) -> Counts:
        """Each call of an annotation (or module) in the usual steps.

        Raises:
            UsageError: nothing has such a name.
        """
        return Counts(self._counting, usual_parts(annotation_parts(self.trace, name)))

    def uses(self, word: str) -> bool:
        """Whether a kernel, op or library of a word of `lanewise guess` runs in every usual step."""
        return self.step.uses(word)

    @cached_property
    def frames_beyond_first(self) -> int:
        """Compiled frames beyond the first in a step: graph breaks, as far as a trace shows them."""
        return max(self._counting.frames(self.step.parts), default=0)

    def listing(self, most: int = 24) -> list[str]:
        """What a usual step ran, one line an op with how often, in order of first appearance."""
        part = self.step.parts[0]
        items = gpu_items(self.trace, part) if self.gpu else cpu_items(self.trace, part)
        counted = Counter(f"{x.kernel.label()}  ({x.owner})" if x.gpu else x.name for x in items)
        lines = [f"{n:>4}x {line}" for line, n in counted.items()]
        rest = len(lines) - most
        return lines if rest <= 0 else [*lines[:most], f"      ... {rest} more"]
