"""Which Python frame fills a stretch of time, where stacks were recorded."""

from __future__ import annotations

import numpy as np

from .context import Context

__all__ = ["frame_over"]

_MOST_OF = 0.7  # a frame that holds so much of a stretch is what the time was spent in


def frame_over(ctx: Context, begin: int, end: int) -> str | None:
    """The innermost frame that covers most of a stretch on the launching threads; None without stacks."""
    if "stacks" not in ctx.trace.capabilities or end <= begin:
        return None
    frames = ctx.trace.rows("python_function")
    frames = frames[np.isin(ctx.trace.lane[frames], ctx.lanes)]
    covered = np.minimum(ctx.trace.end[frames], end) - np.maximum(ctx.trace.ts[frames], begin)
    found = frames[covered >= _MOST_OF * (end - begin)]
    names = [ctx.trace.name_of(int(e)) for e in found[np.argsort(ctx.trace.dur[found], kind="stable")]]
    return next((n for n in names if not n.startswith(("<built-in", "nn.Module"))), names[0] if names else None)
