"""`lanewise calibrate`: measure what this GPU reaches, and keep it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from lanewise.cli import options
from lanewise.translations import Catalog

if TYPE_CHECKING:
    from lanewise.devices import Measurement

__all__ = ["command"]

TEXTS = Catalog(
    "calibrate",
    {
        "measuring": "Measuring {what} ...",
        "memory": "memory",
        "title": "{name}, {sms} SMs, measured {when}",
        "rate": "rate",
        "measured": "measured",
        "sheet": "data sheet",
        "share": "share",
        "kept": "Kept in {path}. Reports of traces from a {name} compare with these rates from now on.",
        "none": "No GPU was calibrated yet. To do it: lanewise calibrate",
    },
)


@click.command("calibrate", short_help="Measure what this GPU can really reach.")
@click.option("--device", "index", type=int, default=0, show_default=True, help="Number of the GPU, as torch counts.")
@click.option("--dtype", "dtypes", multiple=True, help="Measure products of this type only; may be repeated.")
@click.option("--show", is_flag=True, help="Show what was measured before, and measure nothing.")
@click.option("--no-save", is_flag=True, help="Do not keep what is measured.")
@options.form_option("terminal", "json")
@options.lang_option
def command(index: int, dtypes: tuple[str, ...], show: bool, no_save: bool, form: str, lang: str) -> None:
    """Measure what this GPU can really reach: streaming its memory, and large products by type.

    Reports compare kernels with these rates instead of the data sheet's, and say so. They are kept by
    the name of the GPU in the user's cache folder (LANEWISE_CACHE_DIR names another).
    """
    from lanewise.devices import load_measurements, save_measurement
    from lanewise.devices.calibration import DTYPES, measure

    if show:
        _print(list(load_measurements().values()), form, lang)
        return

    def progress(what: str) -> None:
        name = TEXTS("memory", lang) if what == "memory" else what
        click.echo(TEXTS("measuring", lang, what=name), err=True)

    measurement = measure(index, dtypes or DTYPES, progress)
    path = None if no_save else save_measurement(measurement)
    _print([measurement], form, lang)
    if path is not None:
        click.echo(TEXTS("kept", lang, path=path, name=measurement.name), err=True)


def _print(measurements: list[Measurement], form: str, lang: str) -> None:
    if form == "json":
        print(json.dumps([asdict(measurement) for measurement in measurements], indent=2))
    elif not measurements:
        print(TEXTS("none", lang))
    else:
        print("\n\n".join(_table(measurement, lang) for measurement in measurements))


def _table(measurement: Measurement, lang: str) -> str:
    """Measured rates beside the data sheet's."""
    from lanewise import units
    from lanewise.devices import find_device

    device = find_device(measurement.name, measurement.sms)
    sheet = None if device is None else device.memory_bandwidth
    rows = [
        (
            TEXTS("memory", lang),
            units.bandwidth(measurement.memory_bandwidth, lang),
            units.bandwidth(sheet, lang),
            units.percent(units.ratio_of(measurement.memory_bandwidth, sheet), lang),
        )
    ]
    for tensor_cores, rates in ((False, measurement.vector_flops), (True, measurement.matrix_flops)):
        for dtype, rate in rates.items():
            peak = None if device is None else device.peak_flops(dtype, tensor_cores)
            share = units.percent(units.ratio_of(rate, peak), lang)
            rows.append((dtype, units.flops_rate(rate, lang), units.flops_rate(peak, lang), share))
    head = (TEXTS("rate", lang), TEXTS("measured", lang), TEXTS("sheet", lang), TEXTS("share", lang))
    title = TEXTS("title", lang, name=measurement.name, sms=measurement.sms, when=measurement.measured_at)
    return "\n".join([title, *map(_line, [head, *rows])])


def _line(cells: tuple[str, str, str, str]) -> str:
    first, *others = cells
    return f"  {_padded(first, 8)}" + "".join(f"  {' ' * max(14 - _width(cell), 0)}{cell}" for cell in others)


def _padded(text: str, width: int) -> str:
    return text + " " * max(width - _width(text), 0)


def _width(text: str) -> int:
    """Columns of a terminal: Japanese characters take two."""
    from unicodedata import east_asian_width

    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)
