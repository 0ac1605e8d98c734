"""Options that several commands share, reading a trace with progress, and writing results."""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lanewise.cli.texts import TEXTS
from lanewise.errors import UsageError
from lanewise.translations import LANGUAGES, default_language

if TYPE_CHECKING:
    from lanewise.loading import Progress, Window
    from lanewise.model.trace import Trace

__all__ = [
    "REPORT_SUFFIXES",
    "check_writable",
    "force_option",
    "form_of",
    "form_option",
    "lang_option",
    "open_trace",
    "quiet_option",
    "reading",
    "screen",
    "trace_argument",
    "window_options",
    "write_bytes",
    "write_text",
]

F = TypeVar("F", bound=Callable[..., Any])

# What a file's suffix decides where a report or a comparison is written.
REPORT_SUFFIXES = {".html": "html", ".json": "json", ".md": "md", ".txt": "terminal"}
# Loads that take less say nothing.
_PATIENCE_S = 1.0
_DEFAULT_WIDTH = 80
# Lines longer than this are harder to read than wrapped ones.
_WIDEST = 120


def trace_argument(command: F) -> F:
    """TRACE: a path, a URL or ``-``."""
    return click.argument("trace", metavar="TRACE")(command)


def lang_option(command: F) -> F:
    """``--lang``: None leaves it to the locale."""
    option = click.option(
        "--lang",
        type=click.Choice(LANGUAGES),
        callback=lambda ctx, _param, value: value or ctx.find_root().params.get("lang") or default_language(),
        help="Language of the output.  [default: the locale's]",
    )
    return option(command)


def form_option(*forms: str, default: str | None = "terminal") -> Callable[[F], F]:
    """``--format``, handed on as ``form``.

    Args:
        forms: what there is to choose from.
        default: None where a file's suffix may decide, see `form_of`.
    """
    text = "Format of the output.  [default: terminal]"
    return click.option("--format", "form", type=click.Choice(forms), default=default, help=text)


def quiet_option(command: F) -> F:
    """``--quiet``."""
    return click.option("-q", "--quiet", is_flag=True, help="No progress and no remarks on standard error.")(command)


def force_option(command: F) -> F:
    """``--force``."""
    return click.option("--force", is_flag=True, help="Replace the output file if it exists.")(command)


def window_options(command: F) -> F:
    """``--steps``, ``--from`` and ``--to``, handed on as one ``window`` (None for the whole trace)."""

    @functools.wraps(command)
    def with_window(*args: Any, steps: str | None, begin: str | None, end: str | None, **kwargs: Any) -> Any:
        from lanewise.loading.window import window_of

        return command(*args, window=window_of(steps, begin, end), **kwargs)

    steps = click.option("--steps", metavar="A[-B]", help="Read only these steps, by their numbers.")
    begin = click.option(
        "--from", "begin", metavar="TIME", help="Read from here on: µs after the trace's start, 1.5ms, or absolute with @."
    )
    end = click.option("--to", "end", metavar="TIME", help="Read up to here.")
    decorated: Any = steps(begin(end(with_window)))
    return decorated


def open_trace(path: str, *, quiet: bool, lang: str, window: Window | None = None, stays: bool = False) -> Trace:
    """Load a trace, or a window of it, with progress on a terminal where it takes long; `stays`: for a process that goes on."""
    from lanewise.cli.memory import keep_freed_memory
    from lanewise.loading import load

    if not stays:
        keep_freed_memory()
    with reading(path, quiet=quiet, lang=lang, passes=1 if window is None else 2) as progress:
        return load(path, progress=progress, window=window)


@contextmanager
def reading(path: str, *, quiet: bool, lang: str, passes: int = 1, key: str = "reading") -> Iterator[Progress | None]:
    """Progress of reading a file on standard error; None where nobody would see it. It is gone when reading ends."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    meter = _Meter(TEXTS(key, lang, name=os.path.basename(path)), passes)
    try:
        yield meter
    finally:
        meter.close()


class _Meter:
    """A line of progress, drawn once reading has taken some time; each pass over the file fills its part."""

    def __init__(self, text: str, passes: int) -> None:
        self._text = text
        self._passes = passes
        self._done = 0
        self._last = 0
        self._begun = time.monotonic()
        self._bar: Any = None
        self._task: Any = None

    def __call__(self, position: int, total: int | None) -> None:
        if position < self._last:  # the next pass
            self._done += 1
        self._last = position
        whole = None if total is None else total * self._passes
        at = position if total is None else position + total * min(self._done, self._passes - 1)
        if self._bar is None:
            if time.monotonic() - self._begun < _PATIENCE_S:
                return
            self._open(whole)
        self._bar.update(self._task, completed=at, total=whole)

    def _open(self, total: int | None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._bar.start()
        self._task = self._bar.add_task(self._text, total=total)

    def close(self) -> None:
        """Take the line away."""
        if self._bar is not None:
            self._bar.stop()


def screen() -> tuple[int, bool]:
    """Width and colour of standard output: the terminal's, or 80 and none when piped.

    NO_COLOR (any value) turns colours off, FORCE_COLOR turns them on; COLUMNS decides the width where it is set.
    """
    terminal = sys.stdout.isatty()
    color = terminal and os.environ.get("TERM") != "dumb"
    if os.environ.get("FORCE_COLOR"):
        color = True
    if os.environ.get("NO_COLOR"):
        color = False
    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit() and int(columns) > 0:
        return int(columns), color
    width = _DEFAULT_WIDTH
    if terminal:
        try:
            width = os.get_terminal_size(sys.stdout.fileno()).columns
        except OSError:
            width = _DEFAULT_WIDTH
    return min(width or _DEFAULT_WIDTH, _WIDEST), color


def write_text(text: str, out: str | None, *, force: bool) -> None:
    """Write a result to a file, or to standard output without one."""
    if out is not None:
        write_bytes(text.encode("utf-8"), out, force=force)
        return
    sys.stdout.write(text)


def write_bytes(data: bytes, out: str, *, force: bool) -> None:
    """Write a file, whole or not at all."""
    check_writable(out, force=force)
    path = Path(os.path.realpath(out))  # a link stays a link
    partial = path.with_name(path.name + ".partial")
    try:
        if path.exists() and not path.is_file():  # a device or a pipe, which must not be replaced by a file
            path.write_bytes(data)
            return
        partial.write_bytes(data)
        partial.replace(path)
    except OSError as why:
        partial.unlink(missing_ok=True)
        raise UsageError(out, TEXTS.message("not-written", why=why.strerror or str(why))) from why


def check_writable(out: str, *, force: bool) -> None:
    """Raise a UsageError for a folder, and for a file that is there and may not be replaced."""
    path = Path(out)
    if path.is_dir():
        raise UsageError(out, TEXTS.message("is-folder"), TEXTS.message("is-folder-next"))
    if path.is_file() and not force:
        raise UsageError(out, TEXTS.message("exists"), TEXTS.message("exists-next"))


def form_of(out: str | None, form: str | None, suffixes: dict[str, str], default: str) -> str:
    """The form of the output: as asked for, else by the file's suffix, else the default of standard output.

    Args:
        out: the output file.
        form: what ``--format`` says.
        suffixes: suffix to form.
        default: where there is no file.

    Raises:
        UsageError: a file whose suffix says nothing.
    """
    if form is not None:
        return form
    if out is None:
        return default
    if Path(out).is_dir():
        raise UsageError(out, TEXTS.message("is-folder"), TEXTS.message("is-folder-next"))
    found = suffixes.get(Path(out).suffix.lower())
    if found is None:
        raise UsageError(out, TEXTS.message("suffix"), TEXTS.message("suffix-next", suffixes=", ".join(suffixes)))
    return found
