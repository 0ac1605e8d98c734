"""What a kernel's name says, as one record."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["KINDS", "Kernel"]

KINDS = (
    "attention",
    "cast-copy",
    "collective",
    "conv",
    "conv-aux",
    "elementwise",
    "embedding",
    "fft",
    "fill",
    "foreach",
    "fused-pointwise",
    "fused-reduction",
    "gemm",
    "gemm-aux",
    "gemv",
    "index",
    "kv-cache",
    "linalg",
    "loss",
    "memcpy-dtod",
    "memcpy-dtoh",
    "memcpy-htod",
    "memcpy-ptop",
    "memset",
    "moe",
    "norm",
    "optimizer",
    "other",
    "pooling",
    "quantize",
    "random",
    "reduction",
    "resample",
    "rnn",
    "rope",
    "softmax",
    "sort-scan",
    "transpose-layout",
)
"""Every kind a decoded kernel can have; a name that tells nothing has None."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """What the name of a GPU kernel, copy or memset tells. What it does not tell is None or empty.

    Attributes:
        name: the name as the trace has it.
        kind: what it computes, one of `KINDS`.
        library: the innermost owner, ``cublas``, ``aten``, ``inductor`` ...
        dtype: type of the operands in the arithmetic; two types joined by ``+``, a cast as ``from->to``.
        arch: what it was compiled for (``sm80`` kernels run on Hopper), not what it ran on.
        tile: ``MxN`` or ``MxNxK``; of attention, query block x key block.
        stages: depth of the pipeline that loads tiles into shared memory.
        layout: op(A) and op(B) of a product (``nn``, ``nt``, ``tn``, ``tt``), else ``nhwc`` or ``nchw``.
        epilogue: what is applied to the product before it is stored, joined by ``+``; ``none`` where the name
            states that nothing is.
        tensor_cores: whether matrix instructions do the product (those of AMD too).
        direction: ``forward`` or ``backward``.
        fused_ops: the operations that a compiled kernel lists in its name.
        op: the operation in a word or two where the name has it: ``gelu``, ``layer_norm``.
        host_memory: of a copy between host and device, ``pinned`` or ``pageable``.
    """

    name: str
    kind: str | None = None
    library: str | None = None
    dtype: str | None = None
    arch: str | None = None
    tile: str | None = None
    stages: int | None = None
    layout: str | None = None
    epilogue: str | None = None
    tensor_cores: bool | None = None
    direction: str | None = None
    fused_ops: tuple[str, ...] = ()
    op: str | None = None
    host_memory: str | None = None

    def label(self, lang: str = "en") -> str:
        """A short label for tables, mostly under 40 characters: ``GEMM bf16 256x128 +bias``."""
        from lanewise.kernels import wording

        return wording.label(self, lang)

    def sentence(self, lang: str = "en") -> str:
        """What the name tells, as one sentence in plain words."""
        from lanewise.kernels import wording

        return wording.sentence(self, lang)
