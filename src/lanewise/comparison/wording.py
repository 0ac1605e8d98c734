"""Groups of GPU ops in a line."""

from __future__ import annotations

import re
from collections import Counter

from lanewise.kernels import decode

from .document import KernelGroup, KernelPart
from .texts import TEXTS

__all__ = ["group_parts", "group_title"]

# A name longer than this fills a line of a terminal with what it is next to.
_NAME_CELLS = 56
# Kinds whose label says more than the op's name.
_TOLD = frozenset({"gemm", "gemv", "conv", "attention", "memset", "collective", "fused-pointwise", "fused-reduction"}) | {
    f"memcpy-{way}" for way in ("htod", "dtoh", "dtod", "ptop")
}
# ATen's name for the functor that copies.
_COPY_FUNCTOR = re.compile(r"\b\w+_copy ")
# More parts than this are a list that nobody reads; how many kernels it were is said.
_MOST_PARTS = 4


def group_title(group: KernelGroup, lang: str) -> str:
    """``gelu + mul → triton_poi_fused_gelu_mul_0``; ``gone: copy DtoD``."""
    text = group_parts(group, lang)
    if group.kind in ("removed", "added"):
        return f"{TEXTS(f'was-{group.kind}', lang)}: {text}"
    return text


def group_parts(group: KernelGroup, lang: str) -> str:
    """The same without what became of a group that has one side only."""
    left, right = _parts(group.base, lang), _parts(group.new, lang)
    text = left or right
    if group.base and group.new and group.kind != "same":
        text = TEXTS("fact-fused-ops", lang, ops=left, kernel=right)
    return f"{text} × {group.times}" if group.times > 1 else text


def _parts(parts: list[KernelPart], lang: str) -> str:
    counts: Counter[str] = Counter()
    for part in parts:
        counts[_short(part)] += part.count
    texts = [f"{n} {text}" if n > 1 else text for text, n in counts.items()]
    if len(texts) > _MOST_PARTS + 1:
        texts = [*texts[:_MOST_PARTS], TEXTS("parts-more", lang, count=len(texts) - _MOST_PARTS)]
    return " + ".join(texts)


def _short(part: KernelPart) -> str:
    """The op's name where the kernel's label says little more than its kind, the kernel's where it has no op of a library."""
    written = " " not in part.label and part.op is not None and "::" not in part.op
    if part.name.startswith("triton_") or written:
        return part.name if len(part.name) <= _NAME_CELLS else part.name[: _NAME_CELLS - 1] + "…"
    if part.op is None or not part.op.startswith("aten::") or decode(part.name).kind in _TOLD:
        return part.label
    op = part.op.removeprefix("aten::").rstrip("_")
    if op in ("copy", "_to_copy", "to", "contiguous", "clone"):
        return _COPY_FUNCTOR.sub("", part.label)
    return op
