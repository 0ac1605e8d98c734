"""The page on which the viewer lists several traces."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from html import escape

from .shown import Shown
from .texts import TEXTS

__all__ = ["listing"]

_STYLE = (
    ":root{color-scheme:light dark;--ink:#1a1f27;--soft:#5a6472;--page:#f6f7f9;--ground:#fff;--line:#e0e4ea;--accent:#0b62c4}"
    "@media(prefers-color-scheme:dark){:root{--ink:#e6eaf0;--soft:#9aa5b3;--page:#0f1216;--ground:#161a20;--line:#2a313b;"
    "--accent:#6cb0ff}}"
    "body{margin:0 auto;max-width:960px;padding:24px 20px;background:var(--page);color:var(--ink);font:14px/1.6 system-ui,"
    '"Hiragino Sans","Yu Gothic UI","Noto Sans CJK JP",sans-serif}'
    "h1{font-size:18px}ul{list-style:none;margin:0;padding:0}"
    "li{background:var(--ground);border:1px solid var(--line);border-radius:8px;padding:12px 18px;margin-top:12px;"
    "overflow-wrap:anywhere}"
    "a{color:var(--accent);font-size:15px;font-weight:600;text-decoration:none}a:hover{text-decoration:underline}"
    "p{margin:4px 0}.soft{color:var(--soft);font-size:12.5px}"
)


def listing(shown: Sequence[Shown], lang: str) -> tuple[str, str]:
    """The page and its policy: each trace with its path and what bounds its step, as a link to its own page."""
    rows = "".join(
        f'<li><a href="{place}/">{escape(trace.name)}</a><p>{escape(trace.verdict)}</p>'
        f'<p class="soft">{escape(trace.path)}</p></li>'
        for place, trace in enumerate(shown)
    )
    style = base64.b64encode(hashlib.sha256(_STYLE.encode("utf-8")).digest()).decode("ascii")
    title = escape(TEXTS("listing", lang, count=len(shown)))
    text = (
        f'<!doctype html><html lang="{lang}"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>lanewise: {title}</title><style>{_STYLE}</style></head>"
        f"<body><h1>{title}</h1><ul>{rows}</ul></body></html>\n"
    )
    return text, f"default-src 'none'; style-src 'sha256-{style}'; base-uri 'none'; form-action 'none'"
