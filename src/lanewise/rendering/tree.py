"""The dispatch chain as a tree: names to the left, CPU and GPU time to the right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.text import Text

from lanewise import units
from lanewise.analyses.dispatch_nodes import Node

from .layout import NARROWEST, padded, printed, shortened, wrapped
from .texts import TEXTS

__all__ = ["Branch", "render"]

_TIME = 10
_STYLES = {"user_annotation": "bold cyan", "cpu_op": "", "python_function": "dim", "kernel": "green"}


@dataclass(frozen=True, slots=True)
class Branch:
    """What one thread did: its name, and a node whose children are its outermost events."""

    lane: str
    node: Node


def render(
    title: str,
    branches: Sequence[Branch],
    *,
    lang: str,
    labels: Mapping[str, str],
    other_lanes: int = 0,
    width: int = 80,
    color: bool = False,
) -> str:
    """The tree as text.

    Args:
        title: what is shown.
        branches: threads, the busiest first.
        lang: language of the texts.
        labels: short labels of kernels, by name.
        other_lanes: threads that are not shown.
        width: cells of a line.
        color: whether escape codes for colours may be in it.
    """
    page = _Tree(lang, labels, max(width, NARROWEST))
    head = Text(padded(shortened(title, page.room), page.room), style="bold")
    head.append(padded(TEXTS("tree-cpu", lang), _TIME, right=True), style="dim")
    head.append(padded(TEXTS("tree-gpu", lang), _TIME, right=True), style="dim")
    page.lines.append(head)
    for branch in branches:
        page.lines += [Text(), Text(shortened(branch.lane, page.width), style="bold")]
        page.inside(branch.node, 0)
    if not branches:
        page.lines.append(Text(TEXTS("tree-nothing-there", lang)))
    remarks = [TEXTS("tree-mean", lang)] if page.folded else []
    remarks += [TEXTS("tree-forward", lang)] if page.backward else []
    if other_lanes:
        remarks.append(TEXTS("tree-other-lanes", lang, count=units.count(other_lanes, lang)))
    if remarks:
        page.lines += [Text(), *(Text(line, style="dim") for remark in remarks for line in wrapped(remark, page.width))]
    return printed(page.lines, color=color)


class _Tree:
    def __init__(self, lang: str, labels: Mapping[str, str], width: int) -> None:
        self.lang = lang
        self.labels = labels
        self.width = width
        self.room = width - 2 * _TIME
        self.lines: list[Text] = []
        self.folded = False
        self.backward = False

    def node(self, node: Node, level: int) -> None:
        """Add a node and its parts."""
        self.folded |= node.count > 1
        if node.category in ("views", "quiet"):
            self._quiet(node, level)
            return
        only = node.children[0] if len(node.children) == 1 else None
        if only is not None and _is_launch(node) and _is_gpu(only):
            # A call and the one thing that it started are one line.
            self._line(level, node.count, node.name, f"{_times(only.count)}{self._label(only)}", node, "")
            return
        if node.category == "block":
            name = TEXTS("tree-block", self.lang, size=units.count(len(node.children), self.lang))
        else:
            name = self._label(node)
        self.backward |= node.forward is not None
        self._line(level, node.count, name, node.forward or "", node, _STYLES.get(node.category, ""))
        self.inside(node, level)

    def inside(self, node: Node, level: int) -> None:
        """Add the parts of a node, and a word about those left out."""
        for child in node.children:
            self.node(child, level + 1)
        if node.hidden[0]:
            self._hidden(node, level + 1)

    def _label(self, node: Node) -> str:
        return self.labels.get(node.name, node.name) if _is_gpu(node) else node.name

    def _line(self, level: int, count: int, name: str, beside: str, node: Node, style: str) -> None:
        """One line: copies, name, what it launched or belongs to, times."""
        out = Text("  " * min(level, self.room // 4))
        if count > 1:
            out.append(f"{count}× ", style="bold")
        room = self.room - out.cell_len - 1
        if beside:
            arrow = " → " if _is_launch(node) else " ← "
            # The name keeps what it needs; what it leads to gets the rest, but never less than a third.
            left = shortened(name, max(room - cell_len(arrow) - cell_len(beside), room * 2 // 3 - cell_len(arrow)))
            right = shortened(beside, max(room - cell_len(left) - cell_len(arrow), 0))
            out.append(left, style=style).append(arrow, style="dim").append(right, style="green" if _is_launch(node) else "dim")
        else:
            out.append(shortened(name, room), style=style)
        cpu = "" if _is_gpu(node) else units.duration(node.cpu_each_ns, self.lang)
        gpu = units.duration(node.gpu_each_ns, self.lang) if node.gpu_ops else ""
        self._times(out, cpu, gpu)

    def _times(self, out: Text, cpu: str, gpu: str) -> None:
        out.append(" " * max(self.room - out.cell_len, 1))
        out.append(padded(cpu, _TIME, right=True)).append(padded(gpu, _TIME, right=True), style="green")
        out.rstrip()
        self.lines.append(out)

    def _quiet(self, node: Node, level: int) -> None:
        """Ops that start nothing, in one line."""
        names = ", ".join(f"{_times(n)}{name}" for name, n in node.names)
        key = "tree-views" if node.category == "views" else "tree-nothing"
        indent = "  " * min(level, self.room // 4)
        first, *rest = wrapped(TEXTS(key, self.lang, names=names), self.room - len(indent) - 1)
        self._times(Text(indent).append(first, style="dim"), units.duration(node.cpu_each_ns, self.lang), "")
        self.lines += [Text(indent + "  ").append(line, style="dim") for line in rest]

    def _hidden(self, node: Node, level: int) -> None:
        count, cpu_ns, gpu_ns = node.hidden
        out = Text("  " * min(level, self.room // 4))
        out.append("… " + TEXTS("tree-hidden", self.lang, count=units.count(count, self.lang)), style="dim")
        cpu = units.duration(cpu_ns / node.copies, self.lang) if cpu_ns else ""
        self._times(out, cpu, units.duration(gpu_ns / node.copies, self.lang) if gpu_ns else "")


def _is_gpu(node: Node) -> bool:
    return node.category in ("kernel", "gpu_memcpy", "gpu_memset")


def _is_launch(node: Node) -> bool:
    return node.category in ("cuda_runtime", "cuda_driver")


def _times(count: int) -> str:
    return f"{count}× " if count > 1 else ""
