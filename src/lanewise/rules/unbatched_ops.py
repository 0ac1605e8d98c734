"""unbatched-ops: a Python loop over the slices of a tensor whose passes do the same ops, which the whole tensor could have in one."""

from __future__ import annotations

import numpy as np

from .base import Clear, Draft, NotChecked, Outcome, Rule, count, duration, first_events
from .context import Context
from .loops import Loop, batching, program_loops

__all__ = ["RULE"]

_MOST_NAMES = 4  # of the ops in a pass, in the text


def _check(ctx: Context) -> Outcome:
    if ctx.device is None:
        return NotChecked("no-device")
    loops = [loop for loop in ctx.answer(program_loops) if not loop.multiplies]
    if not loops:
        return Clear()
    change, now, after = batching(ctx, loops)
    longest = max(loops, key=lambda loop: len(loop.calls))
    events = ctx.called.event[longest.calls]
    calls = np.concatenate([loop.calls for loop in loops])
    return [
        Draft(
            {
                "launches": count(ctx.per_step(int(ctx.called.kernels[calls].sum()))),
                "passes": count(longest.passes),
                "body": _body(ctx, longest),
                "gpu": duration(ctx.per_step(now)),
                "after": duration(ctx.per_step(after)),
                "cpu": duration(float(ctx.trace.end[events[-1]] - ctx.trace.ts[events[0]])),
            },
            change,
            ctx.per_step(now),
            first_events(events),
            confidence="medium",
            where=ctx.where(int(events[0])),
        )
    ]


def _body(ctx: Context, loop: Loop) -> str:
    """The ops of one pass by name."""
    names = [ctx.trace.name_of(int(e)).removeprefix("aten::") for e in ctx.called.event[loop.calls[: loop.period]]]
    return ", ".join(names[:_MOST_NAMES]) + (f" (+{len(names) - _MOST_NAMES})" if len(names) > _MOST_NAMES else "")


RULE = Rule(
    id="unbatched-ops",
    precedence=30,
    needs=("gpu_events", "launches", "shapes"),
    check=_check,
    english={
        "name": "Ops in a loop",
        "title": "{launches} launches a step in loops over slices, where the whole tensor would do",
        "text": "A loop of {passes} passes does {body} with one slice of a tensor each: {cpu} of CPU time as recorded, for {gpu} of GPU time a "
        "step. On the whole tensor the GPU needs about {after} and the CPU one pass. The sizes give no sign that a pass needs the one before.",
        "fix": "Once for the whole tensor instead of x[i] in a loop: ops take more dimensions, torch.linalg too. A function of one sample: "
        "torch.vmap(f)(x).",
        "doc_finds": "Calls that launch work and repeat at least four times, each pass on the next slice of a tensor (`x[i]`, `x[:, i]`, "
        "`for row in x`, `x.split(n)`), where no operand from outside the pass is as large as what a pass leaves behind.",
        "doc_why": "An op on a slice costs the CPU as much as one on the whole tensor, and a slice occupies a few SMs for some microseconds.",
        "doc_fix": "y = torch.linalg.inv(a)                 # (n, k, k) at once, not [inv(m) for m in a]\n"
        "loss = F.mse_loss(x, y, reduction='none').mean(-1)   # per sample, without a loop\n"
        "y = torch.vmap(f)(x)                    # f is written for one sample",
        "doc_fine": "Recurrences, where each pass needs the one before (their state shows in the sizes), slices of different lengths, "
        "chunks on purpose, so that the results of one fit into memory, and passes with weights of their own (those can be stacked: "
        "`torch.func.stack_module_state`); lookups in tables are left out for that reason.",
        "doc_measured": "GPU time against one kernel for each op of the loop (traffic at 88 % of the bandwidth; where it is not known, the "
        "passes' blocks side by side on all SMs, and no less than the longest); CPU time from the end of the first pass to the end of the "
        "last. A pass has at most 32 launching calls. A sum over the passes (`loss = loss + ...`) is no recurrence.",
    },
)
