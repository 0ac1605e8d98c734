"""The HTML report: one file with everything in it, which asks no network for anything.

Names in a trace are untrusted. They reach the page as compressed data only and are shown by setting text, never markup; the
page's policy (Content-Security-Policy) allows the one script and the one style sheet of this package, by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from importlib import resources
from pathlib import PurePath
from typing import Any

import msgspec

from lanewise.kernels import KINDS, decode
from lanewise.kernels.wording import TEXTS as KERNEL_TEXTS
from lanewise.report import Report
from lanewise.rules import rules
from lanewise.rules.pages import rule_page
from lanewise.timeline import Timeline
from lanewise.timeline.colours import CLASSES
from lanewise.translations import LANGUAGES

from .findings import nothing_found
from .html_texts import TEXTS
from .texts import TEXTS as CAUSES

__all__ = ["differing", "kernel_words", "page", "page_data", "render", "title", "words"]


def render(reports: Mapping[str, Report], picture: Timeline, lang: str = "en") -> str:
    """The report as one HTML file.

    Args:
        reports: the report of a trace in each language of the page.
        picture: the timeline of the same trace.
        lang: language that it opens in.
    """
    data = zlib.compress(msgspec.json.encode(page_data(reports, picture, lang)), 9)
    first = reports[lang]
    return page(title(first), base64.b64encode(data).decode("ascii"), lang)


def title(report: Report) -> str:
    """Title of the page: the file's name."""
    return f"{PurePath(report.trace.path).name} - lanewise"


def page(heading: str, payload: str, lang: str, connect: str = "'none'", mode: str = "report") -> str:
    """The page around a payload.

    Args:
        heading: title of the window.
        payload: base64 text of the compressed data.
        lang: language that it opens in.
        connect: what the page may load from, as its policy has it.
        mode: ``report``, ``diff`` for a comparison, or ``view`` and a number for the page of the viewer.
    """
    script, style = _static("report.js"), _static("report.css")
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:; connect-src {connect}; "
        "base-uri 'none'; form-action 'none'"
    )
    needs = " / ".join(escape(TEXTS("needs-script", code)) for code in LANGUAGES)
    return (
        f'<!doctype html>\n<html lang="{lang}" data-mode="{mode}">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
        f"<title>{escape(heading)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f'<div id="app" data-too-old="{escape(TEXTS("too-old", lang))}"></div>\n<noscript><p>{needs}</p></noscript>\n'
        f'<script type="application/octet-stream" id="payload">{payload}</script>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def page_data(reports: Mapping[str, Report], picture: Timeline, lang: str) -> dict[str, Any]:
    """What the page is made of; see ``web/src/data.ts``."""
    documents = {code: report.to_dict() for code, report in reports.items()}
    first = next(iter(documents))
    names = [row.name for row in reports[first].kernels]
    found = {f.id for f in reports[first].findings}
    return {
        "lang": lang,
        "reports": {first: documents[first], **{c: differing(documents[first], documents[c]) for c in list(documents)[1:]}},
        "timeline": picture,
        "kernels": kernel_words(names, list(documents)),
        "rules": {code: {r.id: _sections(rule_page(r, code)) for r in rules() if r.id in found} for code in documents},
        "texts": {code: {**words(code), "findings-none": nothing_found(reports[code])} for code in documents},
        "classes": CLASSES,
    }


def differing(first: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """The keys of another language's document that are not the same."""
    return {key: value for key, value in other.items() if first.get(key) != value}


def kernel_words(names: Sequence[str], languages: Sequence[str]) -> list[tuple[str, str | None, list[str]]]:
    """Name, kind, and label and sentence in each language, of each GPU op name."""
    out = []
    for name in names:
        kernel = decode(name)
        words = [text for code in languages for text in (kernel.label(code), kernel.sentence(code))]
        out.append((name, kernel.kind, words))
    return out


def _sections(markdown: str) -> list[tuple[str, str]]:
    """Heading and text of each section of a rule's page."""
    parts = (part.partition("\n") for part in markdown.split("\n## ")[1:])
    return [(heading.strip(), body.strip()) for heading, _, body in parts]


def words(lang: str) -> dict[str, str]:
    """The words of the page."""
    words = dict(TEXTS.english if lang == "en" else TEXTS.translated(lang))
    causes = CAUSES.english if lang == "en" else CAUSES.translated(lang)
    kept = {key: text for key, text in causes.items() if key.startswith(("cause-", "has-")) or key == "whole-trace"}
    kinds = KERNEL_TEXTS.english if lang == "en" else KERNEL_TEXTS.translated(lang)
    return {**kept, **words, **{f"kind-{kind}": kinds[f"short-{kind}"] for kind in KINDS}}


@cache
def _static(name: str) -> str:
    """A file of the front end, built by ``web/``."""
    return (resources.files(__package__) / "static" / name).read_text("utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
