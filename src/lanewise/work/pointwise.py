"""Elementwise operations with broadcasting: unary, binary, ternary, backward ones, conditions, dropout,
random fills.

One table: for each op how many operands it takes, how many operations an element costs, and of what type the
result is. Operations are counted from the formulas: add, multiply, compare, divide, root, exponential,
logarithm, error function and the like are one each, a multiply-add two. They say little about time: all of
these move more bytes than they compute.

A trailing underscore is the variant in place: the result goes where the first operand is. ``out=`` variants
are recorded under the same name with one more tensor, whose size may still be that from before the call, so
that it is not used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from .inputs import Inputs, Tensor, UnknownInput, broadcast, is_floating, item_bytes, promoted
from .result import Work

__all__ = ["ESTIMATORS", "FLOPS"]

# Operands, operations an element, result: "same" as torch promotes the operands, "float" the same but never
# an integer, "bool". A line holds ops that agree in all three.
_TABLE: tuple[tuple[str, int, int, str], ...] = (
    (
        "abs neg positive sign sgn square relu relu6 hardtanh clamp clamp_min clamp_max threshold",
        1,
        1,
        "same",
    ),
    ("ceil floor round trunc frac bitwise_not nan_to_num conj_physical", 1, 1, "same"),
    ("logical_not isnan isinf isneginf isposinf isfinite signbit", 1, 1, "bool"),
    ("exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal", 1, 1, "float"),
    (
        "sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc erfinv lgamma digamma sinc",
        1,
        1,
        "float",
    ),
    ("sigmoid", 1, 3, "float"),  # exp, add, divide
    ("silu logit softplus log_sigmoid_forward", 1, 4, "float"),
    ("hardsigmoid hardswish leaky_relu elu celu selu softshrink hardshrink", 1, 3, "same"),
    ("mish", 1, 6, "float"),
    ("gelu", 1, 5, "same"),  # x / 2 * (1 + erf(x / sqrt 2))
    ("add sub rsub mul maximum minimum fmax fmin atan2 copysign hypot", 2, 1, "same"),
    ("remainder fmod floor_divide pow bitwise_and bitwise_or bitwise_xor", 2, 1, "same"),
    ("bitwise_left_shift bitwise_right_shift __and__ __or__ __xor__ __lshift__ __rshift__", 2, 1, "same"),
    ("div divide true_divide xlogy special_xlogy", 2, 1, "float"),
    ("eq ne lt le gt ge logical_and logical_or logical_xor isclose", 2, 1, "bool"),
    ("lerp", 3, 3, "same"),
    ("addcmul addcdiv", 3, 3, "same"),
    ("where", 3, 1, "same"),
    ("masked_fill", 2, 0, "same"),
    ("prelu _prelu_kernel", 2, 2, "same"),
    ("threshold_backward hardtanh_backward leaky_relu_backward", 2, 2, "same"),
    ("sigmoid_backward tanh_backward", 2, 3, "same"),
    ("silu_backward logit_backward", 2, 8, "same"),
    (
        "softplus_backward elu_backward hardswish_backward hardsigmoid_backward softshrink_backward",
        2,
        4,
        "same",
    ),
    ("hardshrink_backward", 2, 2, "same"),
    ("gelu_backward", 2, 12, "same"),
    ("mish_backward", 2, 12, "same"),
    ("native_dropout_backward masked_scale", 2, 2, "same"),
    ("polar complex", 2, 2, "same"),
    ("angle real imag", 1, 1, "same"),
)


@dataclass(frozen=True)
class _Rule:
    operands: int
    flops: int
    result: str


_RULES = {name: _Rule(operands, flops, result) for names, operands, flops, result in _TABLE for name in names.split()}

# Operations an element, by the name without a trailing underscore.
FLOPS = {name: rule.flops for name, rule in _RULES.items()}

# elu_backward keeps its second tensor behind three numbers.
_SECOND_OPERAND = {"elu_backward": 5}


def _operands(base: str, rule: _Rule, inputs: Inputs) -> list[Tensor]:
    """The tensors among the op's operands; numbers take no memory."""
    positions = list(range(rule.operands))
    if base in _SECOND_OPERAND:
        positions[1] = _SECOND_OPERAND[base]
    if base in ("clamp", "clamp_min", "clamp_max"):
        positions = list(range(len(inputs)))
    return [tensor for tensor in map(inputs.tensor, positions) if tensor is not None]


def _bounds_only(base: str, operands: list[Tensor]) -> list[Tensor]:
    """clamp's bounds can be tensors, and its ``out`` cannot be told from them: kept where they broadcast with
    the first.
    """
    if not base.startswith("clamp") or len(operands) < 2:
        return operands
    first = operands[0]
    return [first, *(tensor for tensor in operands[1:] if tensor.shape == first.shape)][:3]


def _result_item(base: str, rule: _Rule, operands: list[Tensor]) -> int:
    """Bytes of one element of the result."""
    if rule.result == "bool":
        return 1
    if base == "where":
        operands = [tensor for tensor in operands if tensor.dtype != "bool"] or operands
    dtype = promoted(operands if base != "masked_fill" else operands[:1])
    return item_bytes(dtype if rule.result != "float" or is_floating(dtype) else "fp32")


def _pointwise(op: str, inputs: Inputs) -> Work:
    base = op if op in _RULES else op.rstrip("_")
    rule = _RULES[base]
    operands = _bounds_only(base, _operands(base, rule, inputs))
    if not operands:
        raise UnknownInput
    shape = broadcast([tensor.shape for tensor in operands])
    elements = prod(shape)
    in_place = op != base
    written = inputs.need(0).stored_bytes if in_place else elements * _result_item(base, rule, operands)
    total = sum(tensor.stored_bytes for tensor in operands if not _is_number(tensor, shape)) + written
    return Work("elementwise", elements * _flops(base, rule, inputs), total, _arithmetic_dtype(operands))


def _is_number(tensor: Tensor, shape: tuple[int, ...]) -> bool:
    """Whether an operand is a Python number, which torch wraps as a tensor without dimensions and Kineto
    records so.
    """
    return bool(shape) and not tensor.shape and tensor.dtype in ("fp64", "int64")


def _flops(base: str, rule: _Rule, inputs: Inputs) -> int:
    """add and sub multiply by alpha where it is not 1."""
    scaled = base in ("add", "sub", "rsub") and inputs.number(2) not in (None, 1.0)
    return rule.flops + scaled


def _arithmetic_dtype(operands: list[Tensor]) -> str | None:
    known = [tensor for tensor in operands if tensor.dtype is not None]
    return promoted(known) if known else None


def _glu(op: str, inputs: Inputs) -> Work:
    """``glu(x, dim)``: half of x times the sigmoid of its other half."""
    x = inputs.need(0)
    return Work("elementwise", x.numel // 2 * 4, x.stored_bytes + x.numel // 2 * x.item_bytes, x.dtype)


def _glu_backward(op: str, inputs: Inputs) -> Work:
    grad, x = inputs.need(0), inputs.need(1)
    total = grad.stored_bytes + x.stored_bytes + x.numel * x.item_bytes
    return Work("elementwise", grad.numel * 8, total, x.dtype)


def _serving_gate(op: str, inputs: Inputs) -> Work:
    """vLLM's ``silu_and_mul(out, x)`` and the like: an activation of half of x times its other half."""
    out, x = inputs.need(0), inputs.need(1)
    flops = out.numel * (5 if "silu" in op else 6)
    return Work("fused-pointwise", flops, x.stored_bytes + out.numel * out.item_bytes, x.dtype)


def _rotary(op: str, inputs: Inputs) -> Work:
    """vLLM's ``rotary_embedding(positions, query, key, head_size, cos_sin_cache, is_neox)``: in place."""
    positions, query, key, cache = inputs.need(0), inputs.need(1), inputs.tensor(2), inputs.need(4)
    rotated = query.numel + (key.numel if key else 0)
    turned = (query.stored_bytes + (key.stored_bytes if key else 0)) * 2
    rows = positions.numel * cache.shape[-1] * cache.item_bytes
    return Work("rope", rotated * 3, turned + rows + positions.stored_bytes, query.dtype)


def _dropout(op: str, inputs: Inputs) -> Work:
    """``native_dropout(x, p, train)`` and ``_fused_dropout(x, p)``: writes the result and a mask of a byte an
    element.
    """
    x = inputs.need(0)
    return Work("random", x.numel * 2, x.stored_bytes + x.numel * (x.item_bytes + 1), x.dtype)


def _random_fill(op: str, inputs: Inputs) -> Work:
    """``normal_``, ``uniform_``, ``bernoulli_`` and others: write what they are called on; a tensor of means
    is read.
    """
    x = inputs.need(0)
    parameters = [tensor for tensor in inputs.tensors(1) if tensor.shape == x.shape]
    return Work("random", 0, x.stored_bytes + sum(tensor.stored_bytes for tensor in parameters), x.dtype)


_RANDOM = [
    "normal_",
    "uniform_",
    "random_",
    "bernoulli_",
    "exponential_",
    "geometric_",
    "log_normal_",
    "cauchy_",
]

ESTIMATORS: dict[str, Callable[[str, Inputs], Work | None]] = {
    **dict.fromkeys(_RULES, _pointwise),
    **dict.fromkeys((f"{name}_" for name in _RULES), _pointwise),
    "glu": _glu,
    "glu_backward": _glu_backward,
    "native_dropout": _dropout,
    "_fused_dropout": _dropout,
    **dict.fromkeys(_RANDOM, _random_fill),
    "_C::silu_and_mul": _serving_gate,
    "_C::gelu_and_mul": _serving_gate,
    "_C::gelu_tanh_and_mul": _serving_gate,
    "_C::rotary_embedding": _rotary,
}
