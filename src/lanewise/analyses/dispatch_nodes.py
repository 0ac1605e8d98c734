"""The nodes of what `dispatch` shows: what they hold, and how some of them become one."""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = ["QUIET", "LaneTree", "Node", "block", "chained", "node_name", "pruned", "quiet_joined", "quiet_times", "unwrapped"]

QUIET = ("views", "quiet")
"""Categories of nodes for ops that start nothing."""

_CHAIN = " > "
_ENGINE = "autograd::engine::evaluate_function: "


@dataclass(frozen=True, slots=True)
class Node:
    """A part of the tree; times in ns, summed over all its copies.

    Attributes:
        name: name of the event; empty for a block.
        category: Kineto's category; ``block`` for several nodes that repeat together, ``views`` and ``quiet`` for ops that
            start nothing.
        count: copies beside one another; its parts are shown once.
        copies: all copies that the times are sums of, also those in copies of what is around it.
        cpu_ns: CPU time; 0 for GPU work.
        gpu_ns: time of the GPU work that it and its parts started.
        gpu_ops: number of GPU ops that they started.
        children: its parts, in the order in which they ran.
        forward: the forward op of a backward node, if all copies have one of that name.
        names: of ``views`` and ``quiet``, the ops and how often each.
        hidden: parts that were left out of `children`.
    """

    name: str
    category: str
    count: int
    copies: int
    cpu_ns: int
    gpu_ns: int
    gpu_ops: int
    children: tuple[Node, ...] = ()
    forward: str | None = None
    names: tuple[tuple[str, int], ...] = ()
    hidden: tuple[int, int, int] = (0, 0, 0)

    @property
    def cpu_each_ns(self) -> float:
        """CPU time of one copy."""
        return self.cpu_ns / self.copies

    @property
    def gpu_each_ns(self) -> float:
        """GPU time of one copy."""
        return self.gpu_ns / self.copies


@dataclass(frozen=True, slots=True)
class LaneTree:
    """What one CPU thread did.

    Attributes:
        lane: number of the lane.
        roots: its outermost events.
        gpu_ops: GPU ops that it started.
    """

    lane: int
    roots: tuple[Node, ...]
    gpu_ops: int

    @property
    def node(self) -> Node:
        """A node around all of it."""
        cpu_ns, gpu_ns = sum(n.cpu_ns for n in self.roots), sum(n.gpu_ns for n in self.roots)
        return Node("", "lane", 1, 1, cpu_ns, gpu_ns, self.gpu_ops, self.roots)


def node_name(name: str) -> str:
    """An autograd node by its own name, without the engine's call around it."""
    return name.removeprefix(_ENGINE)


def unwrapped(node: Node) -> Node:
    """The engine's call and the autograd node in it as one: the call takes the node's name and its parts."""
    name = node_name(node.name)
    if name == node.name:
        return node
    children: list[Node] = []
    for child in node.children:
        if child.category == "quiet" and child.names[0][0].startswith(name.removeprefix("torch::autograd::")):
            continue
        children += child.children if child.name == name and child.count == 1 else (child,)
    return replace(node, name=name, children=tuple(children))


def chained(node: Node) -> Node:
    """A Python frame that only leads to another one, joined with it; the time is the outer one's."""
    only = node.children[0] if len(node.children) == 1 else None
    if node.category != "python_function" or only is None or only.category != "python_function" or only.count > 1:
        return node
    return replace(node, name=_chain_name([node.name, *only.name.split(_CHAIN)]), children=only.children)


def _chain_name(frames: list[str]) -> str:
    """What tells most of frames that call one another: the modules, and the code of the user that they lead to."""
    modules = [f for f in frames if f.startswith("nn.Module: ")]
    code = [f for f in frames if not f.startswith(("nn.Module: ", "torch/", "<built-in")) and "/torch/" not in f]
    if code and (not modules or frames.index(code[-1]) > frames.index(modules[-1])):
        modules.append(code[-1])
    return _CHAIN.join(modules or frames[-1:])


def block(children: tuple[Node, ...], times: int, copies: int) -> Node:
    """Several nodes that repeat together."""
    return Node(
        name="",
        category="block",
        count=times,
        copies=copies,
        cpu_ns=sum(c.cpu_ns for c in children),
        gpu_ns=sum(c.gpu_ns for c in children),
        gpu_ops=sum(c.gpu_ops for c in children),
        children=children,
    )


def quiet_times(node: Node, times: int) -> Node:
    """Ops that start nothing, of one repetition, as those of all."""
    return replace(node, copies=node.copies // times, names=tuple((name, n * times) for name, n in node.names))


def quiet_joined(nodes: list[Node]) -> list[Node]:
    """Neighbours that start nothing as one node."""
    out: list[Node] = []
    for node in nodes:
        if node.category not in QUIET:
            out.append(node)
            continue
        single = replace(node, children=(), name="", count=1, copies=node.copies // node.count)
        if out and out[-1].category in QUIET:
            last = out.pop()
            counts = dict(last.names)
            for name, count in node.names:
                counts[name] = counts.get(name, 0) + count
            category = last.category if last.category == node.category else "quiet"
            single = replace(last, category=category, cpu_ns=last.cpu_ns + single.cpu_ns, names=tuple(counts.items()))
        out.append(single)
    return out


def pruned(node: Node, depth: int | None, least_ns: int) -> Node:
    """A node without parts deeper than `depth` below it, and without parts of which one copy takes less than `least_ns`.

    What is left out is counted in `hidden`: how many, their CPU time, their GPU time.
    """
    if depth is not None and depth <= 0:
        gone: list[Node] = list(node.children)
        kept: list[Node] = []
    else:
        kept = [c for c in node.children if max(c.cpu_ns, c.gpu_ns) >= least_ns * c.copies]
        gone = [c for c in node.children if max(c.cpu_ns, c.gpu_ns) < least_ns * c.copies]
    deeper = None if depth is None else depth - (node.category != "block")
    hidden = (sum(c.count for c in gone), sum(c.cpu_ns for c in gone), sum(c.gpu_ns for c in gone))
    return replace(node, children=tuple(pruned(c, deeper, least_ns) for c in kept), hidden=hidden)
