"""Why a rule could not look: reasons by key, in words."""

from __future__ import annotations

from lanewise.translations import Catalog

__all__ = ["REASONS"]

REASONS = Catalog(
    "reasons",
    {
        "no-gpu_events": "the trace has no GPU events",
        "no-idle": "GPU records are incomplete, so idle time is not known",
        "no-steps": "the trace has no step marks",
        "no-shapes": "shapes were not recorded (record_shapes=True)",
        "no-stacks": "Python stacks were not recorded (with_stack=True)",
        "no-memory": "memory was not recorded (profile_memory=True)",
        "no-sequence": "autograd's sequence numbers were not recorded",
        "no-launches": "the trace has no launches",
        "no-cpu_ops": "the trace has no CPU ops",
        "no-device": "the GPU's peak rates are not known",
        "one-rank": "one rank alone cannot split waiting from transfer; compare the ranks' traces",
        "one-step": "one step alone cannot show it",
        "no-optimizer": "no optimizer step was recorded",
        "nested-backward": "backward passes run inside one another",
        "unseen-parameters": "the optimizer's lists are too long to be recorded, and their kernels do not tell what is in them",
        "other-tensors": "the optimizer works on tensors of sizes that no gradient has",
        "few-steps": "fewer than four steps do not show what is usual",
        "minor": "there, but fixing it would save less than 1 % of the step",
        "folded": "explained by {by}",
        "failed": "the check failed: {error}",
    },
)
