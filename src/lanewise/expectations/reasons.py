"""Why a GPU op ran that nobody thought of, and why one that somebody thought of did not: from the ops around its launch."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from lanewise.analyses.call_tree import op_tree
from lanewise.expectations.items import VIEWS, Item
from lanewise.expectations.parts import Part
from lanewise.expectations.texts import GUESS
from lanewise.expectations.vocabulary import PLAIN, WORDS, canonical, matches, nearest, parts_of_fused, word_of
from lanewise.model.trace import Trace

__all__ = ["caller", "short_name", "why_it_ran", "why_not"]

_GRAPH = re.compile(r"^(cuda|cu|hip)GraphLaunch")
_OUT_OF_PLACE = re.compile(
    r"aten::(masked_fill|masked_scatter|index_fill|index_add|index_copy|index_put|scatter|scatter_add|scatter_reduce|fill"
    r"|put|cumsum|renorm|diagonal_scatter|select_scatter|slice_scatter)$"
)
_VIEW_OR_COPY = re.compile(r"aten::(reshape|flatten|reshape_as|unflatten|ravel)$")
_CONTIGUOUS = re.compile(r"aten::contiguous$")
_ADDED = re.compile(r"aten::(addmm|baddbmm|addbmm|addmv|linear)_?$")
_CAST = re.compile(r"aten::(to|_to_copy|type_as|float|half|bfloat16|_autocast_to_\w+)$")
_READ = re.compile(r"aten::(item|_local_scalar_dense|is_nonzero|equal|__bool__)$")
_MATH = "aten::_scaled_dot_product_attention_math"
_FILLS = re.compile(r"aten::(zero_|fill_|eye|arange|(new_)?(zeros|ones|full)(_like)?)$")
_GENERIC = re.compile(r"aten::(copy_|clone|_to_copy|to|fill_|zero_|empty\w*)$")
_NODE = re.compile(r"^(?:autograd::engine::evaluate_function: )?(\w+?)Backward\d*$")
_EVALUATE = "autograd::engine::evaluate_function: "
_A_VIEW = re.compile(r"aten::(_?\w*view\w*|as_strided|expand|t|transpose|reshape|select|slice|unsqueeze|squeeze|permute)")
_PRODUCTS = ("gemm", "gemv")
_NEAR = 64  # neighbours among which kernels of one call are looked for: more than any op launches
_COPIES = frozenset({"cast-copy", "memcpy-dtod"})


class _Around:
    """The names around an item, the innermost first."""

    def __init__(self, trace: Trace, item: Item) -> None:
        self.names = [trace.name_of(e) for e in item.chain]
        self.ops = [n for n in self.names if "::" in n and not n.startswith(("autograd::", "torch::autograd::"))]
        self.graph = item.call >= 0 and _GRAPH.match(trace.name_of(item.call)) is not None
        self.label = self._label()

    def _label(self) -> str:
        """The op to name: the innermost that is not a mere copy or fill, unless there is no other."""
        if not self.ops:
            return short_name(self.names[0]) if self.names else ""
        return next((n for n in self.ops if not _GENERIC.match(n)), self.ops[-1])

    def find(self, pattern: re.Pattern[str]) -> str | None:
        return next((n for n in self.ops if pattern.match(n)), None)

    @property
    def place(self) -> str | None:
        """The annotation or region around the ops."""
        outside = [n for n in self.names if n not in self.ops and not n.startswith(("autograd::", "torch::"))]
        return short_name(outside[0]) if outside else None

    @property
    def node(self) -> str | None:
        for name in self.names:
            found = _NODE.match(name)
            if found:
                return found.group(1)
        return None


def short_name(name: str) -> str:
    """A name without what only a machine needs: the hash of a compiled graph, autograd's function around each node."""
    return "CompiledFxGraph" if name.startswith("## Call CompiledFxGraph") else name.removeprefix(_EVALUATE)


def caller(trace: Trace, item: Item) -> str | None:
    """What called a CPU op: the first around it of another name, since an overload calls the one that does the work."""
    names = (trace.name_of(event) for event in item.chain[1:])
    return next((short_name(name) for name in names if name != item.name), None)


def why_it_ran(trace: Trace, items: Sequence[Item], at: int, lang: str = "en") -> str:
    """Why one of the ops of a part ran, in a sentence without a subject."""
    item = items[at]
    around = _Around(trace, item)
    if not item.gpu:
        copied = _copy(trace, items, at, around, lang) if matches("copy", item) else None
        if copied is not None:
            return copied
        where = caller(trace, item)
        return GUESS("cpu-op-alone", lang) if where is None else GUESS("cpu-op", lang, op=item.name, where=where)
    if not around.names and item.call < 0:
        return GUESS("unlinked", lang)
    for answer in (_memset, _transfer, _helper, _copy):
        found = answer(trace, items, at, around, lang)
        if found is not None:
            return found
    return _work(items, at, around, lang)


def _same_call(items: Sequence[Item], at: int, around: _Around) -> list[Item]:
    """Later items of the same op, or of the same graph launch."""
    item = items[at]
    if around.graph:
        return [x for x in items[at + 1 : at + 2] if x.call == item.call]
    own = item.chain[0] if item.chain else -1
    return [x for x in items[at + 1 : at + 4] if own >= 0 and own in x.chain]


def _memset(trace: Trace, items: Sequence[Item], at: int, around: _Around, lang: str) -> str | None:
    if items[at].kernel.kind != "memset":
        return None
    if around.graph:
        around.label = "CUDA graph"
    if not around.label:
        return GUESS("memset-alone", lang)
    following = next((x for x in _same_call(items, at, around) if x.kernel.kind != "memset"), None)
    if following is None:
        return GUESS("memset-op", lang, op=around.label)
    kind = following.kernel.kind
    keys = {"gemm": "memset-gemm", "gemv": "memset-gemm", "attention": "memset-attention", "reduction": "memset-reduce"}
    if kind in keys:
        return GUESS(keys[kind], lang, op=around.label)
    return GUESS("memset-next", lang, op=around.label, next=following.kernel.label(lang))


def _transfer(trace: Trace, items: Sequence[Item], at: int, around: _Around, lang: str) -> str | None:
    kernel = items[at].kernel
    if kernel.kind not in ("memcpy-htod", "memcpy-dtoh"):
        return None
    memory = GUESS(f"memory-{kernel.host_memory or 'unknown'}", lang)
    op = around.ops[-1] if around.ops else around.label
    if kernel.kind == "memcpy-htod":
        return GUESS("copy-htod", lang, op=op, memory=memory)
    reading = around.find(_READ)
    if reading is not None:
        return GUESS("copy-dtoh-read", lang, op=op)
    return GUESS("copy-dtoh", lang, op=op, memory=memory)


def _helper(trace: Trace, items: Sequence[Item], at: int, around: _Around, lang: str) -> str | None:
    kernel, op = items[at].kernel, around.label
    if kernel.kind == "gemm-aux":
        low = kernel.name.lower()
        return GUESS("split-k" if "splitk" in low or "split_k" in low or "reduce" in low else "gemm-aux", lang, op=op)
    if kernel.kind == "conv-aux":
        return GUESS("conv-aux", lang, op=op)
    if kernel.kind == "transpose-layout":
        return GUESS("layout", lang, op=op)
    if kernel.kind == "collective":
        return GUESS("collective", lang, op=op)
    if kernel.fused_ops:
        parts = " + ".join(p.strip("_") for p in kernel.fused_ops)
        return GUESS("fused", lang, op=around.place or op, parts=parts)
    return None


def _copy(trace: Trace, items: Sequence[Item], at: int, around: _Around, lang: str) -> str | None:
    item = items[at]
    kernel = item.kernel
    copies = kernel.kind in _COPIES or (kernel.kind == "foreach" and kernel.op == "copy")
    if item.gpu and not copies:
        return None
    out_of_place = around.find(_OUT_OF_PLACE)
    if out_of_place is not None:
        key = "copy-masked_fill" if "masked_fill" in out_of_place else "copy-out-of-place"
        return GUESS(key, lang, op=out_of_place)
    if around.graph:
        return GUESS("copy-added-in-graph" if _is_added(items, at) else "copy-in-graph", lang)
    if _before_graph(trace, items, at, around):
        return GUESS("copy-graph", lang)
    added = around.find(_ADDED)
    if added is not None and any(x.kernel.kind in _PRODUCTS for x in _same_call(items, at, around)):
        return GUESS("copy-addmm", lang, op=added)
    for pattern, key in ((_CONTIGUOUS, "copy-contiguous"), (_VIEW_OR_COPY, "copy-view")):
        found = around.find(pattern)
        if found is not None:
            return GUESS(key, lang, op=found)
    if "->" in (kernel.dtype or "") or around.find(_CAST) is not None:
        return _cast(items, at, around, lang)
    return _backward(around, lang) or GUESS("copy-op", lang, op=around.ops[-1] if around.ops else around.label)


def _is_added(items: Sequence[Item], at: int) -> bool:
    """Whether the next kernel of a graph is a product whose epilogue adds to its output."""
    mine = (x for x in items[at + 1 :] if x.call == items[at].call and x.kernel.kind != "memset")
    following = next(mine, None)
    return following is not None and following.kernel.kind in _PRODUCTS and "add" in (following.kernel.epilogue or "")


def _before_graph(trace: Trace, items: Sequence[Item], at: int, around: _Around) -> bool:
    """Whether the next op that is no copy comes out of a graph that the same region launches."""
    for following in items[at + 1 :]:
        if _of_graph(trace, following):
            return bool(set(following.chain) & set(items[at].chain))
        if following.kernel.kind not in ("foreach", "memcpy-htod", *_COPIES):
            return False
    return False


def _of_graph(trace: Trace, item: Item) -> bool:
    return item.call >= 0 and _GRAPH.match(trace.name_of(item.call)) is not None


def _cast(items: Sequence[Item], at: int, around: _Around, lang: str) -> str:
    """A conversion; named with the product that it is for where one of the same type follows in the part."""
    dtype = (items[at].kernel.dtype or "").rpartition("->")[2]
    op = around.ops[-1] if around.ops else around.label
    if not dtype:
        return GUESS("cast", lang, op=op)
    product = next((x for x in items[at + 1 :] if x.kernel.kind in (*_PRODUCTS, "attention")), None)
    if product is not None and product.kernel.kind in _PRODUCTS and product.kernel.dtype == dtype:
        return GUESS("cast-gemm", lang, op=op, dtype=dtype)
    return GUESS("cast-to", lang, op=op, dtype=dtype)


def _backward(around: _Around, lang: str) -> str | None:
    return GUESS("backward", lang, op=around.node) if around.node else None


def _work(items: Sequence[Item], at: int, around: _Around, lang: str) -> str:
    """Everything else: what it belongs to, the most telling first."""
    item = items[at]
    if around.graph:
        return GUESS("graph", lang, op=around.label or "?")
    if _MATH in around.ops:
        return GUESS("sdpa-math", lang)
    optimizer = next((n for n in around.names if n.startswith("Optimizer.step#")), None)
    if optimizer is not None:
        return GUESS("optimizer", lang, op=around.ops[-1] if around.ops else optimizer)
    filling = around.find(_FILLS)
    if item.kernel.kind == "fill" and filling is not None:
        return GUESS("fill", lang, op=around.ops[-1])
    backward = _backward(around, lang)
    if backward is not None:
        return backward
    # What one call launches is launched in a row, but for what other threads launch meanwhile.
    near = items[max(at - _NEAR, 0) : at + _NEAR]
    same = [x for x in near if item.chain and x.chain and x.chain[0] == item.chain[0]]
    siblings = sum(x.kernel.kind != "memset" for x in same)
    if siblings > 1 and around.ops:
        return GUESS("several", lang, op=around.ops[0], count=siblings)
    if around.place and around.ops:
        return GUESS("by-op-in", lang, op=around.ops[-1], where=around.place)
    return GUESS("by-op", lang, op=around.label)


def why_not(trace: Trace, part: Part, items: Sequence[Item], word: str, guessed: int, lang: str = "en") -> str:
    """Why a guessed word has no op of its own.

    Args:
        trace: the trace.
        part: the part that was guessed.
        items: its ops.
        word: the canonical word.
        guessed: how often it was guessed.
        lang: language.
    """
    attention = next((x for x in items if x.kernel.kind == "attention"), None)
    ran = sum(matches(word, x) for x in items)
    if ran:
        return GUESS("not-fewer", lang, ran=ran, guessed=guessed)
    if attention is not None and word == "flash":
        return GUESS("not-flash", lang, label=attention.kernel.label(lang))
    if attention is not None and word in ("gemm", "softmax", "mask", "dropout", "mul"):
        return GUESS("not-in-attention", lang, label=attention.kernel.label(lang))
    inside = next((x for x in items if parts_of_fused(word, x.kernel)), None)
    if inside is not None:
        return GUESS("not-in-fused", lang, label=inside.kernel.label(lang))
    called = _called(trace, part)
    if word in ("flash", "attention") and _MATH in called:
        return GUESS("not-math", lang)
    inner = _of_optimizer(trace, items) if word == "optimizer" else []
    if inner:
        kinds = ", ".join(dict.fromkeys(x.kernel.label(lang) if x.gpu else x.name for x in inner[:4]))
        return GUESS("not-optimizer", lang, count=len(inner), kinds=kinds)
    op = _op_called(called, word)
    if op is not None:
        return GUESS("not-view" if VIEWS.fullmatch(op) else "not-op", lang, op=op)
    near = nearest(word, (word_of(x) for x in items)) if word not in WORDS and word not in PLAIN else None
    if near is not None and canonical(near) != word:
        return GUESS("not-near", lang, near=near)
    return GUESS("not-there", lang)


def _of_optimizer(trace: Trace, items: Sequence[Item]) -> list[Item]:
    """Ops that an optimizer's step launched."""
    return [x for x in items if any(trace.name_of(e).startswith("Optimizer.step#") for e in x.chain)]


def _called(trace: Trace, part: Part) -> list[str]:
    """Names of the ops and annotations of a part, in alphabetical order."""
    events = trace.analysis(op_tree).events
    inside = (trace.ts[events] >= part.begin) & (trace.ts[events] < part.end)
    return sorted(trace.strings[c] for c in np.unique(trace.name[events[inside]]).tolist())


def _op_called(called: Sequence[str], word: str) -> str | None:
    """An op that a word names; ``view`` names every op that makes one."""
    wanted = (f"aten::{word}", f"aten::{word}_", f"aten::_{word}")
    exact = next((n for n in called if n in wanted), None)
    if exact is None and word in ("view", "views"):
        return next((n for n in called if _A_VIEW.fullmatch(n)), None)
    return exact
