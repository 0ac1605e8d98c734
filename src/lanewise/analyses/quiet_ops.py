"""Ops that start no work on a GPU by their nature."""

from __future__ import annotations

__all__ = ["QUIET_OPS", "VIEW_OPS"]


def _aten(names: str) -> frozenset[str]:
    return frozenset(f"aten::{name}" for name in names.split())


VIEW_OPS = _aten("""
    _reshape_alias alias as_strided broadcast_to chunk detach diagonal expand expand_as flatten lift_fresh mH mT movedim narrow
    numpy_T permute real imag reshape resolve_conj resolve_neg select slice split split_with_sizes squeeze swapaxes swapdims t
    tensor_split transpose unbind unflatten unfold unsafe_chunk unsafe_split _unsafe_view unsqueeze view view_as
    view_as_complex view_as_real
""") | {"detach", "detach_"}
"""Ops that only make another view of a tensor: they change shape and strides. From the functions that native_functions.yaml
tags as views, and those that call nothing but them."""

QUIET_OPS = _aten("""
    contiguous data empty empty_like empty_strided is_leaf lift new_empty new_empty_strided output_nr requires_grad_ resize_
    result_type retain_grad set_ set_data size stride to type_as _to_copy
""")
"""Ops that allocate or describe a tensor, or convert one that needs no conversion: nothing to do for the GPU."""
