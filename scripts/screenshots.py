#!/usr/bin/env python3
"""Write docs/screenshots/: the pages of the report and of the comparison in a headless Chromium.

python scripts/screenshots.py [NAME ...]      only these pictures

Needs node, `npm ci --prefix web`, and a Chromium (or LANEWISE_CHROMIUM).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner

from lanewise.cli import diff, explain

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
LADDER = EXAMPLES / "ladder_h200"
MLP = LADDER / "03_simple_mlp" / "64_128_768_3072_bf16_warm_{}.json.gz"
ATTENTION = LADDER / "04_c_sdpa_attention" / "8_16_1024_64_bf16_{}_warm_eager.json.gz"
FOLDER = ROOT / "docs" / "screenshots"

KERNEL = "lanewise.select([...Array(lanewise.slices).keys()].filter((i) => lanewise.name(i).includes('Gelu'))[1])"
TO_TIMELINE = "; document.getElementById('timeline').scrollIntoView()"


def finding(number: int) -> str:
    """Show the evidence of a finding."""
    return f"document.querySelectorAll('.finding .show')[{number}].click()"


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture: of the report of a trace or of the comparison of several, in a language and theme, after a script."""

    name: str
    traces: tuple[str, ...]
    lang: str = "en"
    theme: str = "light"
    script: str = ""


def in_both(name: str, *traces: str, script: str = "") -> tuple[Picture, Picture]:
    """A picture for the guide of each language."""
    return Picture(name, traces, script=script), Picture(f"{name}-ja", traces, "ja", script=script)


PICTURES = (
    *in_both("report", str(EXAMPLES / "mlp.json.gz")),
    *in_both("kernel", str(EXAMPLES / "mlp.json.gz"), script=KERNEL + TO_TIMELINE),
    Picture("finding-ja-dark", (str(EXAMPLES / "gpt_train_sins.json.gz"),), "ja", "dark", finding(1)),
    *in_both("diff", str(MLP).format("eager"), str(MLP).format("compile")),
    Picture(
        "diff-change-ja-dark",
        (str(EXAMPLES / "gpt_train_sins.json.gz"), str(EXAMPLES / "gpt_train_clean.json.gz")),
        "ja",
        "dark",
        finding(0) + TO_TIMELINE,
    ),
    *in_both("diff-ladder", *(str(ATTENTION).format(name) for name in ("math", "efficient", "flash", "cudnn"))),
)


def job(picture: Picture, folder: Path) -> dict[str, object]:
    """What `tests/web/browser.mjs` is asked to do."""
    page = folder / f"{picture.name}.html"
    command = explain.command if len(picture.traces) == 1 else diff.command
    short = [os.path.relpath(path, ROOT) for path in picture.traces]
    result = CliRunner().invoke(command, [*short, "-o", str(page), "--lang", picture.lang, "--quiet"], catch_exceptions=False)
    if result.exit_code:
        raise SystemExit(result.output)
    shot = {"path": str(FOLDER / f"{picture.name}.png"), "script": picture.script}
    return {"file": str(page), "theme": picture.theme, "width": 1400, "basic": True, "shots": [shot]}


def main() -> None:
    """All pictures, or those named."""
    os.chdir(ROOT)
    wanted = [p for p in PICTURES if not sys.argv[1:] or p.name in sys.argv[1:]]
    chromium = os.environ.get("LANEWISE_CHROMIUM") or shutil.which("chromium")
    with tempfile.TemporaryDirectory() as folder:
        jobs = [job(picture, Path(folder)) for picture in wanted]
        order = {"playwright": str(ROOT / "web" / "package.json"), "chromium": chromium, "profile": folder, "jobs": jobs}
        done = subprocess.run(
            ["node", ROOT / "tests" / "web" / "browser.mjs"],
            input=json.dumps(order),
            capture_output=True,
            text=True,
            check=True,
        )
    for picture, found in zip(wanted, json.loads(done.stdout), strict=True):
        print(picture.name, found.get("failed") or found["errors"] or "ok")


if __name__ == "__main__":
    main()
