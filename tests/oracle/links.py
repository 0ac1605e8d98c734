"""Who launched what: nesting of ops on CPU lanes, calls, launches, GPU ops and the steps that they belong to."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from .reading import CALLS, GPU_WORK, OPS, Event, File, identity, nanoseconds

# Calls that start work on the GPU, for those of which no GPU op was recorded: where one was, its id tells.
LAUNCHING = re.compile(r"(cuda|cu|hip)(Ext)?(Module)?(Launch(Cooperative)?Kernel|GraphLaunch|Mem(cpy|set))")
GRAPH = re.compile(r"(cuda|cu|hip)GraphLaunch")
COPY_OR_MEMSET = re.compile(r"(cuda|cu|hip)Mem(cpy|set)")
STEP = re.compile(r"ProfilerStep#(\d+)")
MARK = re.compile(
    r"(step|iteration|iter|train_step|training_step|forward_step|decode_step)\b[\s#:_\[(]*\S*.*|step\[.*|execute_(\d+_)?(context|new)_.*",
    re.I,
)
# Of events that cover the same time, the one named first is outside.
OUTSIDE_FIRST = ("user_annotation", "cpu_op", "cuda_runtime", "cuda_driver", "overhead")


@dataclass(eq=False)
class Launch:
    """A call that starts GPU work, with the driver call inside it."""

    call: Event
    gpu_ops: list[Event] = field(default_factory=list)

    @property
    def graph(self) -> bool:
        return bool(GRAPH.match(self.call.name))


@dataclass(eq=False)
class Step:
    mark: Event
    launches: list[Launch] = field(default_factory=list)

    @property
    def gpu_ops(self) -> list[Event]:
        return [g for launch in self.launches for g in launch.gpu_ops]

    @property
    def end(self) -> int:
        return max([self.mark.end, *(g.end for g in self.gpu_ops)])


@dataclass(eq=False)
class Graph:
    """All relations within one trace.

    `owner`: the innermost op around an op, a call or the profiler's own time. `caller`: the op that made a call.
    """

    ops: list[Event]
    calls: list[Event]
    gpu_ops: list[Event]
    owner: dict[Event, Event]
    caller: dict[Event, Event]
    launches: list[Launch]
    launch_of: dict[Event, Launch]
    steps: list[Step]
    window: tuple[int, int] | None = None
    short_replays: bool = False

    def ancestors(self, event: Event) -> list[Event]:
        """From the innermost op around it outwards; of a call from its caller."""
        out = []
        if event in self.caller:
            event = self.caller[event]
            out.append(event)
        while event in self.owner:
            event = self.owner[event]
            out.append(event)
        return out


def strays(events: list[Event]) -> set[Event]:
    """Events that lost their time: at 0, while what follows lies more than a second and ten times its own length away."""
    zero = [e for e in events if e.start == 0]
    rest = [e for e in events if e.start > 0]
    if not zero or not rest:
        return set()
    first, last = min(e.start for e in rest), max(e.end for e in rest)
    return set(zero) if first > 10 * (last - first) + 1_000_000_000 else set()


def correlation(event: Event) -> int | None:
    """An id that identifies: 0, -1 and the like do not."""
    found = identity(event.args.get("correlation"))
    return found if found is not None and found > 0 else None


def external(event: Event) -> int | None:
    found = identity(event.args.get("External id", event.args.get("external id")))
    return found if found is not None and found > 0 else None


def device(event: Event) -> int | None:
    found = identity(event.args.get("device"))
    return identity(event.tid if event.pid == "CUDA functions" else event.pid) if found is None else found


def stream(event: Event) -> int | None:
    found = identity(event.args.get("stream"))
    return identity(str(event.tid).removeprefix("stream").strip()) if found is None else found


def _inner(event: Event) -> tuple[int, int, int, int, int]:
    """Larger for what is further inside: a later start, an earlier end; in equal times the op opened later."""
    number = (external(event) or 0) if event.cat in OPS else 0  # on a call it is the number of an op
    return event.start, -event.end, OUTSIDE_FIRST.index(event.cat), number, event.place


def inside(event: Event, other: Event) -> bool:
    """Whether one event of a lane lies within another; at the end of one that takes time nothing is inside any more."""
    if not other.holds(event) or other is event:
        return False
    if event.dur == 0:
        return event.start < other.end
    return event.start < other.end and _inner(other) < _inner(event)


def _owners(ops: list[Event], calls: list[Event], overhead: list[Event]) -> dict[Event, Event]:
    """The innermost op around each event: the next op outwards among all that lies around one another."""
    lanes = defaultdict(list)
    for event in ops + calls:
        lanes[event.lane].append(event)
    for event in overhead:  # the profiler's own time has no thread: it is one's when no other has an op around it
        threads = {op.lane for op in ops if inside(event, op)}
        if len(threads) == 1:
            lanes[threads.pop()].append(event)
    parent = {}
    for lane in lanes.values():
        for event in lane:
            around = [other for other in lane if inside(event, other)]
            if around:
                parent[event] = max(around, key=_inner)
    owner = {}
    for event, around in parent.items():
        while around.cat not in OPS and around in parent:
            around = parent[around]
        if around.cat in OPS:
            owner[event] = around
    return owner


def _callers(calls: list[Event], ops: list[Event], owner: dict[Event, Event]) -> dict[Event, Event]:
    """The op that made each call: the one around it, or the one that it began in and that its External id names."""
    named = defaultdict(list)
    for op in ops:
        named[external(op)].append(op)
    out = {}
    for call in calls:
        mine = named[external(call)] if external(call) is not None else []
        if len(mine) == 1 and mine[0].lane == call.lane and mine[0].start <= call.start < mine[0].end < call.end:
            out[call] = mine[0]
        elif call in owner:
            out[call] = owner[call]
    return out


def _launching(calls: list[Event], work: dict[int | None, list[Event]]) -> list[Event]:
    """Calls that start GPU work: one for each launch of those that lie inside one another.

    A call inside another is part of it, unless only the inner one's id is on GPU work; of a runtime call and the driver call
    inside it that have ids of their own the one with GPU work is the launch. What a graph's launch started is never another's.
    """
    calls = [c for c in calls if LAUNCHING.match(c.name) or correlation(c) in work]
    around = {c: [o for o in calls if o.lane == c.lane and inside(c, o)] for c in calls}
    calls = [c for c in calls if not any(correlation(o) == correlation(c) is not None for o in around[c])]
    out = []
    for call in calls:
        drivers = [c for c in calls if c.cat == "cuda_driver" and around[c] and max(around[c], key=_inner) is call]
        replaced = call.cat == "cuda_runtime" and any(correlation(c) in work for c in drivers)
        part = around[call] or (replaced and not GRAPH.match(call.name))
        if correlation(call) in work or not part:
            out.append(call)
    return out


def _launches(calls: list[Event], gpu_ops: list[Event]) -> tuple[list[Launch], dict[Event, Launch]]:
    work, by_id = defaultdict(list), defaultdict(list)
    for op in gpu_ops:
        if correlation(op) is not None:
            work[correlation(op)].append(op)
    launches = [Launch(c) for c in _launching(calls, work)]
    for launch in launches:
        by_id[correlation(launch.call)].append(launch)
    launch_of = {}
    for number, ops in work.items():
        if len(by_id[number]) == 1:
            by_id[number][0].gpu_ops = ops
            launch_of.update((op, by_id[number][0]) for op in ops)
    return [x for x in launches if not _idle(x, launches)], launch_of


def _by_arrows(file: File, ops: list[Event], gpu_ops: list[Event]) -> tuple[list[Launch], dict[Event, Launch]]:
    """Launches of the exporter before Kineto: arrows lead from ops to GPU ops, and the op is the launch."""

    def at(events: list[Event], arrow: dict[str, Any]) -> Event | None:
        lane = str(arrow.get("pid")), str(arrow.get("tid"))
        found = [e for e in events if e.lane == lane and e.start == nanoseconds(arrow.get("ts"))]
        return max(found, key=lambda e: e.place) if found else None

    arrows = [a for a in file.others if a.get("cat") == "cpu_to_cuda"]
    tails = {a["id"]: at(ops, a) for a in arrows if a["ph"] == "s" and at(ops, a)}
    launches: dict[Event, Launch] = {}
    launch_of = {}
    for arrow in arrows:
        op, gpu_op = tails.get(arrow["id"]), at(gpu_ops, arrow)
        if arrow["ph"] == "f" and op and gpu_op:
            launch = launches.setdefault(op, Launch(op))
            launch.gpu_ops.append(gpu_op)
            launch_of[gpu_op] = launch
    return list(launches.values()), launch_of


def _short_replays(links: Graph) -> bool:
    """Whether a replay of a graph lacks some of the GPU ops that other replays of the same graph have."""
    replays = [x for x in links.launches if x.graph and x.gpu_ops]
    nodes = {x: [identity(g.args.get("graph node id")) or 0 for g in x.gpu_ops] for x in replays}
    if all(n > 0 for found in nodes.values() for n in found):
        graphs: list[set[int]] = []
        for found in nodes.values():
            same = [g for g in graphs if g & set(found)]
            graphs = [g for g in graphs if g not in same] + [set(found).union(*same)]
        return any(len(found) < len(g) for found in nodes.values() for g in graphs if g & set(found))
    # Without node ids: the replays at the same place of the steps that replay as often as most do.
    names = [[[g.name for g in x.gpu_ops] for x in s.launches if x in nodes] for s in links.steps]
    names = [row for row in names if row]
    usual = max((len(row) for row in names), key=[len(row) for row in names].count, default=0)
    for place in zip(*(row for row in names if len(row) == usual), strict=True):
        whole = max(place, key=place.count)
        if place.count(whole) > 1 and place.count(whole) * 2 > len(place):
            return any(len(p) < len(whole) and whole[: len(p)] == p for p in place)
    return False


def _idle(launch: Launch, launches: list[Launch]) -> bool:
    """Copies and memsets of nothing: no GPU op, and back in less than half the time of the shortest call that has one."""
    took = [x.call.dur for x in launches if x.gpu_ops]
    sized = COPY_OR_MEMSET.match(launch.call.name)
    return not launch.gpu_ops and bool(sized and took) and 2 * launch.call.dur < min(took)


def _marks(ops: list[Event]) -> list[Event]:
    """Annotations that mark steps, those of one thread; ProfilerStep, else marks that follow one another."""
    for pattern, cats in ((STEP, OPS), (MARK, ("user_annotation",))):
        lanes = defaultdict(list)
        for op in ops:
            if pattern.fullmatch(op.name) and op.cat in cats:
                lanes[op.lane].append(op)
        if lanes:
            most = min(lanes.values(), key=lambda m: (-len(m), -sum(e.dur for e in m), min((e.start, e.place) for e in m)))
            marks = sorted(most, key=lambda e: (e.start, e.place))
            if pattern is STEP or (len(marks) > 1 and all(a.end <= b.start for a, b in pairwise(marks))):
                return marks
    return []


def _steps(ops: list[Event], launches: list[Launch]) -> list[Step]:
    steps = [Step(mark) for mark in _marks(ops)]
    for launch in launches:
        around = [s for s in steps if s.mark.start <= launch.call.start < s.mark.end]
        if around:
            around[-1].launches.append(launch)
    return steps


def _shortened(gpu_ops: list[Event]) -> None:
    """Cut impossible ops: longer than 100 ms and around later ops of their own stream."""
    lanes = defaultdict(list)
    for op in gpu_ops:
        lanes[device(op), stream(op)].append(op)
    for lane in lanes.values():
        ends = {}
        for op in lane:
            later = [o for o in lane if o.start > op.start]
            if op.dur > 100_000_000 and any(op.holds(o) for o in later):
                ends[op] = min(o.start for o in later)
        for op, end in ends.items():
            op.dur = end - op.start


def graph(file: File) -> Graph:
    lost = strays(file.events)
    events = [e for e in file.events if e not in lost]
    ops = [e for e in events if e.cat in OPS]
    calls = [e for e in events if e.cat in CALLS]
    gpu_ops = [e for e in events if e.cat in GPU_WORK]
    _shortened(gpu_ops)
    launches, launch_of = _launches(calls, gpu_ops)
    if not calls and any(a.get("cat") == "cpu_to_cuda" for a in file.others):
        launches, launch_of = _by_arrows(file, ops, gpu_ops)
    steps = _steps(ops, launches)
    inner = [*calls, *(e for e in events if e.cat == "overhead")]
    owner = _owners(ops, calls, inner[len(calls) :])
    callers = _callers(calls, ops, owner) | {x.call: x.call for x in launches if x.call.cat in OPS}
    out = Graph(ops, inner, gpu_ops, owner, callers, launches, launch_of, steps)
    out.short_replays = _short_replays(out)
    if steps:
        out.window = min(s.mark.start for s in steps), max(s.end for s in steps)
    elif gpu_ops:
        first = min([g.start for g in gpu_ops] + [x.call.start for x in launches])
        out.window = first, max(g.end for g in gpu_ops)
    return out
