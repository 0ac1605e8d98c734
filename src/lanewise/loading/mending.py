"""Mending the text of one damaged event: one kind of damage a function, as few of them as it takes.

Each function takes JSON text that may be damaged and returns it with its kind of damage mended, unchanged where it has none.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator

__all__ = ["mended_texts", "silent_backslash"]

# A string without its end goes up to the end of the text, so that each function takes linear time on any text.
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*(?:"|\\?\Z)', re.DOTALL)
_STRING_OR_BARE = re.compile(rb'("(?:[^"\\]|\\.)*(?:"|\\?\Z))|([^\s,:{}\[\]"]+)', re.DOTALL)
_STRING_OR_COMMAS = re.compile(rb'("(?:[^"\\]|\\.)*(?:"|\\?\Z))|,[\s,]*(?=([}\]])?)|([{\[])[\s,]*,[\s,]*', re.DOTALL)
_CONTROL = re.compile(rb"[\x00-\x1f]")
_NUMBER = re.compile(rb"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?\Z|true\Z|false\Z|null\Z")
_BAD_ESCAPE = re.compile(rb'\\(?!["\\/bfnrt]|u[0-9a-fA-F]{4})')
# Any escape; group 1 is half of a surrogate pair without the other half.
_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\(u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.", re.DOTALL
)
_ANY_ESCAPE = re.compile(rb"\\(.)", re.DOTALL)
# The start of a Windows path: a drive at the start of a string, or a capital one within it (text may well have a line feed
# after a lower-case letter and a colon), one backslash, and the first letter of a name.
_DRIVE = re.compile(rb'(?:"[A-Za-z]|(?<![A-Za-z0-9_])[A-Z]):\\[A-Za-z0-9_.$]')
_KEY_AND_QUOTE = re.compile(rb'"[^"\\\n]{1,64}"\s*:\s*"')
_CLOSING_QUOTE = re.compile(rb'"(?=\s*(?:,\s*"[^"\\\n]{1,64}"\s*:|\}|\Z))')
_BARE_QUOTE = re.compile(rb'(?<!\\)((?:\\\\)*)"')


def silent_backslash(data: bytes) -> bool:
    r"""Whether a Windows path with single backslashes is in there: ``C:\new`` decodes, and reads as a line feed."""
    # Looking for one byte first is many times faster than for two.
    return b"\\" in data and b":\\" in data and _DRIVE.search(data) is not None


def _encoding(text: bytes) -> bytes:
    """Bytes that are not UTF-8, and halves of surrogate pairs, become U+FFFD."""
    text = text.decode("utf-8", "replace").encode("utf-8")
    if b"\\ud" not in text and b"\\uD" not in text:
        return text
    return _ESCAPE.sub(lambda m: b"\\ufffd" if m.group(1) is not None else m.group(), text)


def _controls(text: bytes) -> bytes:
    """Raw control characters: escaped within strings; NUL between values is white space."""

    def escaped(match: re.Match[bytes]) -> bytes:
        return _CONTROL.sub(lambda c: b"\\u%04x" % c.group()[0], match.group())

    return _STRING.sub(escaped, text).replace(b"\0", b" ")


def _backslashes(text: bytes) -> bytes:
    """Backslashes that were meant as themselves: all of a string's, where one of them is no escape and none is doubled."""

    def doubled(match: re.Match[bytes]) -> bytes:
        string = match.group()
        if b"\\" not in string:
            return string
        if _DRIVE.search(string) or (_BAD_ESCAPE.search(string) and b"\\\\" not in string):
            inside = _ANY_ESCAPE.sub(lambda m: m.group() if m.group(1) in b'"\\' else b"\\" + m.group(), string[1:-1])
            return b'"' + inside + string[-1:]
        return _BAD_ESCAPE.sub(rb"\\\\", string)

    return _STRING.sub(doubled, text)


def _numbers(text: bytes) -> bytes:
    """inf, nan, N/A, -1.-660, 1e999, ... are no numbers: they become null."""

    def fixed(match: re.Match[bytes]) -> bytes:
        bare = match.group(2)
        if bare is None or (_NUMBER.match(bare) and (bare[:1].isalpha() or math.isfinite(float(bare)))):
            return match.group()
        return b"null"

    return _STRING_OR_BARE.sub(fixed, text)


def _commas(text: bytes) -> bytes:
    """Doubled commas, and commas after an opening or before a closing bracket."""

    def fixed(match: re.Match[bytes]) -> bytes:
        if match.group(1) is not None:
            return match.group()
        if match.group(3) is not None:
            return match.group(3)
        return b"," if match.group(2) is None else b""

    # A lone comma is replaced by itself; white space around it does not matter.
    mended = _STRING_OR_COMMAS.sub(fixed, text)
    return text if mended.count(b",") == text.count(b",") else mended


def _quotes(text: bytes) -> bytes:
    """Quotes inside a string value: the value goes on until a quote that the next key or the closing brace follows."""
    out, at = [], 0
    while match := _KEY_AND_QUOTE.search(text, at):
        out.append(text[at : match.end()])
        at = match.end()
        close = _CLOSING_QUOTE.search(text, at)
        if close is None:
            break
        inside = text[at : close.start()]
        if (len(inside) - len(inside.rstrip(b"\\"))) % 2:
            inside += b"\\"  # a Windows path that ends in a backslash
        out.append(_BARE_QUOTE.sub(rb'\1\\"', inside) + b'"')
        at = close.end()
    out.append(text[at:])
    return b"".join(out)


_STEPS: tuple[tuple[str, Callable[[bytes], bytes]], ...] = (
    ("encoding", _encoding),
    ("controls", _controls),
    ("backslashes", _backslashes),
    ("numbers", _numbers),
    ("commas", _commas),
)


def mended_texts(text: bytes) -> Iterator[tuple[bytes, tuple[str, ...]]]:
    """Ever more mended forms of a text, each with the kinds of damage mended in it; the caller stops at one that decodes.

    Where strings hold bare quotes, what is text and what is a string is told apart wrongly: so all steps are tried first
    without and then with mending the quotes.
    """
    kinds: list[str] = []
    for quotes in (False, True):
        mended, kinds = text, []
        for kind, step in (*_STEPS[:1], ("quotes", _quotes), *_STEPS[1:]) if quotes else _STEPS:
            changed = step(mended)
            if changed != mended:
                mended = changed
                kinds.append(kind)
                yield mended, tuple(kinds)
