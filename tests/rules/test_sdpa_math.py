from __future__ import annotations

from typing import Any

import pytest
from diagnosing import claim, finding, outcome, truth
from gpu_traces import FFMA, FP32, MUL, Call, tensors, trace

MATH = ("aten::scaled_dot_product_attention", "aten::_scaled_dot_product_attention_math", "aten::bmm")


def attention(q: tuple[int, ...], dtype: str = "c10::BFloat16", **more: Any) -> dict[str, Any]:
    """Inputs of the math op: query, key, value, mask, dropout, is_causal ..."""
    k = more.get("k", q)
    mask = more.get("mask")
    shapes = [q, k, k]
    found = tensors(*shapes, dtype=dtype, strides=more.get("strides", ()))
    found["Input Dims"] += [list(mask) if mask else [], [], [], []]
    found["Input type"] += [dtype if mask else "", "Scalar", "Scalar", ""]
    found["Input Strides"] += [[1] * len(mask) if mask else [], [], [], []]
    found["Concrete Inputs"] += ["", "0.", str(more.get("causal", False)), ""]
    return found


def steps(inputs: dict[str, Any] | None) -> Any:
    """Steps of one call whose math op launches 20 kernels of 100 us."""
    call = Call(MATH, [(FFMA, 100.0)] * 4 + [(MUL, 100.0)] * 16, tensors((64, 2048, 64), (64, 64, 2048), dtype=FP32))
    t = trace([call], op_us=60)
    if inputs is not None:
        t.texts = [_with(text, inputs) for text in t.texts]
    return t


def _with(text: str, inputs: dict[str, Any]) -> str:
    import json

    event = json.loads(text)
    if event["name"] == MATH[1]:
        event["args"] = inputs
        return json.dumps(event)
    return text


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        (attention((4, 16, 2048, 64)), "qualify"),
        (attention((16, 2048, 64)), "4 dimensions"),
        (attention((4, 16, 2048, 64), "double"), "fp64"),
        (attention((4, 16, 2048, 320)), "320"),
        (attention((4, 16, 2048, 60)), "60"),
        (attention((4, 16, 2048, 64), k=(4, 4, 2048, 64), mask=(2048, 2048)), "key heads"),
        (attention((4, 16, 2048, 64), strides=[[2097152, 131072, 1, 2048]] * 3), "without gaps"),
    ],
)
def test_advice_names_the_reason(inputs: dict[str, Any], says: str) -> None:
    found = finding(steps(inputs), "sdpa-math")
    assert found is not None
    assert says in found.fix


def test_price_is_a_fused_kernel() -> None:
    found = finding(steps(attention((4, 16, 2048, 64))), "sdpa-math")
    assert found is not None
    fused = 4 * 64 * 2048 * 2048 * 64 / (989.4e12 * 0.3) * 1e6 + 2.5
    assert found.saving_us_per_step == pytest.approx(2000 - fused, rel=0.02)
    assert "20 kernels" in found.title


def test_causal_takes_less() -> None:
    plain, causal = (finding(steps(attention((4, 16, 2048, 64), causal=c)), "sdpa-math") for c in (False, True))
    assert plain is not None
    assert causal is not None
    fused = 4 * 64 * 2048 * 2048 * 64 / (989.4e12 * 0.3) * 1e6
    assert causal.saving_us_per_step is not None
    assert plain.saving_us_per_step is not None
    assert causal.saving_us_per_step - plain.saving_us_per_step == pytest.approx(0.3 * fused, rel=0.05)


def test_without_shapes_the_products_price_it() -> None:
    found = finding(steps(None), "sdpa-math")
    assert found is not None
    assert found.confidence == "medium"
    # 400 us of fp32 products at 72 % of 66.9 TFLOP/s, done at 30 % of 989.4.
    assert found.saving_us_per_step == pytest.approx(2000 - 400 * (66.9 * 0.72) / (989.4 * 0.3), rel=0.02)


def test_other_backends_are_clear() -> None:
    flash = Call(
        ("aten::scaled_dot_product_attention", "aten::_scaled_dot_product_flash_attention"),
        [("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>>", 160)],
    )
    assert outcome(trace([flash]), "sdpa-math") == "clear"


@pytest.mark.shared
def test_planted() -> None:
    assert claim("sdpa_math_backend", "bad", "sdpa-math") == pytest.approx(
        truth()["sdpa_math_backend"]["saving_pct"] / 100, abs=0.05
    )
    assert claim("sdpa_math_backend", "fixed", "sdpa-math") == 0
