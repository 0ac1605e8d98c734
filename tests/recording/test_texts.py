from __future__ import annotations

import pytest

from lanewise.recording.texts import TEXTS, Notice, notice_text
from lanewise.translations import slots_of


def test_both_languages_have_the_same_keys_and_slots() -> None:
    japanese = TEXTS.translated("ja")
    assert set(japanese) == set(TEXTS)
    for key in TEXTS:
        assert slots_of(japanese[key]) == slots_of(TEXTS.english[key]), key


@pytest.mark.parametrize("lang", ["en", "ja"])
def test_values_get_their_units(lang: str) -> None:
    slots = {"median_ns": 254_300, "steps": 10, "min_ns": 250_000, "max_ns": 1_300_000, "profiled_ns": 412_000, "factor": 1.62}
    text = notice_text(Notice("step-time", slots), lang)
    for part in ("254 µs", "10", "250 µs", "1.30 ms", "412 µs", "1.6"):
        assert part in text


def test_a_cause_is_a_text_of_its_own() -> None:
    text = notice_text(Notice("gpu-missing", {"path": "x.json", "launches": 50, "cause": "cause-permission"}))
    assert text.startswith("x.json: no GPU events, though 50 kernels were launched. The driver reserves")


def test_a_profiled_step_quicker_than_the_timed_ones_is_no_zero() -> None:
    slots = {"median_ns": 1_000_000, "steps": 3, "profiled_ns": 20_000, "factor": 0.02}
    assert "0.02 times" in notice_text(Notice("step-time-mean", slots))
    assert "1.0 times" in notice_text(Notice("step-time-mean", {**slots, "factor": 0.96}))
