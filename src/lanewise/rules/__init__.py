"""Rules: each file finds one problem. The list is explicit and sorted; nothing is discovered."""

from __future__ import annotations

import importlib

from .base import Rule

__all__ = ["RULE_MODULES", "rules"]

# Module names; ids are the same with dashes.
RULE_MODULES: tuple[str, ...] = (
    "allocator",
    "anomaly_detection",
    "autograd_in_inference",
    "cold_start",
    "collective_wait",
    "compile_overhead",
    "compiled_fusion",
    "data_starvation",
    "dense_embedding_gradient",
    "double_precision",
    "dtype_casts",
    "epilogue_fusion",
    "expanded_copy",
    "expert_loop",
    "exposed_communication",
    "full_sort",
    "gc_pause",
    "graph_breaks",
    "graph_input_copies",
    "growing_cat",
    "hidden_copy",
    "host_made_tensor",
    "host_sync",
    "incomplete_trace",
    "launch_bound",
    "layout_copy",
    "misaligned_dims",
    "mixed_layouts",
    "no_tensor_cores",
    "outlier_step",
    "pageable_copy",
    "profiler_overhead",
    "python_overhead",
    "rebuilt_constants",
    "recompilation",
    "recomputation",
    "sdpa_math",
    "single_stream_copy",
    "slice_gradients",
    "small_copies",
    "train_mode_in_inference",
    "unbatched_gemms",
    "unbatched_ops",
    "underfilled_gpu",
    "unfused_attention",
    "unfused_optimizer",
    "unfused_pointwise",
    "unused_gradients",
    "unused_outputs",
)


def rules() -> tuple[Rule, ...]:
    """All rules, by id."""
    return tuple(importlib.import_module(f"lanewise.rules.{name}").RULE for name in RULE_MODULES)
