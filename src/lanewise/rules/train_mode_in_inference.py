"""train-mode-in-inference: dropout at work in a program that has no backward pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lanewise.analyses.replay import Change

from .attention_calls import attention_of
from .autograd_in_inference import TRAINING
from .base import Clear, Draft, Outcome, Rule, count, duration, first_events
from .context import Context
from .limits import attention_ns
from .sequence import Sequence

__all__ = ["RULE"]

Array = npt.NDArray[Any]

# Ops that launch nothing at all where the module is in eval mode or the probability is 0.
_DROPOUTS = ("dropout", "dropout_", "native_dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout")
_ATTENTION = "aten::scaled_dot_product_attention"
_PROBABILITY = 4  # its place among the op's inputs, after query, key, value and mask


def _check(ctx: Context) -> Outcome:
    if len(ctx.events_matching(TRAINING)):
        return Clear()
    seq = ctx.sequence
    dropped = np.flatnonzero(np.isin(seq.called_name.astype(str), _DROPOUTS)) if len(seq) else np.empty(0, dtype=np.int64)
    attended = _attention_that_drops(ctx, seq)
    if not len(dropped) and not len(attended):
        return Clear()
    after = dict.fromkeys(seq.rows[dropped].tolist(), 0) | _without_dropout(ctx, seq, attended)
    calls = np.unique(seq.call[dropped])
    places = np.r_[dropped, attended]
    largest = places[np.argsort(-seq.ns[places], kind="stable")]
    saved = float(seq.ns[places].sum()) - sum(after.values())
    return [
        Draft(
            {
                "calls": count(ctx.per_step(len(np.unique(seq.call[places])))),
                "gpu": duration(ctx.per_step(saved)),
            },
            Change(gpu=after, cpu=ctx.call_intervals(calls) if len(calls) else None),
            ctx.per_step(saved),
            [
                *first_events(ctx.called.event[np.unique(seq.call[places])], 4),
                *first_events(ctx.gpu_event[seq.rows[largest]], 4),
            ],
            confidence="medium",
            where=ctx.where(int(seq.owner[largest[0]])),
        )
    ]


def _attention_that_drops(ctx: Context, seq: Sequence) -> Array:
    """Places of the GPU ops of fused attention that was given a dropout probability."""
    if not len(seq):
        return np.empty(0, dtype=np.int64)
    calls = np.unique(seq.call[(seq.kind == "attention") & (seq.call >= 0)])
    calls = calls[ctx.trace.names_where(lambda s: s == _ATTENTION)[ctx.trace.name[ctx.called.event[calls]]]]
    _, first, kind = np.unique(ctx.input_row[ctx.called.event[calls]], return_index=True, return_inverse=True)
    drops = np.array([_drops(ctx, int(ctx.called.event[call])) for call in calls[first]], dtype=np.bool_)
    return np.flatnonzero((seq.kind == "attention") & np.isin(seq.call, calls[drops[kind.reshape(-1)]]))


def _drops(ctx: Context, event: int) -> bool:
    """Whether an attention call was given a dropout probability."""
    found = ctx.arguments(event)
    return found is not None and (found.number(_PROBABILITY) or 0.0) > 0


def _without_dropout(ctx: Context, seq: Sequence, places: Array) -> dict[int, int]:
    """New durations by row: what fused attention of these sizes usually takes, where that is less."""
    kinds, kind = np.unique(seq.op_of[places], return_inverse=True)
    usual = np.full(len(kinds), np.inf)
    for k, op in enumerate(kinds.tolist()):
        found = attention_of(seq.ops[op])
        ns = None if found is None else attention_ns(ctx, found.sizes, found.backward)
        usual[k] = np.inf if ns is None else ns
    after = np.minimum(usual[kind.reshape(-1)], seq.ns[places]).astype(int)
    return dict(zip(seq.rows[places].tolist(), after.tolist(), strict=True))


RULE = Rule(
    id="train-mode-in-inference",
    precedence=20,
    needs=("gpu_events", "launches", "cpu_ops", "steps"),
    check=_check,
    english={
        "name": "Training mode in inference",
        "title": "Dropout in inference: {calls} calls and {gpu} a step",
        "text": "The trace has no backward pass and no optimizer, yet {calls} calls a step drop values at random. The model is in training mode: "
        "its results differ from call to call, and batch norm would use the batch's own statistics.",
        "fix": "model.eval() before inference; in functions: F.dropout(x, p, training=self.training), and dropout_p=0.0 for attention.",
        "doc_finds": "Dropout ops that launch GPU work, and `scaled_dot_product_attention` with a dropout probability, in a trace without "
        "any backward node or optimizer.",
        "doc_why": "A module starts in training mode, and `torch.inference_mode()` does not change that. Dropout then reads, draws random "
        "numbers and writes a mask for each activation, fused attention more than doubles its time, and the output is noise on top of "
        "the right result.",
        "doc_fix": "model.eval()\nwith torch.inference_mode():\n    y = model(x)\n"
        "h = F.dropout(h, 0.1, training=self.training)   # its default is training=True",
        "doc_fine": "Monte-Carlo dropout, which samples on purpose, and a trace of the forward part of a training step alone.",
        "doc_measured": "Dropout ops go entirely, with the calls that make them. Attention takes what fused attention of its sizes usually "
        "takes (on an H200: 410 µs in place of 960 µs for 384 heads of 512 queries, 64 wide, bf16, cuDNN); where the sizes were not "
        "recorded it keeps its time.",
    },
)
