"""Rules: each file finds one problem. The list is explicit and sorted; nothing is discovered."""

from __future__ import annotations

import importlib

from .base import Rule

__all__ = ["RULE_MODULES", "rules"]

# Module names; ids are the same with dashes.
RULE_MODULES: tuple[str, ...] = (
    "allocator",
    "autograd_in_inference",
    "cold_start",
    "collective_wait",
    "compile_overhead",
    "data_starvation",
    "exposed_communication",
    "gc_pause",
    "graph_breaks",
    "graph_input_copies",
    "host_sync",
    "incomplete_trace",
    "launch_bound",
    "outlier_step",
    "pageable_copy",
    "profiler_overhead",
    "python_overhead",
    "recompilation",
    "single_stream_copy",
    "small_copies",
    "unfused_optimizer",
)


def rules() -> tuple[Rule, ...]:
    """All rules, by id."""
    return tuple(importlib.import_module(f"lanewise.rules.{name}").RULE for name in RULE_MODULES)
