"""Reading a chunk that is not sound JSON: event by event, mending what can be mended and counting what cannot.

Damage stays within its event: a piece of text goes from where an event begins to where the next one does, whatever its strings
hold. A piece is decoded as it stands, else joined with the next ones (objects in arguments may look like events), else mended
step by step, else given up, and reading goes on with the next event in it or after it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import msgspec

from .decoding import DECODE_ERRORS, Found, decoded_event
from .exact import ns_of_text
from .framing import ANY_EVENT_START, EVENT_START, TOKEN
from .mending import mended_texts, overwritten, silently_damaged
from .records import LONGEST_US, TextEvent

__all__ = ["Damage", "Mended", "Tally", "members", "mend_chunk", "mend_object"]

_SEPARATORS = re.compile(rb"[\s\0,]*")
# After the events: another key of the document, its end, the end of the text, or another document.
_END_OF_EVENTS = re.compile(rb'\][\s\0]*(?:[\s\0,]*(?:"|\Z)|\}|[\[{])')
_EVENT_THEN_END = re.compile(rb"\}[\s\0,]*(?=" + _END_OF_EVENTS.pattern + rb")")
_END_OF_TEXT = re.compile(rb"[\s\0]*(?:[\[{]|\Z)")
_OPEN_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*\\?\Z', re.DOTALL)
_BLANK = re.compile(rb"[\s\0]*\Z")
_CLOSING = re.compile(rb"\]")
_ONLY_BRACKETS = re.compile(rb"[\s\0,}\]]*\Z")

_MERGE_PIECES = 16  # an event with objects in its arguments may be split; more than this many are not joined again
_LARGEST_MENDED = 16 << 20  # what is larger is given up: mending takes many passes over the text
_LARGEST_INNER = 64  # places within a piece where another event may begin
_LARGEST_SEARCHED = 1 << 20  # of one damaged place, so that damage in a large file takes no more time than reading it
_LARGEST_MEMBERS = 1 << 16  # keys of a header


@dataclass(slots=True)
class Damage:
    """One event that was mended or given up.

    Attributes:
        offset: of its first byte in the decompressed text.
        kept: whether it was mended.
        kinds: what was wrong with it: keys of `lanewise.model.notes.DAMAGE`.
        size: bytes of text that were given up with it: more than one event where several were overwritten.
    """

    offset: int
    kept: bool
    kinds: tuple[str, ...]
    size: int = 0


@dataclass(slots=True)
class Tally:
    """How many events were damaged, in what ways, and where the first one is.

    Attributes:
        count: events.
        kinds: events by kind of damage.
        first: offset of the first one in the decompressed text; -1 when there is none.
        size: bytes of text that were given up.
    """

    count: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    first: int = -1
    size: int = 0

    def add(self, damage: Damage) -> None:
        """Count one event."""
        self.first = damage.offset if self.first < 0 else self.first
        self.count += 1
        self.size += damage.size
        self.kinds.update(damage.kinds)


@dataclass(slots=True)
class Mended:
    """What a damaged chunk gave.

    Attributes:
        events: its events, in order.
        damage: those that were mended or given up.
        end: where in the chunk the array of events was closed; None when it goes on.
        rest: the text at its end where that gave no event: the event may go on in the next chunk.
        cut: whether the text ends within an event.
    """

    events: list[TextEvent] = field(default_factory=list)
    damage: list[Damage] = field(default_factory=list)
    end: int | None = None
    rest: bytes = b""
    cut: bool = False


def mend_chunk(data: bytes, offset: int, last: bool) -> Mended:
    """Decode a damaged chunk event by event.

    Args:
        data: text of the chunk.
        offset: of its first byte in the whole text, for messages.
        last: whether nothing follows it, so that an unfinished event at its end is a cut file and no damage.
    """
    return _Mender(data, offset, last).run()


class _Mender:
    """Goes through a chunk from front to back.

    `_at` is where reading stands; `_lost` is where an event was given up that may go on there, None between two events.
    """

    def __init__(self, data: bytes, offset: int, last: bool) -> None:
        self._data, self._offset, self._last = data, offset, last
        self._ends = [*(m.start() + 1 for m in EVENT_START.finditer(data)), len(data)]
        self._out = Mended()
        self._at = 0
        self._lost: int | None = None

    def run(self) -> Mended:
        data, out = self._data, self._out
        while True:
            separators = _SEPARATORS.match(data, self._at)
            self._at = self._at if separators is None else separators.end()
            if self._at >= len(data):
                out.rest = b"" if self._lost is None else data[self._lost :]
                return out
            first = data[self._at : self._at + 1]
            if first == b"]" and self._closes(self._at, sure=self._lost is None):
                out.end = self._at + 1
                return out
            if first == b"{":
                self._event()
            else:
                self._rubbish()

    def _closes(self, at: int, sure: bool) -> bool:
        """Whether the bracket at `at` closes the events, and not a list in the arguments of an event that was given up.

        What follows the events closes the document, and then nothing or another document follows. That is asked for where
        it is not sure that the bracket stands between events, and can only be seen where the text goes up to its end.
        """
        data = self._data
        if not _END_OF_EVENTS.match(data, at):
            return False
        if self._last and _BLANK.match(data, at + 1):
            return True
        depth = 1
        for token in islice(TOKEN.finditer(data, at + 1), _LARGEST_SEARCHED):
            depth += (token.group() in b"{[") - (token.group() in b"}]")
            if depth == 0:
                return (sure or self._last) and _END_OF_TEXT.match(data, token.end()) is not None
        return sure

    def _event(self) -> None:
        """Read the event that begins here, and go on after it."""
        piece = bisect_right(self._ends, self._at)
        end = self._ends[piece]
        text = self._data[self._at : end]
        found = _sound_event(text)
        if found is None and _unbalanced(text):
            found = self._joined(piece)
        if found is not None:
            event, used, kinds = found
            self._keep(event, kinds, self._at + used)
            return
        inner = _inner_event(text)
        if inner:
            before = text[: text.rfind(b"}", 0, inner) + 1]
            if not before or not self._mended(self._at + len(before)):
                self._lose("unreadable", self._at + inner)
        elif not self._mended(end):
            self._give_up(end)

    def _keep(self, event: TextEvent, kinds: tuple[str, ...], end: int) -> None:
        if kinds and not _timed(event):
            self._lose("no-time", end)
            return
        self._out.events.append(event)
        if kinds:
            self._out.damage.append(Damage(self._offset + self._at, True, kinds))
        self._at = end
        if event.ph is not None:  # else an object out of the arguments of an event that was given up
            self._lost = None

    def _lose(self, kind: str, end: int) -> None:
        self._out.damage.append(Damage(self._offset + self._at, False, (kind,), end - self._at))
        self._lost = self._at if self._lost is None else self._lost
        self._at = end

    def _joined(self, piece: int) -> Found | None:
        """A sound event that was split at objects within its arguments."""
        for end in self._ends[piece + 1 : piece + _MERGE_PIECES]:
            text = self._data[self._at : end]
            found = _sound_event(text)
            if found is not None:
                return found
        return None

    def _mended(self, end: int) -> bool:
        """Mend the event that ends here, or before the end of all events."""
        ends = [m.start() + 1 for m in _EVENT_THEN_END.finditer(self._data, self._at, end)][:_MERGE_PIECES]
        for stop in (*ends, end):
            found = _mended_event(self._data[self._at : stop])
            if found is not None:
                self._keep(*found, stop)
                return True
        return False

    def _give_up(self, end: int) -> None:
        data = self._data
        close = None
        if self._last and end == len(data):
            close = self._close(self._at, end)
            if close is None:  # the file is cut here
                self._at, self._out.cut = end, True
                return
        self._lose("unreadable", end if close is None else close)

    def _close(self, begin: int, end: int) -> int | None:
        """Offset of the bracket that closes the events, behind an event that cannot be read."""
        own, stop = _own_brackets(self._data[begin : min(end, begin + _LARGEST_SEARCHED)])
        closings = (m.start() for m in _CLOSING.finditer(self._data, begin, begin + stop))
        return next((at for at in closings if at - begin not in own and self._closes(at, sure=False)), None)

    def _rubbish(self) -> None:
        """Skip what is no event, up to the next event or the end of the events."""
        data = self._data
        event = ANY_EVENT_START.search(data, self._at)
        stop = len(data) if event is None else event.start()
        close = self._close(self._at, stop) if self._last else None
        stop = stop if close is None else close
        text = data[self._at : stop]
        # It may be left of an event that was given up; an unfinished word at the end of a cut file is no event.
        if self._lost is not None or _ONLY_BRACKETS.match(text) or (self._last and stop == len(data)):
            if self._lost is not None and self._out.damage:
                self._out.damage[-1].size += stop - self._at
            self._at = stop
        else:
            self._lose("rubbish", stop)


def _sound_event(text: bytes) -> Found | None:
    """The event that text begins with, as it stands; what follows it may be another document's."""
    found = decoded_event(text)
    return None if found is None or silently_damaged(text[: found[1]]) else found


def _unbalanced(piece: bytes) -> bool:
    return piece.count(b"{") > piece.count(b"}")


def _timed(event: TextEvent) -> bool:
    """Whether an event that needs a time has one, and no duration below 0 or beyond a year."""
    if event.ph not in ("X", "B", "E"):
        return True
    sound = event.ph != "X" or event.dur is None or 0 <= event.dur <= LONGEST_US
    return sound and ns_of_text(bytes(event.ts)) is not None


def _own_brackets(text: bytes) -> tuple[set[int], int]:
    """Places of the brackets that close lists opened in the text, and where a string begins that has no end in it."""
    found: set[int] = set()
    opened: list[bytes] = []
    for token in TOKEN.finditer(text):
        part = token.group()
        if part[:1] == b'"':
            if _OPEN_STRING.match(part):
                return found, token.start()
        elif part in b"{[":
            opened.append(part)
        elif opened and opened.pop() == b"[" and part == b"]":
            found.add(token.start())
    return found, len(text)


def _inner_event(text: bytes) -> int:
    """Where another event begins within a piece of text that is no event: the brace before it is missing. 0 for nowhere."""
    for match in islice(ANY_EVENT_START.finditer(text, 1), _LARGEST_INNER):
        at = match.start()
        if text[max(0, at - 64) : at].rstrip(b" \t\r\n\0")[-1:] == b":":
            continue  # an event's arguments
        if match.group()[1:].lstrip()[:4] == b'"ph"':  # as Kineto's events begin, and nothing in their arguments
            return at
        found = decoded_event(text[at : at + _LARGEST_SEARCHED])
        if found is not None and found[0].ph is not None:
            return at
    return 0


def _mended_event(text: bytes) -> tuple[TextEvent, tuple[str, ...]] | None:
    """The event in damaged text after as few mending steps as it takes; all of the text must belong to it."""
    if len(text) > _LARGEST_MENDED or overwritten(text):
        return None
    for mended, kinds in mended_texts(text):
        found = None if silently_damaged(mended) else decoded_event(mended)
        if found is not None and not mended[found[1] :].strip(b" \t\r\n\0,"):
            return found[0], tuple(dict.fromkeys((*kinds, *found[2])))
    return None


# ---------------------------------------------------------------- a damaged header


def mend_object(text: bytes) -> tuple[dict[str, Any], bool]:
    """(members of a damaged JSON object, whether all of them could be read)."""
    for mended, _ in mended_texts(text):
        try:
            value = msgspec.json.decode(mended)
        except DECODE_ERRORS:
            continue
        if isinstance(value, dict):
            return value, True
    return _readable_members(text), False


def _readable_members(text: bytes) -> dict[str, Any]:
    """Those members of a damaged object that can be read by themselves."""
    out: dict[str, Any] = {}
    for member in members(text)[:_LARGEST_MEMBERS]:
        for candidate, _ in ((b"{" + member + b"}", ()), *mended_texts(b"{" + member + b"}")):
            try:
                value = msgspec.json.decode(candidate)
            except DECODE_ERRORS:
                continue
            if isinstance(value, dict):
                out.update(value)
                break
    return out


def members(text: bytes) -> list[bytes]:
    """The texts ``"key": value`` of an object's members: cut at its own commas. An unfinished last one is among them."""
    out, depth, begin, at = [], 0, 0, 0
    while match := _MEMBER_TOKEN.search(text, at):
        token, at = match.group(), match.end()
        if token in (b"{", b"["):
            depth += 1
            begin = at if depth == 1 else begin
        elif token in (b"}", b"]"):
            depth -= 1
        if depth == 0 or (depth == 1 and token == b","):
            out.append(text[begin : match.start()])
            begin = at
        if depth == 0:
            return out
    out.append(text[begin:])
    return out


_MEMBER_TOKEN = re.compile(TOKEN.pattern + rb"|,", re.DOTALL)
