"""CUTLASS: the names its generator gives (also within cuBLAS and cuDNN), and its C++ templates.

    cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_64x4_tn_align8         2.x: tile, then K block x stages
    cutlass3x_sm90_tensorop_s64x128x16gemm_f16_f16_f32_f16_f16_128x128x64_2x1x1_0_tnn_align8_...
                                           A   B   acc C   D   tile      cluster stages
    cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<..., CollectiveMma<MainloopSm90..., TileShape, A, ...

``relu`` and ``bias_f32_relu`` are what the kernel can do, not what it did.
"""

from __future__ import annotations

import re

from lanewise.kernels.dtypes import SHORT, type_of
from lanewise.kernels.kernel import Kernel
from lanewise.kernels.names import Name, split_arguments, word_string
from lanewise.kernels.words import convolution_algorithm, direction_of, kind_of

__all__ = ["decoded", "matches", "shape_of"]

_GENERATED = re.compile(r"cutlass_(?:\d{2,3}_)?(?:wmma_)?(?:tensorop|simt|sptensorop)_\w+")
_GENERATED_3X = re.compile(r"cutlass3x_sm\d+[af]?_\w+")
_CORE = re.compile(
    r"(gz|gc|[sdhczi])?(\d{3,6})?(tf32|f16|bf16|f32|fast\w*?)?"
    r"(spgemm|xorgemm|gemm|fprop|dgrad|wgrad|deconv|syr2k|syrk|herk|her2k|trmm|symm|hemm)$"
)
_CORE_3X = re.compile(r"gemm$|^conv|fprop$|dgrad$|wgrad$")
_SHAPE_2D = re.compile(r"\d+x\d+$")
_SHAPE_3D = re.compile(r"\d+x\d+x\d+$")
# "h" is the conjugate transpose, which BLAS calls "c".
_LAYOUT_2X = re.compile(r"[nth]{2}$")
_LAYOUT_3X = re.compile(r"[nth]{3}$")
_BY_LETTER = {"s": "fp32", "d": "fp64", "h": "fp16", "c": "complex64", "z": "complex128", "gc": "complex64",
              "gz": "complex128", "i": "int8"}  # fmt: skip
_DIRECTIONS = {"fprop": "forward", "dgrad": "backward", "wgrad": "backward", "deconv": "backward"}
_ON_TENSOR_CORES_ONLY = frozenset(("tf32", "bf16", "fp8_e4m3", "fp8_e5m2", "fp8", "fp4"))

_OWNER = re.compile(r"[<, ](vllm|machete|flat|flashinfer|sglang|tensorrt_llm|fbgemm_gpu|deep_gemm|transformer_engine)::")
_OWNERS = {"vllm": "vllm", "machete": "vllm", "flat": "flashinfer", "flashinfer": "flashinfer", "sglang": "sglang",
           "tensorrt_llm": "trtllm", "fbgemm_gpu": "fbgemm", "deep_gemm": "deepgemm",
           "transformer_engine": "transformer-engine"}  # fmt: skip
# Helpers of products that multiply nothing.
_HELPERS = (
    ("ReduceSplitK", "gemm-aux"),
    ("StructuredSparseCompressor", "other"),
    ("reorder_tensor_kernel", "transpose-layout"),
)
_COLLECTIVE = re.compile(r"\bCollectiveMma<")
_STATIC_TILE = re.compile(r"cute::tuple<cute::C<(\d+)>, cute::C<(\d+)>, cute::C<(\d+)> ?>")
_STATIC = re.compile(r"C<(\d+)>|Int<(\d+)>")
_GEMM_SHAPE = re.compile(r"GemmShape<(\d+), (\d+), (\d+)>")
_ARCH = re.compile(r"(?:Mainloop|arch::|Kernel|CollectiveMma|[12]Sm|Warp[sS]pecialized\w*?|epilogue::)Sm(\d{2,3})(?!\d)")
_MAINLOOP = re.compile(r"Mainloop\w+<(\d+)")
_CONV_ITERATOR = re.compile(r"Conv\dd(Fprop|Dgrad|Wgrad)|conv::Operator\)(\d)")
_EPILOGUE_TEXT = (("LinCombPerRowBias", "bias"), ("LinCombPerColBias", "bias"), ("EltAct<cutlass::epilogue::thread::ReLu",
                  "relu"), ("EltAct<cutlass::epilogue::thread::GELU", "gelu"))  # fmt: skip


def matches(name: Name) -> bool:
    """Whether CUTLASS is what this name is about: its namespace, or a name of its generator."""
    return name.root.startswith("cutlass") or name.base.startswith("cutlass")


def decoded(name: Name) -> Kernel | None:
    """The kernel of a CUTLASS name, or None."""
    head = name.text[:400]
    generated = _GENERATED_3X.search(head)
    if generated:
        return _three(name, generated[0])
    generated = _GENERATED.search(head)
    if generated:
        return _two(name, generated[0])
    return _template(name)


def _library(name: Name) -> str:
    """Whose the wrapped kernel is; those that only build on CUTLASS's own classes are CUTLASS's."""
    if "cudnn" in name.root:
        return "cudnn"
    owner = _OWNER.search(name.text, 0, 400)
    return _OWNERS[owner[1]] if owner else "cutlass"


def _two(name: Name, generated: str) -> Kernel | None:
    """A name of the generator of CUTLASS 2."""
    tokens = generated.split("_")[1:]
    place, core = next(((i, m) for i, t in enumerate(tokens) if (m := _CORE.match(t)) and i), (0, None))
    arch = f"sm{tokens[0]}" if tokens[0].isdigit() else None
    if core is None:  # cut off; those with a number are of the library of GEMMs
        before = next((SHORT[t] for t in tokens if t in SHORT), None)
        kind = "gemm" if arch else None
        return Kernel(name.raw, kind, _library(name), dtype=before, arch=arch, tensor_cores="simt" not in tokens)
    dtype = _type_two(tokens, place, core)
    if dtype in _ON_TENSOR_CORES_ONLY and arch in ("sm70", "sm75"):
        arch = None  # bf16 under "75": it needs sm80, so the number is not what it was built for
    shapes = [token for token in tokens[place:] if _SHAPE_2D.match(token)]
    block = shapes[1].split("x") if len(shapes) > 1 else None
    direction = _DIRECTIONS.get(core[4])
    return Kernel(
        name.raw,
        "conv" if direction else "gemm",
        _library(name),
        dtype=dtype,
        arch=arch,
        tile=None if not shapes else f"{shapes[0]}x{block[0]}" if block else shapes[0],
        stages=int(block[1]) if block else None,
        layout=_layout_two(tokens[place:], direction is not None),
        tensor_cores="simt" not in tokens,
        direction=direction,
        op="implicit_gemm" if direction else None,
    )


def _type_two(tokens: list[str], place: int, core: re.Match[str]) -> str | None:
    """The type stated before or after the instruction; none stated with s1688 is fp32 rounded to tf32."""
    if core[3]:
        return SHORT.get(core[3])
    before = SHORT.get(tokens[place - 1])
    if before:
        return before
    for token in tokens[place + 1 :]:
        if token in SHORT:
            return SHORT[token]
        if _SHAPE_2D.match(token):
            break
    if core[1] == "s" and core[2]:
        return "tf32" if core[2] in ("1688", "161608") else None
    if core[1] == "i":
        return {"16864": "int4", "8832": "int4"}.get(core[2] or "", "int8")
    return _BY_LETTER.get(core[1] or "")


def _layout_two(tokens: list[str], convolution: bool) -> str | None:
    if convolution:
        return _tensor_layout(tokens)
    return next((token.replace("h", "c") for token in tokens if _LAYOUT_2X.match(token)), None)


def _three(name: Name, generated: str) -> Kernel | None:
    """A name of the generator of CUTLASS 3."""
    _, arch, *tokens = generated.split("_")
    if not any(_CORE_3X.search(token) for token in tokens):
        return None
    simt = "simt" in tokens
    operands, tile, stages, layout = _shape_three(tokens)
    if not simt and "9xbf16gemm" not in tokens:  # nine products of bf16 are as good as fp32
        operands = ["tf32" if operand == "fp32" else operand for operand in operands]
    convolution = any(token.startswith("conv") or token in _DIRECTIONS for token in tokens)
    return Kernel(
        name.raw,
        "conv" if convolution else "gemm",
        _library(name),
        dtype="+".join(dict.fromkeys(operands)) or None,
        arch=arch.rstrip("af"),
        tile=tile,
        stages=stages or None,
        layout=_tensor_layout(tokens) if convolution else layout,
        tensor_cores=not simt,
        direction=next((_DIRECTIONS[token] for token in tokens if token in _DIRECTIONS), None),
        op="implicit_gemm" if convolution else None,
    )


def _shape_three(tokens: list[str]) -> tuple[list[str], str | None, int | None, str | None]:
    """Types of A and B, the tile after all types, the number of stages after the cluster, the layouts of A, B and C."""
    operands: list[str] = []
    tile = layout = stages = None
    for token in tokens:
        if tile is None and operands and _SHAPE_3D.match(token):
            tile = token
        elif tile is None and (operand := _operand(token)) and len(operands) < 2:
            operands.append(operand)
        elif tile and stages is None and token.isdigit():
            stages = int(token)
        elif tile and layout is None and _LAYOUT_3X.match(token):
            layout = token[:2].replace("h", "c")
    return operands, tile, stages, layout


def _operand(token: str) -> str | None:
    """``bf16``; with scales ``ue4m3xe2m1`` or ``64x128f32xe4m3``: what is scaled stands last."""
    return SHORT.get(token) or SHORT.get(token.rpartition("x")[2])


def _tensor_layout(tokens: list[str]) -> str | None:
    return next(({"ndhwc": "nhwc"}.get(t, t) for t in tokens if t in ("nhwc", "nchw", "ndhwc")), None)


def _template(name: Name) -> Kernel | None:
    """A kernel spelled as C++ templates."""
    text = name.text[:3000]
    helper = next((kind for word, kind in _HELPERS if word in text[:200]), None)
    if helper:
        return Kernel(name.raw, helper, _library(name))
    if "ImplicitGemmConvolution" in text or "::conv::" in text or "DirectConvolution" in text:
        return _convolution(name, text)
    if _COLLECTIVE.search(text):
        return _collective(name, text)
    if "::gemm::" in text or "GemmShape<" in text or "GemmUniversal" in text or "Gemm" in name.tail[:200]:
        return _gemm(name, text)
    inner = name.arguments[0].partition("<")[0] if name.arguments else name.base
    words = word_string(inner.rpartition("::")[2] or name.base)
    return Kernel(name.raw, kind_of(words), _library(name), dtype=type_of(text), direction=direction_of(words))


def shape_of(argument: str) -> list[int]:
    """The numbers of a static shape: ``cute::tuple<cute::C<128>, cute::C<256>, cute::C<64> >``."""
    return [int(first or second) for first, second in _STATIC.findall(argument)]


def _collective(name: Name, text: str) -> Kernel:
    """CUTLASS 3: CollectiveMma<mainloop, tile, A, stride of A, B, ...>."""
    start = text.index("CollectiveMma<", _COLLECTIVE.search(text).start())  # type: ignore[union-attr]  # it was found
    arguments = split_arguments(text[start + len("CollectiveMma") :], limit=6) + [""] * 6
    stages = _MAINLOOP.search(arguments[0])
    arch = _ARCH.search(arguments[0])
    tile = shape_of(arguments[1])
    operands = dict.fromkeys(filter(None, (type_of(arguments[2]), type_of(arguments[4]))))
    on_tensor_cores = "Simt" not in arguments[0]
    types = ["tf32" if operand == "fp32" and on_tensor_cores else operand for operand in operands]
    moe = "MoE" in text or "Moe" in text
    return Kernel(
        name.raw,
        "conv" if "::conv::" in text else "moe" if moe else "gemm",
        _library(name),
        dtype="+".join(dict.fromkeys(types)) or None,
        arch=f"sm{arch[1]}" if arch else None,
        tile="x".join(map(str, tile)) if len(tile) == 3 else None,
        stages=int(stages[1]) if stages else None,
        epilogue=_stated_epilogue(name.text),
        tensor_cores=on_tensor_cores,
    )


def _stated_epilogue(text: str) -> str | None:
    return "+".join(dict.fromkeys(part for spelling, part in _EPILOGUE_TEXT if spelling in text)) or None


def _gemm(name: Name, text: str) -> Kernel:
    """CUTLASS 2: GemmShape and the types of the iterators. Classes around CUTLASS 3: types, then the tile."""
    shape, arch = _GEMM_SHAPE.search(text) or _STATIC_TILE.search(text), _ARCH.search(text)
    dtype = type_of(text, integers=False)
    if "gemm_fp8" in text[:200] and dtype and not dtype.startswith("fp8"):
        dtype = "fp8"  # the type stated is that of the result
    kind = "moe" if "MoeFC" in text else "gemv" if "kernel::Gemv" in text or "BatchedGemv" in text else "gemm"
    return Kernel(
        name.raw,
        kind,
        _library(name),
        dtype=dtype,
        arch=f"sm{arch[1]}" if arch else None,
        tile="x".join(shape.groups()) if shape else None,
        tensor_cores=_tensor_cores(text, dtype) if kind != "gemv" else None,
    )


def _convolution(name: Name, text: str) -> Kernel:
    shape, iterator = _GEMM_SHAPE.search(text), _CONV_ITERATOR.search(text)
    dtype = type_of(text, integers=False)
    direction = None
    if iterator:
        direction = "forward" if iterator[1] == "Fprop" or iterator[2] == "0" else "backward"
    return Kernel(
        name.raw,
        "conv",
        _library(name),
        dtype=dtype,
        tile="x".join(shape.groups()) if shape else None,
        layout="nhwc" if "TensorNHWC" in text or "TensorNDHWC" in text else None,
        tensor_cores=_tensor_cores(text, dtype),
        direction=direction,
        op=convolution_algorithm(text[:300]),
    )


def _tensor_cores(text: str, dtype: str | None) -> bool | None:
    if "MmaSimt" in text or "OpClassSimt" in text:
        return False
    if dtype in _ON_TENSOR_CORES_ONLY or "TensorOp" in text or "TmaWarpSpecialized" in text:
        return True
    return None
