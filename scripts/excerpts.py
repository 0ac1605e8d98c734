#!/usr/bin/env python3
"""Put the output of commands into Markdown pages, so that what a page shows is what the program prints.

A page asks for it with a pair of comments, and what stands between them is replaced:

    <!-- output: lanewise explain examples/mlp.json.gz, 20 lines -->
    <!-- end -->
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", "README.ja.md")

_PLACE = re.compile(r"(<!-- output: (lanewise [^\n]*?), (\d+) lines -->\n).*?(<!-- end -->)", re.DOTALL)


def with_outputs(page: str) -> str:
    """A page's text with the present output of each command that it asks for.

    Raises:
        RuntimeError: a command failed.
    """
    return _PLACE.sub(lambda m: m[1] + _block(m[2], int(m[3])) + m[4], page)


def _block(command: str, most: int) -> str:
    words = [sys.executable, "-m", *shlex.split(command)]
    # A terminal's width and no colour, whatever this runs in.
    environment = os.environ | {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb", "LANG": "C.UTF-8", "PYTHONUTF8": "1"}
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, encoding="utf-8", check=False)
    if done.returncode:
        raise RuntimeError(f"{command}: exit status {done.returncode}. {done.stderr[-2000:]}")
    lines = [line.rstrip() for line in done.stdout.strip("\n").splitlines()]
    shown = lines if len(lines) <= most else [*lines[:most], "..."]
    return "\n```text\n" + "\n".join([f"$ {command}", *shown]) + "\n```\n\n"


if __name__ == "__main__":
    for name in PAGES:
        path = ROOT / name
        path.write_text(with_outputs(path.read_text(encoding="utf-8")), encoding="utf-8")
