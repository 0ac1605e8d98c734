"""The table of cards in `docs/devices.md`, from the data."""

from __future__ import annotations

from lanewise.devices import Device, devices

HEAD = "| card | SMs | memory GB/s | L2 MiB | fp64 | fp32 | tf32 | fp16 | bf16 | fp8 | int8 | fp4 |"


def table() -> str:
    rule = "|---|" + "--:|" * (HEAD.count("|") - 2)
    return "\n".join([HEAD, rule, *map(row, devices())])


def row(device: Device) -> str:
    """fp64 and fp32: the ordinary units, and the matrix units behind a slash where they have the type."""
    numbers = [f"{device.sms}", f"{device.memory_bandwidth / 1e9:g}", f"{device.l2_bytes / (1 << 20):g}"]
    for dtype in ("fp64", "fp32"):
        vector, matrix = device.peak_flops(dtype, False), device.peak_flops(dtype, True)
        numbers.append(tera(vector) + (f" / {tera(matrix)}" if matrix else ""))
    numbers += [tera(device.peak_flops(dtype, True)) for dtype in ("tf32", "fp16", "bf16", "fp8", "int8", "fp4")]
    return f"| {device.name} | " + " | ".join(numbers) + " |"


def tera(rate: float | None) -> str:
    return f"{round(rate / 1e12, 3):g}" if rate else ""


if __name__ == "__main__":
    print(table())
