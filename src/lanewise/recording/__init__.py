"""Recording: traces of torch's profiler that cannot go wrong.

`record` is the one entry point for code; `lanewise record -- python train.py` needs none. torch is imported
only when something is recorded.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast, overload

from lanewise.errors import UsageError
from lanewise.recording.outcome import Recording
from lanewise.recording.plan import Plan
from lanewise.recording.recorder import Recorder
from lanewise.recording.texts import TEXTS
from lanewise.recording.writing import refuse_existing

__all__ = ["Plan", "Recorder", "Recording", "record", "recorded"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


@overload
def record(over: _Function, /) -> _Function: ...
@overload
def record(over: Any = None, /, **options: Any) -> Recorder: ...


def record(over: Any = None, /, **options: Any) -> Any:
    """Record some steps of what follows with torch's profiler::

        with lanewise.record() as rec:          # a block; rec.step() ends each step
            for batch in loader:
                train(batch)
                rec.step()

        for batch in lanewise.record(loader):   # each item is a step, the wait for it included
            train(batch)

        for _ in lanewise.record():             # exactly as many steps as are needed
            model(x)

        @lanewise.record                        # each call is a step
        def handle(request): ...

        @lanewise.record(active=5)              # the same with options
        def handle(request): ...

    By default 5 steps run untouched, 10 are timed without the profiler, 2 warm it up and 3 are recorded. The
    trace goes to `traces/`, with host, pid, rank and steps in its name, torch's table as `.txt` beside it.

    Args:
        over: what to iterate over, or the function to decorate.
        options: the fields of `Plan` (`skip`, `timed`, `warmup`, `active`, `whole`, `out`, `label`, `force`,
            `limit_bytes`, `ranks`, `shapes`, `stack`, `memory`, `flops`, `modules`), and `quiet` (say nothing
            on stderr).

    Returns:
        A `Recorder`: a context manager, an iterable and a decorator. For a function without options, the
        function.

    Raises:
        UsageError: an option is unknown or out of range, or the output exists and `force` is off.
    """
    quiet = bool(options.pop("quiet", False))
    try:
        plan = Plan(**options)
    except TypeError as error:
        raise UsageError("record", f"{error}.", TEXTS.message("bad-option-next")) from None
    refuse_existing(plan)
    announce = None if quiet else _say
    if callable(over) and not hasattr(over, "__iter__"):
        return recorded(over, Recorder(plan, source=_source_of(over), announce=announce))
    return Recorder(plan, over=over, source="step()" if over is None else "iteration", announce=announce)


def recorded(function: _Function, recorder: Recorder) -> _Function:
    """The function with each call marked as a step of the recorder."""
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            with recorder.call():
                return await function(*args, **kwargs)

        return cast("_Function", awaited)

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        if recorder.phase == "done":
            return function(*args, **kwargs)
        with recorder.call():
            return function(*args, **kwargs)

    return cast("_Function", called)


def _source_of(function: Any) -> str:
    return f"calls of {getattr(function, '__qualname__', type(function).__name__)}"


def _say(recording: Recording) -> None:
    """The notices of a finished recording on stderr."""
    import sys

    from lanewise.recording.texts import notice_text
    from lanewise.translations import default_language

    lang = default_language()
    for notice in recording.notices:
        sys.stderr.write(f"lanewise: {notice_text(notice, lang)}\n")
