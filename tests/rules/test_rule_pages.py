"""docs/rules/ is what the rules say."""

from __future__ import annotations

import importlib.util

from places import ROOT


def test_pages_are_what_the_rules_say() -> None:
    spec = importlib.util.spec_from_file_location("rule_pages", ROOT / "scripts" / "rule_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for path, text in module.pages().items():
        assert path.read_text("utf-8") == text, f"{path.name}: run make docs"
