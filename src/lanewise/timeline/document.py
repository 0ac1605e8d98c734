"""What is drawn of a trace. Times are ns since the trace's start; a slice is known by its number, in the order of the lanes."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["LanePart", "Level", "Links", "StepSpan", "Tile", "Timeline"]


class Level(Struct, frozen=True):
    """How busy a lane is, bin by bin, for what is too small or too much to be kept.

    Attributes:
        width: ns of a bin.
        cover: a digit for each bin: 0 where nothing ran, 9 where something ran all the time.
        colour: a letter for each bin: the class that took most of it, ``a`` being class 0.
        begin: where the first bin begins.
    """

    width: float
    cover: str
    colour: str
    begin: float = 0.0


class Links(Struct, frozen=True):
    """What is known about each slice of a GPU lane, in columns.

    Attributes:
        call: number of the slice of the launching call plus 1; 0 where it is not known.
        op: place of the launching op's name in `strings` plus 1; 0 where it is not known.
        limit: ns at the card's ceilings; -1 where they are not known.
        bound: place in ``memory``, ``compute``, ``latency``; -1 where it is not known.
        bytes: of copies and memsets; -1 where they are not known.
    """

    call: list[int]
    op: list[int]
    limit: list[int]
    bound: list[int]
    bytes: list[int]


class LanePart(Struct, frozen=True):
    """A lane, or one layer of it: CPU ops, modules, Python frames, a stream's work or its annotations.

    Attributes:
        label: name of the thread or stream.
        kind: ``ops``, ``modules``, ``frames``, ``gpu`` or ``marks`` (annotations on a GPU stream).
        thread: number of the lane in the trace, the same for its layers.
        device, stream: of GPU lanes.
        rows: rows that it takes.
        total: slices in the trace.
        start: starts of the slices kept, each less the one before.
        dur: durations.
        name: places in `strings`.
        colour: classes, see `lanewise.timeline.colours`.
        row: rows.
        links: of GPU lanes.
        levels: the coarsest first.
        number: numbers of the slices among all of the trace, where more can be asked for; `links` has these numbers too.
    """

    label: str
    kind: str
    thread: int
    device: int | None
    stream: int | None
    rows: int
    total: int
    start: list[int]
    dur: list[int]
    name: list[int]
    colour: list[int]
    row: list[int]
    links: Links | None
    levels: list[Level]
    number: list[int] | None = None


class Tile(Struct, frozen=True):
    """A stretch of a trace, for a page that has only a part of it.

    Attributes:
        begin, end: the stretch.
        full: whether every slice of it is here; else the longest, and levels for the rest.
        strings: names that `lanes` refer to.
        lanes: in the order of the timeline's.
    """

    begin: int
    end: int
    full: bool
    strings: list[str]
    lanes: list[LanePart]


class StepSpan(Struct, frozen=True):
    """A step on the time axis: its annotation, and the end of the last GPU op that it launched."""

    index: int
    start: int
    end: int
    gpu_end: int


class Timeline(Struct, frozen=True):
    """A trace as it is drawn.

    Attributes:
        base_ns: what times count from, as in the file; a text, since it may not fit a double.
        span: ns from the first start to the last end.
        slices: slices in the trace.
        kept: slices here.
        strings: names.
        lanes: GPU streams, then CPU threads.
        steps: all of them.
        view: the part shown first: the usual step, or everything.
        full: parts of the trace of which every slice is here.
        evidence: for each finding of the report, and then for what else was asked for, the slices of its evidence; -1 for one
            that is not drawn.
        verdict: the same for the verdict.
    """

    base_ns: str
    span: int
    slices: int
    kept: int
    strings: list[str]
    lanes: list[LanePart]
    steps: list[StepSpan]
    view: tuple[int, int]
    full: list[tuple[int, int]]
    evidence: list[list[int]]
    verdict: list[int]
