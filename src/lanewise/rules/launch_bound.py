"""launch-bound: the CPU launches more slowly than the GPU works."""

from __future__ import annotations

import re

import numpy as np

from lanewise.analyses.host_syncs import host_syncs
from lanewise.analyses.launches import LAUNCH_KINDS
from lanewise.analyses.replay import Change, Replay
from lanewise.model.intervals import Intervals, gaps, intersection, length, union

from .base import Clear, Draft, NotChecked, Outcome, Quantity, Rule, count, duration, first_events, percent
from .cold_start import setup_events
from .context import Context
from .data_starvation import LEAST_QUIET_NS, unnamed_loading
from .step_python import python_holes, step_windows

__all__ = ["RULE"]

# Steps that the CPU bounds vary by 10 % and more from run to run (recordings of the same training step took 11 to 15 ms).
_LEAST_SHARE = 0.1
# Where most of the GPU's work comes from graphs already, launches are not what another graph would save.
_MOST_GRAPHED = 0.5
# Launching a graph of 3 nodes took 9 to 16 us, of 38 to 81 nodes 69 to 107 us (CUDA 13), of 421 nodes 507 us (ROCm), recorded:
# some 10 us and 1 us a node, as an upper bound, since the profiler records every node.
_GRAPH_NS = 10_000
_NODE_NS = 1_000
_LEAST_NODES = 5  # launching so few kernels costs no more than launching a graph
_COMPILED = re.compile(r"^Torch-Compiled Region|CompiledFxGraph|^CompiledFunction")


def _check(ctx: Context) -> Outcome:
    replay = ctx.replay
    if replay is None:
        return NotChecked("no-launches")
    launched = np.flatnonzero(np.isin(ctx.steps.launch_step, ctx.step_numbers))
    started = ctx.launches.gpu_count[launched]
    graphed = int(started[ctx.launches.kind[launched] == LAUNCH_KINDS.index("graph")].sum())
    if not len(launched) or graphed > _MOST_GRAPHED * started.sum():
        return Clear()
    nodes = ctx.per_step(int(started.sum()))
    if nodes < _LEAST_NODES:
        return Clear()
    gone = _dispatching(ctx)
    change = Change(cpu=gone, extra_cpu_ns=_GRAPH_NS + _NODE_NS * nodes)
    cpu = max(0.0, replay.cpu_ns() - ctx.per_step(length(step_windows(ctx)) - length(gone)))
    if (
        not replay.real_ns
        or replay.saving(change) < _LEAST_SHARE * replay.real_ns
        or cpu < (1 + _LEAST_SHARE) * replay.gpu_ns()
    ):
        return Clear()
    calls = ctx.launches.call[launched]
    # At the least the ops' own work goes, and every kernel is still launched by itself.
    kept = gaps(union(ctx.trace.ts[calls], ctx.trace.end[calls]), int(ctx.trace.ts[0]), int(ctx.trace.end.max()))
    order = calls[np.argsort(-ctx.trace.dur[calls], kind="stable")]
    return [
        Draft(
            _slots(ctx, replay, cpu, ctx.per_step(len(launched)), nodes),
            change,
            max(0.0, replay.real_ns - replay.gpu_ns()),
            first_events(order),
            fix_variant=_fix(ctx),
            confidence="medium" if replay.real else "low",
            low=Change(cpu=intersection(gone, kept)),
            symptoms=("underfilled-gpu",),
        )
    ]


def _slots(ctx: Context, replay: Replay, cpu: float, launches: float, nodes: float) -> dict[str, Quantity]:
    """What the texts tell of a step: its launches, CPU work in ns, GPU ops."""
    return {
        "launches": count(launches),
        "cpu": duration(cpu),
        "gpu": duration(replay.gpu_ns()),
        "each": duration(cpu / max(launches, 1)),
        "kernel": duration(replay.gpu_ns() / max(nodes, 1)),
        "idle": percent(max(0.0, 1 - replay.gpu_ns() / replay.real_ns)),
        "waits": count(ctx.per_step(_waits(ctx))),
    }


def _waits(ctx: Context) -> int:
    """Waits for the GPU inside ops of the steps, which a graph cannot hold."""
    syncs = ctx.trace.analysis(host_syncs)
    return int((np.isin(ctx.step_of(syncs.event), ctx.step_numbers) & ~syncs.is_kind("explicit")).sum())


def _fix(ctx: Context) -> str:
    if _waits(ctx):
        return "waits"
    if len(ctx.in_steps(ctx.events_matching(_COMPILED))):
        return "compiled"
    return "training" if len(ctx.activity.by_name["autograd"][0]) else ""


def _dispatching(ctx: Context) -> Intervals:
    """CPU time of the steps that a graph saves: all but loading, compiling, set-up and long stretches of other Python."""
    windows = step_windows(ctx)
    data, compiling = ctx.activity.by_name["data"], ctx.activity.by_name["compile"]
    loading = ctx.answer(unnamed_loading)[0]
    holes = ctx.answer(python_holes)
    long = holes[1] - holes[0] >= LEAST_QUIET_NS
    setup = ctx.answer(setup_events)
    other = union(
        np.concatenate([data[0], compiling[0], loading[0], holes[0][long], ctx.trace.ts[setup]]),
        np.concatenate([data[1], compiling[1], loading[1], holes[1][long], ctx.trace.end[setup]]),
    )
    pieces = [gaps(other, int(a), int(b)) for a, b in zip(*windows, strict=True)]
    return union(np.concatenate([p[0] for p in pieces]), np.concatenate([p[1] for p in pieces]))


RULE = Rule(
    id="launch-bound",
    precedence=80,
    general=True,
    needs=("gpu_events", "steps", "launches"),
    check=_check,
    english={
        "name": "Launch-bound",
        "title": "{launches} launches per step take the CPU {cpu}, the GPU {gpu}",
        "text": "{each} of CPU time per launch, {kernel} of GPU time per kernel: the GPU idles {idle} of the step. One graph launch in "
        "place of all of them is what the saving assumes.",
        "fix": '`torch.compile(model, mode="reduce-overhead")`, or capture the forward pass with `torch.cuda.graph` (static shapes and '
        "buffers); a larger batch does more work per launch.",
        "fix_compiled": 'The model is compiled: add `mode="reduce-overhead"`, so that its kernels are launched as one CUDA graph. Inputs '
        "must keep their shapes.",
        "fix_training": '`torch.compile(model, mode="reduce-overhead")`; or capture the whole step with `torch.cuda.graph` (static '
        "inputs, `capturable=True` in the optimizer); or a larger batch.",
        "fix_waits": "A CUDA graph cannot hold the {waits:wait} per step: first keep what is read on the GPU, then "
        '`torch.compile(model, mode="reduce-overhead")` or `torch.cuda.graph`.',
        "doc_finds": "Steps in which the GPU waits for launches: the CPU needs longer to launch the kernels than the GPU to run them, and "
        "no single cause explains it.",
        "doc_why": "An eager op costs 5 to 30 µs of CPU time (Python, dispatch, autograd, launch), however small its kernel. Kernels of a "
        "few microseconds are done before the next one is launched.",
        "doc_fix": '    model = torch.compile(model, mode="reduce-overhead")     # fewer kernels, launched as one graph\n\n'
        "    g = torch.cuda.CUDAGraph()                             # by hand: static inputs, no waits inside\n"
        "    with torch.cuda.graph(g):\n"
        "        out = model(static_input)\n"
        "    static_input.copy_(batch); g.replay()\n\n"
        "Larger batches, fewer and larger ops, and the foreach or fused optimizers help as well.",
        "doc_fine": "Where the GPU bounds the step, launches are hidden. Much smaller steps than the real ones (a test with batch size 1) "
        "are launch-bound by nature.",
        "doc_measured": "The steps are replayed with one graph launch (10 µs and 1 µs per kernel, an upper bound from recorded graph "
        "launches) in place of the CPU time of all ops and the Python between them; data loading, compilation, waits and stretches of "
        "Python from 1 ms on stay. Found from 10 % on, since CPU-bound steps vary by as much. Other findings' CPU time is not counted "
        "again. The low end of the range keeps one launch per kernel.",
    },
)
