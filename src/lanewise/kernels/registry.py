"""The families of kernel names, in the order in which they are asked."""

from __future__ import annotations

from collections.abc import Callable
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
    training,
    triton_written,
    xmma,
)
from lanewise.kernels.kernel import Kernel
from lanewise.kernels.names import Name, parsed

__all__ = ["FAMILIES", "Family", "decoded"]


class Family(NamedTuple):
    """One family of names.

    Attributes:
        name: of the module that knows it.
        matches: whether a name belongs to it; cheap, since it is asked for most names.
        decoded: the kernel of such a name, or None where it is none after all.
    """

    name: str
    matches: Callable[[Name], bool]
    decoded: Callable[[Name], Kernel | None]


FAMILIES: tuple[Family, ...] = (
    # Inductor lists operations of all other families in its names, collectives among them.
    Family("inductor", inductor.matches, inductor.decoded),
    Family("cublas", lambda name: name.base.startswith("nvjet"), cublas.decoded),
    # All-reduces live in the namespaces of ATen, vLLM, FlashInfer ...
    Family("collectives", collectives.matches, collectives.decoded),
    # `cutlass::device_kernel<flash::...>`: what is wrapped comes before the wrapper.
    Family("attention", attention.matches, attention.decoded),
    Family("aten", aten.matches, aten.decoded),
    Family("xmma", lambda name: xmma.matches(name.base), xmma.decoded),
    Family("codenames", lambda name: name.base.startswith(codenames.STARTS), codenames.decoded),
    Family("cudnn", cudnn.matches, cudnn.decoded),
    Family("cutlass", cutlass.matches, cutlass.decoded),
    Family("parallel_primitives", parallel_primitives.matches, parallel_primitives.decoded),
    Family("serving", serving.matches, serving.decoded),
    Family("aiter", aiter.matches, aiter.decoded),
    Family("composable_kernel", composable_kernel.matches, composable_kernel.decoded),
    Family("tensile", tensile.matches, tensile.decoded),
    Family("miopen", lambda name: name.base.startswith(miopen.STARTS), miopen.decoded),
    Family("training", training.matches, training.decoded),
    Family("triton_written", triton_written.matches, triton_written.decoded),
    Family("math_libraries", math_libraries.matches, math_libraries.decoded),
    # BLAS kernels without a namespace have short names, so they come late.
    Family("cublas", lambda name: True, cublas.decoded),
)


def decoded(raw: str) -> Kernel:
    """The kernel of any name."""
    copied = driver.decoded(raw)
    if copied is not None:
        return copied
    name = parsed(raw)
    for family in FAMILIES:
        if family.matches(name):
            kernel = family.decoded(name)
            if kernel is not None:
                return kernel
    return fallback.decoded(name)
