"""The decoder against the truth table: names that traces print, and what each of them tells.

A cell may be empty (not checked), `a`, `a|b` (either), `a|` (a, or no answer), `-` (no answer), `!a` (anything but a).
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lanewise.kernels import KINDS, Kernel, decode

DATA = Path(__file__).parent / "data"
FIELDS = (
    "kind",
    "library",
    "dtype",
    "arch",
    "tile",
    "layout",
    "epilogue",
    "tensor_cores",
    "direction",
    "fused_ops",
)
# What is wrong at least must be little: the goal that the project set itself.
WANTED_RATIO = 0.98


def rows(table: str = "kernels.tsv") -> list[dict[str, str]]:
    head, *lines = (DATA / table).read_text(encoding="utf-8").rstrip("\n").split("\n")
    return [dict(zip(head.split("\t"), line.split("\t"), strict=True)) for line in lines]


def answer(kernel: Kernel, field: str) -> object:
    value = getattr(kernel, field)
    if field == "tensor_cores":
        return {True: "yes", False: "no", None: None}[value]
    if field == "fused_ops":
        return frozenset(op.strip("_") for op in value) or None
    if field in ("epilogue", "dtype") and value:
        return frozenset(value.split("+"))
    return value


def wanted(text: str, field: str) -> object:
    if text in ("", "-"):
        return None
    if field == "fused_ops":
        return frozenset(op.strip("_") for op in text.split())
    if field in ("epilogue", "dtype"):
        return frozenset(text.split("+"))
    return text


def is_right(cell: str, field: str, kernel: Kernel) -> bool:
    given = answer(kernel, field)
    allowed = []
    for alternative in cell.split("|"):
        if alternative.startswith("!"):
            barred = wanted(alternative[1:], field)
            if given == barred or (isinstance(given, frozenset) and barred <= given):  # type: ignore[operator]
                return False
        else:
            allowed.append(wanted(alternative, field))
    return not allowed or given in allowed


def mistakes(table: str) -> tuple[list[tuple[object, ...]], int]:
    """The wrong answers, and how many cells were checked."""
    wrong: list[tuple[object, ...]] = []
    total = 0
    for row in rows(table):
        kernel = decode(row["name"])
        for field in FIELDS:
            if row[field]:
                total += 1
                if not is_right(row[field], field, kernel):
                    wrong.append((field, row[field], answer(kernel, field), row["name"][:80]))
    return wrong, total


def test_the_table_is_decoded() -> None:
    wrong, total = mistakes("kernels.tsv")
    assert total > 800
    assert len(wrong) <= (1 - WANTED_RATIO) * total, wrong


@pytest.mark.parametrize("table", ["more.tsv", "libraries.tsv"])
def test_names_from_public_sources_and_logs_are_decoded(table: str) -> None:
    """Of the same families and of more; the cells follow from the grammars that the modules of the families draw.

    `libraries.tsv` has kernels of the shared libraries of PyTorch and its neighbours, demangled and mangled, names that
    profiles print, and what Inductor's grammar gives.
    """
    wrong, total = mistakes(table)
    assert total > 800
    assert wrong == []


@pytest.mark.parametrize(
    ("cell", "field", "given", "right"),
    [
        ("gemm", "kind", Kernel("", kind="gemm"), True),
        ("gemm|moe", "kind", Kernel("", kind="moe"), True),
        ("-", "dtype", Kernel("", dtype="bf16"), False),
        ("fp32|", "dtype", Kernel(""), True),
        ("!relu", "epilogue", Kernel("", epilogue="bias+relu"), False),
        ("!relu", "epilogue", Kernel(""), True),
        ("fp8_e4m3+fp8_e5m2", "dtype", Kernel("", dtype="fp8_e5m2+fp8_e4m3"), True),
        ("no", "tensor_cores", Kernel("", tensor_cores=False), True),
        ("_to_copy add", "fused_ops", Kernel("", fused_ops=("add", "_to_copy")), True),
    ],
)
def test_the_scorer(cell: str, field: str, given: Kernel, right: bool) -> None:
    assert is_right(cell, field, given) is right


@pytest.mark.parametrize(
    "name",
    [
        "",
        "_Z",
        "ampere_gzgemm_32x32_cn",
        "ampere_fp16_s16816gemm",
        "cutlass_80_tensorop",
        "cutlass3x_sm100_tensorop",
        "sm80_xmma_",
        "nvjet_",
        "nvjet_sm100_tst_",
        "igemm_fwd_gtcx3_",
        "void cutlass::device_kernel<",
        "void at::native::vectorized_elementwise_kernel<4, ",
        "triton_poi_fused_",
        "Cijk_",
        "__myl_",
        "wrapped_",
    ],
)
def test_decoding_never_fails(name: str) -> None:
    assert decode(name).name == name


def test_every_kind_is_of_the_vocabulary() -> None:
    assert list(KINDS) == sorted(KINDS)
    for row in rows() + rows("libraries.tsv"):
        kind = decode(row["name"]).kind
        assert kind is None or kind in KINDS


def nsight(name: str) -> str:
    """As Nsight Systems spells a name."""
    name = name.replace("(anonymous namespace)::", "<unnamed>::")
    name = re.sub(r"\{lambda\(([^()]*)\)#(\d+)\}", r"[lambda(\1) (instance \2)]", name)
    name = name.replace("operator()()", "operator ()()").replace("*", " *")
    name = re.sub(r"(?<=[<,] )(-?\d+)u?l?(?=[,>])", r"(int)\1", name)
    name = re.sub(r"(?<=<)(-?\d+)u?l?(?=[,>])", r"(int)\1", name)
    name = re.sub(r"\btrue\b", "(bool)1", name)
    return re.sub(r"\bfalse\b", "(bool)0", name).replace("> >", ">>")


def llvm(name: str) -> str:
    """As LLVM's demangler does, with what ROCm's tools add."""
    spelled = re.sub(
        r"\{lambda\(([^()]*)\)#(\d+)\}",
        lambda m: f"'lambda{'' if m[2] == '1' else int(m[2]) - 2}'({m[1]})",
        name,
    )
    return spelled.replace("> >", ">>") + " [clone .kd]"


@pytest.mark.parametrize("spelling", [nsight, llvm])
def test_other_demanglers_tell_the_same(spelling: object) -> None:
    different = []
    for row in rows():
        plain, other = decode(row["name"]), decode(spelling(row["name"]))  # type: ignore[operator]
        different += [
            (field, row["name"][:80]) for field in FIELDS if row[field] and getattr(plain, field) != getattr(other, field)
        ]
    assert different == []


def test_a_cut_off_name_still_tells_its_library() -> None:
    """The owner stands at the beginning; only a wrapper's is lost when what it wraps is cut off."""
    wrapped = ("cutlass::device_kernel", "cutlass::Kernel", "std::enable_if")
    for row in rows():
        if len(row["name"]) > 120 and not any(wrapper in row["name"][:60] for wrapper in wrapped):
            cut = decode(row["name"][:120])
            assert cut.library == decode(row["name"]).library, row["name"][:120]
