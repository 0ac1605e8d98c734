"""`lanewise kernel`: what kernel names say."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import click

from lanewise.cli import options
from lanewise.kernels import Kernel, decode

__all__ = ["command"]


@click.command("kernel")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@options.form_option("terminal", "json")
@options.lang_option
def command(names: tuple[str, ...], form: str, lang: str) -> None:
    """Say in words what kernel names tell.

    NAMEs as a trace prints them; without any, or with "-", one a line from standard input.
    """
    for name in _lines() if not names or names == ("-",) else iter(names):
        kernel = decode(name)
        if form == "json":
            print(json.dumps(document(kernel, lang), ensure_ascii=False))
        else:
            print(f"{kernel.label(lang)}\n  {kernel.sentence(lang)}\n  {name}")


def document(kernel: Kernel, lang: str) -> dict[str, object]:
    """The keys of one line of JSON; what is not known is null, or an empty list."""
    return {
        "name": kernel.name,
        "kind": kernel.kind,
        "library": kernel.library,
        "dtype": kernel.dtype,
        "arch": kernel.arch,
        "tile": kernel.tile,
        "stages": kernel.stages,
        "layout": kernel.layout,
        "epilogue": kernel.epilogue,
        "tensor_cores": kernel.tensor_cores,
        "direction": kernel.direction,
        "fused_ops": list(kernel.fused_ops),
        "op": kernel.op,
        "host_memory": kernel.host_memory,
        "sentence": kernel.sentence(lang),
    }


def _lines() -> Iterator[str]:
    for line in sys.stdin:
        name = line.rstrip("\r\n")
        if name:
            yield name


if __name__ == "__main__":
    command()
