"""What to record and when: the plan that a recorder follows.

The steps of a run, in order::

    | skip | timed | warmup | active | ... to the end of the run, at full speed
      |      |        |        └ recorded; each one is a `ProfilerStep#`
      |      |        └ profiler on, nothing kept: the first is a rehearsal that is measured and thrown away
      |      └ no profiler, the GPU synchronised before the first and after the last: the step's real time
      └ nothing at all: first calls allocate, autotune and compile

Only the standard library is needed here: a plan also travels, as JSON, into the process of a recorded script.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from lanewise.errors import UsageError
from lanewise.recording.texts import TEXTS

__all__ = ["FLAGS", "Plan"]

# What each flag adds to the trace, and what it costs. The cost is on the CPU side of the recorded steps, so
# it matters where the CPU is the bottleneck; the timed steps before the window do not pay it.
FLAGS = {
    "shapes": "input shapes, types and strides of each op; keeps references to inputs, so memory peaks may rise",
    "stack": "Python call stacks; each Python call is an event: steps several times slower, files ten times larger",
    "memory": "every allocation and release; one event each",
    "flops": "an estimate of the operations of matmul and convolution; turns shapes on",
    "modules": "module hierarchy of each op; TorchScript only in torch itself, eager modules come with stack",
}

# Perfetto, chrome://tracing and most other viewers run out of memory between 1 and 2 GiB of JSON.
_DEFAULT_LIMIT_BYTES = 2**30


@dataclass(frozen=True)
class Plan:
    """How many steps of which kind, what is kept of each, and where the trace goes.

    Attributes:
        skip: steps that run before anything is done.
        timed: steps timed without the profiler.
        warmup: steps with the profiler warming up; with two or more, the first is a rehearsal that tells the
            size of the capture and whether GPU events arrive.
        active: steps recorded.
        whole: record everything from the beginning to the end, with no steps; the four numbers above do not
            count.
        shapes, stack, memory, flops, modules: see `FLAGS`.
        out: a file (`.json` or `.json.gz`) or a folder; None is the folder `traces`.
        label: first part of the file name; None is the name of the script.
        force: replace a file that exists.
        limit_bytes: largest trace to record, in bytes of JSON before compression; 0 is no limit.
        ranks: ranks to record of a distributed run; None is all.
    """

    skip: int = 5
    timed: int = 10
    warmup: int = 2
    active: int = 3
    whole: bool = False
    shapes: bool = False
    stack: bool = False
    memory: bool = False
    flops: bool = False
    modules: bool = False
    out: str | None = None
    label: str | None = None
    force: bool = False
    limit_bytes: int = _DEFAULT_LIMIT_BYTES
    ranks: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("skip", "timed", "warmup", "active", "limit_bytes"):
            number = getattr(self, name)
            if number < 0:
                raise UsageError(name, TEXTS.message("below-0", number=number))
        if self.active == 0:
            raise UsageError("active", TEXTS.message("no-active"), TEXTS.message("no-active-next"))

    @property
    def needed(self) -> int:
        """Steps that the run must make for the capture to be complete."""
        return 0 if self.whole else self.skip + self.timed + self.warmup + self.active

    @property
    def first_step(self) -> int:
        """Number of the first recorded step, counted from 0."""
        return self.needed - self.active

    @property
    def phases(self) -> dict[str, int]:
        """Steps of each phase, in their order."""
        return {"skip": self.skip, "timed": self.timed, "warmup": self.warmup, "active": self.active}

    @property
    def flags(self) -> dict[str, bool]:
        """The optional parts of a capture, on or off."""
        return {name: bool(getattr(self, name)) for name in FLAGS}

    def fitting(self, steps: int) -> Plan | None:
        """A plan like this one for a run of only so many steps, or None where there are not even two."""
        if steps < 2:
            return None
        active = min(self.active, max(1, steps // 4))
        warmup = min(self.warmup, 1 if steps < 8 else 2)
        timed = min(self.timed, max(0, (steps - active - warmup) // 2))
        skip = min(self.skip, steps - active - warmup - timed)
        return replace(self, skip=skip, timed=timed, warmup=warmup, active=active)

    def to_json(self) -> str:
        """The plan as one line of JSON, for the environment of a recorded process."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """The plan that `to_json` wrote; keys of other versions are left out."""
        known = {field.name for field in fields(cls)}
        values: dict[str, Any] = {key: value for key, value in json.loads(text).items() if key in known}
        if values.get("ranks") is not None:
            values["ranks"] = tuple(values["ranks"])
        return cls(**values)
