"""Assembly kernels of cuBLAS and cuDNN that begin with the codename of an architecture.

    ampere_fp16_s16816gemm_fp16_128x256_ldg8_relu_f2f_stages_64x3_tn
    volta_scudnn_128x64_stridedB_splitK_medium_nn_v1

``s16816`` is the instruction: mma m16n8k16 with fp32 accumulation (``h``: fp16, ``i``: integer, ``d``: fp64). Without
digits the product runs on CUDA cores. ``relu`` is what the kernel can do, not what it did.
"""

from __future__ import annotations

import re

from lanewise.kernels.dtypes import SHORT
from lanewise.kernels.kernel import Kernel
from lanewise.kernels.names import Name
from lanewise.kernels.words import direction_of, kind_of

__all__ = ["STARTS", "decoded"]

_ARCH = {
    "kepler": "sm30", "maxwell": "sm50", "pascal": "sm60", "volta": "sm70", "turing": "sm75", "ampere": "sm80",
    "ada": "sm89", "hopper": "sm90", "blackwell": "sm100",
}  # fmt: skip
_PREFIX = r"(?:(?:trt|cudnn_infer|cudnn_train|_\dx_cudnn|_\dx_cublas|cudnn)_)?"
STARTS = tuple(
    f"{prefix}{arch}_"
    for prefix in ("", "trt_", "cudnn_infer_", "cudnn_train_", "_5x_cudnn_", "_6x_cudnn_", "cudnn_")
    for arch in _ARCH
)
_START = re.compile(_PREFIX + "(" + "|".join(_ARCH) + ")_")
_MATH = re.compile(r"(g?[sdhczi])(\d{3,6})?(gemm|cudnn|gemv)")
_SHAPE = re.compile(r"\d+x\d+$")
_LAYOUT = re.compile(r"[ntc]{2}$")
_BY_LETTER = {"s": "fp32", "d": "fp64", "h": "fp16", "c": "complex64", "gc": "complex64", "z": "complex128",
              "gz": "complex128"}  # fmt: skip
_COMPLEX = ("c", "gc", "z", "gz")
_INTEGER_BY_INSTRUCTION = {"8816": "int8", "16816": "int8", "16832": "int8", "8832": "int4", "16864": "int4"}


def decoded(name: Name) -> Kernel | None:
    """The kernel of a name that begins with a codename, or None."""
    start = _START.match(name.base)
    if start is None:
        return None
    tokens = name.base[start.end() :].split("_")
    place, math = next(((i, m) for i, t in enumerate(tokens) if (m := _MATH.match(t))), (0, None))
    if math is None:
        kind = kind_of(name.words)  # whole layers: ampere_lstm_bp_largeB, volta_first_layer_wgrad
        backward = direction_of(name.words) == "backward" or "bp" in tokens
        if kind not in ("rnn", "conv"):
            return None
        return Kernel(name.raw, kind, "cudnn", arch=_ARCH[start[1]], direction="backward" if backward else None)
    convolution = math[3] == "cudnn"
    tile, stages = _tile(tokens)
    return Kernel(
        name.raw,
        "conv" if convolution else math[3],
        "cudnn" if convolution or "cudnn" in name.base[: start.start(1)] else "cublas",
        dtype=_dtype(tokens, place, math, start[1]),
        arch=_ARCH[start[1]],
        tile=tile,
        stages=stages,
        layout=_conv_layout(tokens) if convolution else _gemm_layout(tokens),
        tensor_cores=math[2] is not None,
        direction=_direction(tokens) if convolution else None,
        op="winograd" if "winograd" in tokens else None,
    )


def _dtype(tokens: list[str], place: int, math: re.Match[str], codename: str) -> str | None:
    """The type after the instruction is that of the operands, the one before it that of the result."""
    letter, instruction = math[1], math[2]
    for near in (place + 1, place - 1):
        if 0 <= near < len(tokens) and tokens[near] in SHORT and letter not in _COMPLEX:
            return SHORT[tokens[near]]
    if letter == "i":  # without an instruction, sums of four products of bytes
        return _INTEGER_BY_INSTRUCTION.get(instruction, "int8") if instruction else "int8"
    if instruction is None or letter != "s":
        return _BY_LETTER.get(letter)
    if codename in ("volta", "turing"):
        return "fp16"
    return "tf32" if instruction == "1688" else None


def _tile(tokens: list[str]) -> tuple[str | None, int | None]:
    """The tile, with the K block where ``stages_64x3`` gives it, and the number of stages."""
    shapes = [token for token in tokens if _SHAPE.match(token)]
    if not shapes:
        return None, None
    if "stages" in tokens[:-1]:
        block = tokens[tokens.index("stages") + 1]
        if _SHAPE.match(block):
            depth, stages = block.split("x")
            return f"{shapes[0]}x{depth}", int(stages)
    return shapes[0], None


def _gemm_layout(tokens: list[str]) -> str | None:
    return next((token for token in reversed(tokens) if _LAYOUT.match(token)), None)


def _conv_layout(tokens: list[str]) -> str | None:
    return next((token for token in tokens if token in ("nhwc", "nchw")), None)


def _direction(tokens: list[str]) -> str | None:
    """Strided B is the input gradient, with split-K the weight gradient; Winograd serves both ways."""
    if "winograd" in tokens:
        return None
    if not {"dgrad", "wgrad", "stridedB", "bprop"}.isdisjoint(tokens):
        return "backward"
    return "forward" if "relu" in tokens or "fprop" in tokens else None
