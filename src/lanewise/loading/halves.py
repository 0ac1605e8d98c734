"""Begins and ends (phases ``B`` and ``E``) as events with a duration.

Kineto writes none, but programs that add spans of their own to a trace do. A begin and its end may lie anywhere in the file, so
chunks keep them as columns, and the whole file's are paired at once.
"""

from __future__ import annotations

from itertools import starmap
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Raw

from lanewise.model.orders import stable_order

from .arguments import args_of
from .columns import ChunkColumns, Columns
from .records import TextEvent
from .values import MISSING

__all__ = ["joined", "pairs"]

Array = npt.NDArray[Any]


def pairs(ts: Array, begin: Array, lane: Array, name: Array) -> tuple[Array, Array]:
    """Which begins and ends belong together.

    In order of their times, and of equal ones in that of the file, an end closes what was begun last on its lane and is still
    open; by that name, where all of the lane's have one, so that an end that is lost does not put all others off.

    Args:
        ts: int64 (n,): times in ns.
        begin: bool (n,): which are begins.
        lane: int (n,): numbers of their lanes.
        name: int (n,): numbers of their names; MISSING for none.

    Returns:
        Two int64 (pairs,): places of begins, ascending, and of their ends.
    """
    nameless = np.unique(lane[name == MISSING])
    key = lane.astype(np.int64) * (int(name.max(initial=0)) + 2) + np.where(np.isin(lane, nameless), 0, name + 1)
    order = stable_order(ts)
    order = order[stable_order(key[order])]
    group = np.cumsum(np.diff(key[order], prepend=key[order[:1]]) != 0)
    sign = np.where(begin[order], 1, -1)
    # How many are open after each, counted within each group from a base below all that was before.
    total = np.cumsum(sign)
    first = np.searchsorted(group, group)
    base = -group * (2 * len(ts) + 1)
    depth = total - total[first] + sign[first] + base
    lowest = np.minimum.accumulate(np.minimum(depth, base))
    # An end that goes below all before it ends nothing.
    lost = (sign < 0) & (lowest < np.where(first == np.arange(len(ts)), base, np.r_[0, lowest[:-1]]))
    level = depth - lowest + (sign < 0)
    order, group, level, opens = order[~lost], group[~lost], level[~lost], sign[~lost] > 0
    by_level = stable_order(group * (int(level.max(initial=0)) + 1) + level)
    order, group, level, opens = order[by_level], group[by_level], level[by_level], opens[by_level]
    paired = opens[:-1] & ~opens[1:] & (group[:-1] == group[1:]) & (level[:-1] == level[1:])
    begins, ends = order[:-1][paired], order[1:][paired]
    in_file = np.argsort(begins)
    return begins[in_file], ends[in_file]


def joined(
    columns: dict[str, Array], args: list[dict[str, Any] | None], strings: list[str], lanes: list[tuple[Any, Any]]
) -> tuple[ChunkColumns, int, int]:
    """(events of the pairs, in the order of their begins in the file; begins without an end; ends without a begin).

    Of an argument that both have the end's value counts, as in other viewers.

    Args:
        columns: the table ``halves`` of the whole file: ts, lane, name, spelling (of the category), begin.
        args: arguments of each, by field of `Args`.
        strings: texts of names and spellings.
        lanes: (pid, tid) by number.
    """
    begin = columns["begin"]
    begins, ends = pairs(columns["ts"], begin, columns["lane"], columns["name"])
    texts: list[str | None] = [*strings, None]  # MISSING takes the last place

    def either(column: str) -> list[str | None]:
        values = columns[column]
        return [texts[i] for i in np.where(values[begins] >= 0, values[begins], values[ends]).tolist()]

    ts = columns["ts"]
    rows = zip(
        either("spelling"),
        either("name"),
        columns["lane"][begins].tolist(),
        ts[begins].tolist(),
        (ts[ends] - ts[begins]).tolist(),
        begins.tolist(),
        ends.tolist(),
        strict=True,
    )

    def event(cat: str | None, name: str | None, lane: int, start: int, dur: int, b: int, e: int) -> TextEvent:
        pid, tid = lanes[lane]
        # Nanoseconds as microseconds, with nothing rounded.
        text = Raw(b"%d.%03d" % divmod(start, 1000) if start >= 0 else b"%de-3" % start)
        found = {**(args[b] or {}), **(args[e] or {})}
        return TextEvent("X", cat, name, pid, tid, text, dur / 1000, None, args_of(found) if found else None)

    out = Columns(text=True)
    out.add(list(starmap(event, rows)))
    n_begins = int(begin.sum())
    return out.finished(), n_begins - len(begins), len(begin) - n_begins - len(ends)
