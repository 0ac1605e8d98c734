"""Kernel names taken apart: the function's path, its template arguments, its words.

Demanglers spell the same function differently. All are brought to the spelling of c++filt without anonymous
namespaces, as far as decoding needs:

    c++filt          void at::native::(anonymous namespace)::f<4, g()::{lambda(float)#1}>(int)
    Nsight Systems   void at::native::<unnamed>::f<(int)4, g()::[lambda(float) (instance 1)]>(int)
    LLVM             void at::native::(anonymous namespace)::f<4, g()::'lambda'(float)>(int)
    nvprof           void at::native::_INTERNAL_5_f_cu_1::f<int=4, bool=1>(int)
    mangled          _ZN2at6native12_GLOBAL__N_11fILi4E...
"""

from __future__ import annotations

import re
from functools import cached_property, lru_cache

from lanewise.kernels.mangling import demangled

__all__ = ["Name", "parsed", "split_arguments", "word_string"]

_ANONYMOUS = ("(anonymous namespace)::", "<unnamed>::", "{anonymous}::", "_GLOBAL__N__::")
_CLONE = re.compile(r"(?:\s*\[clone [^\]]*\]|\.kd)+$")
# Tables that shorten names end them so; the last word is not whole.
_CUT = re.compile(r"_?[^\W_]*(?:\.{3}|…)$")
_RETURN_TYPE = re.compile(r"(?:(?:static|inline|__global__)\s+)*(?:void|int|auto|float)\s+(?=[\w:~])")
_CAST_LITERAL = re.compile(r"\((?:unsigned |signed )?(?:int|long long|long|short|char|bool)\)(?=-?\d)")
# What nvcc names the anonymous namespace of one file, where a demangler leaves it.
_OF_A_FILE = re.compile(r"\b_INTERNAL_\w+::")
_NVPROF_LITERAL = re.compile(r"\b(bool|(?:unsigned )?(?:int|char|short|long long|long))=(-?\d+)")
_INNER_RETURN = re.compile(r"\bvoid (?=(?:\w+::)+\w+<)")
_NSIGHT_LAMBDA = re.compile(r"\[lambda\(([^()]*)\) \(instance (\d+)\)\]")
_LLVM_LAMBDA = re.compile(r"'lambda(\d*)'\(([^()]*)\)")
_PATH = re.compile(r"[^<(\s]+")
_BRACKET = re.compile(r"[<>(){}\[\],]")
# Signatures that Triton appended to names up to 2.1: "_0d1d2de3c".
_TRITON_SIGNATURE = re.compile(r"_0d(?:\d+[cde]*)*$")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z0-9])(?=[A-Z][a-z])")
_NOT_A_WORD = re.compile(r"[^a-z0-9]+")
# Single words with a capital inside: SiLU, SwiGLU, RoPE, MoE, MatMul ...
_ONE_WORD = re.compile(
    r"_(si(?=_lu_)|ge(?=_g?lu_)|re(?=_g?lu_)|swi(?=_glu_)|ro(?=_pe_)|mo(?=_e_)"
    r"|mat(?=_mul_)|cum(?=_(?:sum|prod)_)|non(?=_zero_))_"
)


class Name:
    """One kernel name, in parts.

    Attributes:
        raw: as the trace has it.
        text: demangled, in c++filt's spelling, without return type and anonymous namespaces.
        path: the function, ``at::native::reduce_kernel``.
        base: its last identifier, ``reduce_kernel``.
        root: its first one, ``at``; empty where there is no namespace.
        tail: what follows the path: template arguments and parameters.
    """

    def __init__(self, raw: str, text: str) -> None:
        self.raw = raw
        self.text = text
        match = _PATH.match(text)
        self.path = match[0] if match else ""
        self.tail = text[len(self.path) :]
        root, separator, _ = self.path.partition("::")
        self.root = root if separator else ""
        self.base = self.path.rpartition("::")[2]

    @cached_property
    def arguments(self) -> list[str]:
        """The outermost template arguments, as text; those that a cut-off name still has."""
        return split_arguments(self.tail)

    @cached_property
    def words(self) -> str:
        """The words of the base, ``_reduce_kernel_``; see `word_string`."""
        return word_string(self.base)


def parsed(raw: str) -> Name:
    """The parts of a name, whatever demangler wrote it."""
    text = raw.strip()
    if text.endswith(("...", "…")):
        text = _CUT.sub("", text)
    if text.endswith(("]", ".kd")):
        text = _CLONE.sub("", text)
    if text.startswith("_Z"):
        text = demangled(text)
    if text.isidentifier():
        return Name(raw, _TRITON_SIGNATURE.sub("", text) if "_0d1" in text else text)
    for spelling in _ANONYMOUS:
        if spelling in text:
            text = text.replace(spelling, "")
    if "<(" in text or "lambda'" in text or ", (" in text or "[lambda" in text:
        text = _in_one_spelling(text)
    if "_INTERNAL_" in text:
        text = _OF_A_FILE.sub("", text)
    if "=" in text:
        text = _NVPROF_LITERAL.sub(_literal, text)
    return Name(raw, _without_return_type(text))


def _literal(match: re.Match[str]) -> str:
    return ("false" if match[2] == "0" else "true") if match[1] == "bool" else match[2]


def _in_one_spelling(text: str) -> str:
    text = _INNER_RETURN.sub("", _CAST_LITERAL.sub("", text)).replace("operator ()", "operator()")
    if "(instance " in text:
        text = _NSIGHT_LAMBDA.sub(r"{lambda(\1)#\2}", text)
    if "'lambda" in text:
        text = _LLVM_LAMBDA.sub(lambda m: f"{{lambda({m[2]})#{int(m[1] or -1) + 2}}}", text)
    return text


def _without_return_type(text: str) -> str:
    text = text.removeprefix("typeinfo name for ")  # SYCL
    if text.startswith(("std::enable_if", "typename ", "decltype")):
        start = text.find("::type ")
        if start >= 0:
            return text[start + len("::type ") :]
    if text.startswith("void "):
        return text[5:]
    match = _RETURN_TYPE.match(text)
    return text[match.end() :] if match else text


def split_arguments(tail: str, limit: int = 64) -> list[str]:
    """The top-level arguments of the template argument list that `tail` begins with, at most `limit` of them.

    An angle bracket within parentheses is an operator, or closed there; it does not count.
    """
    if not tail.startswith("<"):
        return []
    arguments: list[str] = []
    angles = rounds = 0
    start = 1
    for match in _BRACKET.finditer(tail):
        sign = match[0]
        if sign in "({[":
            rounds += 1
        elif sign in ")}]":
            rounds -= 1
        elif rounds:
            continue
        elif sign == "<":
            angles += 1
        elif sign == ">":
            angles -= 1
        if angles == 0 or (angles == 1 and not rounds and sign == ","):
            arguments.append(tail[start : match.start()].strip())
            start = match.end()
            if angles == 0 or len(arguments) == limit:
                return arguments
    arguments.append(tail[start:].strip())
    return arguments


@lru_cache(maxsize=16384)
def word_string(identifier: str) -> str:
    """The words of an identifier in lower case, between underscores: ``cunn_SoftMaxForward`` gives
    ``_cunn_soft_max_forward_``.
    """
    words = "_" + _NOT_A_WORD.sub("_", _CAMEL.sub("_", identifier).lower()).strip("_") + "_"
    return _ONE_WORD.sub(r"_\1", words)
