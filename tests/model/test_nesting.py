"""Nesting against its definition, tried on every pair of events."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lanewise.model.nesting import Nesting, nest


@dataclass(frozen=True)
class Span:
    ts: int
    end: int
    lane: int
    rank: int


def _scaled(spans: list[Span], unit: int) -> list[Span]:
    return sorted((Span(s.ts * unit, s.end * unit, s.lane, s.rank) for s in spans), key=lambda s: s.ts)


# Times that collide often; also so long that lanes laid end to end do not fit into int64.
SPANS = st.builds(
    _scaled,
    st.lists(
        st.builds(
            lambda ts, dur, lane, rank: Span(ts, ts + dur, lane, rank),
            st.integers(0, 20),
            st.sampled_from([0, 1, 2, 5, 9, 20]),
            st.integers(0, 2),
            st.integers(0, 2),
        ),
        max_size=30,
    ),
    st.sampled_from([1, 1, 2**56]),
)


def _nest(spans: list[Span], first_event: int = 0) -> Nesting:
    columns = [np.array([getattr(s, f) for s in spans], dtype=np.int64) for f in ("ts", "end", "lane", "rank")]
    return nest(np.arange(first_event, first_event + len(spans)), *columns)


def _encloses(outer: Span, inner: Span) -> bool:
    return outer.lane == inner.lane and outer.end >= inner.end and inner.ts < outer.end


def _order(spans: list[Span]) -> list[int]:
    """By lane, start, longest first, lower rank first, place in the file."""
    return sorted(range(len(spans)), key=lambda i: (spans[i].lane, spans[i].ts, -spans[i].end, spans[i].rank, i))


def _parents(spans: list[Span], order: list[int]) -> list[int]:
    """The nearest event before each in that order which encloses it."""
    out = []
    for k, i in enumerate(order):
        around = [j for j in range(k) if _encloses(spans[order[j]], spans[i])]
        out.append(around[-1] if around else -1)
    return out


def _ancestors(parents: list[int], k: int) -> list[int]:
    out = []
    while parents[k] >= 0:
        k = parents[k]
        out.append(k)
    return out


@given(SPANS)
def test_parents_and_depths(spans: list[Span]) -> None:
    tree, order = _nest(spans), _order(spans)
    parents = _parents(spans, order)
    assert tree.events.tolist() == order
    assert tree.parent.tolist() == parents
    assert tree.depth.tolist() == [len(_ancestors(parents, k)) for k in range(len(spans))]


@given(SPANS)
def test_what_an_event_encloses_follows_it_without_a_hole(spans: list[Span]) -> None:
    parents = _nest(spans).parent.tolist()
    for k in range(len(spans)):
        below = [i for i in range(len(spans)) if k in _ancestors(parents, i)]
        assert below == list(range(k + 1, k + 1 + len(below)))


@given(SPANS, st.data())
def test_totals_and_nearest(spans: list[Span], data: st.DataObject) -> None:
    tree = _nest(spans)
    parents = tree.parent.tolist()
    n = len(spans)
    values = np.array(data.draw(st.lists(st.integers(0, 2**40), min_size=n, max_size=n)), dtype=np.int64)
    chosen = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)), dtype=np.bool_)
    expected = values.tolist()
    for k in range(n):
        for a in _ancestors(parents, k):
            expected[a] += int(values[k])
    assert tree.totals(values).tolist() == expected
    assert tree.nearest(chosen).tolist() == [next((a for a in _ancestors(parents, k) if chosen[a]), -1) for k in range(n)]


@given(SPANS)
def test_levels(spans: list[Span]) -> None:
    tree = _nest(spans)
    levels = [sorted(level.tolist()) for level in tree.levels()] if len(spans) else []
    assert levels == [np.flatnonzero(tree.depth == d).tolist() for d in range(int(tree.depth.max(initial=-1)) + 1)]


def test_event_numbers_are_kept() -> None:
    assert _nest([Span(0, 9, 0, 0), Span(1, 2, 0, 0)], first_event=70_000).events.tolist() == [70_000, 70_001]


def test_nothing() -> None:
    tree = _nest([])
    assert tree.events.tolist() == tree.parent.tolist() == tree.depth.tolist() == []
    assert tree.totals(np.empty(0, dtype=np.int64)).tolist() == []


def test_more_lanes_than_16_bits() -> None:
    lanes = np.array([70_000, 3, 70_000], dtype=np.int64)
    tree = nest(np.arange(3), np.array([0, 1, 2]), np.array([9, 5, 4]), lanes, np.zeros(3, dtype=np.int8))
    assert tree.events.tolist() == [1, 0, 2]
    assert tree.parent.tolist() == [-1, -1, 1]


def test_many_events_take_little_time() -> None:
    """A long row of siblings, a deep stack and a staircase, each of 200,000: what a loop over events could not do."""
    n = 200_000
    at = np.arange(n, dtype=np.int64)
    zero = np.zeros(n, dtype=np.int64)
    siblings = nest(at, at * 2, at * 2 + 1, zero, zero)
    assert (siblings.parent == -1).all()
    stack = nest(at, at, 4 * n - at, zero, zero)
    assert (stack.parent == at - 1).all()
    assert stack.depth[-1] == n - 1
    staircase = nest(at, at * 2, at * 2 + 3, zero, zero)
    assert (staircase.parent == -1).all()
