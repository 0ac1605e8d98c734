"""A rule's page in Markdown: what it finds, why it costs time, how to fix it, when it is no problem, how it is measured."""

from __future__ import annotations

from lanewise.translations import Catalog

from .base import DOC_KEYS, Rule

__all__ = ["rule_index", "rule_page"]

_HEADINGS = Catalog(
    "pages",
    {
        "doc_finds": "What it finds",
        "doc_why": "Why it costs time",
        "doc_fix": "How to fix it",
        "doc_fine": "When it is not a problem",
        "doc_measured": "How it is measured",
        "index": "Rules",
        "index-text": "What `lanewise explain` looks for. Each page also: `lanewise rule ID`.",
        "index-row": "{name}. {finds}",
    },
)


def rule_page(rule: Rule, lang: str = "en") -> str:
    """The page of one rule."""
    sections = (f"## {_HEADINGS(key, lang)}\n\n{_body(rule.catalog(key, lang))}" for key in DOC_KEYS)
    return "\n\n".join([f"# {rule.catalog('name', lang)} (`{rule.id}`)", *sections]) + "\n"


def rule_index(all_rules: tuple[Rule, ...], lang: str = "en") -> str:
    """The list of all rules with links to their pages."""
    rows = [
        f"- [`{r.id}`]({r.id}.md): "
        + _HEADINGS("index-row", lang, name=r.catalog("name", lang), finds=r.catalog("doc_finds", lang))
        for r in all_rules
    ]
    return f"# {_HEADINGS('index', lang)}\n\n{_HEADINGS('index-text', lang)}\n\n" + "\n".join(rows) + "\n"


def _body(text: str) -> str:
    """Text as Markdown: a paragraph whose lines are code (indented, or Python statements) becomes a code block."""
    out = []
    for paragraph in text.strip().split("\n\n"):
        lines = paragraph.split("\n")
        code = len(lines) > 1 or _looks_like_code(lines[0])
        out.append("```python\n" + paragraph + "\n```" if code else paragraph)
    return "\n\n".join(out)


def _looks_like_code(line: str) -> bool:
    return line.startswith(("import ", "from ", "with ", "for ", "optimizer = ", "model = ", "torch.")) and not line.endswith(
        "."
    )
