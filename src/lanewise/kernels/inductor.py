"""Kernels that torch.compile's Inductor generates: ``triton_poi_fused_add_gelu_view_3``.

After the category (poi pointwise, red and per reductions, tem template, for foreach, spl split scan) come the ATen
operations whose code was merged, in alphabetical order, each once. An operation may be only the tail of itself: the
product of ``addmm`` in a pointwise kernel is another kernel, its bias is here.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

from lanewise.kernels.kernel import Kernel
from lanewise.kernels.lists import listed
from lanewise.kernels.names import Name

__all__ = ["decoded", "fused_operations", "matches"]

_NAME = re.compile(r"triton_([a-z]{2,12}?)_fused(?:_(.*))?$")
_NUMBER = re.compile(r"(?:^|_)\d+$")
_OLD = re.compile(r"triton_(?:fused_(.*?)_\d+|_0d1\w*|\d*|_)$")
_TEMPLATE = re.compile(
    r"(?:triton|cutlass|ck)_(mm_plus_mm|mm|bmm|addmm|baddbmm|scaled_mm|convolution\w*|conv2d|flex_attention\w*|flex_decoding"
    r"|grouped_mm)(?:_\d+)?$"
)
_LONGEST = 9  # words of the longest operation's name

# Operations that move or rename elements; a kernel of nothing else is a copy.
_MOVES = frozenset(
    listed(
        "_to_copy _unsafe_view alias as_strided broadcast_in_dim cat chunk clone constant_pad_nd contiguous"
        " convert_element_type copy detach expand flatten lift_fresh movedim narrow pad permute repeat reshape roll select"
        " slice slice_scatter split split_with_sizes squeeze stack t to transpose unbind unsqueeze view _reshape_alias flip"
        " swapaxes select_scatter slice_backward select_backward unfold index_put_view device_put lift_fresh_copy"
        " _unsafe_index_put auto_functionalized auto_functionalized_v2 inductor_force_stride_order T mT numpy_T"
        " replication_pad2d reflection_pad2d reflection_pad1d"
    )
)
# Operations whose work is another kernel: only their tail is here.
_TAILS = frozenset(
    listed(
        "addmm mm bmm baddbmm convolution convolution_backward _scaled_mm _int_mm _grouped_mm linear matmul einsum"
        " _scaled_dot_product_flash_attention _scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention"
        " _scaled_dot_product_flash_attention_backward _scaled_dot_product_efficient_attention_backward"
        " _scaled_dot_product_cudnn_attention_backward scaled_dot_product_attention flex_attention moe_forward"
        " flex_attention_backward moe_forward_shared unified_attention unified_attention_with_output all_reduce"
        " all_gather_into_tensor reduce_scatter_tensor wait_tensor all_to_all_single fused_moe"
    )
)
_FILLS = frozenset(
    listed(
        "zeros zeros_like ones ones_like full full_like arange new_zeros new_ones new_full empty empty_like fill scalar_tensor"
        " linspace eye iota zero new_empty new_empty_strided"
    )
)
_RANDOM = frozenset(
    listed(
        "rand randn rand_like randn_like randint native_dropout dropout bernoulli inductor_random inductor_lookup_seed"
        " inductor_seeds inductor_randint native_dropout_backward uniform normal exponential multinomial _fused_dropout"
        " feature_dropout alpha_dropout"
    )
)
_INDEX = frozenset(
    listed(
        "index index_select gather scatter scatter_add scatter_reduce index_put index_add index_copy _unsafe_index take"
        " masked_scatter nonzero index_fill select_scatter take_along_dim unfold_backward"
    )
)
_SCANS = frozenset(listed("cumsum cumprod cummax cummin logcumsumexp sort topk argsort associative_scan msort kthvalue"))
_REDUCTIONS = frozenset(
    listed(
        "sum mean amax amin max min argmax argmin any all prod var std var_mean std_mean norm linalg_vector_norm count_nonzero"
        " aminmax xor_sum logsumexp dot"
    )
)
_EMBEDDINGS = frozenset(listed("embedding embedding_dense_backward _embedding_bag embedding_bag embedding_backward"))
_LOSS = re.compile(r"loss|cross_entropy|kl_div")
_SOFTMAX = re.compile(r"softmax")
_NORM = re.compile(r"(?:layer|batch|group|rms|instance|local_response)_norm|_norm_legit")
_POOL = re.compile(r"pool\d?d?(?:_|$)|max_unpool|_low_memory_max_pool")
_RESAMPLE = re.compile(r"upsample|grid_sampler|interpolate|_unsafe_index_resize")
_QUANTIZE = re.compile(r"quantize|scaled_fp8_quant")
_PRODUCT = re.compile(r"(?:mm|matmul|linear|einsum)$")


def matches(name: Name) -> bool:
    """Whether this may be one of Inductor's names."""
    return name.base.startswith("triton_") and not name.root


def decoded(name: Name) -> Kernel | None:
    """The kernel of an Inductor name; None for Triton kernels that a person named ``triton_...``."""
    match = _NAME.match(name.base)
    if match:
        operations = fused_operations(_NUMBER.sub("", match[2] or ""))
        kind = _kind(match[1], frozenset(operations))
        return Kernel(name.raw, kind, "inductor", direction=_direction(operations), fused_ops=operations)
    template = _TEMPLATE.match(name.base)
    if template:
        return Kernel(name.raw, _product_kind((template[1],)), "inductor")
    old = _OLD.match(name.base)
    if old or name.raw.startswith("triton__0d"):
        operations = fused_operations(old[1] or "") if old else ()
        named = _named_kind(frozenset(operations))
        return Kernel(name.raw, named, "inductor", direction=_direction(operations), fused_ops=operations)
    return None


@cache
def _known() -> frozenset[str]:
    """Names of ATen's, prims' and Inductor's operations, without overloads; in-place forms do not occur."""
    file = resources.files("lanewise.kernels") / "inductor_ops.txt"
    return frozenset(file.read_text("ascii").split())


def fused_operations(text: str) -> tuple[str, ...]:
    """The operations in a kernel's name. Their names have underscores too, so the longest known ones are taken;
    words between known ones are one operation that ATen does not have (a custom operator).
    """
    known = _known()
    found: list[str] = []
    unknown: list[str] = []
    words = text.split("_") if text else []
    at = 0
    while at < len(words):
        end = _end_of_known(words, at, known)
        if end:
            if unknown:
                found.append("_".join(unknown))
                unknown = []
            found.append("_".join(words[at:end]))
            at = end
        else:
            unknown.append(words[at])
            at += 1
    if any(unknown):
        found.append("_".join(unknown))
    return tuple(dict.fromkeys(operation for operation in found if operation.strip("_")))


def _end_of_known(words: list[str], start: int, known: frozenset[str]) -> int:
    for end in range(min(len(words), start + _LONGEST), start, -1):
        if "_".join(words[start:end]) in known:
            return end
    return 0


def _direction(operations: tuple[str, ...]) -> str | None:
    """``threshold_backward`` also saves ReLU's mask in a forward pass; a pass with both ends serves both."""
    backward = [o for o in operations if o.endswith(("_backward", "_backward_data", "_dense_backward"))]
    if not backward or backward == ["threshold_backward"] or any(o.endswith("_forward") for o in operations):
        return None
    return "backward"


def _kind(category: str, operations: frozenset[str]) -> str | None:
    if category == "for":
        return "foreach"
    if category == "tem":
        return _product_kind(tuple(operations))
    if category == "spl":
        return "sort-scan"
    named = _shared_kind(operations)
    if named:
        return named
    if category == "poi":
        return _pointwise_kind(operations)
    return _reduction_kind(operations) if category in _REDUCING else _named_kind(operations)


def _product_kind(operations: tuple[str, ...]) -> str | None:
    """What a template computes. Without a product in the name it may be any: flex attention has had no name of its own."""
    for operation in operations:
        if "attention" in operation or operation == "flex_decoding":
            return "attention"
        if operation.startswith("conv"):
            return "conv"
    return "gemm" if any(_PRODUCT.search(operation) for operation in operations) else None


def _shared_kind(operations: frozenset[str]) -> str | None:
    """Kinds that an operation decides in pointwise kernels and reductions alike."""
    if any(_LOSS.search(operation) for operation in operations):
        return "loss"
    substance = operations - _MOVES - _TAILS - _FILLS
    if not operations.isdisjoint(_SCANS):
        return "sort-scan"
    norm = _is_norm_by_parts(operations) or any(_NORM.search(operation) for operation in operations)
    if not operations.isdisjoint(_EMBEDDINGS) and not norm:
        return "embedding"
    if any(_POOL.search(operation) for operation in substance):
        return "pooling"
    return "resample" if any(_RESAMPLE.search(operation) for operation in substance) else None


def _pointwise_kind(operations: frozenset[str]) -> str:
    substance = operations - _MOVES - _TAILS
    if not substance and operations and (operations & _MOVES):
        return "cast-copy"
    if operations and operations <= _FILLS | _MOVES:
        return "fill"
    if not substance.isdisjoint(_RANDOM) and len(substance - _RANDOM - _FILLS) <= _OTHERS_OF_DROPOUT:
        return "random"
    if substance and substance <= _INDEX | _FILLS:
        return "index"
    return "quantize" if any(_QUANTIZE.search(operation) for operation in substance) else "fused-pointwise"


# Dropout multiplies by a mask that it draws and compares: gt, mul, and the scale.
_OTHERS_OF_DROPOUT = 3


def _named_kind(operations: frozenset[str]) -> str | None:
    """The kind where only the operations are known, as in the names of PyTorch 2.0."""
    kind = _shared_kind(operations)
    if kind is None and operations:
        reduced = _reduction_kind(operations)
        kind = reduced if reduced in ("norm", "softmax") else None
    return kind


_REDUCING = ("red", "per")


def _reduction_kind(operations: frozenset[str]) -> str:
    if any(_NORM.search(operation) for operation in operations) or _is_norm_by_parts(operations):
        return "norm"
    if any(_SOFTMAX.search(operation) for operation in operations):
        return "softmax"
    substance = operations - _MOVES - _TAILS
    if len(substance) == 1 and substance <= _REDUCTIONS:
        return "reduction"
    return "fused-reduction"


def _is_norm_by_parts(operations: frozenset[str]) -> bool:
    """RMS and layer norms written out: mean (of squares, or with a variance), and the inverse root."""
    if "rsqrt" not in operations:
        return False
    return bool(operations & {"var_mean", "var"}) or ("mean" in operations and bool(operations & {"pow", "square", "mul"}))
