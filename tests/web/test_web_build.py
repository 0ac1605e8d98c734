"""The page that is shipped is the one that ``web/`` builds, and its numbers are written as `lanewise.units` writes them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from lanewise import units
from places import ROOT
from web.conftest import WEB

STATIC = ROOT / "src" / "lanewise" / "rendering" / "static"

needs_build = pytest.mark.skipif(not (WEB / "node_modules" / "esbuild").is_dir(), reason="no esbuild (npm ci --prefix web)")


@needs_build
def test_shipped_page_is_what_web_builds(tmp_path: Path) -> None:
    subprocess.run(["node", "build.mjs", str(tmp_path)], cwd=WEB, check=True, timeout=120)
    for name in ("report.js", "report.css"):
        assert (tmp_path / name).read_bytes() == (STATIC / name).read_bytes(), f"{name}: run `npm run build` in web/"


def test_shipped_page_can_stand_in_a_file() -> None:
    script = (STATIC / "report.js").read_text("utf-8")
    assert "</script" not in script.lower()
    assert "<!--" not in script
    assert "</style" not in (STATIC / "report.css").read_text("utf-8").lower()
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "http://", "https://"):
        assert word not in script.replace("http://www.w3.org/2000/svg", ""), word


def test_lock_file_names_no_registry() -> None:
    lock = json.loads((WEB / "package-lock.json").read_text("utf-8"))
    assert not any("resolved" in package for package in lock["packages"].values())
    assert all("integrity" in package for path, package in lock["packages"].items() if path)


NUMBERS = [0, 1, 999, 1000, 1234, 9994.9, 12345, 999_499, 999_500, 1e6, 12.3e6, 999.5e6, 1.5e9, 12.34e9, 123e9, 4e12, 5e15]
RATIOS = [0, 0.0001, 0.0004, 0.0994, 0.0996, 0.37, 0.996, 1, 1.2]


@needs_build
def test_numbers_read_as_elsewhere(tmp_path: Path) -> None:
    code = f"""
      import * as f from "./format.js";
      const numbers = {NUMBERS}, ratios = {RATIOS};
      console.log(JSON.stringify([numbers.map(f.duration), ratios.map(f.percent), numbers.map(f.size), numbers.map(f.bandwidth),
        numbers.map(f.flopsRate), numbers.map((n) => f.count(Math.floor(n)))]));
    """
    esbuild = WEB / "node_modules" / ".bin" / "esbuild"
    subprocess.run(
        [esbuild, "src/format.ts", f"--outfile={tmp_path}/format.js", "--log-level=error"], cwd=WEB, check=True, timeout=60
    )
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "run.mjs").write_text(code, encoding="utf-8")
    done = subprocess.run(["node", "run.mjs"], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(done.stdout) == [
        [units.duration(n) for n in NUMBERS],
        [units.percent(r) for r in RATIOS],
        [units.size(n) for n in NUMBERS],
        [units.bandwidth(n) for n in NUMBERS],
        [units.flops_rate(n) for n in NUMBERS],
        [units.count(int(n)) for n in NUMBERS],
    ]
