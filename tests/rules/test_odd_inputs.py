"""Rules on real traces whose recorded inputs and names are confused: each finds something or nothing, and none fails.

The engine shows a rule's failure as that rule's outcome, so that it costs nobody else; here it must not come to that.
"""

from __future__ import annotations

import gzip
import io
import json
import random
from pathlib import Path
from typing import Any

import pytest

import lanewise

TRACES = Path(__file__).parents[2] / "benchmarks/causes/traces"
# Small ones of many rules: products, copies, convolutions, gradients, sorts, tables, attention.
CHOSEN = ("full_sort_for_top_k", "logits_of_all_positions", "pointwise_conv1d", "one_hot_times_weight", "dropout_in_eval")
SIZES = ([], [[]], [[0, 0]] * 5, [[1]] * 3, [[-1, 5]] * 4, [[[2, 3], [4]]] * 3, [[2**40, 2**40]] * 3, [[2, [3]]], None, 7)
KINDS = ([], [""] * 9, ["TensorList"] * 3, ["float"] * 9, [1, 2], None)
NUMBERS = ([], ["", ""], ["x"] * 9, ["-1"] * 9, ["99999999999"] * 9, ["inf", "nan", "0"], [["1"]], None)
NAMES = [
    *("select", "copy_", "embedding_dense_backward", "arange", "sort", "mm", "conv1d", "dropout", "cat", "_fused_adamw_"),
    *("cudnn_convolution", "embedding", "gather"),
]
NAMES = [f"aten::{name}" for name in NAMES]
NAMES += ["Optimizer.step#Adam.step", "torch::autograd::AccumulateGrad", "autograd::engine::evaluate_function: SelectBackward0"]


def confused(events: list[dict[str, Any]], how: str, part: float, r: random.Random) -> None:
    keys = {"sizes": ("Input Dims", SIZES), "strides": ("Input Strides", SIZES), "types": ("Input type", KINDS)}
    keys["numbers"] = ("Concrete Inputs", NUMBERS)
    for event in events:
        if r.random() >= part:
            continue
        arguments = event.get("args")
        if how == "names" and event.get("cat") == "cpu_op":
            event["name"] = r.choice(NAMES)
        elif how in keys and isinstance(arguments, dict) and keys[how][0] in arguments:
            arguments[keys[how][0]] = r.choice(keys[how][1])


@pytest.mark.parametrize("case", CHOSEN)
@pytest.mark.parametrize("how", ["sizes", "strides", "types", "numbers", "names"])
def test_no_rule_fails(case: str, how: str) -> None:
    document = json.loads(gzip.decompress((TRACES / case / "bad.json.gz").read_bytes()))
    text = json.dumps(document["traceEvents"])
    checked = set()
    for number, part in enumerate((0.02, 0.5)):
        document["traceEvents"] = json.loads(text)
        confused(document["traceEvents"], how, part, random.Random(f"{case} {how} {number}"))
        report = lanewise.explain(lanewise.load(io.BytesIO(json.dumps(document).encode())))
        assert [(c.id, c.reason) for c in report.checks if c.outcome == "failed"] == []
        assert all((f.share_ratio or 0) <= 1 + 1e-6 for f in report.findings)
        checked |= {c.id for c in report.checks if c.outcome in ("found", "clear")}
    assert len(checked) > 20  # else this would test nothing
