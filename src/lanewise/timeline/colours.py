"""Classes that slices are coloured by: ten of GPU work, by what a kernel does, and six of CPU work, by category."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from lanewise.analyses.limits import gpu_names
from lanewise.model.schema import CATEGORY_CODES
from lanewise.model.trace import Trace

__all__ = ["CLASSES", "colours"]

Array = npt.NDArray[Any]

# Kinds of `lanewise.kernels` by the class that they are drawn as.
_GPU: Final[dict[str, tuple[str, ...]]] = {
    "product": ("gemm", "gemm-aux", "gemv", "conv", "conv-aux", "linalg", "moe", "rnn", "fft"),
    "attention": ("attention", "kv-cache", "rope"),
    "reduction": ("norm", "reduction", "softmax", "loss", "fused-reduction", "pooling"),
    "pointwise": ("elementwise", "fused-pointwise", "random", "fill", "resample"),
    "optimizer": ("optimizer", "foreach"),
    "movement": ("cast-copy", "transpose-layout", "index", "embedding", "sort-scan", "quantize"),
    "copy": ("memcpy-dtod", "memcpy-dtoh", "memcpy-htod", "memcpy-ptop", "memset"),
    "collective": ("collective",),
    "other": ("other",),
}
_CPU: Final = ("cpu_op", "user_annotation", "cuda_runtime", "cuda_driver", "python_function", "overhead", "other")

CLASSES: Final[tuple[str, ...]] = (*_GPU, *_CPU)
"""Names of the classes; numbers in a timeline are places in here."""

_OF_KIND = {kind: place for place, kinds in enumerate(_GPU.values()) for kind in kinds}
_OTHER_GPU = list(_GPU).index("other")


def colours(trace: Trace) -> Array:
    """int8 (events,): class of each event."""
    by_category = np.full(len(CATEGORY_CODES), len(CLASSES) - 1, dtype=np.int8)
    for place, category in enumerate(_CPU):
        by_category[CATEGORY_CODES[category]] = len(_GPU) + place
    by_category[CATEGORY_CODES["gpu_user_annotation"]] = CLASSES.index("user_annotation")
    out = by_category[trace.category]
    names = trace.analysis(gpu_names)
    out[trace.column("gpu_ops", "event")] = names.spread(lambda k: _OF_KIND.get(k.kind or "", _OTHER_GPU), np.int8)
    return out
