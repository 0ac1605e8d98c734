"""``lanewise view``: the report with the whole trace behind it, in a browser on this machine."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lanewise.cli import options
from lanewise.cli.texts import TEXTS
from lanewise.errors import UsageError

if TYPE_CHECKING:
    from lanewise.viewing.server import LocalServer

__all__ = ["command"]


@click.command("view", short_help="Look at a trace in the browser, with its timeline.")
@click.argument("traces", metavar="TRACE [TRACE ...]", nargs=-1, required=True)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port to listen on.  [default: a free one]")
@click.option("--no-browser", is_flag=True, help="Only print the address.")
@click.option("--perfetto", is_flag=True, help="Open the trace in ui.perfetto.dev, which reads it from this machine.")
@options.lang_option
@options.quiet_option
def command(traces: tuple[str, ...], port: int, no_browser: bool, perfetto: bool, lang: str, quiet: bool) -> None:
    """Show TRACE in the browser: the report with a timeline that has every event.

    The server listens on 127.0.0.1 only, its address holds a random token, and it reads no other file than those given.
    The page loads again when the file changes. Ctrl-C ends it.

    \b
    lanewise view trace.json.gz
    lanewise view rank0.json.gz rank1.json.gz
    lanewise view trace.json.gz --perfetto
    """
    for path in traces:
        if not Path(path).is_file():
            raise UsageError(path, TEXTS.message("not-a-file"), TEXTS.message("not-a-file-next"))
    if perfetto:
        _perfetto(traces, no_browser, lang, quiet)
        return
    from lanewise.viewing import Server, Shown

    shown = []
    for path in traces:
        if not quiet:
            click.echo(TEXTS("reading", lang, name=Path(path).name), err=True)
        shown.append(Shown(path, lang))
    try:
        server = Server(shown, port)
    except OSError as why:
        raise UsageError("--port", TEXTS.message("port-taken", port=port), TEXTS.message("port-taken-next")) from why
    _serve(server, server.url, no_browser, lang, quiet)


def _perfetto(traces: tuple[str, ...], no_browser: bool, lang: str, quiet: bool) -> None:
    from lanewise.viewing.perfetto import PORT, PerfettoServer

    if len(traces) > 1:
        raise UsageError("--perfetto", TEXTS.message("one-trace"), TEXTS.message("one-trace-next"))
    path = Path(traces[0])
    data = _exported(str(path), lang, quiet)
    try:
        server = PerfettoServer(data, f"{path.name.removesuffix('.gz')}.gz")
    except OSError as why:
        raise UsageError("--perfetto", TEXTS.message("port-taken", port=PORT), TEXTS.message("perfetto-port-next")) from why
    _serve(server, server.link, no_browser, lang, quiet)


def _exported(path: str, lang: str, quiet: bool) -> bytes:
    """The copy for Perfetto, compressed."""
    import tempfile

    from lanewise.explaining import explain
    from lanewise.viewing.perfetto_trace import export

    loaded = options.open_trace(path, quiet=quiet, lang=lang, stays=True)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "trace.json.gz"
        export(loaded, explain(loaded, lang), copy, source=path)
        return copy.read_bytes()


def _serve(server: LocalServer, address: str, no_browser: bool, lang: str, quiet: bool) -> None:
    """Serve until Ctrl-C or a polite kill."""
    over = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: over.set())
    server.start()
    click.echo(address)
    if not quiet:
        click.echo(TEXTS("view-ends", lang), err=True)
    if not no_browser:
        import webbrowser

        webbrowser.open(address)
    try:
        # Waiting with a limit lets signals through on every system.
        while not over.wait(0.5):
            pass
    finally:
        server.stop()
