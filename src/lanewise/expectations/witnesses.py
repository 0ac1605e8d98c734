"""The evidence behind a breached expectation: which ops and kernels, who launched them, where in the code."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase

import numpy as np

from lanewise import units
from lanewise.analyses.call_tree import op_tree
from lanewise.expectations.counting import Counting
from lanewise.expectations.items import Item, cpu_items, gpu_items, has_gpu_work
from lanewise.expectations.parts import Part
from lanewise.expectations.reading import Entry
from lanewise.expectations.reasons import short_name, why_it_ran
from lanewise.expectations.texts import EXPECT
from lanewise.model.trace import Trace
from lanewise.rules.context import Context

__all__ = ["Witnesses"]

_MOST_LINES = 6
_BACKEND = re.compile(r"^aten::_scaled_dot_product_(?:fused_)?(flash|efficient|cudnn|attention_math|attention_overrideable)")
_LIBRARIES = {"flash-attention": "flash", "cudnn": "cudnn", "cutlass": "efficient"}


class Witnesses:
    """Lines of evidence from one trace."""

    def __init__(self, trace: Trace, counting: Counting, lang: str) -> None:
        self.trace, self.counting, self.lang = trace, counting, lang
        self.context = Context(trace)
        self.expected_ops: tuple[str, ...] = ()
        self._items: dict[Part, list[Item]] = {}

    def items(self, part: Part) -> list[Item]:
        """GPU ops of a part."""
        if part not in self._items:
            self._items[part] = gpu_items(self.trace, part)
        return self._items[part]

    def of_count(self, entry: Entry, part: Part, good: Sequence[Part]) -> list[str]:
        """What was counted in a part that breaks an expectation; beside a part that holds it, only what it has more of."""
        if entry.key.name == "calls":
            return []
        tally = self.counting.tally("compiled_regions" if entry.key.name == "graph_breaks" else entry.key.name, entry.sub)
        events, rows = tally.within(part)
        if len(rows) and (rows >= 0).all():
            wanted = set(rows.tolist())
            return self.listed(part, [x for x in self.items(part) if x.row in wanted], good)
        if not len(events):
            return self._instead(entry, part)
        return self._events(events.tolist())

    def _instead(self, entry: Entry, part: Part) -> list[str]:
        """What ran where none of the wanted did: the nearest of the same sort."""
        if entry.key.name in ("kernels", "copies", "memsets", "gpu_ops", "collectives") and has_gpu_work(self.trace):
            items = self.items(part)
            kernels = [x for x in items if x.kernel.kind not in ("memset",)]
            lines = self.listed(part, kernels)
            return [EXPECT("instead", self.lang), *lines] if lines else []
        if entry.key.name == "ops":
            names = Counter(x.name for x in cpu_items(self.trace, part))
            other = [(name, n) for name, n in names.most_common() if not any(fnmatchcase(name, p) for p in self.expected_ops)]
            lines = [name if n == 1 else EXPECT("times", self.lang, count=n, what=name) for name, n in other]
            return [EXPECT("instead-ops", self.lang), *self._cut(lines)] if lines else []
        return []

    def listed(self, part: Part, some: Sequence[Item], good: Sequence[Part] = ()) -> list[str]:
        """Some GPU ops of a part, those of one name and reason as one line; without those that a good part has as well."""
        usual: Counter[str] = Counter()
        if good:
            usual = Counter(x.name for x in self.items(good[0]))
        place = {id(x): i for i, x in enumerate(self.items(part))}
        groups: Counter[str] = Counter()
        for item in some:
            if usual[item.name] > 0:
                usual[item.name] -= 1
                continue
            why = why_it_ran(self.trace, self.items(part), place[id(item)], self.lang)
            groups[f"{item.kernel.label(self.lang)}: {why}"] += 1
        if not groups and some:
            return self.listed(part, some)
        return self._cut(
            [line if n == 1 else EXPECT("times", self.lang, count=n, what=line) for line, n in groups.most_common()]
        )

    def _events(self, events: Sequence[int]) -> list[str]:
        """Calls, ops and waits by name and place in the code."""
        groups: Counter[str] = Counter()
        longest: dict[str, int] = {}
        for event in (int(e) for e in events):
            line = self._named(event)
            groups[line] += 1
            longest[line] = max(longest.get(line, 0), int(self.trace.dur[event]))
        lines = []
        for line, n in groups.most_common():
            text = line if n == 1 else EXPECT("times", self.lang, count=n, what=line)
            lines.append(EXPECT("up-to", self.lang, what=text, time=units.duration(longest[line], self.lang)))
        return self._cut(lines)

    def _named(self, event: int) -> str:
        """An event with the op around it, and where that is in the code."""
        name, where = short_name(self.trace.name_of(event)), self.context.where(event)
        if self.trace.category_of(event) in ("cuda_runtime", "cuda_driver"):
            op = self.context.parent(event)
            if op >= 0 and self.trace.category_of(op) == "cpu_op":
                name = EXPECT("called-by", self.lang, call=name, op=short_name(self.trace.name_of(op)))
        return name if where is None else EXPECT("at-place", self.lang, what=name, where=short_name(where))

    def _cut(self, lines: list[str]) -> list[str]:
        rest = len(lines) - _MOST_LINES
        return lines if rest <= 0 else [*lines[:_MOST_LINES], EXPECT("more", self.lang, count=rest)]

    # ---- attention
    def sdpa(self, part: Part) -> Counter[str]:
        """Calls of scaled_dot_product_attention by backend: from the ops; in a graph, from the kernels."""
        tree = self.trace.analysis(op_tree)
        events = tree.events
        inside = events[(self.trace.ts[events] >= part.begin) & (self.trace.ts[events] < part.end)]
        found: Counter[str] = Counter()
        for code, n in zip(*np.unique(self.trace.name[inside], return_counts=True), strict=True):
            match = _BACKEND.match(self.trace.strings[code])
            if match and "backward" not in self.trace.strings[code]:
                found[match.group(1).removeprefix("attention_")] += int(n)
        if not found and has_gpu_work(self.trace):
            kernels = (x.kernel for x in self.items(part) if x.kernel.kind == "attention" and x.kernel.direction != "backward")
            found.update(_LIBRARIES[k.library] for k in kernels if k.library in _LIBRARIES)
        return found

    def attention(self, part: Part) -> list[str]:
        """The kernels that attention ran, as evidence."""
        if not has_gpu_work(self.trace):
            return []
        kernels = [x for x in self.items(part) if x.kernel.kind == "attention" or self._in_attention(x)]
        return self.listed(part, kernels)

    def _in_attention(self, item: Item) -> bool:
        return any("scaled_dot_product" in self.trace.name_of(e) for e in item.chain)
