"""CUB, Thrust and rocPRIM: sorts, scans, selections, reductions, loops over iterators."""

from __future__ import annotations

import re

from lanewise.kernels.dtypes import first_type
from lanewise.kernels.kernel import Kernel
from lanewise.kernels.names import Name

__all__ = ["decoded", "matches"]

_RULES = (
    ("elementwise", re.compile(r"adjacent_?difference", re.IGNORECASE)),
    ("sort-scan", re.compile(r"sort|scan|select|unique|partition|run_?length|onesweep|merge|histogram_sort|flagged|"
                             r"compact|exclusive_?sum|ordered_block|segments", re.IGNORECASE)),
    ("reduction", re.compile(r"reduce|histogram|argm(?:in|ax)|count|inner_product", re.IGNORECASE)),
    ("fill", re.compile(r"fill|sequence|tabulate|generate|init", re.IGNORECASE)),
    ("cast-copy", re.compile(r"copy|memcpy", re.IGNORECASE)),
    ("index", re.compile(r"gather|scatter", re.IGNORECASE)),
    ("elementwise", re.compile(r"transform|for_?each|parallel_for|static_kernel|adjacent_difference|for::", re.IGNORECASE)),
)  # fmt: skip
# Loops over iterators, of which only the arguments tell what they do.
_LOOPS = frozenset(("_kernel_agent", "static_kernel", "kernel", "trampoline_kernel", "transform_kernel"))
# What a loop runs over and how it is tuned, not what it does: counting_iterator counts nothing.
_FITTINGS = re.compile(r"transform_iterator|counti\w*|policy_selector")
_OTHER = frozenset(("EmptyKernel", "empty_kernel"))
_STATE = re.compile(r"ScanTileState<([\w: ]+?),")
_POLICY_TYPES = re.compile(r"(?:policy_hub|Policy)<([\w: ]+?),")
_POINTER = re.compile(r"(?:^|[<, ])((?:unsigned |signed )?[\w:]+)(?: const)?\*")


def matches(name: Name) -> bool:
    """Whether this is a kernel of CUB, Thrust or rocPRIM; PyTorch's copies of them too."""
    return name.root in ("cub", "thrust", "rocprim", "hipcub", "at_cuda_detail") or "::cub::" in name.path


def decoded(name: Name) -> Kernel | None:
    """The kernel of this name."""
    library = _library(name.path)
    if name.base in _OTHER:
        return Kernel(name.raw, "other", library)
    kind = _kind(name, library)
    return Kernel(name.raw, kind, library, dtype=_dtype(name, kind)) if kind else None


def _library(path: str) -> str:
    if path.startswith("thrust") and "cub::Device" not in path:
        return "thrust"
    return "rocprim" if path.startswith(("rocprim", "hipcub")) else "cub"


def _kind(name: Name, library: str) -> str | None:
    """By the kernel's name; Thrust's agents and loops tell in their template arguments."""
    texts = [name.base]
    if name.base in _LOOPS or library == "thrust":
        texts = [_FITTINGS.sub("", name.tail[:600]), name.base, name.path]
    if name.base == "DeviceReduceByKeyKernel":
        return "reduction"
    for text in texts:
        for kind, pattern in _RULES:
            if pattern.search(text):
                return kind
    return "elementwise" if name.base in _LOOPS else None


def _dtype(name: Name, kind: str) -> str | None:
    """What is scanned or sorted, where the template says it plainly."""
    if kind == "sort-scan":
        state = _STATE.search(name.tail[:900])
        if state and "Scan" in name.base:
            return first_type(state[1], 0, len(state[1]))
        policy = _POLICY_TYPES.search(name.tail[:300])
        if policy and "Sort" in name.base and "Sum" not in name.base:
            return first_type(policy[1], 0, len(policy[1]))
    if kind == "reduction" and name.arguments:
        policy = _POLICY_TYPES.search(name.tail[:200])
        if policy:
            return first_type(policy[1], 0, len(policy[1]))
        pointer = next((p for a in name.arguments[:4] if (p := _POINTER.match(a))), None)
        return first_type(pointer[1], 0, len(pointer[1])) if pointer else None
    return None
