"""Measured ceilings: kept, found again, preferred; and the measuring itself against a pretended GPU."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from lanewise.cli.calibrate import TEXTS as command_texts
from lanewise.cli.calibrate import command
from lanewise.devices import (
    Ceiling,
    Measurement,
    calibration,
    ceilings_for,
    find_device,
    load_measurements,
    save_measurement,
)
from lanewise.devices.ceilings import ceilings_path
from lanewise.devices.texts import TEXTS
from lanewise.errors import UsageError
from lanewise.translations import Catalog, slots_of

MEASURED = Measurement(
    name="NVIDIA H200",
    sms=132,
    memory_bandwidth=4.6e12,
    vector_flops={"fp32": 5.1e13},
    matrix_flops={"bf16": 7.95e14},
    measured_at="2026-11-30T15:00:00+00:00",
    versions={"torch": "2.11.0"},
)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LANEWISE_CACHE_DIR", str(tmp_path))
    return tmp_path / "ceilings.json"


def test_without_measurements_the_data_sheet_counts(cache: Path) -> None:
    ceilings = ceilings_for("NVIDIA H200", 132)
    assert ceilings is not None
    assert ceilings.source == "data sheet"
    assert ceilings.memory_bandwidth == Ceiling(4.8e12, "data sheet")
    assert ceilings.flops("bf16", True) == Ceiling(989.4e12, "data sheet")
    assert ceilings_for("NVIDIA A10G") is None


def test_what_was_measured_comes_first_and_the_rest_says_where_it_is_from(cache: Path) -> None:
    assert save_measurement(MEASURED) == cache
    ceilings = ceilings_for("NVIDIA H200", 132)
    assert ceilings is not None
    assert ceilings.source == "measured"
    assert ceilings.memory_bandwidth == Ceiling(4.6e12, "measured")
    assert ceilings.flops("bf16", True) == Ceiling(7.95e14, "measured")
    assert ceilings.flops("fp32", False) == Ceiling(5.1e13, "measured")
    assert ceilings.flops("fp8_e4m3", True) == Ceiling(1978.9e12, "data sheet")
    assert ceilings.flops("fp4", True) is None
    device = find_device("NVIDIA H200")
    assert device is not None
    found = ceilings_for(device)
    assert found is not None
    assert found.measurement == MEASURED


def test_measurements_of_a_part_are_not_those_of_the_whole(cache: Path) -> None:
    save_measurement(MEASURED)
    assert ceilings_for("NVIDIA H200", 16) is None


def test_a_card_out_of_the_list_can_be_measured(cache: Path) -> None:
    save_measurement(Measurement("NVIDIA A10G", 80, 5e11, {}, {"fp16": 6e13}, "2026-11-30T15:00:00+00:00"))
    ceilings = ceilings_for("NVIDIA A10G", 80)
    assert ceilings is not None
    assert ceilings.device is None
    assert ceilings.flops("fp16", True) == Ceiling(6e13, "measured")
    assert ceilings.flops("fp32", False) is None


def test_saving_keeps_other_cards_and_replaces_the_same(cache: Path) -> None:
    other = Measurement("NVIDIA L4", 58, 2.6e11, {}, {}, "2026-11-30T15:00:00+00:00")
    save_measurement(other)
    save_measurement(MEASURED)
    save_measurement(Measurement("NVIDIA H200", 132, 4.7e12, {}, {}, "2026-12-01T15:00:00+00:00"))
    kept = load_measurements()
    assert kept["NVIDIA L4"] == other
    assert kept["NVIDIA H200"].memory_bandwidth == 4.7e12
    assert json.loads(cache.read_text("utf-8"))["schema"] == "lanewise.ceilings/1"


@pytest.mark.parametrize("text", ["{", "[]", '{"schema": "other"}', '{"schema": "lanewise.ceilings/1", "devices": {"x": {}}}'])
def test_a_broken_file_is_named_when_asked_for_and_passed_over_in_reports(cache: Path, text: str) -> None:
    cache.write_text(text, "utf-8")
    with pytest.raises(UsageError, match="calibrate again"):
        load_measurements()
    ceilings = ceilings_for("NVIDIA H200")
    assert ceilings is not None
    assert ceilings.source == "data sheet"
    save_measurement(MEASURED)
    assert load_measurements() == {"NVIDIA H200": MEASURED}


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    with pytest.raises(UsageError, match="LANEWISE_CACHE_DIR"):
        save_measurement(MEASURED, tmp_path / "file" / "ceilings.json")


def test_where_the_file_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LANEWISE_CACHE_DIR", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert ceilings_path() == Path("/caches/lanewise/ceilings.json")


@pytest.mark.parametrize("catalog", [TEXTS, command_texts], ids=lambda catalog: catalog.area)
def test_japanese_has_the_same_keys_and_slots(catalog: Catalog) -> None:
    japanese = catalog.translated("ja")
    assert {key: slots_of(text) for key, text in japanese.items()} == {
        key: slots_of(text) for key, text in catalog.english.items()
    }


class PretendedTensor:
    """Enough of a tensor to be multiplied."""

    def t(self) -> PretendedTensor:
        return self

    def to(self, kind: object) -> PretendedTensor:
        return self

    def copy_(self, other: object) -> None:
        CLOCK.add(10.0)

    def fill_(self, value: float) -> None:
        CLOCK.add(4.0)


class Clock:
    """Milliseconds that the pretended GPU has worked."""

    now = 0.0

    def add(self, milliseconds: float) -> None:
        self.now += milliseconds


CLOCK = Clock()


class PretendedEvent:
    def __init__(self, enable_timing: bool) -> None:
        self.time = 0.0

    def record(self) -> None:
        self.time = CLOCK.now

    def elapsed_time(self, end: PretendedEvent) -> float:
        return end.time - self.time


def pretended_torch(capability: tuple[int, int], available: bool = True) -> Any:
    """A GPU that adds 2 GiB in 12 ms, and multiplies 4096 squared in 1 ms, larger ones no faster."""

    def add(a: object, b: object, out: object) -> None:
        CLOCK.add(12.0)

    def multiply(*arguments: object, **options: object) -> None:
        CLOCK.add({2048: 0.5, 4096: 1.0, 8192: 8.0, 16384: 70.0}[SIZE[-1]])

    def made(size: Any, *rest: Any, **options: Any) -> PretendedTensor:
        SIZE.append(size[0] if isinstance(size, tuple) else size)
        return PretendedTensor()

    @contextmanager
    def nothing(*arguments: object) -> Iterator[None]:
        yield

    cuda = SimpleNamespace(
        is_available=lambda: available,
        device_count=lambda: 1,
        device=nothing,
        Event=PretendedEvent,
        synchronize=lambda index: None,
        empty_cache=lambda: None,
        mem_get_info=lambda index: (64 << 30, 80 << 30),
        get_device_capability=lambda index: capability,
        get_device_properties=lambda index: SimpleNamespace(name="Pretended", multi_processor_count=7),
    )
    return SimpleNamespace(
        __version__="9.9",
        cuda=cuda,
        version=SimpleNamespace(hip=None, cuda="99.0"),
        no_grad=nothing,
        rand=made,
        randn=made,
        add=add,
        mm=multiply,
        _int_mm=multiply,
        randint=lambda low, high, size, **options: made(size),
        get_float32_matmul_precision=lambda: "highest",
        set_float32_matmul_precision=lambda precision: None,
        **{kind: kind for kind in ("float64", "float32", "float16", "bfloat16", "int8")},
    )


SIZE: list[int] = []


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "sleep", lambda seconds: None)
    monkeypatch.setitem(sys.modules, "torch", pretended_torch((8, 6)))


def test_measuring_takes_the_best_kernel_and_the_best_size(gpu: None) -> None:
    told: list[str] = []
    found = calibration.measure(dtypes=["fp64", "fp32", "bf16", "fp8"], progress=told.append)
    assert told == ["memory", "fp64", "fp32", "bf16", "fp8"]
    # The sum moves three times 2 GiB in 12 ms, the copy two in 10, the fill one in 4.
    assert found.memory_bandwidth == pytest.approx(3 * 2 * (1 << 30) / 12e-3)
    rate = 2 * 4096**3 / 1e-3
    # GA10x: fp64 and fp32 off the tensor cores, no fp8.
    assert found.vector_flops == {"fp64": pytest.approx(rate), "fp32": pytest.approx(rate)}
    assert found.matrix_flops == {"bf16": pytest.approx(rate)}
    assert (found.name, found.sms) == ("Pretended", 7)


def test_a_type_that_this_torch_cannot_do_is_left_out(gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise RuntimeError("not implemented")

    monkeypatch.setattr(sys.modules["torch"], "_int_mm", refuse)
    found = calibration.measure(dtypes=["int8", "fp16"])
    assert list(found.matrix_flops) == ["fp16"]


def test_wrong_requests(gpu: None) -> None:
    with pytest.raises(UsageError, match="not measured"):
        calibration.measure(dtypes=["fp3"])
    with pytest.raises(UsageError, match="this machine has 1"):
        calibration.measure(index=3)


def test_without_a_gpu_or_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", pretended_torch((9, 0), available=False))
    with pytest.raises(UsageError, match="sees no GPU"):
        calibration.measure()
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UsageError, match="not installed") as raised:
        calibration.measure()
    assert "インストールされていません" in raised.value.text("ja")


def test_the_command_measures_shows_and_keeps(gpu: None, cache: Path) -> None:
    result = CliRunner().invoke(command, ["--dtype", "bf16", "--lang", "en"])
    assert result.exit_code == 0
    assert "Pretended, 7 SMs" in result.stdout
    assert "bf16" in result.stdout
    assert "not known" in result.stdout  # no data sheet
    assert "Kept in" in result.stderr
    shown = CliRunner().invoke(command, ["--show", "--format", "json"])
    assert json.loads(shown.stdout)[0]["name"] == "Pretended"


def test_the_command_in_japanese_and_without_keeping(gpu: None, cache: Path) -> None:
    result = CliRunner().invoke(command, ["--dtype", "bf16", "--no-save", "--lang", "ja"])
    assert result.exit_code == 0
    assert "データシート" in result.stdout
    assert not cache.exists()
    assert "測定していません" in CliRunner().invoke(command, ["--show", "--lang", "ja"]).stdout


@pytest.mark.gpu
def test_on_a_real_gpu(cache: Path) -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    found = calibration.measure(dtypes=["fp16", "fp32"])
    ceilings = ceilings_for(found.name, found.sms)
    save_measurement(found)
    if ceilings is not None and ceilings.memory_bandwidth is not None:
        # No stream is faster than the memory, and none of these is slow.
        assert 0.5 < found.memory_bandwidth / ceilings.memory_bandwidth.rate < 1.02
    assert found.matrix_flops["fp16"] > found.vector_flops["fp32"]
