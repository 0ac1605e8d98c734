"""ATen's CUDA kernels. Wrappers tell how the work is laid out, functors what it is:

    at::native::vectorized_elementwise_kernel<8, at::native::BinaryFunctor<c10::BFloat16, ..., MulFunctor<float> >, ...
                |                                            |             |                   what is done
                how                                          an adapter    type of the tensors

Types inside a functor may be those of the arithmetic; the adapter's first type, or the parameters of the lambda that
runs for each element, are those of the tensors.
"""

from __future__ import annotations

import re
from functools import lru_cache

from lanewise.kernels.aten_table import BASES, FUNCTORS, GLOBAL_BASES, JITERATED
from lanewise.kernels.dtypes import cast, first_type
from lanewise.kernels.kernel import Kernel
from lanewise.kernels.lists import listed
from lanewise.kernels.names import Name, word_string
from lanewise.kernels.words import direction_of, kind_of

__all__ = ["decoded", "matches"]

_ELEMENTWISE = frozenset(
    listed(
        "vectorized_elementwise_kernel unrolled_elementwise_kernel elementwise_kernel elementwise_kernel_manual_unroll"
        " vectorized_templated_elementwise_kernel unrolled_elementwise_kernel_for_multi_outputs legacy_elementwise_kernel"
        " elementwise_kernel_with_index index_elementwise_kernel _scatter_gather_elementwise_kernel reduce_kernel"
        " vectorized_elementwise_kernel_for_multi_outputs kernelPointwiseApply1 kernelPointwiseApply2 _elemwise_kernel"
        " kernelPointwiseApply3 distribution_elementwise_grid_stride_kernel distribution_binary_elementwise_kernel"
        " take_put_elementwise_kernel unfold_backward_elementwise_kernel index_fill_elementwise_kernel _elementwise_kernel"
        " triton_elementwise_kernel jitted_elementwise_kernel"
    )
)
# Templates around the functor that say nothing of it. Nothing is skipped but types and numbers between them.
_ADAPTERS = frozenset(
    listed(
        "gpu_kernel_impl_nocast gpu_kernel_impl gpu_kernel gpu_kernel_with_scalars BinaryFunctor AUnaryFunctor BUnaryFunctor"
        " func_wrapper_t ReduceOp gpu_index_kernel opmath_symmetric_gpu_kernel_with_scalars gpu_kernel_multiple_outputs_impl"
        " opmath_gpu_kernel_with_scalars gpu_kernel_multiple_outputs jitted_gpu_kernel_impl index_kernel_wrapper"
    )
)
_IDENTIFIER = re.compile(r"\s*(?:&?\(?(?:\w+::)*)(\w+)")
_PLAIN_ARGUMENTS = re.compile(r"\s*(?:(?:c10::complex<[\w:]+>|[\w:]+(?: [\w:]+)*(?:[*&]|<\d+u?>)*),\s*)*")
_LAMBDA_PARAMETERS = re.compile(r"lambda\(([^()]*[^()\s][^()]*)\)#")
_WHERE = re.compile(r"[\w:<]*where_kernel_impl\(")
_SIXTEEN_BYTES = "{lambda()#5}::operator()() const::{"  # after those of 1, 2, 4 and 8
_INDEXED_LAMBDA = re.compile(r"\{lambda\(\)#(\d+)\}::operator\(\)\(\)(?: const)?::\{lambda\(long\)#1\}")
# AT_DISPATCH_ALL_TYPES numbers its lambdas in this order.
_DISPATCHED = {1: "uint8", 2: "int8", 3: "int32", 4: "int64", 5: "int16", 6: "fp64", 7: "fp32"}
_WIDENING = re.compile(r"(bfloat16|float16)tofloat32_copy")
_NARROWING = {"bfloat16_copy_kernel_cuda": "bf16", "float16_copy_kernel_cuda": "fp16", "float8_copy_kernel_cuda": "fp8"}
# Between fp32 and bf16, as FBGEMM names it.
_CONVERSION = re.compile(r"_(float|bfloat16)_to_(float|bfloat16)_(?:cuda_kernel|gpu)$")
_CONVERTED = {"float": "fp32", "bfloat16": "bf16"}
_TO_FLOAT8 = re.compile(r"Convert(Float)?ToFloat8(E\dM\d)")
_COPY_FUNCTOR = re.compile(r"Copy<(c10::complex<\w+>|[\w: ]+)(?:, (c10::complex<\w+>|[\w: ]+))?")
_LIST_FUNCTOR = re.compile(r"(\w*(?:Functor|Functor\w*))<(c10::complex<[\w:]+>|[\w: ]+)")
_LIST_OPERATION = re.compile(r"OpS?\w*Functor<(?:[^<>]|<[^<>]*>)*>, (?:\w+::)*(\w+)")
_STANDARD_OPERATIONS = {"plus": "add", "minus": "sub", "multiplies": "mul", "divides": "div"}
_OPTIMIZER = re.compile(r"Fused\w*(?:Adam|Sgd|SGD|Adagrad|Lamb|Lion)|Adam\w*Functor|SGDFunctor|AdagradFunctor|LAMB")
_OPERATION = re.compile(
    r"_(layer_norm|batch_norm|group_norm|rms_norm|weight_norm|adaptive_\w+?_pool\w*?|max_pool(?:\dd)?|avg_pool(?:\dd)?"
    r"|nll_loss(?:2d)?|ctc_loss|dropout|index_select|upsample_\w+?\dd|grid_sampler_\dd|scan|bitonic_sort|radix_sort|sort"
    r"|gather_top_k|cat|triu_tril|im2col|embedding_bag|embedding|searchsorted|roll|lstm_cell|gru_cell|multinomial)_"
)
_DECORATION = re.compile(
    r"(?:_(?:kernel|cuda|impl|out|internal|template|frame|gpu)_?)+$|CUDAKernelImpl$|KernelImpl(?:Internal)?$"
    r"|CUDAKernel\w*$|Functor\w*$|Ops$|_functor$"
)
_JITERATOR = re.compile(r"(?:reduction_)?(\w+?)(?:_kernel)?(?:_vectorized\d+)?_kernel$")
_LAYOUT = re.compile(r"_(nchw|nhwc)(?:_|$)")
_HEAD = 900  # of a functor: the first lambda with parameters stands within it

_OTHER_OWNERS = {"fbgemm_gpu::": "fbgemm", "vllm::": "vllm", "torchao::": "torchao", "transformer_engine::":
                 "transformer-engine"}  # fmt: skip


# Apex has copies of these.
_OF_OTHERS = frozenset(
    listed("cuApplyLayerNorm cuApplyRMSNorm cuComputePartGradGammaBeta cuComputeGradGammaBeta cuComputeGradInput")
)


def matches(name: Name) -> bool:
    """Whether ATen owns this name: its namespaces, or one of its kernels without any."""
    return name.root in ("at", "c10d", "c10", "torch") or (not name.root and _without_namespace(name.base))


def _without_namespace(base: str) -> bool:
    return (
        base in GLOBAL_BASES
        or base.startswith(("multi_tensor", "CatArrayBatchedCopy"))
        or (base in BASES and not base.islower() and base not in _OF_OTHERS)
        or "_vectorized" in base
        or base.removesuffix("_kernel") in JITERATED
        or (base.startswith("reduction_") and base.endswith("_kernel"))
    )


def decoded(name: Name) -> Kernel | None:
    """The kernel of an ATen name, or None."""
    base = name.base
    if base in _ELEMENTWISE:
        return _wrapped(name)
    if base.startswith("multi_tensor"):
        return _over_lists(name)
    if not name.tail.startswith("<") and not name.root:
        return _jiterated(name)
    kind, direction = _kind_of_base(name)
    if kind is None:
        return None
    layout = _LAYOUT.search(base)
    return Kernel(
        name.raw,
        kind,
        "aten",
        dtype=_tensor_type(name, kind),
        layout=layout[1] if layout else None,
        tensor_cores=_tensor_cores(base, kind),
        direction=direction,
        op=_direct_operation(name, kind),
    )


def _kind_of_base(name: Name) -> tuple[str | None, str | None]:
    known = BASES.get(name.base)
    if known:
        return known
    if "CatArrayBatchedCopy" in name.base:
        return "cast-copy", None
    kind, direction = kind_of(name.words), direction_of(name.words)
    if kind == "fused-pointwise":
        kind = "elementwise"  # one operation of ATen: glu
    if kind == "norm" and direction is None and name.root == "at" and name.tail:
        direction = "forward"  # backward passes of norms say so
    return kind, direction


def _tensor_cores(base: str, kind: str) -> bool | None:
    if kind == "conv":
        return False
    return True if base.startswith("tinygemm") else None


def _tensor_type(name: Name, kind: str) -> str | None:
    """The first type of the template; index types stand first only where indices are the data."""
    integers = kind not in ("conv", "norm", "softmax", "loss", "gemm", "gemm-aux", "rnn", "random")
    if name.base.startswith(("tinygemm", "vectorized_gather", "split_with_sizes", "spin", "krn_", "computeBlockwise")):
        return None  # bytes, or (computeBlockwise) the bits of a value as an unsigned integer
    conversion = _CONVERSION.match(name.base)
    if conversion:
        return cast(_CONVERTED[conversion[1]], _CONVERTED[conversion[2]])
    if name.base == "chunk_cat_cuda_kernel":
        target, source = (first_type(a, 0, len(a)) for a in (*name.arguments, "", "")[:2])
        return cast(source, target)
    if name.base.startswith("jagged_"):  # the number of dimensions, the type of offsets, that of the values
        return first_type(name.arguments[2], 0, 60) if len(name.arguments) > 2 else None
    end = name.tail.find(">(", 0, 300) if name.tail.startswith("<") else 0
    end = end if end >= 0 else 300
    dtype = first_type(name.tail, 0, end, integers=integers and kind not in ("pooling", "resample"))
    if dtype is None and integers:  # the type of indices stands first in some
        dtype = first_type(name.tail, 0, end)
    if dtype or name.tail.find("OpaqueType", 0, end) >= 0 or name.tail.find("c10::q", 0, end) >= 0:
        return dtype
    return first_type(name.tail, end, 300, integers=False)  # integers among the parameters are sizes and counts


def _wrapped(name: Name) -> Kernel:
    """An element-wise or reducing wrapper around a functor."""
    functor, start = _functor(name.tail)
    head = name.tail[start : start + _HEAD]
    default = "reduction" if name.base == "reduce_kernel" else "index" if "index_" in name.base else "elementwise"
    known = FUNCTORS.get(functor)
    kind, direction = known or (default, None)
    if name.base.startswith("distribution_"):
        kind = "random"
    elif "scatter_gather" in name.base or "take_put" in name.base:
        kind = "index"
    elif kind == "elementwise" and known is None:
        kind = "cast-copy" if _CONVERSION.match(functor) else _named_otherwise(functor)
    if direction is None:
        direction = direction_of(word_string(functor))
    return Kernel(
        name.raw,
        kind,
        next((owner for space, owner in _OTHER_OWNERS.items() if space in head[:200]), "aten"),
        dtype=_functor_type(functor, head),
        direction=direction,
        op=_plain(functor) or None,
    )


@lru_cache(maxsize=4096)
def _named_otherwise(functor: str) -> str:
    """Losses, norms and the like that run through the element-wise wrapper; all else is element-wise."""
    kind = kind_of(word_string(functor))
    return kind if kind in ("loss", "norm", "quantize", "random", "rope", "embedding") else "elementwise"


def _functor(tail: str) -> tuple[str, int]:
    """The functor's name and where it begins, behind the adapters; its first adapter's types stay before it."""
    at, start = 1, None
    while True:
        at = _PLAIN_ARGUMENTS.match(tail, at).end()  # type: ignore[union-attr]  # it matches the empty string
        found = _IDENTIFIER.match(tail, at)
        if found is None:
            return "", at if start is None else start
        if start is None and not found[1].startswith("gpu_"):
            start = at
        bracket = found.end()
        if found[1] not in _ADAPTERS or tail[bracket : bracket + 1] != "<":
            return found[1], at if start is None else start
        at = bracket + 1


def _functor_type(functor: str, head: str) -> str | None:
    """The type of the tensors that a functor works on."""
    to_float8 = _TO_FLOAT8.match(functor)
    if to_float8:
        before = "fp32" if to_float8[1] else first_type(head, head.find(functor), head.find(functor) + 80)
        return cast(before, f"fp8_{to_float8[2].lower()}")
    conversion = _CONVERSION.match(functor)
    if conversion:
        return cast(_CONVERTED[conversion[1]], _CONVERTED[conversion[2]])
    if functor in _NARROWING:
        source = _LAMBDA_PARAMETERS.search(head)
        return cast(first_type(source[1], 0, len(source[1])), _NARROWING[functor]) if source else None
    widening = _WIDENING.match(functor)
    if widening:
        return "bf16->fp32" if widening[1] == "bfloat16" else "fp16->fp32"
    if functor.endswith("space_cuda_out") or functor.startswith(("dequantize_tensor", "int_repr")):
        return None  # dispatches twice, once for integers; from numbers of fewer bits
    if functor in ("arange_cuda_out", "range_cuda_out"):
        number = _INDEXED_LAMBDA.search(head)
        return _DISPATCHED.get(int(number[1])) if number else None
    adapter = _IDENTIFIER.match(head)
    bracket = adapter.end() if adapter else 0
    if adapter and adapter[1] in _ADAPTERS and head[bracket : bracket + 1] == "<":
        return first_type(head, bracket, bracket + 300)
    place = head.find(functor) + len(functor)
    if head[place : place + 1] == "<":
        dtype = first_type(head, place, place + 60)
        if dtype == "bool" or functor == "masked_scale_kernel":  # of a mask, where there is another type
            dtype = first_type(head, place, place + 60, integers=False) or dtype
        if dtype or "OpaqueType" in head[place : place + 60]:
            return dtype
    return _lambda_type(head)


def _lambda_type(head: str) -> str | None:
    """The first parameter that is no mask; masks only where all are."""
    parameters = _LAMBDA_PARAMETERS.search(head)
    if parameters is None:
        return None
    if "char*" in parameters[1]:  # moves bytes of any type
        return None
    types = [t for p in parameters[1].split(",") if (t := first_type(p, 0, len(p)))]
    dtype = next((t for t in types if t != "bool"), types[0] if types else None)
    return None if _is_a_size(head, parameters) else dtype


def _is_a_size(head: str, parameters: re.Match[str]) -> bool:
    """``where`` since PyTorch 2.14 takes an unsigned integer of as many bytes, or a complex number for sixteen."""
    if not _WHERE.match(head):
        return False
    return "unsigned" in parameters[1] or head[: parameters.start()].endswith(_SIXTEEN_BYTES)


def _over_lists(name: Name) -> Kernel:
    """multi_tensor_apply_kernel: one operation over a list of tensors; Apex and others have copies of it."""
    head = name.tail[:700]
    optimizer = _OPTIMIZER.search(head)
    functor = _LIST_FUNCTOR.search(head)
    copied = _COPY_FUNCTOR.search(head)
    dtype = first_type(functor[2], 0, len(functor[2])) if functor else None
    if copied and copied[2]:
        target, source = (first_type(side, 0, len(side)) for side in (copied[1], copied[2]))
        dtype = cast(source, target)
    return Kernel(
        name.raw,
        "optimizer" if optimizer else "foreach",
        _list_library(name, head),
        dtype=dtype,
        op=_list_operation(functor[1], head) if functor else None,
    )


def _list_operation(functor: str, head: str) -> str | None:
    """What is done to each element: adapters of lists name it in the argument after them."""
    operation = _LIST_OPERATION.search(head)
    if not functor.startswith(("BinaryOp", "PointwiseOp", "TernaryOp", "UnaryOp")) or operation is None:
        return _plain(functor)
    if operation[1] in _STANDARD_OPERATIONS:
        base = _STANDARD_OPERATIONS[operation[1]]
        return f"addc{base}" if functor.startswith("Pointwise") else base
    return _plain(operation[1])


def _list_library(name: Name, head: str) -> str:
    if name.root:
        return "aten" if name.root == "at" else {"fbgemm_gpu": "fbgemm"}.get(name.root, name.root.replace("_", "-"))
    return "transformer-engine" if "transformer_engine::" in head else "apex"


def _jiterated(name: Name) -> Kernel | None:
    """A kernel that PyTorch compiled at run time, or a short name without template arguments."""
    match = _JITERATOR.match(name.base)
    operation = match[1] if match else ""
    if name.base.startswith("reduction_"):
        return Kernel(name.raw, "reduction", "aten", op=operation)
    if match and ("_vectorized" in name.base or operation in JITERATED):
        return Kernel(name.raw, "elementwise", "aten", op=operation)
    kind, direction = _kind_of_base(name)
    if kind is None:
        return None
    return Kernel(name.raw, kind, "aten", dtype=_tensor_type(name, kind), direction=direction, op=_plain(name.base))


def _direct_operation(name: Name, kind: str) -> str | None:
    """The operation of a kernel that is no wrapper, where its name has it as users know it."""
    if kind == "softmax":
        log = "LogSoftMax" in name.tail[:300] or (
            name.base.startswith("softmax_warp") and name.arguments[4:5] in (["true"], ["1"])
        )
        return "log_softmax" if log else "softmax"
    if name.base.startswith("vectorized_layer_norm") and name.arguments[2:3] == ["true"]:
        return "rms_norm"
    match = _OPERATION.search(name.words)
    return match[1] if match else None


@lru_cache(maxsize=4096)
def _plain(name: str) -> str | None:
    """``GeluCUDAKernelImpl`` gives ``gelu``: an operation without the decoration of its implementation."""
    if name.endswith("_add") and name.startswith("CUDAFunctor"):
        return "add"
    stripped = _DECORATION.sub("", name)
    words = word_string(stripped).strip("_")
    if words.isdigit():
        return None
    return words.removeprefix("cuda_").removeprefix("cunn_").removeprefix("launch_") or None
