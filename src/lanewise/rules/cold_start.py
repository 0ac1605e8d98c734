"""cold-start: the first recorded step loads, allocates or compiles what later ones find ready."""

from __future__ import annotations

import re

import numpy as np

from lanewise.analyses.cpu_activity import allocation_calls
from lanewise.analyses.id_sets import distinct
from lanewise.model.intervals import Intervals, clipped, length, union

from .base import Clear, Draft, NotChecked, Outcome, Rule, duration, first_events
from .context import Array, Context

__all__ = ["RULE", "setup_events"]

# Code and libraries brought to the GPU; CUDA loads a kernel's code when it is first launched, ROCm likewise.
_LOADING = re.compile(
    r"^(?:cuda|cu|hip)(?:Module|Library)(?:Load|GetFunction)|^cuLibraryLoad|Module ?Loading|Function ?Loading", re.IGNORECASE
)
# A launch that takes so many times the usual one loaded something: 4 to 10 us are usual, loading takes 100 us to 50 ms.
_SLOW_LAUNCH = 20
_LEAST_SHARE = 0.25  # of a usual step: first steps are up to a fifth slower without any such event


def _check(ctx: Context) -> Outcome:
    n = len(ctx.steps)
    if n < 2:
        return NotChecked("one-step")
    setup = ctx.answer(setup_events)
    time = np.array([length(clipped(_of(ctx, setup), *_window(ctx, i))) for i in range(n)])
    usual = float(np.median(ctx.steps.time_ns[1:]))
    extra = float(time[0] - np.median(time[1:]))
    slower = float(ctx.steps.time_ns[0]) - usual
    if extra < _LEAST_SHARE * usual or slower < _LEAST_SHARE * usual:
        return Clear()
    begin, end = _window(ctx, 0)
    mine = setup[(ctx.trace.ts[setup] >= begin) & (ctx.trace.ts[setup] < end)]
    if not len(mine):
        return Clear()
    order = mine[np.argsort(-ctx.trace.dur[mine], kind="stable")]
    kinds = [k for k, events in ctx.answer(_kinds).items() if np.isin(events, mine).any()]
    return [
        Draft(
            {
                "first": duration(float(ctx.steps.time_ns[0])),
                "usual": duration(usual),
                "extra": duration(extra),
                "longest": ctx.trace.name_of(int(order[0])),
            },
            None,
            None,
            first_events(order),
            variant="compile" if "compile" in kinds and _most(ctx, mine, "compile") else "",
        )
    ]


def _most(ctx: Context, events: Array, kind: str) -> bool:
    """Whether most of the time of some events is of one kind."""
    mine = np.intersect1d(events, ctx.answer(_kinds)[kind])
    return 2 * length(_of(ctx, mine)) > length(_of(ctx, events))


def _window(ctx: Context, step: int) -> tuple[int, int]:
    start = int(ctx.steps.start[step])
    return start, start + int(ctx.steps.wall_ns[step])


def _of(ctx: Context, events: Array) -> Intervals:
    return union(ctx.trace.ts[events], ctx.trace.end[events])


def _kinds(ctx: Context) -> dict[str, Array]:
    """Events that set something up, by kind."""
    trace = ctx.trace
    calls = trace.rows("cuda_runtime", "cuda_driver", "overhead")
    launching = ctx.launches.call
    usual = float(np.median(trace.dur[launching])) if len(launching) else 0.0
    starts, ends = ctx.activity.by_name["compile"]
    ops = trace.rows("cpu_op", "user_annotation")
    place = np.searchsorted(starts, trace.ts[ops], side="right") - 1
    compiling = ops[(place >= 0) & (trace.end[ops] <= ends[np.maximum(place, 0)])] if len(starts) else ops[:0]
    return {
        "loading": calls[trace.names_where(lambda s: _LOADING.search(s) is not None)[trace.name[calls]]],
        "allocation": allocation_calls(trace),
        "launch": launching[trace.dur[launching] > _SLOW_LAUNCH * usual] if usual else launching[:0],
        "compile": compiling,
    }


def setup_events(ctx: Context) -> Array:
    """Events that set up what later steps find ready: code loaded, driver allocations, slow first launches, compilation."""
    return distinct(np.concatenate(list(ctx.answer(_kinds).values())).astype(np.int64))


RULE = Rule(
    id="cold-start",
    precedence=84,
    general=True,
    needs=("steps",),
    check=_check,
    english={
        "name": "Cold start",
        "title": "The first recorded step is not a steady one: {first}, later ones {usual}",
        "text": "It spends {extra} more on loading code, allocating memory and the like, the longest of it in {longest}. Per-step figures "
        "leave it out.",
        "text_compile": "It spends {extra} more on compiling and loading, the longest of it in {longest}. Per-step figures leave it out.",
        "fix": "Record later: more warm-up steps (`schedule(wait=1, warmup=3, active=5)`, or `lanewise record`, which warms up). In "
        "production, run a few steps at start-up.",
        "fix_compile": "Record later, once everything is compiled. Across runs, keep what was compiled: TORCHINDUCTOR_FX_GRAPH_CACHE=1, or "
        "`torch.compiler.save_cache_artifacts()`.",
        "doc_finds": "A first recorded step that is at least a quarter longer than the later ones because of modules loaded, driver "
        "allocations, first launches of kernels, or compilation, all of which later steps do not have.",
        "doc_why": "CUDA loads a kernel's code at its first launch, libraries create handles and workspaces, cuDNN tries algorithms, and "
        "PyTorch's allocator fills its cache. Each is paid once, and says nothing about the steady state.",
        "doc_fix": "For measuring: warm up before recording. For serving, where the first request matters: run dummy inputs of every shape "
        "at start-up, and cache compiled code on disk.",
        "doc_fine": "Always, unless the first step itself is what matters.",
        "doc_measured": "Union of those events in the first step less the median of the others, from a quarter of a usual step on. A launch "
        "counts as a first one when it takes 20 times the median. It claims no saving per step.",
    },
)
