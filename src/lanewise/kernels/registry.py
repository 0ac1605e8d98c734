"""The families of kernel names, in the order in which they are asked."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from lanewise.kernels import (
    aiter,
    aten,
    attention,
    codenames,
    collectives,
    composable_kernel,
    cublas,
    cudnn,
    cutlass,
    driver,
    fallback,
    inductor,
    math_libraries,
    miopen,
    parallel_primitives,
    serving,
    tensile,
    tensorrt,
    training,
    triton_written,
    xla,
    xmma,
)
from lanewise.kernels.kernel import Kernel
from lanewise.kernels.names import Name, parsed

__all__ = ["FAMILIES", "Family", "decoded"]


class Family(NamedTuple):
    """One family of names.

    Attributes:
        name: of the module that knows it.
        roots: beginnings of the namespaces that it knows kernels of, "" for kernels without one; None for any.
        matches: whether a name belongs to it; cheap, since it is asked for most names.
        decoded: the kernel of such a name, or None where it is none after all.
    """

    name: str
    roots: tuple[str, ...] | None
    matches: Callable[[Name], bool]
    decoded: Callable[[Name], Kernel | None]


FAMILIES: tuple[Family, ...] = (
    Family("xla", ("",), xla.matches, xla.decoded),
    # Inductor lists operations of all other families in its names, collectives among them.
    Family("inductor", ("",), inductor.matches, inductor.decoded),
    Family("cublas", ("",), lambda name: name.base.startswith("nvjet"), cublas.decoded),
    # All-reduces live in the namespaces of ATen, vLLM, FlashInfer ...
    Family("collectives", None, collectives.matches, collectives.decoded),
    # `cutlass::device_kernel<flash::...>`: what is wrapped comes before the wrapper.
    Family(
        "attention", ("", "flash", "pytorch_flash", "fmha", "cutlass", "sm", "legacy"), attention.matches, attention.decoded
    ),
    Family("aten", ("", "at", "c10", "torch"), aten.matches, aten.decoded),
    Family("xmma", ("",), lambda name: xmma.matches(name.base), xmma.decoded),
    Family("codenames", ("",), lambda name: name.base.startswith(codenames.STARTS), codenames.decoded),
    Family("cudnn", ("", "cudnn", "cask", "xmma_cudnn"), cudnn.matches, cudnn.decoded),
    Family("cutlass", ("", "cutlass"), cutlass.matches, cutlass.decoded),
    Family("parallel_primitives", None, parallel_primitives.matches, parallel_primitives.decoded),
    Family("serving", None, serving.matches, serving.decoded),
    Family("aiter", ("aiter",), aiter.matches, aiter.decoded),
    Family("composable_kernel", ("ck",), composable_kernel.matches, composable_kernel.decoded),
    Family("tensile", ("", "rocblas"), tensile.matches, tensile.decoded),
    Family("miopen", ("",), lambda name: name.base.startswith(miopen.STARTS), miopen.decoded),
    Family("tensorrt", ("",), tensorrt.matches, tensorrt.decoded),
    Family("training", None, training.matches, training.decoded),
    Family("triton_written", ("",), triton_written.matches, triton_written.decoded),
    Family("math_libraries", None, math_libraries.matches, math_libraries.decoded),
    # BLAS kernels without a namespace have short names, so they come late.
    Family("cublas", None, lambda name: True, cublas.decoded),
)


@cache
def _candidates(root: str) -> tuple[Family, ...]:
    """The families that may know a kernel of this namespace."""
    return tuple(
        family
        for family in FAMILIES
        if family.roots is None or any(root.startswith(r) if r else not root for r in family.roots)
    )


def decoded(raw: str) -> Kernel:
    """The kernel of any name."""
    copied = driver.decoded(raw)
    if copied is not None:
        return copied
    name = parsed(raw)
    for family in _candidates(name.root):
        if family.matches(name):
            kernel = family.decoded(name)
            if kernel is not None:
                return kernel
    return fallback.decoded(name)
