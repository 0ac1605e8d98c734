"""Mending the text of one damaged event: what can be wrong with its strings, numbers and commas, in one pass; then its quotes.

Only what no JSON may hold is changed, so sound text stays as it is; the kinds of what was changed are told.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

__all__ = ["is_utf8", "mended_backslashes", "mended_texts", "overwritten", "silently_damaged"]

# A string without its end goes up to the end of the text, so that this takes linear time on any text.
_PARTS = re.compile(
    rb"""
    (?P<string> "[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z) )
    | (?P<opening> [{\[] ) [\s\0]*,[\s\0,]*
    | (?P<comma> , ) [\s\0,]* (?P<closing> (?=[}\]]) )?
    | (?P<nul> \0+ )
    | (?P<bare> [^\s,:{}\[\]"\0]+ )
    """,
    re.DOTALL | re.VERBOSE,
)
_STRING_WITH_BACKSLASH = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)+"', re.DOTALL)
_CONTROL = re.compile(rb"[\x00-\x1f]")
# Bytes that are in no text, and how many of them say that something else was written over it. Names out of freed memory, which
# some exporters wrote, end at the first NUL and have a few; a lost block of a disk has 512 NUL bytes, or of random ones 56.
_NO_TEXT = bytes(b for b in (*range(0x20), 0x7F) if b not in b"\t\n\r")
_MOST_NO_TEXT = 32
_NUMBER = re.compile(rb"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?\Z|true\Z|false\Z|null\Z")
# A backslash; group 1 with what it escapes, if it does.
_BACKSLASH = re.compile(rb'(\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))|\\')
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


def overwritten(text: bytes) -> bool:
    """Whether part of an event is no text at all: its beginning and end may then be those of two events."""
    return len(text) - len(text.translate(None, _NO_TEXT)) > _MOST_NO_TEXT


def silently_damaged(data: bytes) -> bool:
    r"""Whether damage is in there that the decoder does not see.

    A Windows path with single backslashes decodes, and reads as a line feed in ``C:\new``. In values that are not read, bytes
    that are not UTF-8 go unseen.
    """
    # Looking for one byte first is many times faster than for two.
    return (b"\\" in data and b":\\" in data and _DRIVE.search(data) is not None) or not is_utf8(data)


def is_utf8(text: bytes) -> bool:
    """Whether all of it is UTF-8."""
    try:
        return text.isascii() or bool(text.decode("utf-8"))
    except UnicodeDecodeError:
        return False


def _encoding(text: bytes) -> bytes:
    """Bytes that are not UTF-8, and halves of surrogate pairs, become U+FFFD."""
    text = text.decode("utf-8", "replace").encode("utf-8")
    if b"\\ud" not in text and b"\\uD" not in text:
        return text
    return _ESCAPE.sub(lambda m: b"\\ufffd" if m.group(1) is not None else m.group(), text)


class _Pass:
    """One pass over a text; `kinds` are what was mended in it."""

    def __init__(self) -> None:
        self.kinds: set[str] = set()

    def __call__(self, match: re.Match[bytes]) -> bytes:
        """What stands in place of a part of the text."""
        group = match.lastgroup
        if group == "string":
            return self._string(match.group())
        if group == "bare":
            return self._bare(match.group())
        if group == "nul":
            self.kinds.add("controls")
            return b" "
        if group == "opening":
            self.kinds.add("commas")
            return match["opening"]
        # One comma, or several, or one before a closing bracket.
        if match["closing"] is not None:
            self.kinds.add("commas")
            return b""
        if match.group().count(b",") > 1:
            self.kinds.add("commas")
        return b","

    def _string(self, string: bytes) -> bytes:
        if b"\\" in string:
            mended = _with_backslashes(string)
            if mended != string:
                self.kinds.add("backslashes")
                string = mended
        mended = _CONTROL.sub(lambda c: b"\\u%04x" % c.group()[0], string)
        if mended != string:
            self.kinds.add("controls")
        return mended

    def _bare(self, word: bytes) -> bytes:
        """inf, nan, N/A, -1.-660, 1e999, ... are no numbers: they become null."""
        if _NUMBER.match(word) and (word[:1].isalpha() or math.isfinite(float(word))):
            return word
        self.kinds.add("numbers")
        return b"null"


def _with_backslashes(string: bytes) -> bytes:
    """Backslashes that were meant as themselves: all of a string's, where one of them is no escape and none is doubled."""
    bare = any(not escape for escape in _BACKSLASH.findall(string))
    if _DRIVE.search(string) or (bare and b"\\\\" not in string):
        inside = _ANY_ESCAPE.sub(lambda m: m.group() if m.group(1) in b'"\\' else b"\\" + m.group(), string[1:-1])
        return b'"' + inside + string[-1:]
    return _BACKSLASH.sub(lambda m: m.group(1) or b"\\\\", string) if bare else string


def mended_backslashes(text: bytes) -> tuple[bytes, list[tuple[int, int]]]:
    """A long text with its backslashes mended, and for each string that changed its offset and the bytes added.

    For traces of Windows, where every Python frame has such a path.
    """
    changed: list[tuple[int, int]] = []
    known: dict[bytes, bytes] = {}  # the same paths come again and again

    def mended(match: re.Match[bytes]) -> bytes:
        string = match.group()
        out = known.get(string)
        if out is None:
            out = known[string] = _with_backslashes(string)
        if out != string:
            changed.append((match.start(), len(out) - len(string)))
        return out

    return _STRING_WITH_BACKSLASH.sub(mended, text), changed


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


def mended_texts(text: bytes) -> Iterator[tuple[bytes, tuple[str, ...]]]:
    """The text mended, with the kinds of damage found in it; the caller takes the first that decodes.

    Where strings hold bare quotes, what is text and what is a string is told apart wrongly: so all else is mended first without
    and then with mending the quotes.
    """
    decoded = _encoding(text)
    kinds = () if decoded == text else ("encoding",)
    for quotes in (False, True):
        quoted = _quotes(decoded) if quotes else decoded
        if quotes and quoted == decoded:
            return
        a_pass = _Pass()
        mended = _PARTS.sub(a_pass, quoted)
        found = (*kinds, *(("quotes",) if quotes else ()), *(kind for kind in _ORDER if kind in a_pass.kinds))
        if found:
            yield mended, found


_ORDER = ("controls", "backslashes", "numbers", "commas")
