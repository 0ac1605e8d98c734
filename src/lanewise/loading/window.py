"""A part of a trace: some steps, or the time from one moment to another.

Events lie in a file in no order of time, so a part is found in two passes: `surveying.py` reads what a window is measured by
(span, step marks, calls, GPU ops), then a second reading keeps what belongs to it (`selection.py`).

What belongs to a window: all that happened on the CPU during it, also what began before or ended after it; the GPU ops that
calls within it started, whenever they ran; and the GPU ops of earlier calls that still ran then, since without them the GPU
would seem idle. Step marks that the window cuts are left out, for they would pass for whole steps.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lanewise.errors import UsageError

from .exact import ns_of_text
from .texts import TEXTS

__all__ = ["Moment", "Window", "moment_of", "window_of"]

_UNITS = {"": 1, "ns": 1e-3, "us": 1, "µs": 1, "μs": 1, "ms": 1e3, "s": 1e6}
_MOMENT = re.compile(r"\s*(@?)\s*(\d+(?:\.\d+)?)\s*([a-zµμ]*)\s*\Z")
_STEPS = re.compile(r"\s*(\d+)(?:\s*(?:-|\.\.|:)\s*(\d+))?\s*\Z")


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment in ns: counted from the trace's first event, or absolute as the file counts."""

    ns: int
    absolute: bool = False


@dataclass(frozen=True, slots=True)
class Window:
    """What part of a trace is wanted.

    Attributes:
        steps: first and last step, by their numbers.
        begin: where the window begins; None is the trace's start.
        end: where it ends; None is the trace's end.
        earlier: whether GPU ops of calls before the window that still ran in it belong to it.
    """

    steps: tuple[int, int] | None = None
    begin: Moment | None = None
    end: Moment | None = None
    earlier: bool = True


def window_of(steps: str | None = None, begin: str | None = None, end: str | None = None) -> Window | None:
    """A window from the texts of ``--steps``, ``--from`` and ``--to``; None when there are none.

    Args:
        steps: ``3`` or ``3-5``.
        begin, end: microseconds from the trace's first event, or with a unit (``12.5ms``), or absolute with ``@`` in front.

    Raises:
        UsageError: a text cannot be read, or steps and times are mixed, or the window is empty.
    """
    if steps is None and begin is None and end is None:
        return None
    if steps is not None:
        if begin is not None or end is not None:
            raise UsageError("--steps", TEXTS.message("steps-and-times"), TEXTS.message("steps-and-times-next"))
        match = _STEPS.match(steps)
        if match is None:
            raise UsageError("--steps", TEXTS.message("steps-form", text=steps), TEXTS.message("steps-form-next"))
        first = int(match.group(1))
        last = int(match.group(2) or first)
        if last < first:
            raise UsageError(
                "--steps",
                TEXTS.message("steps-backward", text=steps),
                TEXTS.message("steps-backward-next", first=first, last=last),
            )
        return Window(steps=(first, last))
    return Window(
        begin=None if begin is None else moment_of("--from", begin),
        end=None if end is None else moment_of("--to", end),
    )


def moment_of(option: str, text: str) -> Moment:
    """A moment from the text of an option.

    Raises:
        UsageError: the text is no time.
    """
    match = _MOMENT.match(text)
    scale = _UNITS.get(match.group(3)) if match else None
    ns = ns_of_text(match.group(2).encode()) if match else None
    if match is None or scale is None or ns is None:
        raise UsageError(option, TEXTS.message("time-form", text=text), TEXTS.message("time-form-next"))
    return Moment(ns if scale == 1 else round(ns * scale), match.group(1) == "@")
