"""``lanewise tree``: the chain from annotation to op to runtime call to kernel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from lanewise import units
from lanewise.cli import options
from lanewise.cli.texts import TEXTS
from lanewise.errors import UsageError
from lanewise.report import usual_step

if TYPE_CHECKING:
    from lanewise.analyses.dispatch_nodes import LaneTree, Node
    from lanewise.analyses.steps import Steps
    from lanewise.loading import Window
    from lanewise.model.trace import Trace

__all__ = ["command"]


@click.command("tree", short_help="The chain from annotation to op to call to kernel.")
@options.trace_argument
@click.option("--step", type=click.IntRange(0), metavar="N", help="This step.  [default: the second]")
@click.option("--depth", type=click.IntRange(1), metavar="N", help="Levels to show.  [default: all]")
@click.option("--min-us", type=click.FloatRange(0), default=0.0, metavar="US", help="Leave out parts that take less than this.")
@click.option("--python", is_flag=True, help="Also the Python frames and modules that lead to ops.")
@click.option("--all-lanes", is_flag=True, help="Also threads that start nothing on the GPU.")
@options.window_options
@options.lang_option
@options.quiet_option
def command(
    trace: str,
    step: int | None,
    depth: int | None,
    min_us: float,
    python: bool,
    all_lanes: bool,
    window: Window | None,
    lang: str,
    quiet: bool,
) -> None:
    """Show what one step of TRACE ran: annotations, the ops in them, the calls they made, the kernels these started.

    Parts that repeat are shown once, with how often and the mean time of one. Backward ops name their forward op.

    \b
    lanewise tree trace.json.gz
    lanewise tree trace.json.gz --step 4 --depth 3
    lanewise tree trace.json.gz --min-us 50 --python
    """
    loaded = options.open_trace(trace, quiet=quiet, lang=lang, window=window)
    from lanewise.analyses.dispatch import deep_calls, dispatch
    from lanewise.analyses.dispatch_nodes import pruned
    from lanewise.analyses.steps import steps
    from lanewise.kernels import decode
    from lanewise.rendering import texts, tree

    found = loaded.analysis(steps)
    place = _chosen(found, step, loaded.path, windowed=window is not None)
    begin = end = None
    if place is not None:
        begin = int(found.start[place])
        end = begin + int(found.wall_ns[place])
    lanes = dispatch(loaded, begin, end, python=python)
    busy = lanes if all_lanes else _main_lanes(lanes, loaded, found)
    name = texts.TEXTS("tree-whole", lang) if place is None else loaded.name_of(int(found.event[place]))
    gpu_ns, gpu_ops = sum(n.gpu_ns for t in lanes for n in t.roots), sum(t.gpu_ops for t in lanes)
    title = texts.TEXTS("tree-title", lang, name=name, ops=units.count(gpu_ops, lang), gpu=units.duration(gpu_ns, lang))
    width, color = options.screen()
    others = len(lanes) - len(busy)
    with deep_calls(loaded, python=python):
        branches = [tree.Branch(_lane_name(loaded, t.lane), pruned(t.node, depth, round(min_us * 1000))) for t in busy]
        labels = {n: decode(n).label(lang) for t in busy for root in t.roots for n in _kernel_names(root)}
        text = tree.render(title, branches, lang=lang, labels=labels, other_lanes=others, width=width, color=color)
    options.write_text(text, None, force=False)


def _chosen(found: Steps, step: int | None, subject: str, *, windowed: bool) -> int | None:
    """Place of the step to show: the wanted one, else the second that did anything; None without steps."""
    if step is None:
        if not len(found) or windowed:
            return None
        return usual_step([int(n) for n in found.launches])
    numbers = [int(i) for i in found.index]
    if not numbers:
        raise UsageError(subject, TEXTS.message("no-steps"), TEXTS.message("no-steps-next"))
    if step not in numbers:
        shown = ", ".join(map(str, numbers[:12])) + (" ..." if len(numbers) > 12 else "")
        raise UsageError("--step", TEXTS.message("no-step", step=step), TEXTS.message("no-step-next", steps=shown))
    return numbers.index(step)


def _main_lanes(lanes: list[LaneTree], trace: Trace, found: Steps) -> list[LaneTree]:
    """The thread that the steps are marked on, then those that started GPU work; all of them where there is no GPU work."""
    if not any(t.gpu_ops for t in lanes):
        return lanes
    marked = {int(x) for x in trace.lane[found.event]}
    return sorted((t for t in lanes if t.gpu_ops or t.lane in marked), key=lambda t: t.lane not in marked)


def _lane_name(trace: Trace, lane: int) -> str:
    known = trace.lanes[lane]
    return known.name or f"{known.pid} / {known.tid}"


def _kernel_names(node: Node) -> Iterator[str]:
    if node.category == "kernel" or node.category.startswith("gpu_mem"):
        yield node.name
    for child in node.children:
        yield from _kernel_names(child)
