"""The words of a guess: what kernels, op names and libraries people call by which word.

A word means kinds of kernels (in the vocabulary of `lanewise kernel`), names of ops, or a library. Any other word is looked for
in the names themselves, so that ``my_kernel`` finds a kernel of one's own.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from lanewise.expectations.items import VIEWS, Item
from lanewise.kernels import KINDS, Kernel

__all__ = ["PLAIN", "SYNONYMS", "WORDS", "Word", "canonical", "matches", "nearest", "parts_of_fused", "word_of"]


@dataclass(frozen=True, slots=True)
class Word:
    """What a word means.

    Attributes:
        kinds: kinds of kernels.
        name: pattern of kernel names that it means too, whatever their kind.
        op: pattern of CPU ops (without ``aten::``), for traces without a GPU.
        operations: operations as the names of kernels have them (``Kernel.op``, ``Kernel.fused_ops``).
    """

    kinds: tuple[str, ...] = ()
    name: str = ""
    op: str = ""
    operations: tuple[str, ...] = ()


# In the order in which an item's own word is looked for: what is first says more.
WORDS: dict[str, Word] = {
    "memset": Word(kinds=("memset",)),
    "nccl": Word(kinds=("collective",), name=r"nccl|rccl", op=r"c10d::|gloo:|nccl:"),
    "flash": Word(name=r"flash_fwd|flash_bwd|flash_attn|flash::|flashattn|_flash_attention", op=r"\w*flash_attention\w*"),
    "attention": Word(kinds=("attention",), op=r"\w*(scaled_dot_product|attention)\w*"),
    "conv": Word(kinds=("conv",), op=r"\w*conv(olution|\dd)\w*"),
    "gemm": Word(
        kinds=("gemm", "gemv"),
        op=r"mm|bmm|addmm|baddbmm|addbmm|linear|matmul|mv|addmv|dot|mkldnn_linear|_scaled_mm|_int_mm|einsum",
    ),
    "softmax": Word(kinds=("softmax",), op=r"_?(log_)?softmax\w*", operations=("softmax", "log_softmax")),
    "norm": Word(
        kinds=("norm",),
        op=r"\w*(layer|batch|group|instance|rms)_norm\w*",
        operations=("layer_norm", "native_layer_norm", "rms_norm", "batch_norm", "group_norm"),
    ),
    "optimizer": Word(kinds=("optimizer",), name=r"fused_adam|FusedAdam|fused_sgd", op=r"_fused_(adam|sgd|adagrad)\w*"),
    "foreach": Word(kinds=("foreach",), op=r"_foreach_\w+"),
    "embedding": Word(kinds=("embedding",), op=r"embedding\w*", operations=("embedding",)),
    "loss": Word(kinds=("loss",), op=r"\w*(nll_loss|cross_entropy|mse_loss|bce)\w*"),
    "dropout": Word(name=r"dropout", op=r"\w*dropout\w*", operations=("native_dropout", "dropout")),
    "random": Word(kinds=("random",), op=r"(rand|randn|normal_|uniform_|bernoulli_|multinomial|random_)\w*"),
    "pool": Word(kinds=("pooling",), op=r"\w*pool\dd\w*"),
    "mask": Word(op=r"masked_(fill|scatter)_?", operations=("masked_fill", "masked_scatter", "where")),
    "gather": Word(kinds=("index",), op=r"(gather|scatter|index|take|put)\w*"),
    "sort": Word(kinds=("sort-scan",), op=r"(sort|topk|argsort|cumsum|cumprod|unique|nonzero)\w*"),
    "layout": Word(kinds=("transpose-layout",)),
    "rope": Word(kinds=("rope",)),
    "moe": Word(kinds=("moe",)),
    "quantize": Word(kinds=("quantize",), op=r"\w*quantize\w*"),
    "htod": Word(kinds=("memcpy-htod",)),
    "dtoh": Word(kinds=("memcpy-dtoh",)),
    "dtod": Word(kinds=("memcpy-dtod",)),
    "copy": Word(
        kinds=("cast-copy", "memcpy-htod", "memcpy-dtoh", "memcpy-dtod", "memcpy-ptop"),
        name=r"direct_copy|copy_device_to_device",
        op=r"copy_|_to_copy|clone",
        operations=("copy",),
    ),
    "reduce": Word(kinds=("reduction",), op=r"(sum|mean|amax|amin|max|min|prod|norm|any|all|argmax|argmin|var|std)(\.\w+)?"),
    "fill": Word(kinds=("fill",), op=r"fill_|zero_|ones|zeros|full|arange"),
    "triton": Word(kinds=("fused-pointwise", "fused-reduction"), name=r"^triton_"),
    "pointwise": Word(kinds=("elementwise", "fused-pointwise")),
    "workspace": Word(kinds=("gemm-aux", "conv-aux")),
}

SYNONYMS: dict[str, str] = {
    **dict.fromkeys(("matmul", "mm", "linear", "addmm", "bmm", "baddbmm", "gemv", "product", "projection", "proj"), "gemm"),
    **dict.fromkeys(("sdpa", "fmha", "attn"), "attention"),
    **dict.fromkeys(("flashattention", "flash_attention", "flash_attn"), "flash"),
    **dict.fromkeys(("memcpy", "clone", "cast", "to", "copies"), "copy"),
    **dict.fromkeys(("h2d", "upload"), "htod"),
    **dict.fromkeys(("d2h", "download"), "dtoh"),
    **dict.fromkeys(("d2d",), "dtod"),
    **dict.fromkeys(("masked_fill", "where"), "mask"),
    **dict.fromkeys(("layernorm", "layer_norm", "rmsnorm", "rms_norm", "batchnorm", "batch_norm", "groupnorm"), "norm"),
    **dict.fromkeys(("convolution", "conv1d", "conv2d", "conv3d"), "conv"),
    **dict.fromkeys(("multiply", "scale"), "mul"),
    **dict.fromkeys(("plus", "bias", "residual"), "add"),
    **dict.fromkeys(("reduction", "sum", "mean"), "reduce"),
    **dict.fromkeys(("fused", "inductor"), "triton"),
    **dict.fromkeys(("elementwise", "element-wise"), "pointwise"),
    **dict.fromkeys(("collective", "allreduce", "all_reduce", "all-reduce"), "nccl"),
    **dict.fromkeys(("adam", "adamw", "sgd"), "optimizer"),
    **dict.fromkeys(("cross_entropy", "nll_loss"), "loss"),
    **dict.fromkeys(("index", "index_select", "scatter"), "gather"),
    **dict.fromkeys(("zero", "zeros", "ones", "full"), "fill"),
    **dict.fromkeys(("topk", "cumsum", "scan"), "sort"),
    **dict.fromkeys(("maxpool", "avgpool", "max_pool2d"), "pool"),
    **dict.fromkeys(("swish",), "silu"),
}
# Operations whose names are the words for them.
PLAIN = frozenset(
    re.findall(
        r"\w+",
        "abs add bernoulli cat clamp cos div elu erf exp gelu leaky_relu log lerp maximum minimum mul neg pad pow relu"
        " reciprocal roll rsqrt sigmoid sign silu sin sqrt stack sub tanh tril triu view reshape transpose permute expand"
        " contiguous t",
    )
)
_ATEN = re.compile(r"^(?:aten|prims|torch|_C)::")


def canonical(word: str) -> str:
    """The word that stands for another: ``mm`` and ``matmul`` are ``gemm``."""
    low = word.lower()
    return SYNONYMS.get(low, low)


@cache
def _pattern(text: str, whole: bool) -> re.Pattern[str]:
    return re.compile(rf"(?:{text})\Z" if whole else text, re.IGNORECASE)


def matches(word: str, item: Item) -> bool:
    """Whether an item is what a canonical word means."""
    known = WORDS.get(word)
    if known is None:
        return _named(word, item)
    if not item.gpu:
        names = (item.name, *item.alone)
        return bool(known.op) and any(_pattern(known.op, True).match(_ATEN.sub("", name)) is not None for name in names)
    kernel = item.kernel
    if kernel.kind in known.kinds:
        return True
    if known.name and _pattern(known.name, False).search(item.name):
        return True
    return kernel.op is not None and kernel.op in known.operations


def _named(word: str, item: Item) -> bool:
    """A word without a meaning of its own: an operation, kind, library, or a part of the name."""
    kernel = item.kernel
    if word in (kernel.kind, kernel.library, kernel.op):
        return True
    if item.gpu and kernel.kind in _OTHER_THAN_NAMED:
        # The op that launches a copy, a memset or a helper is not what that one does.
        return word in item.name.lower()
    shorts = {_short(name) for name in (item.owner, *item.alone)}
    return bool(shorts & {word, f"{word}backward0"}) or _word_in(word, item.name)


def _short(op: str) -> str:
    """An op's name as people write it."""
    return _ATEN.sub("", op).rstrip("_").lower()


_OTHER_THAN_NAMED = frozenset(
    {"memset", "memcpy-dtod", "memcpy-htod", "memcpy-dtoh", "memcpy-ptop", "cast-copy", "gemm-aux", "conv-aux", "fill"}
)


def _word_in(word: str, name: str) -> bool:
    """A word as a whole word of a name, or a longer one anywhere in it."""
    low = name.lower()
    if len(word) > 3:
        return word in low
    return re.search(rf"(?<![a-z]){re.escape(word)}(?![a-z])", low) is not None


def parts_of_fused(word: str, kernel: Kernel) -> bool:
    """Whether a kernel does what a word says along with other things: in a fused kernel, or in a product's epilogue."""
    known = WORDS.get(word)
    operations = {*(known.operations if known else ()), word}
    for fused in kernel.fused_ops:
        bare = fused.strip("_")
        if bare in operations or (known is not None and known.op and _pattern(known.op, True).match(bare)):
            return True
    epilogue = (kernel.epilogue or "").split("+")
    return word in epilogue or (word == "add" and "bias" in epilogue)


def word_of(item: Item) -> str:
    """The word for an item: what somebody would have had to guess."""
    kernel = item.kernel
    plain = _called_as(item)
    if item.gpu and kernel.kind in ("elementwise", "foreach", "other", None) and kernel.op:
        if plain is not None:
            return plain
        return canonical(kernel.op) if canonical(kernel.op) in WORDS else kernel.op
    if kernel.kind in ("memcpy-htod", "memcpy-dtoh"):
        return kernel.kind.removeprefix("memcpy-")
    for word in WORDS:
        if word not in _NARROW and matches(word, item):
            return word
    if item.gpu:
        return kernel.kind or "?"
    if plain is not None:
        return plain
    return _ATEN.sub("", item.name).rstrip("_")


def _called_as(item: Item) -> str | None:
    """The operation that somebody called, where another op does all of it: ``relu`` of `aten::clamp_min` in `aten::relu`."""
    names = (name for name in item.alone if VIEWS.fullmatch(name) is None)
    return next((short for short in map(_short, names) if short in PLAIN), None)


# Narrower or wider than the word that people use.
_NARROW = frozenset({"htod", "dtoh", "dtod", "pointwise"})


_NEAR_RATIO = 0.75  # two letters of eight may differ


def nearest(word: str, others: Iterable[str] = ()) -> str | None:
    """A known word that is spelled nearly like an unknown one; of words as near as each other the first.

    Args:
        word: what was written.
        others: words that fit what ran, which come first.
    """
    known = dict.fromkeys([*others, *WORDS, *SYNONYMS, *sorted(PLAIN), *sorted(KINDS)])
    ratios = {k: difflib.SequenceMatcher(None, word, k).ratio() for k in known}
    best = max(ratios, key=lambda k: ratios[k])
    return best if ratios[best] >= _NEAR_RATIO else None
