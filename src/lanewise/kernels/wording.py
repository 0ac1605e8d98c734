"""A decoded name in words: a sentence, and a label short enough for a table."""

from __future__ import annotations

from lanewise.kernels.kernel import Kernel
from lanewise.translations import Catalog

__all__ = ["LONGEST_LABEL", "TEXTS", "label", "sentence"]

LONGEST_LABEL = 40
"""Characters of a label; names of operations are cut to fit."""

TEXTS = Catalog(
    "kernels",
    {
        "attention": "attention",
        "cast-copy": "copy or cast",
        "collective": "collective between GPUs",
        "conv": "convolution",
        "conv-aux": "helper of a convolution",
        "elementwise": "element-wise kernel",
        "embedding": "embedding lookup",
        "fft": "Fourier transform",
        "fill": "fill",
        "foreach": "operation over a list of tensors",
        "fused-pointwise": "fused point-wise kernel",
        "fused-reduction": "fused reduction",
        "gemm": "GEMM",
        "gemm-aux": "helper of a GEMM",
        "gemv": "matrix-vector product",
        "index": "gather or scatter",
        "kv-cache": "write to the key-value cache",
        "linalg": "matrix factorisation or solver",
        "loss": "loss",
        "memcpy-dtod": "copy within the device",
        "memcpy-dtoh": "copy from device to host",
        "memcpy-htod": "copy from host to device",
        "memcpy-ptop": "copy from one device to another",
        "memset": "memset",
        "moe": "mixture-of-experts kernel",
        "norm": "norm",
        "optimizer": "optimizer step",
        "other": "kernel of no common kind",
        "pooling": "pooling",
        "quantize": "quantisation",
        "random": "random numbers or dropout",
        "reduction": "reduction",
        "resample": "resampling",
        "rnn": "recurrent layer",
        "rope": "rotary embedding",
        "softmax": "softmax",
        "sort-scan": "sort, scan or selection",
        "transpose-layout": "change of layout",
        "unknown": "kernel whose name does not tell what it does",
        "short-attention": "attention",
        "short-cast-copy": "copy/cast",
        "short-collective": "collective",
        "short-conv": "conv",
        "short-conv-aux": "conv helper",
        "short-elementwise": "element-wise",
        "short-embedding": "embedding",
        "short-fft": "FFT",
        "short-fill": "fill",
        "short-foreach": "foreach",
        "short-fused-pointwise": "fused",
        "short-fused-reduction": "fused reduction",
        "short-gemm": "GEMM",
        "short-gemm-aux": "GEMM helper",
        "short-gemv": "GEMV",
        "short-index": "gather/scatter",
        "short-kv-cache": "KV cache",
        "short-linalg": "linalg",
        "short-loss": "loss",
        "short-memcpy-dtod": "copy DtoD",
        "short-memcpy-dtoh": "copy DtoH",
        "short-memcpy-htod": "copy HtoD",
        "short-memcpy-ptop": "copy PtoP",
        "short-memset": "memset",
        "short-moe": "MoE",
        "short-norm": "norm",
        "short-optimizer": "optimizer",
        "short-other": "other",
        "short-pooling": "pooling",
        "short-quantize": "quantise",
        "short-random": "random",
        "short-reduction": "reduction",
        "short-resample": "resample",
        "short-rnn": "RNN",
        "short-rope": "RoPE",
        "short-softmax": "softmax",
        "short-sort-scan": "sort/scan",
        "short-transpose-layout": "layout change",
        "short-unknown": "unknown",
        "for": "{arch} ",
        "of": "{library} ",
        "in": " in {dtype}",
        "from-to": " from {source} to {target}",
        "separator": ", ",
        "end": ".",
        "op": "operation {op}",
        "algorithm": "algorithm {op}",
        "fused-ops": "fuses {ops}",
        "tile": "tile {tile}",
        "stages": "{stages} stages",
        "layout": "layout {layout}",
        "forward": "forward pass",
        "backward": "backward pass",
        "epilogue": "{parts} in its epilogue",
        "and": " and ",
        "epilogue-none": "adds nothing",
        "epilogue-bias": "adds a bias vector",
        "epilogue-add": "adds a full matrix (beta*C)",
        "epilogue-relu": "applies ReLU",
        "epilogue-gelu": "applies GELU",
        "epilogue-swiglu": "applies SwiGLU",
        "epilogue-aux": "stores or reads a mask or pre-activation",
        "epilogue-drelu": "applies the gradient of ReLU",
        "epilogue-dgelu": "applies the gradient of GELU",
        "epilogue-bgrad": "sums the bias gradient",
        "tensor-cores": "on tensor cores",
        "matrix-cores": "on matrix cores",
        "cuda-cores": "on CUDA cores",
        "vector-units": "on vector units",
        "pageable": "the host memory is pageable, so it cannot overlap with other work",
        "pinned": "the host memory is pinned",
        "short-backward": "bwd",
        "short-pageable": "pageable",
        "short-pinned": "pinned",
    },
)

_ARCHITECTURES = {
    "sm50": "Maxwell", "sm60": "Pascal", "sm61": "Pascal", "sm70": "Volta", "sm72": "Volta", "sm75": "Turing",
    "sm80": "Ampere", "sm86": "Ampere", "sm87": "Ampere", "sm89": "Ada", "sm90": "Hopper", "sm100": "Blackwell",
    "sm101": "Blackwell", "sm103": "Blackwell", "sm120": "Blackwell", "sm121": "Blackwell", "gfx906": "MI50",
    "gfx908": "MI100", "gfx90a": "MI200", "gfx942": "MI300", "gfx950": "MI350",
}  # fmt: skip
_LIBRARIES = {
    "aiter": "AITER", "aotriton": "AOTriton", "apex": "Apex", "aten": "ATen", "bitsandbytes": "bitsandbytes",
    "composable-kernel": "composable-kernel", "cub": "CUB", "cublas": "cuBLAS", "cudnn": "cuDNN", "cufft": "cuFFT",
    "cusolver": "cuSOLVER", "cusparse": "cuSPARSE", "cusparselt": "cuSPARSELt", "cutlass": "CUTLASS",
    "deepep": "DeepEP", "deepgemm": "DeepGEMM", "deepspeed": "DeepSpeed", "fbgemm": "FBGEMM",
    "flash-attention": "FlashAttention", "flashmla": "FlashMLA",
    "flashinfer": "FlashInfer", "inductor": "Inductor", "liger": "Liger",
    "magma": "MAGMA", "marlin": "Marlin", "memory-efficient": "memory-efficient", "miopen": "MIOpen", "nccl": "NCCL",
    "oneccl": "oneCCL", "rccl": "RCCL", "rocprim": "rocPRIM", "sglang": "SGLang", "tensile": "Tensile",
    "thrust": "Thrust", "torchvision": "torchvision", "transformer-engine": "Transformer Engine", "triton": "Triton",
    "sageattention": "SageAttention", "tensorrt": "TensorRT", "xla": "XLA", "gloo": "Gloo", "nvjpeg": "nvJPEG",
    "trtllm": "TensorRT-LLM", "unsloth": "Unsloth", "vllm": "vLLM", "nvshmem": "NVSHMEM",
    "faiss": "Faiss", "onnxruntime": "ONNX Runtime", "paddle": "Paddle", "raft": "RAFT", "tensorflow": "TensorFlow",
    "ctranslate2": "CTranslate2", "lmdeploy": "LMDeploy", "xgboost": "XGBoost",
}  # fmt: skip
_AMD = frozenset(("tensile", "composable-kernel", "aiter", "miopen", "rocprim", "rccl", "aotriton"))
# Kinds whose noun already says what the operation's name would repeat.
_SAYS_ITSELF = frozenset(("gemm", "gemv", "fill", "optimizer", "fused-pointwise", "embedding", "cast-copy"))


def sentence(kernel: Kernel, lang: str = "en") -> str:
    """What the name tells, in one sentence: what it is, then one clause for each further fact."""
    clauses = [_head(kernel, lang), *_operations(kernel, lang)]
    if kernel.direction:
        clauses.append(TEXTS(kernel.direction, lang))
    if kernel.tile:
        clauses.append(TEXTS("tile", lang, tile=kernel.tile))
    if kernel.stages:
        clauses.append(TEXTS("stages", lang, stages=kernel.stages))
    if kernel.layout:
        clauses.append(TEXTS("layout", lang, layout=kernel.layout.upper()))
    if kernel.epilogue:
        clauses.append(_epilogue(kernel.epilogue, lang))
    if kernel.tensor_cores is not None:
        clauses.append(TEXTS(_cores(kernel), lang))
    if kernel.host_memory:
        clauses.append(TEXTS(kernel.host_memory, lang))
    text = TEXTS("separator", lang).join(clauses)
    return f"{text[:1].upper()}{text[1:]}{TEXTS('end', lang)}" if _begins_with_noun(kernel) else text + TEXTS("end", lang)


def label(kernel: Kernel, lang: str = "en") -> str:
    """Kind, operations, type, tile and epilogue in a few characters: ``GEMM bf16 256x128 +bias``."""
    parts = [TEXTS(f"short-{kernel.kind or 'unknown'}", lang)]
    tail = [kernel.dtype] if kernel.dtype else []
    if kernel.tile:
        tail.append("x".join(kernel.tile.split("x")[:2]))
    if kernel.epilogue and kernel.epilogue != "none":
        tail.append("+" + kernel.epilogue)
    if kernel.direction == "backward":
        tail.append(TEXTS("short-backward", lang))
    if kernel.host_memory:
        tail.append(TEXTS(f"short-{kernel.host_memory}", lang))
    operations = " ".join(kernel.fused_ops) or (kernel.op or "")
    if operations and operations not in (kernel.kind, parts[0]):
        room = LONGEST_LABEL - len(" ".join([*parts, *tail])) - 1
        parts += [shortened] if (shortened := _cut(operations, room)) else []
    return " ".join([*parts, *tail])


def _cut(text: str, room: int) -> str:
    if len(text) <= room:
        return text
    return f"{text[: room - 1].rstrip()}…" if room >= _SHORTEST else ""


# A few letters of an operation say nothing.
_SHORTEST = 5


def _head(kernel: Kernel, lang: str) -> str:
    noun = TEXTS(kernel.kind or "unknown", lang)
    arch = TEXTS("for", lang, arch=_architecture(kernel.arch)) if kernel.arch else ""
    owner = _library(kernel)
    library = TEXTS("of", lang, library=owner) if owner else ""
    return _joined(arch + library, noun + _type(kernel.dtype, lang))


def _joined(left: str, right: str) -> str:
    """Both, with a space where a Japanese character meets a Latin one."""
    meets = left and right and not left[-1].isascii() and right[0].isascii()
    return f"{left} {right}" if meets and left[-1] not in "、（" else left + right


def _begins_with_noun(kernel: Kernel) -> bool:
    """Whether the sentence begins with a word of the language, to be capitalised, and not with a proper name."""
    return not kernel.arch and not _library(kernel)


def _architecture(arch: str) -> str:
    return _ARCHITECTURES.get(arch, arch)


def _library(kernel: Kernel) -> str:
    if kernel.library in (None, "driver"):
        return ""
    if kernel.library == "cublas" and kernel.name.startswith(("nvjet", "void cublasLt::", "cublasLt::")):
        return "cuBLASLt"
    return _LIBRARIES.get(kernel.library, kernel.library)


def _type(dtype: str | None, lang: str) -> str:
    if dtype is None:
        return ""
    source, arrow, target = dtype.partition("->")
    if arrow:
        return TEXTS("from-to", lang, source=source, target=target)
    return TEXTS("in", lang, dtype=dtype)


def _operations(kernel: Kernel, lang: str) -> list[str]:
    if kernel.fused_ops:
        return [TEXTS("fused-ops", lang, ops=TEXTS("separator", lang).join(kernel.fused_ops))]
    if kernel.op and kernel.kind not in _SAYS_ITSELF and kernel.op != kernel.kind:
        return [TEXTS("algorithm" if kernel.kind == "conv" else "op", lang, op=kernel.op)]
    return []


def _epilogue(epilogue: str, lang: str) -> str:
    parts = TEXTS("and", lang).join(TEXTS(f"epilogue-{part}", lang) for part in epilogue.split("+"))
    before, _, after = TEXTS("epilogue", lang, parts="|").partition("|")
    return _joined(before, parts) + after


def _cores(kernel: Kernel) -> str:
    amd = kernel.library in _AMD or (kernel.arch or "").startswith("gfx")
    if kernel.tensor_cores:
        return "matrix-cores" if amd else "tensor-cores"
    return "vector-units" if amd else "cuda-cores"
