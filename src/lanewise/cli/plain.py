"""Characters that an output's encoding does not have: their nearest, so that a pipe on Windows still reads well."""

from __future__ import annotations

import codecs
import sys

__all__ = ["PLAIN", "plain_output"]

# In the order in which they are tried. The marks of a bar stay apart from each other.
PLAIN: dict[str, tuple[str, ...]] = {
    "µ": ("μ", "u"),
    "×": ("x",),
    "·": (".",),
    "…": ("...",),
    "–": ("-",),
    "→": ("->",),
    "←": ("<-",),
    "✓": ("+",),
    "✗": ("x",),
    "█": ("#",),
    "▓": ("%",),
    "▒": ("&",),
    "░": ("+",),
    **dict.fromkeys("▁▂▃▄", ("-",)),
    **dict.fromkeys("▅▆▇", ("=",)),
    "〜": ("～", "-"),  # JIS writes one where Unicode has two
}


def plain_output() -> None:
    """Let standard output and standard error write what is nearest to a character that they cannot write."""
    codecs.register_error("lanewise-plain", _nearest)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="lanewise-plain")


def _nearest(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_plain(c, error.encoding) for c in error.object[error.start : error.end]), error.end


def _plain(character: str, encoding: str) -> str:
    for text in PLAIN.get(character, ()):
        try:
            text.encode(encoding)
        except UnicodeEncodeError:
            continue
        return text
    return "?"
