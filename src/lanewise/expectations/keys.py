"""The vocabulary of expectations, once: what may be expected, of what, and in which form. The reader, the checks and the
documentation go by it."""

from __future__ import annotations

from dataclasses import dataclass

from lanewise.kernels import KINDS

__all__ = ["COPIES", "KEYS", "SDPA_BACKENDS", "SECTIONS", "TRACE_KEYS", "Key"]

SECTIONS = ("step", "annotation", "trace", "ratio", "baseline")
COPIES = ("htod", "dtoh", "dtod", "ptop")
SDPA_BACKENDS = ("flash", "efficient", "cudnn", "math", "overrideable")


@dataclass(frozen=True, slots=True)
class Key:
    """One thing that can be expected.

    Attributes:
        name: as files have it.
        form: ``count``, ``counts`` (a count, or a table of counts), ``names``, ``word``, ``flag``, ``ratio`` or ``size``.
        needs: what the trace must have: ``gpu`` (GPU records), ``calls`` (runtime calls), ``ops`` (CPU ops), ``memory``.
        about: what it is, in a sentence.
        of: where it may stand; both unless it says otherwise.
        words: the words that may stand in it, empty for any.
    """

    name: str
    form: str
    needs: str
    about: str
    of: tuple[str, ...] = ("step", "annotation")
    words: tuple[str, ...] = ()


KEYS: tuple[Key, ...] = (
    Key("launches", "count", "calls", "calls that start GPU work; a graph launch is one"),
    Key("gpu_ops", "count", "gpu", "kernels, copies and memsets"),
    Key(
        "kernels",
        "counts",
        "gpu",
        "kernels; as a table, kernels by kind (`gemm`, `softmax`, ... as `lanewise kernel` names them), `total` for all",
        words=("total", *KINDS),
    ),
    Key(
        "copies",
        "counts",
        "gpu",
        "copies by the driver; as a table by direction: `htod`, `dtoh`, `dtod`, `ptop`, `total`",
        words=("total", *COPIES),
    ),
    Key("memsets", "count", "gpu", "memsets"),
    Key("host_syncs", "count", "calls", "places where the program waits for the GPU: `.item()`, `.cpu()`, `synchronize()` ..."),
    Key(
        "allocations", "count", "calls", "calls that take memory from the driver (`cudaMalloc`, ...), not from PyTorch's cache"
    ),
    Key("tensor_allocations", "count", "memory", "allocations of tensors, from PyTorch's cache or not"),
    Key("compiled_regions", "count", "ops", "calls of compiled regions; each part of a function with graph breaks is one"),
    Key("recompiles", "count", "ops", "compilations by torch.compile"),
    Key("graph_breaks", "count", "ops", "compiled frames beyond the first: what breaks leave behind"),
    Key("collectives", "count", "ops", "collectives: NCCL kernels, or without a GPU c10d's ops"),
    Key("ops", "table", "ops", 'CPU ops by name or pattern: `"aten::mm" = 3`'),
    Key("calls", "count", "steps", "calls of the annotation in a step", of=("annotation",)),
    Key("kernels_required", "names", "gpu", "patterns of GPU op names; each must be found: `*flash*`"),
    Key("kernels_forbidden", "names", "gpu", "patterns of GPU op names of which none may be found"),
    Key("libraries_required", "names", "gpu", "libraries that must have a kernel: `cublas`, `cudnn`, `inductor` ..."),
    Key("libraries_forbidden", "names", "gpu", "libraries that may have none"),
    Key("sdpa", "word", "ops", "backend of scaled_dot_product_attention, of every call", words=SDPA_BACKENDS),
    Key("tensor_cores", "flag", "gpu", "whether all GEMMs, convolutions and attention kernels use tensor cores"),
    Key("gpu_busy_share", "ratio", "gpu", "GPU busy time over the time of a step, the median", of=("step",)),
    Key(
        "limit_share",
        "ratio",
        "gpu",
        "time that the step's GPU work takes at the card's limits over what it took",
        of=("step",),
    ),
    Key("peak_memory", "size", "memory", "most memory allocated on a GPU at a time"),
)

TRACE_KEYS: tuple[Key, ...] = (
    Key(
        "findings_absent", "names", "ops", 'ids of findings that must not be there (`lanewise rule`), or `["*"]`', of=("trace",)
    ),
)
