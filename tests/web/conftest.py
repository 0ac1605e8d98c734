"""A headless browser for the tests of the page; they are skipped where it, Node or its driver are not there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from places import ROOT

WEB = ROOT / "web"
NAMES = ("chromium", "chromium-browser", "google-chrome")

Browse = Callable[[list[dict[str, Any]]], list[dict[str, Any]]]


def missing() -> str | None:
    """What the tests of the page lack here, and what to do about it."""
    if shutil.which("node") is None:
        return "no node"
    if browser() is None:
        return "no Chromium (Debian: apt-get install chromium; or set LANEWISE_CHROMIUM)"
    if not (WEB / "node_modules" / "playwright-core").is_dir():
        return "no playwright-core (npm ci --prefix web)"
    return None


def browser() -> str | None:
    return os.environ.get("LANEWISE_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


@pytest.fixture(scope="session")
def browse(tmp_path_factory: pytest.TempPathFactory) -> Browse:
    """Runs jobs of ``browser.mjs`` in one browser."""
    lack = missing()
    if lack is not None:
        pytest.skip(lack)

    def run(jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        order = {
            "playwright": str(WEB / "package.json"),
            "chromium": browser(),
            "profile": str(tmp_path_factory.mktemp("profile")),
            "jobs": jobs,
        }
        script = Path(__file__).with_name("browser.mjs")
        done = subprocess.run(["node", script], input=json.dumps(order), capture_output=True, text=True, timeout=280)
        assert done.returncode == 0, done.stderr
        results: list[dict[str, Any]] = json.loads(done.stdout)
        assert [r["failed"] for r in results if "failed" in r] == []
        return results

    return run
