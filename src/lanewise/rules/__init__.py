"""Rules: each file finds one problem. The list is explicit and sorted; nothing is discovered."""

from __future__ import annotations

import importlib

from .base import Rule

__all__ = ["RULE_MODULES", "rules"]

# Module names; ids are the same with dashes.
RULE_MODULES: tuple[str, ...] = (
    "autograd_in_inference",
    "collective_wait",
    "compile_overhead",
    "exposed_communication",
    "graph_breaks",
    "graph_input_copies",
    "incomplete_trace",
    "profiler_overhead",
    "recompilation",
    "unfused_optimizer",
)


def rules() -> tuple[Rule, ...]:
    """All rules, by id."""
    return tuple(importlib.import_module(f"lanewise.rules.{name}").RULE for name in RULE_MODULES)
