"""unfused-optimizer: an optimizer step made of many small kernels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.analyses.replay import Change
from lanewise.kernels import Kernel
from lanewise.model.intervals import length, union

from .base import Clear, Draft, Outcome, Rule, count, duration, first_events
from .context import Context
from .parameter_groups import Groups, foreach_groups, parameter_groups
from .tensor_loops import tensor_loops

__all__ = ["RULE"]

Array = npt.NDArray[Any]

_STEP = re.compile(r"^Optimizer\.step#(\w+)\.step$")
_FUSED = re.compile(r"^aten::_fused_")
# Optimizers of torch.optim with a fused implementation on CUDA (torch 2.4 and later), and how often a fused step touches
# 4 bytes for each parameter: reads of parameter, gradient and state, writes of parameter and state.
_PASSES = {"Adam": 7, "AdamW": 7, "SGD": 5, "Adagrad": 5}
# Those that torch.optim has in neither a foreach nor a fused form: there is nothing to switch on.
_NEITHER = ("SparseAdam", "LBFGS")
# A fused step still gathers its lists in Python: outside the profiler 6 to 12 us for each parameter tensor (52 to 150 tensors,
# torch 2.11).
PARAMETER_NS = 8_000
# Streaming kernels reach 75 to 90 % of a card's memory bandwidth.
_BANDWIDTH_SHARE = 0.8
# An optimizer that launches fewer kernels than it has tensors is already grouped. One kernel for each (plain SGD) is what a fused
# step saves from some ten tensors on: grouping them in Python takes as long as ten launches of 5 to 8 us.
_PLAIN_TENSORS = 10
# A group costs some 40 us of Python and launches: with fewer than ten they are there for their options, and cost little.
_LEAST_GROUPS = 10


def _check(ctx: Context) -> Outcome:
    marks = ctx.in_steps(ctx.events_matching(_STEP, "user_annotation"))
    found = [*_annotated(ctx, marks), *_grouped(ctx, marks), *_by_hand(ctx, marks)]
    return found or Clear()


def _by_hand(ctx: Context, marks: Array) -> list[Draft]:
    """Loops over tensors outside `torch.optim`: optimizers written out, moving averages of weights, clipping by hand."""
    if "shapes" not in ctx.trace.capabilities:
        return []
    loops = tensor_loops(ctx, marks)
    if not loops:
        return []
    seq = ctx.sequence
    places = np.concatenate([loop.places for loop in loops])
    rows, ns = seq.rows[places], seq.ns[places]
    now = float(ns.sum())
    moving = ctx.memory_ns(sum(loop.bytes for loop in loops) / _BANDWIDTH_SHARE)
    after = (ns * min(1.0, moving / max(now, 1.0))).astype(np.int64) if moving is not None else ns
    gone = ctx.call_intervals(seq.call[places])
    longest = max(loops, key=lambda loop: len(loop.places))
    tensors = ctx.per_step(sum(loop.turns for loop in loops))
    return [
        Draft(
            {
                "kernels": count(ctx.per_step(len(places))),
                "tensors": count(longest.turns),
                "ops": ", ".join(longest.body),
                "gpu": duration(ctx.per_step(now)),
                "cpu": duration(ctx.per_step(length(gone))),
            },
            Change(gpu=dict(zip(rows.tolist(), after.tolist(), strict=True)), cpu=gone, extra_cpu_ns=tensors * PARAMETER_NS),
            ctx.per_step(length(gone)),
            first_events(ctx.gpu_event[seq.rows[longest.places]]),
            variant="loop",
            confidence="medium",
            where=ctx.where(int(seq.owner[longest.places[0]])),
            symptoms=("unfused-pointwise",),
        )
    ]


def _grouped(ctx: Context, marks: Array) -> list[Draft]:
    """Fused steps that go through far more parameter groups than there are different options."""
    steps = parameter_groups(ctx, marks) if len(marks) and "shapes" in ctx.trace.capabilities else []
    steps = [g for g in steps if len(g.calls) >= _LEAST_GROUPS and g.options < len(g.calls)]
    if not steps:
        return []
    longest = max(steps, key=lambda g: len(g.calls))
    match = _STEP.match(ctx.trace.name_of(longest.mark))
    optimizer = match.group(1) if match else "?"
    # One call for each set of options stays; the others' tensors are gathered there.
    gone = union(
        np.array([ctx.trace.end[g.calls[g.options - 1]] for g in steps]), np.array([ctx.trace.end[g.calls[-1]] for g in steps])
    )
    moved = sum(int(g.tensors[g.options :].sum()) for g in steps)
    rows, after = _together(ctx, steps, _PASSES.get(optimizer, 7))
    now = float(ctx.gpu_ns[rows].sum())
    n = len(steps)
    return [
        Draft(
            {
                "optimizer": optimizer,
                "groups": count(len(longest.calls)),
                "tensors": count(int(longest.tensors.sum())),
                "options": count(longest.options),
                "gpu": duration(now / n),
                "cpu": duration(length(ctx.intervals(np.array([g.mark for g in steps]))) / n),
            },
            Change(gpu=after, cpu=gone, extra_cpu_ns=ctx.per_step(moved * PARAMETER_NS)),
            ctx.per_step(length(gone)),
            [longest.mark, *first_events(longest.calls)],
            variant="groups",
        )
    ]


def _together(ctx: Context, steps: Sequence[Groups], passes: int) -> tuple[Array, dict[int, int]]:
    """(rows of the steps, their new durations): a kernel for each set of options, with the blocks of its groups side by side."""
    all_rows = []
    after: dict[int, int] = {}
    for step in steps:
        rows = ctx.launched_in(np.array([step.mark]))
        ns = ctx.gpu_ns[rows]
        moving = (ctx.memory_ns(step.elements * 4 * passes) or 0.0) / _BANDWIDTH_SHARE
        left = max(step.options * float(ns.max(initial=0)), moving)
        new = (ns * min(1.0, left / max(float(ns.sum()), 1.0))).astype(np.int64)
        after.update(zip(rows.tolist(), new.tolist(), strict=True))
        all_rows.append(rows)
    return np.concatenate(all_rows), after


def _annotated(ctx: Context, marks: Array) -> list[Draft]:
    """Steps of the optimizers of `torch.optim`."""
    if not len(marks):
        return []
    inner = ctx.inside(marks)
    names = ctx.trace.names_where(lambda s: _FUSED.match(s) is not None)[ctx.trace.name[inner]]
    match = _STEP.match(ctx.trace.name_of(int(marks[0])))
    optimizer = match.group(1) if match else "?"
    rows = ctx.launched_in(marks)
    if optimizer in _NEITHER or names.any() or not len(rows) or float(ctx.kernels_where(_one_pass)[rows].mean()) > 0.5:
        return []
    foreach = bool((ctx.kinds[rows] == "foreach").mean() > 0.5)
    tensors, fused_ns = _fused_form(ctx, rows, len(marks), _PASSES.get(optimizer, 7), foreach)
    if not foreach and len(rows) < (2 if tensors < _PLAIN_TENSORS else 1) * tensors * len(marks):
        return []
    scale = fused_ns * len(marks) / max(float(ctx.gpu_ns[rows].sum()), 1.0)
    shrunk = (ctx.gpu_ns[rows] * min(scale, 1.0)).astype(np.int64)
    after = dict(zip(rows.tolist(), shrunk.tolist(), strict=True))
    cpu = ctx.intervals(marks)
    groups, options = (foreach_groups(ctx, marks) if foreach else None) or (0, 0)
    many = groups >= _LEAST_GROUPS and options < groups
    return [
        Draft(
            {
                "optimizer": optimizer,
                "groups": count(groups),
                "options": count(options),
                "kernels": count(len(rows) / len(marks)),
                "tensors": count(tensors),
                "gpu": duration(float(ctx.gpu_ns[rows].sum()) / len(marks)),
                "cpu": duration(length(cpu) / len(marks)),
                "fused": duration(fused_ns),
            },
            Change(gpu=after, cpu=cpu, extra_cpu_ns=tensors * PARAMETER_NS * len(marks) / max(len(ctx.step_numbers), 1)),
            ctx.per_step(length(cpu)),
            [int(marks[0]), *first_events(ctx.gpu_event[rows[np.argsort(-ctx.gpu_ns[rows], kind="stable")]])],
            variant="foreach_groups" if many else "foreach" if foreach else "",
            fix_variant="foreach_groups"
            if many
            else "fused"
            if optimizer in _PASSES
            else "other"
            if not foreach
            else "foreach_other",
            symptoms=("unfused-pointwise",),
        )
    ]


def _one_pass(kernel: Kernel) -> bool:
    """Whether a kernel does a whole update: those of other libraries (apex, bitsandbytes) and of a compiled step."""
    return kernel.kind in ("optimizer", "fused-pointwise") or kernel.name.startswith("triton_")


def _fused_form(
    ctx: Context,
    rows: Array,
    calls: int,
    passes: int,
    foreach: bool,
) -> tuple[int, float]:
    """(parameter tensors, GPU ns of a fused step).

    The update itself touches each tensor once: the op name called most often among those that launch gives the tensors. The
    fused kernel moves `passes` times 4 bytes an element; without shapes, that many times what the op with the least GPU time
    per pass does.
    """
    owners = ctx.owner[rows]
    names, inverse = np.unique(ctx.trace.name[owners], return_inverse=True)
    calls_of = np.array([len(np.unique(owners[inverse == i])) for i in range(len(names))])
    time_of = np.bincount(inverse, weights=ctx.gpu_ns[rows])
    elements = [_elements(ctx, np.unique(owners[inverse == i])) for i in range(len(names))]
    known = [e for e in elements if e is not None]
    tensors = (
        _list_length(ctx, owners) if foreach else int(np.median(calls_of[calls_of >= calls_of.max() / 2])) // max(calls, 1)
    )
    if known and ctx.device is not None:
        n = max(e for e, _ in known) / calls
        tensors = max(t for _, t in known) // calls if foreach else tensors
        ns = ctx.memory_ns(n * 4 * passes / _BANDWIDTH_SHARE)
        if ns is not None:
            return max(tensors, 1), ns
    # Each op of the chain moves 2 to 4 tensors; the cheapest large one moves two.
    large = time_of[calls_of >= calls_of.max() / 2]
    return max(tensors, 1), float(large.min()) / calls * passes / 2 if len(large) else 0.0


def _elements(ctx: Context, owners: Array) -> tuple[int, int] | None:
    """(elements, tensors) of the first inputs of some ops; None where shapes were not recorded."""
    total = tensors = 0
    for owner in owners:
        found = ctx.inputs(int(owner))
        if found is None or not found.dims or not isinstance(found.dims[0], list):
            return None
        first = found.dims[0]
        shapes = first if first and isinstance(first[0], list) else [first]
        total += sum(int(np.prod(s)) for s in shapes if s)
        tensors += len(shapes)
    return total, tensors


def _list_length(ctx: Context, owners: Array) -> int:
    found = [_elements(ctx, np.array([o])) for o in np.unique(owners)]
    return max((t for f in found if f is not None for t in [f[1]]), default=1)


RULE = Rule(
    id="unfused-optimizer",
    precedence=20,
    needs=("gpu_events", "steps", "launches"),
    check=_check,
    english={
        "name": "Unfused optimizer",
        "title": "{optimizer} launches {kernels} kernels a step for {tensors} tensors",
        "text": "The optimizer runs tensor by tensor: {gpu} of GPU time and {cpu} of CPU time as recorded. One fused pass over the "
        "same tensors takes about {fused} on the GPU.",
        "title_foreach": "{optimizer} launches {kernels} foreach kernels a step; one fused pass would do",
        "text_foreach": "The optimizer makes one pass over all tensors for each operation: {gpu} of GPU time and {cpu} of CPU time "
        "as recorded. A fused step makes one pass in about {fused} of GPU time.",
        "title_loop": "A Python loop updates {tensors} tensors one by one: {kernels} kernels a step",
        "text_loop": "{ops}, for each tensor anew: {gpu} of GPU time and {cpu} of CPU time as recorded, where one foreach call for each of "
        "these ops takes all tensors.",
        "title_foreach_groups": "{optimizer} launches {kernels} foreach kernels a step for {groups} groups",
        "text_foreach_groups": "Each of the {groups} parameter groups makes a pass of its own for each operation, though they have only {options:set} of "
        "options (learning rate, weight decay, ...): {gpu} of GPU time and {cpu} of CPU time as recorded. A fused step over all tensors takes about "
        "{fused} of GPU time.",
        "title_groups": "{optimizer} runs its fused step {groups} times, once for each parameter group",
        "text_groups": "The {groups} groups with {tensors} tensors have only {options:set} of options (learning rate, weight decay, ...): {cpu} of CPU "
        "time as recorded for {gpu} of GPU time. One group for each set of options takes all of its tensors in one call.",
        "fix": "torch.optim.{optimizer}(..., fused=True)",
        "fix_groups": "One parameter group for each set of options instead of one for each parameter: torch.optim.{optimizer}([{{'params': list, 'lr': lr}} "
        "for lr, list in parameters_by_lr.items()], fused=True).",
        "fix_loop": "torch._foreach_lerp_(averages, parameters, 1 - decay), torch._foreach_mul_(gradients, scale) and their like, outside "
        "autograd; torch.optim with fused=True for an optimizer, torch.optim.swa_utils.AveragedModel for an average of weights, "
        "torch.nn.utils.clip_grad_norm_ for clipping.",
        "fix_fused": "torch.optim.{optimizer}(..., fused=True)",
        "fix_foreach_groups": "One parameter group for each set of options instead of one for each parameter, torch.optim.{optimizer}([{{'params': decayed}}, "
        "{{'params': others, 'weight_decay': 0}}]); and fused=True where the optimizer has it (Adam, AdamW, SGD, Adagrad).",
        "fix_other": "torch.optim.{optimizer}(..., foreach=True), or an optimizer with fused=True (Adam, AdamW, SGD, Adagrad).",
        "fix_foreach_other": "Compile the step, torch.compile(optimizer.step), or use an optimizer with fused=True.",
        "doc_finds": "Optimizer steps (`Optimizer.step#...`) without a fused kernel: several kernels for each parameter tensor, or "
        "one foreach kernel for each operation. And loops outside `torch.optim` that do the same few pointwise ops in place to ten "
        "tensors or more, of different shapes, one after the other: an optimizer written out, a moving average of the weights. And fused or foreach "
        "steps that go through ten parameter groups or more, with fewer different options.",
        "doc_why": "An Adam step by single ops launches about 8 kernels a tensor and moves the optimizer's state through memory "
        "once for each of them; with hundreds of tensors, launching alone takes milliseconds.",
        "doc_fix": "optimizer = torch.optim.AdamW(model.parameters(), fused=True)\n\nFor optimizers without a fused form: foreach=True, "
        "or torch.compile around optimizer.step.",
        "doc_fine": "A step that is small beside the rest: a handful of tensors, or a GPU that is busy anyway. Fused optimizers of other "
        "libraries, and a compiled `optimizer.step`, are one pass already.",
        "doc_measured": "GPU and CPU time of the optimizer's annotation against a fused step: parameter, gradient and state moved "
        "once at 80 % of the memory bandwidth (streaming kernels reach 75 to 90 %), and 8 µs of CPU for each tensor. For other loops: GPU and CPU time of their "
        "calls against the same bytes at that rate and the same 8 µs. For groups: CPU time from the last call that is needed (one for each set of options, "
        "as the calls' recorded numbers say) to the last call, against 8 µs for each tensor of those groups; one kernel as long as the longest "
        "for each set of options.",
    },
)
