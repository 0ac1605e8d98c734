"""The expectation before the look: `--guess "gemm add"`, compared with what ran.

A guess is a list of words, one a GPU op in the order in which they are expected, as many times as they are
expected. On a CPU the innermost CPU ops are compared instead.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lanewise.errors import UsageError

__all__ = ["Comparison", "compare", "family", "guessed_words", "step_ops"]

# Families that a guess may name, with the patterns of kernel and op names that belong to them; the first
# match counts. A word that is no family is looked for in the names themselves.
_FAMILIES = (
    ("memset", r"memset"),
    ("copy", r"memcpy|aten::copy_|copy_device_to_device|direct_copy"),
    ("triton", r"^triton_|_geglu_|_swiglu_|liger"),
    ("nccl", r"nccl|c10d::|gloo"),
    ("attention", r"flash|fmha|attention|sdpa"),
    ("gemm", r"gemm|nvjet|cutlass|cublas|wgmma|aten::(mm|bmm|addmm|baddbmm|linear|matmul)\b|mkldnn_linear"),
    ("softmax", r"softmax"),
    ("norm", r"layer_?norm|rms_?norm|batch_?norm|vectorized_layer_norm"),
    ("gelu", r"gelu"),
    ("mask", r"masked_fill|masked_scatter"),
    ("optimizer", r"multi_tensor_apply|fused_adam|adam"),
    ("embedding", r"embedding|index_select|indexSelect"),
    ("mul", r"\bmul\b|MulFunctor|aten::mul"),
    ("add", r"\badd\b|AddFunctor|CUDAFunctor_add|CUDAFunctorOnSelf_add|aten::add"),
    ("reduce", r"reduce_kernel|aten::(sum|mean|max)"),
    ("fill", r"FillFunctor|aten::(fill_|zero_)"),
)
_SYNONYMS = {
    "matmul": "gemm",
    "mm": "gemm",
    "linear": "gemm",
    "addmm": "gemm",
    "bmm": "gemm",
    "memcpy": "copy",
    "clone": "copy",
    "masked_fill": "mask",
    "flash": "attention",
    "sdpa": "attention",
    "pointwise": "triton",
    "fused": "triton",
    "layernorm": "norm",
    "multiply": "mul",
    "scale": "mul",
    "sum": "add",
}
# CPU ops that only make another view of the same memory, or get memory.
_NO_WORK = re.compile(
    r"aten::(\w*view\w*|as_strided|expand|t|transpose|empty\w*|resolve_\w+|\w*alias|reshape|detach|select|slice|unsqueeze"
    r"|squeeze|permute|contiguous|to|item)"
)
# CPU ops that stand for one kernel, whatever they call inside.
_WHOLE = re.compile(r"aten::(mm|bmm|addmm|baddbmm|_scaled_dot_product_\w+|masked_fill_?|_softmax)")
_CALLS = frozenset({"cuda_runtime", "cuda_driver", "xpu_runtime"})
_GPU_OPS = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})


def family(name: str) -> str:
    """The family of a kernel or op by its name, else the name itself."""
    for word, pattern in _FAMILIES:
        if re.search(pattern, name, re.IGNORECASE):
            return word
    return name


def guessed_words(text: str) -> list[str]:
    """The families that a guess names; ``2 gemm`` and ``gemm*2`` stand for two.

    Raises:
        UsageError: there is no word in it.
    """
    words: list[str] = []
    times = 1
    for token in re.findall(r"[\w:]+(?:\s*[*x]\s*\d+)?|\d+", text.lower()):
        if token.isdigit():
            times = int(token)
            continue
        word, _, number = re.sub(r"\s", "", token).partition("*")
        words += [_SYNONYMS.get(word, word)] * (int(number) if number else times)
        times = 1
    if not words:
        raise UsageError("--guess", "no word in it.", 'Write it like --guess "gemm add".')
    return words


def step_ops(path: Path) -> list[str]:
    """Names of the GPU ops that the last whole step of a small trace launched, in order; on a CPU, its
    innermost ops.

    Args:
        path: a trace of the ladder, small enough to be read as one document.
    """
    document = path.read_bytes()
    if path.name.endswith(".gz"):
        document = gzip.decompress(document)
    events = [event for event in json.loads(document)["traceEvents"] if event.get("ph") == "X"]
    marks = [event for event in events if event.get("cat") == "user_annotation" and "ProfilerStep#" in event["name"]]
    steps = [mark for mark in marks if mark["name"].startswith("ProfilerStep#")] or marks
    if not steps:
        return []
    step = max(steps, key=lambda event: event["ts"])
    inside = [event for event in events if _within(event, step)]
    calls = [event for event in inside if event.get("cat") in _CALLS and "correlation" in event.get("args", {})]
    launched = {call["args"]["correlation"] for call in calls}
    on_gpu = [
        event for event in events if event.get("cat") in _GPU_OPS and event.get("args", {}).get("correlation") in launched
    ]
    chosen = on_gpu or _innermost([event for event in inside if event.get("cat") == "cpu_op"])
    return [event["name"] for event in sorted(chosen, key=lambda event: event["ts"])]


def _within(event: dict[str, Any], outer: dict[str, Any]) -> bool:
    return bool(outer["ts"] <= event["ts"] and event["ts"] + event["dur"] <= outer["ts"] + outer["dur"])


def _innermost(ops: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """CPU ops that call no other op and do work: views and allocations are left out."""
    ordered = sorted(ops, key=lambda event: (event["ts"], -event["dur"]))
    working: list[dict[str, Any]] = []
    whole_until = float("-inf")
    for op in ordered:
        if op["ts"] < whole_until or _NO_WORK.fullmatch(op["name"]):
            continue
        working.append(op)
        if _WHOLE.fullmatch(op["name"]):
            whole_until = op["ts"] + op["dur"]
    followed = zip(working, [*working[1:], None], strict=True)
    return [op for op, following in followed if following is None or not _within(following, op)]


@dataclass(frozen=True)
class Comparison:
    """A guess beside what ran.

    Attributes:
        expected: the guessed families, in order.
        seen: the families that ran, in order, one a GPU op.
        names: the names behind `seen`.
    """

    expected: tuple[str, ...]
    seen: tuple[str, ...]
    names: tuple[str, ...]

    @property
    def missing(self) -> list[str]:
        """Guessed, but not run."""
        return sorted((Counter(self.expected) - Counter(self.seen)).elements())

    @property
    def extra(self) -> list[str]:
        """Run, but not guessed."""
        return sorted((Counter(self.seen) - Counter(self.expected)).elements())

    @property
    def right(self) -> bool:
        """Whether the guess has the right ops, as many as ran."""
        return not self.missing and not self.extra


def compare(expected: Sequence[str], names: Sequence[str]) -> Comparison:
    """A guess against the names of what ran; a word that is no family matches a name that contains it."""
    families = {word for word, _ in _FAMILIES}
    own_words = [word for word in expected if word not in families]

    def seen(name: str) -> str:
        return next((word for word in own_words if word in name.lower()), family(name))

    return Comparison(tuple(expected), tuple(seen(name) for name in names), tuple(names))
