"""Which GPU ops of one step stand for which of another: by name and order, else by what launched them and where.

Two sequences are aligned as texts are (Needleman and Wunsch, J. Mol. Biol. 48, 1970): each pair of ops has a likeness, a gap
costs a little, and the alignment of the largest sum is taken. What stays without a partner between two pairs is one *gap* of
some ops of the base and some of the new trace: a fused kernel in place of three, a copy that is gone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from .sequence import Slot

__all__ = ["Match", "aligned", "grouped", "names_of", "products"]

Array = npt.NDArray[Any]

_PRODUCTS = frozenset({"gemm", "gemv", "conv", "attention", "moe", "rnn", "collective"})
_HELPERS = frozenset({"gemm-aux", "conv-aux"})
_DRIVER = ("memset", "memcpy-dtod", "memcpy-htod", "memcpy-dtoh", "memcpy-ptop")
# Pointwise work: what a compiler fuses, and what goes into the epilogue of a product.
_POINTWISE = frozenset(
    {"elementwise", "cast-copy", "fused-pointwise", "fused-reduction", "reduction", "norm", "softmax", "random", "fill"}
    | {"transpose-layout", "memcpy-dtod", "rope", "index", "loss", "embedding"}
)
# Likeness: the name says most; a memset or a copy is much like another, so that it must not hold a place against a GEMM.
_SAME_NAME, _SAME_DRIVER, _SAME_KIND, _SAME_OP, _SAME_CALL, _SAME_PLACE = 12, 4, 5, 3, 2, 3
_GAP = 1
_NEVER = -1_000_000
# Cells of the alignment's table, a byte each: 100 million (10,000 ops against as many) take a second or two. Longer steps are
# paired by name alone.
_MOST_CELLS = 100_000_000
# Steps of an alignment.
_PAIR, _UP, _LEFT = 0, 1, 2


@dataclass(slots=True)
class Match:
    """Some ops of the base (places in its sequence) and some of the new trace that stand for each other."""

    base: list[int] = field(default_factory=list)
    new: list[int] = field(default_factory=list)


def products(slot: Slot) -> bool:
    """Whether a GPU op is a product: a GEMM, a convolution, attention."""
    return slot.kind in _PRODUCTS


def aligned(base: list[Slot], new: list[Slot]) -> list[Match]:
    """Pairs of one op each, and between them the gaps, in order."""
    left = _common(base, new)
    right = _common(base[left:][::-1], new[left:][::-1])
    out = [Match([i], [i]) for i in range(left)]
    a, b = base[left : len(base) - right], new[left : len(new) - right]
    inner = _by_order(a, b) if len(a) * len(b) <= _MOST_CELLS else _by_name(a, b)
    out += [Match([i + left for i in m.base], [j + left for j in m.new]) for m in inner]
    out += [Match([len(base) - k], [len(new) - k]) for k in range(right, 0, -1)]
    return _moved(out, base, new)


def _common(a: list[Slot], b: list[Slot]) -> int:
    """How many ops at the beginning are the same."""
    n = 0
    for x, y in zip(a, b, strict=False):
        if x.name != y.name or x.op != y.op:
            break
        n += 1
    return n


def _by_order(base: list[Slot], new: list[Slot]) -> list[Match]:
    if not base or not new:
        return [Match(list(range(len(base))), list(range(len(new))))] if base or new else []
    tokens_a, code_a = _tokens(base)
    tokens_b, code_b = _tokens(new)
    return _traced(_steps(_likeness(tokens_a, tokens_b), code_a, code_b))


def _steps(likeness: Array, code_a: Array, code_b: Array) -> Array:
    """uint8 (base + 1, new + 1): the last step of the best alignment of the first ops of both: a pair, or a gap in either."""
    n, m = len(code_a), len(code_b)
    steps = np.empty((n + 1, m + 1), dtype=np.uint8)
    steps[0] = _LEFT
    ramp = np.arange(m + 1, dtype=np.int32) * _GAP
    best = -ramp
    rows = likeness[:, code_b]
    for i in range(n):
        above = best - _GAP
        paired = best[:-1] + rows[code_a[i]]
        found = above.copy()
        np.maximum(found[1:], paired, out=found[1:])
        # Gaps in the new trace: the best of all cells to the left, less a gap for each step.
        best = np.maximum.accumulate(found + ramp) - ramp
        steps[i + 1] = np.where(best > found, _LEFT, _UP)
        steps[i + 1, 1:][(best[1:] == found[1:]) & (found[1:] == paired)] = _PAIR
    return steps


def _traced(steps: Array) -> list[Match]:
    """The alignment, followed back from its end."""
    i, j = steps.shape[0] - 1, steps.shape[1] - 1
    out: list[Match] = []
    gap = Match()
    while i or j:
        step = steps[i, j]
        if step == _PAIR:
            if gap.base or gap.new:
                out.append(gap)
                gap = Match()
            i, j = i - 1, j - 1
            out.append(Match([i], [j]))
        elif step == _UP:
            i -= 1
            gap.base.append(i)
        else:
            j -= 1
            gap.new.append(j)
    if gap.base or gap.new:
        out.append(gap)
    return [Match(m.base[::-1], m.new[::-1]) for m in reversed(out)]


def _tokens(slots: list[Slot]) -> tuple[list[Slot], Array]:
    """Distinct ops as far as likeness goes, and the number of each."""
    numbers: dict[tuple[Any, ...], int] = {}
    tokens: list[Slot] = []
    code = []
    for slot in slots:
        key = (slot.name, slot.op, slot.called, slot.place)
        if key not in numbers:
            numbers[key] = len(tokens)
            tokens.append(slot)
        code.append(numbers[key])
    return tokens, np.array(code, dtype=np.int64)


def _likeness(a: list[Slot], b: list[Slot]) -> Array:
    """int32 (a, b): how much a pair of ops is worth; far below 0 where they cannot stand for each other."""

    def same(key: str) -> Array:
        x = np.array([getattr(s, key) or f"<{i}" for i, s in enumerate(a)], dtype=object)
        y = np.array([getattr(s, key) or f">{i}" for i, s in enumerate(b)], dtype=object)
        return np.asarray(x[:, None] == y[None, :], dtype=np.bool_)

    name, kind, op, call, place = (same(k) for k in ("name", "kind", "op", "called", "place"))
    driver = np.array([s.kind in _DRIVER for s in a], dtype=np.bool_)[:, None]
    product = np.array([s.kind in _PRODUCTS or s.kind in _HELPERS for s in a], dtype=np.bool_)[:, None]
    # Kernels of other names stand for each other when they do the same kind of thing for the same op, products whoever calls.
    alike = kind & (op | call | product | driver)
    out = np.where(name, np.where(driver, _SAME_DRIVER, _SAME_NAME), np.where(alike, _SAME_KIND, _NEVER))
    out = out + _SAME_OP * op + _SAME_CALL * call + _SAME_PLACE * place
    return out.astype(np.int32)


def _by_name(base: list[Slot], new: list[Slot]) -> list[Match]:
    """Pairs by name alone, the first with the first; what is left over is one gap."""
    return _moved([Match(list(range(len(base))), list(range(len(new))))], base, new)


def _moved(matches: list[Match], base: list[Slot], new: list[Slot]) -> list[Match]:
    """Ops of one name that stayed without a partner in two places are the same op, moved.

    Ops that stand for one of another name are free for this too: their own name is the better partner.
    """
    free = [m for m in matches if not _is_same(m, base, new)]
    waiting: dict[tuple[str, str | None], list[tuple[Match, int]]] = defaultdict(list)
    for m in free:
        for j in m.new:
            waiting[new[j].name, new[j].op].append((m, j))
    found: list[Match] = []
    for m in free:
        for i in list(m.base):
            there = waiting[base[i].name, base[i].op]
            if there:
                home, j = there.pop(0)
                m.base.remove(i)
                home.new.remove(j)
                found.append(Match([i], [j]))
    return [m for m in matches if m.base or m.new] + found


def _is_same(match: Match, base: list[Slot], new: list[Slot]) -> bool:
    return len(match.base) == len(match.new) == 1 and base[match.base[0]].name == new[match.new[0]].name


def _optimizer(matches: list[Match], base: list[Slot], new: list[Slot]) -> list[Match]:
    """Kernels over lists of tensors put together: another form of an optimizer shares no order with the one before.

    Those that are as often in both stay as they are.
    """
    a, b = (Counter(s.name for s in slots if _is_list(s)) for slots in (base, new))
    moved = {name for name in a | b if a[name] != b[name]}
    if not moved or not a or not b:
        return matches
    out, whole = [], Match()
    for m in matches:
        left = [i for i in m.base if base[i].name in moved]
        right = [j for j in m.new if new[j].name in moved]
        whole.base += left
        whole.new += right
        rest = Match([i for i in m.base if i not in left], [j for j in m.new if j not in right])
        if rest.base or rest.new:
            out.append(rest)
    return [*out, whole]


def _is_list(slot: Slot) -> bool:
    return slot.kind in ("foreach", "optimizer") and not (slot.op or "").startswith("aten::_foreach_copy")


def grouped(matches: list[Match], base: list[Slot], new: list[Slot]) -> list[Match]:
    """Matches with what was absorbed put where it went, either way: pointwise ops into a fused kernel, or into a product's
    epilogue."""
    matches = _absorbed(_optimizer(_by_place(matches, base, new), base, new), base, new)
    return _turned(_absorbed(_turned(matches), new, base))


def _by_place(matches: list[Match], base: list[Slot], new: list[Slot]) -> list[Match]:
    """Gaps without the ops of another annotation or module: what ran before the optimizer is none of what the optimizer became.

    Ops go apart where some of the gap are at a place of the other side, and theirs is one that the other trace has as well, so
    that their counterpart would be there.
    """
    known = [{s.place for s in slots if s.place} for slots in (base, new)]
    out = []
    for match in matches:
        here = {base[i].place for i in match.base}, {new[j].place for j in match.new}
        shared = here[0] & here[1] - {None}
        left = [i for i in match.base if shared and base[i].place not in here[1] and base[i].place in known[1]]
        right = [j for j in match.new if shared and new[j].place not in here[0] and new[j].place in known[0]]
        out += [Match(left, []), Match([], right)]
        out.append(Match([i for i in match.base if i not in left], [j for j in match.new if j not in right]))
    return [m for m in out if m.base or m.new]


def _turned(matches: list[Match]) -> list[Match]:
    """Base and new swapped."""
    return [Match(m.new, m.base) for m in matches]


def _absorbed(matches: list[Match], base: list[Slot], new: list[Slot]) -> list[Match]:
    """Removed pointwise ops of the base given to kernels of the new trace that did not exist."""
    loose: list[Match] = []  # gaps of the base alone, not yet given to anything
    for match in matches:
        if not match.new:
            if any(base[i].kind in _POINTWISE for i in match.base):
                loose.append(match)
        elif not _is_same(match, base, new) and any(_absorbs(new[j]) for j in match.new):
            for gone in [g for g in loose if _near(g, match, base, new)]:
                _take(gone, match, base)
            loose = [g for g in loose if g.base]
    return _epilogues([m for m in matches if m.base or m.new], base, new)


def _absorbs(slot: Slot) -> bool:
    """Whether a kernel may do what several did: all but the driver's own work and plain products."""
    return slot.kind not in _DRIVER and slot.kind not in _HELPERS and slot.kind not in ("gemm", "gemv", "conv")


def _near(gone: Match, match: Match, base: list[Slot], new: list[Slot]) -> bool:
    """Whether removed ops belong to a kernel: it names one of them, or it is the next new kernel of the same place."""
    words = {w for j in match.new for w in _words(new[j])}
    named = any(words & _words(base[i]) for i in gone.base)
    places = {base[i].place for i in gone.base} | {new[j].place for j in match.new}
    first = min(match.base, default=None)
    # Ten ops further on it is another layer.
    distance = 0 if first is None else first - max(gone.base)
    return distance <= 10 and (named or (len(places) == 1 and not any(new[j].kernel.fused_ops for j in match.new)))


def _words(slot: Slot) -> set[str]:
    """The operations that a kernel is known to do."""
    kernel = slot.kernel
    found = {w for w in (*kernel.fused_ops, kernel.op or "") if w}
    if slot.op and slot.op.startswith("aten::"):
        found.add(slot.op.removeprefix("aten::").rstrip("_"))
    return {w.strip("_") for w in found}


def _take(gone: Match, match: Match, base: list[Slot]) -> None:
    taken = [i for i in gone.base if base[i].kind in _POINTWISE]
    match.base[:0] = taken
    gone.base[:] = [i for i in gone.base if i not in taken]


def _epilogues(matches: list[Match], base: list[Slot], new: list[Slot]) -> list[Match]:
    """Give a product whose epilogue grew the op that it absorbed, and the copy that seeds its result."""
    for k, match in enumerate(matches):
        added = _grown(match, base, new)
        if not added:
            continue
        around = [m for m in matches[max(0, k - 3) : k + 4] if m is not match and not _is_same(m, base, new)]
        home = next(((m, i) for m in around for i in m.base if _words(base[i]) & added), None)
        if home is None:
            continue
        home[0].base.remove(home[1])
        match.base.append(home[1])
        copy = next(((m, j) for m in around for j in m.new if new[j].kind in ("memcpy-dtod", "cast-copy")), None)
        if copy is not None and "add" in added:
            copy[0].new.remove(copy[1])
            match.new.insert(0, copy[1])
    return [m for m in matches if m.base or m.new]


def _grown(match: Match, base: list[Slot], new: list[Slot]) -> set[str]:
    """What the epilogue of a GEMM does more than that of the GEMM in its place; empty for other matches."""
    if len(match.base) != 1 or len(match.new) != 1:
        return set()
    old, now = base[match.base[0]], new[match.new[0]]
    if old.kind != "gemm" or now.kind != "gemm":
        return set()
    before, after = (set((s.kernel.epilogue or "none").split("+")) for s in (old, now))
    return after - before - {"none"}


def names_of(places: list[int], slots: list[Slot]) -> list[tuple[Slot, int]]:
    """Distinct ops of a match in order, each with its number."""
    counts = Counter(slots[i].name for i in places)
    seen: dict[str, Slot] = {}
    for i in places:
        seen.setdefault(slots[i].name, slots[i])
    return [(slot, counts[name]) for name, slot in seen.items()]
