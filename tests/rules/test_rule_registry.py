"""Every rule is documented, in both languages, with legal ids, and the list is sorted."""

from __future__ import annotations

import re

import pytest

from lanewise.rules import RULE_MODULES, rules
from lanewise.rules.base import DOC_KEYS, Rule
from lanewise.rules.pages import rule_index, rule_page
from lanewise.translations import slots_of


def test_list_is_sorted_and_matches_ids() -> None:
    assert list(RULE_MODULES) == sorted(set(RULE_MODULES))
    assert [r.id for r in rules()] == [name.replace("_", "-") for name in RULE_MODULES]


@pytest.mark.parametrize("rule", rules(), ids=lambda r: r.id)
def test_texts_agree_in_both_languages(rule: Rule) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", rule.id)
    assert not rule.id.startswith(("avoid-", "use-"))
    japanese = rule.catalog.translated("ja")
    assert set(japanese) == set(rule.english)
    for key, text in rule.english.items():
        assert slots_of(japanese[key]) == slots_of(text), key
    for key in DOC_KEYS:
        assert len(rule.english[key]) > 30, key
        assert re.search(r"[\u3040-\u30ff\u4e00-\u9fff]", japanese[key]) or key == "doc_fix", key


@pytest.mark.parametrize("lang", ["en", "ja"])
def test_pages_have_all_sections(lang: str) -> None:
    for rule in rules():
        page = rule_page(rule, lang)
        assert page.startswith("# ")
        assert page.count("\n## ") == len(DOC_KEYS)
    assert all(f"`{r.id}`" in rule_index(rules(), lang) for r in rules())


def test_rule_without_a_text_is_refused() -> None:
    with pytest.raises(ValueError, match="doc_measured"):
        Rule(
            id="x",
            english=dict.fromkeys(("name", "title", "text", "fix", "doc_finds", "doc_why", "doc_fix", "doc_fine"), "text"),
            check=lambda ctx: [],
        )
