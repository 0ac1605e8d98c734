"""The list of GPUs: right cards for reported names, no wrong ones, and numbers that agree with each other."""

from __future__ import annotations

from pathlib import Path

import pytest
from devices_table import table

from lanewise.devices import Device, devices, find_device, limits_for

GIB = 1 << 30

# Names as CUDA and HIP report them, with SMs and memory where the name alone does not decide or a trace had them.
REPORTED = [
    ("NVIDIA H200", 132, 150109880320, "H200 SXM"),
    ("NVIDIA H100 80GB HBM3", 132, 85018279936, "H100 SXM"),
    ("NVIDIA H100 PCIe", 114, None, "H100 PCIe"),
    ("NVIDIA H100 NVL", 132, 95830 * (1 << 20), "H100 NVL"),
    ("NVIDIA H200 NVL", None, None, "H200 NVL"),
    ("NVIDIA GH200 480GB", 132, None, "GH200 96GB"),
    ("NVIDIA GH200 144G HBM3e", 132, None, "GH200 144GB"),
    ("NVIDIA A100-PCIE-40GB", 108, 42346610688, "A100 PCIe 40GB"),
    ("NVIDIA A100-SXM4-40GB", None, None, "A100 SXM 40GB"),
    ("NVIDIA A100-SXM4-80GB", None, None, "A100 SXM 80GB"),
    ("A100-SXM4-80GB", None, None, "A100 SXM 80GB"),
    ("NVIDIA A100 80GB PCIe", None, None, "A100 PCIe 80GB"),
    ("Tesla V100-SXM2-32GB", 80, 34079637504, "V100 SXM2 32GB"),
    ("Tesla V100-SXM2-16GB", None, None, "V100 SXM2 16GB"),
    ("Tesla V100-PCIE-16GB", None, None, "V100 PCIe 16GB"),
    ("Tesla V100-PCIE-32GB", None, None, "V100 PCIe 32GB"),
    ("Tesla T4", 40, None, "T4"),
    ("NVIDIA A10", 72, None, "A10"),
    ("NVIDIA L4", 58, None, "L4"),
    ("NVIDIA L40S", 142, None, "L40S"),
    ("NVIDIA GeForce RTX 3090", None, None, "RTX 3090"),
    ("GeForce RTX 3090", None, None, "RTX 3090"),
    ("NVIDIA GeForce RTX 4090", None, None, "RTX 4090"),
    ("NVIDIA GeForce RTX 5090", None, None, "RTX 5090"),
    ("NVIDIA RTX 6000 Ada Generation", None, None, "RTX 6000 Ada"),
    ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", 188, None, "RTX PRO 6000 Blackwell Workstation"),
    ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", None, None, "RTX PRO 6000 Blackwell Max-Q"),
    ("NVIDIA RTX PRO 6000 Blackwell Server Edition", None, None, "RTX PRO 6000 Blackwell Server"),
    ("NVIDIA B200", 148, 182631 * (1 << 20), "B200"),
    ("NVIDIA B300 SXM6 AC", 148, None, "B300"),
    ("AMD Instinct MI210", 104, None, "MI210"),
    ("AMD Instinct MI250X / MI250", 110, None, "MI250X (one GCD)"),
    ("AMD Instinct MI250X / MI250", 104, None, "MI250 (one GCD)"),
    ("AMD Instinct MI250X", None, None, "MI250X (one GCD)"),
    ("AMD Instinct MI300X", 304, 206141652992, "MI300X"),
    ("AMD Instinct MI300X VF", 304, None, "MI300X"),
    ("AMD Instinct MI325X", None, None, "MI325X"),
    ("AMD Instinct MI355X", 256, None, "MI355X"),
]


@pytest.mark.parametrize(("name", "sms", "memory", "expected"), REPORTED)
def test_reported_names(name: str, sms: int | None, memory: int | None, expected: str) -> None:
    device = find_device(name, sms, memory)
    assert device is not None
    assert device.name == expected
    assert device.reported_name == name


# Other cards whose names look alike, names without a card, and names that several cards share.
NOT_KNOWN = [
    "NVIDIA A10G",
    "NVIDIA A100-PG509-200",
    "NVIDIA A100-SXM-64GB",
    "NVIDIA A800-SXM4-80GB",
    "GRID A100X-10C",
    "NVIDIA L40",
    "NVIDIA H100",
    "NVIDIA H800",
    "NVIDIA H20",
    "NVIDIA GB200",
    "NVIDIA GeForce RTX 3090 Ti",
    "NVIDIA GeForce RTX 4090 D",
    "NVIDIA GeForce RTX 4090 Laptop GPU",
    "NVIDIA GeForce RTX 5090 D",
    "NVIDIA RTX A6000",
    "Tesla V100-DGXS-32GB",
    "Tesla V100-SXM3-32GB",
    "AMD Radeon Graphics",
    "AMD Instinct MI250X / MI250",
    "AMD Instinct MI300X VF",
    "AMD Instinct MI300A",
    "ARTEMIS",
    "",
]


@pytest.mark.parametrize("name", NOT_KNOWN)
def test_never_a_wrong_card(name: str) -> None:
    assert find_device(name) is None


def test_a_name_that_the_other_facts_contradict_is_not_believed() -> None:
    assert find_device("NVIDIA H200", sms=132) is not None
    assert find_device("NVIDIA H200", sms=16) is None
    assert find_device("NVIDIA A100-SXM4-40GB", memory_bytes=80 * GIB) is None
    assert find_device("AMD Instinct MI300X", sms=38) is None


def test_spacing_and_case_do_not_matter_and_short_names_work() -> None:
    assert find_device("nvidia  h200") == find_device("H200 SXM")


def test_a_mig_device_has_its_share() -> None:
    whole = find_device("NVIDIA A100-SXM4-40GB")
    piece = find_device("NVIDIA A100-SXM4-40GB MIG 1g.5gb", sms=14)
    assert whole is not None
    assert piece is not None
    assert piece.sms == 14
    assert piece.partition == "1g.5gb"
    assert piece.memory_bandwidth == whole.memory_bandwidth / 8
    assert piece.l2_bytes == whole.l2_bytes // 8
    rate, share = whole.peak_flops("bf16", True), piece.peak_flops("bf16", True)
    assert rate is not None
    assert share == pytest.approx(rate * 14 / 108)


@pytest.mark.parametrize(
    ("name", "sms", "eighths"),
    [
        ("NVIDIA H100 80GB HBM3 MIG 1g.20gb", 16, 2),
        ("NVIDIA H100 80GB HBM3 MIG 3g.40gb", 60, 4),
        ("NVIDIA H200 MIG 1g.18gb+me", 16, 1),
        ("NVIDIA H200 MIG 7g.141gb", 132, 8),
        ("NVIDIA B200 MIG 2g.45gb", 36, 2),
    ],
)
def test_memory_slices_of_mig_profiles(name: str, sms: int, eighths: int) -> None:
    piece = find_device(name, sms=sms)
    whole = find_device(name.partition(" MIG ")[0])
    assert piece is not None
    assert whole is not None
    assert piece.memory_bandwidth == whole.memory_bandwidth * eighths / 8


def test_a_mig_device_without_or_with_an_impossible_number_of_sms_is_not_known() -> None:
    assert find_device("NVIDIA A100-SXM4-40GB MIG 1g.5gb") is None
    assert find_device("NVIDIA A100-SXM4-40GB MIG 1g.5gb", sms=108) is None
    assert find_device("NVIDIA A10G MIG 1g.5gb", sms=14) is None


def test_rates_of_an_h200() -> None:
    device = find_device("NVIDIA H200")
    assert device is not None
    assert device.peak_flops("bf16", True) == 989.4e12
    assert device.peak_flops("fp8_e4m3", True) == 1978.9e12
    assert device.peak_flops("fp32", False) == pytest.approx(66.9e12)
    assert device.peak_flops("fp32", True) is None  # only as tf32
    assert device.peak_flops("fp4", True) is None
    assert device.memory_bandwidth == 4.8e12
    assert device.l2_bytes == 62914560


def test_what_a_card_cannot_do_has_no_rate() -> None:
    volta, ampere, turing = (find_device(name) for name in ("Tesla V100-SXM2-16GB", "NVIDIA A100-SXM4-40GB", "Tesla T4"))
    assert volta is not None
    assert ampere is not None
    assert turing is not None
    assert volta.peak_flops("bf16", True) is None
    assert ampere.peak_flops("fp8", True) is None
    assert turing.peak_flops("tf32", True) is None


# fp32 operations of one SM in a clock: 2 for each of 64 lanes (GV100, TU102, GA100, CDNA 2) or 128 (the others).
LANES = {"Volta": 64, "Turing": 64, "Hopper": 128, "Ada": 128, "Blackwell": 128, "CDNA 2": 64, "CDNA 3": 128, "CDNA 4": 128}


def lanes(device: Device) -> int:
    if device.architecture == "Ampere":
        return 64 if device.compute_capability == "8.0" else 128
    return LANES[device.architecture]


@pytest.mark.parametrize("device", [device for device in devices() if device.boost_clock], ids=lambda device: device.name)
def test_fp32_is_what_lanes_and_clock_give(device: Device) -> None:
    """The published rate of the ordinary units follows from the published clock, within rounding (V100 PCIe: 14.1)."""
    assert device.boost_clock is not None
    expected = device.sms * lanes(device) * 2 * device.boost_clock
    assert device.peak_flops("fp32", False) == pytest.approx(expected, rel=0.012)


# Dense rates of one generation in proportion to bf16 or fp16, from the white papers: an error of a factor two (sparsity)
# or of a column shows here. B300's int8 and fp64 are cut down and stand alone; GeForce halves what accumulates in fp32.
def ratios(device: Device) -> dict[str, float]:
    half = device.peak_flops("fp16", True)
    assert half is not None
    return {dtype: rate / half for dtype, rate in device.matrix_flops.items()}


@pytest.mark.parametrize("device", devices(), ids=lambda device: device.name)
def test_matrix_rates_are_dense_and_in_proportion(device: Device) -> None:
    geforce = "RTX 3090 RTX 4090 RTX 5090".count(device.name) == 1
    expected = {"tf32": 1 / 2, "bf16": 1, "fp8": 2, "int8": 4 if geforce else 2, "fp4": 8 if geforce else 4}
    if device.name == "B300":
        expected |= {"int8": 150 / 2250, "fp4": 14000 / 2250}
    if device.vendor == "AMD":
        expected["int8"] = 1 if device.architecture == "CDNA 2" else 2
    for dtype, ratio in ratios(device).items():
        if dtype in expected:
            assert ratio == pytest.approx(expected[dtype], rel=0.03), dtype


@pytest.mark.parametrize("device", devices(), ids=lambda device: device.name)
def test_every_card_is_complete_and_has_sources(device: Device) -> None:
    assert device.sources
    assert all("http" not in source for source in device.sources)
    assert device.peak_flops("fp32", False)
    assert device.peak_flops("fp16", True)
    assert device.memory_bandwidth > 1e11
    assert device.l2_bytes >= 4 << 20
    assert device.limits.sources
    hash(device)


@pytest.mark.parametrize("device", devices(), ids=lambda device: device.name)
def test_a_cards_own_name_finds_it_and_another_number_of_sms_does_not(device: Device) -> None:
    assert find_device(device.name) == device
    assert find_device(device.name, device.sms) == device
    assert find_device(device.name, device.sms + 1) is None


def test_the_table_of_the_documentation_is_current() -> None:
    """`python tests/devices/devices_table.py` prints it anew."""
    text = (Path(__file__).parents[2] / "docs" / "devices.md").read_text("utf-8")
    assert table() in text


def test_limits_by_compute_capability() -> None:
    hopper = limits_for("9.0")
    assert hopper is not None
    assert (hopper.max_threads, hopper.max_blocks, hopper.shared_per_sm_bytes) == (2048, 32, 233472)
    ada = limits_for("8.9")
    assert ada is not None
    assert (ada.max_threads, ada.max_blocks) == (1536, 24)
    assert limits_for("3.5") is None
    assert limits_for("common") is None
