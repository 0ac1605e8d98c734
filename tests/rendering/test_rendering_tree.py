"""The dispatch chain as text, and tables, from made-up data."""

from __future__ import annotations

import json

import pytest
from golden import check_golden
from made_up import LONG_KERNEL
from rich.cells import cell_len

from lanewise.analyses.dispatch_nodes import Node
from lanewise.rendering.tables import Field, Table, as_bytes, render
from lanewise.rendering.tree import Branch
from lanewise.rendering.tree import render as render_tree


def launch(kernel: str, ns: int, copies: int = 1) -> Node:
    gpu = Node(kernel, "kernel", 1, copies, 0, ns * copies, copies)
    return Node("cudaLaunchKernel", "cuda_runtime", 1, copies, 5_000 * copies, ns * copies, copies, (gpu,))


def step() -> Node:
    views = Node("", "views", 1, 6, 60_000, 0, 0, names=(("aten::t (transpose, as_strided)", 2), ("aten::view", 1)))
    quiet = Node("", "quiet", 1, 6, 12_000, 0, 0, names=(("aten::empty", 3),))
    addmm = Node("aten::addmm", "cpu_op", 1, 6, 600_000, 180_000, 6, (launch("gemm", 30_000, 6),))
    linear = Node("aten::linear", "cpu_op", 1, 6, 900_000, 180_000, 6, (views, quiet, addmm))
    gelu = Node("aten::gelu", "cpu_op", 2, 12, 240_000, 24_000, 12, (launch(LONG_KERNEL, 2_000, 12),))
    block = Node("", "block", 6, 6, 1_140_000, 204_000, 18, (linear, gelu))
    sync = Node("cudaStreamSynchronize", "cuda_runtime", 1, 1, 820_000, 0, 0)
    backward = Node("AddmmBackward0", "cpu_op", 1, 1, 90_000, 40_000, 1, (launch("gemm", 40_000),), forward="aten::addmm")
    kernels = tuple(Node(f"kernel{i}", "kernel", 4, 4, 0, 8_000, 4) for i in range(2))
    graph = Node("cudaGraphLaunch", "cuda_runtime", 1, 1, 60_000, 16_000, 8, kernels)
    root = Node(
        "ProfilerStep#3", "user_annotation", 1, 1, 2_500_000, 260_000, 27, (block, sync, backward, graph), hidden=(7, 30_000, 0)
    )
    return Node("", "lane", 1, 1, 2_500_000, 260_000, 27, (root,))


@pytest.mark.parametrize("lang", ["en", "ja"])
def test_tree_golden(lang: str) -> None:
    branches = [Branch("thread 415 (python3)", step())]
    labels = {"gemm": "GEMM bf16 128x256 +bias", LONG_KERNEL: "element-wise gelu fp32"}
    text = render_tree("ProfilerStep#3", branches, lang=lang, labels=labels, other_lanes=2)
    assert max(cell_len(x) for x in text.splitlines()) <= 80
    check_golden(f"tree_{lang}.txt", text)


def test_an_empty_tree_says_so() -> None:
    assert "Nothing ran here." in render_tree("x", [], lang="en", labels={})


def table() -> Table:
    fields = [
        Field("name", "col-op", "String", 12),
        Field("index", None, "Int64"),
        Field("count", "col-calls", "Int64"),
        Field("total_us", "col-time", "Float64"),
        Field("share_ratio", "col-share", "Float64"),
        Field("ops", "col-from", "List", 8),
    ]
    rows = [
        ["aten::mm", 1, 1_200, 12_345.678, 0.25, ["a", "b", "c"]],
        ['odd, "name"', 2, 0, None, None, []],
    ]
    return Table(fields, rows, 5, {"name": {"aten::mm": "product"}})


def test_table_for_a_terminal() -> None:
    assert [" ".join(x.split()) for x in render(table(), lang="en").splitlines()] == [
        "op calls total of GPU launched by",
        "product 1,200 12.3 ms 25 % a +2",
        'odd, "name" 0 - -',
        "3 more: --limit 0",
    ]


def test_table_for_programs() -> None:
    assert as_bytes(table(), "csv").decode().splitlines() == [
        "name,index,count,total_us,share_ratio,ops",
        "aten::mm,1,1200,12345.678,0.25,a; b; c",
        '"odd, ""name""",2,0,,,""',
    ]
    first, second = json.loads(as_bytes(table(), "json"))
    assert first == {
        "name": "aten::mm",
        "index": 1,
        "count": 1200,
        "total_us": 12345.678,
        "share_ratio": 0.25,
        "ops": ["a", "b", "c"],
    }
    assert second["total_us"] is None
