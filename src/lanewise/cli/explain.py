"""``lanewise explain``: the report of a trace."""

from __future__ import annotations

import click

from lanewise.translations import LANGUAGES, default_language


@click.command("explain")
@click.argument("trace")
@click.option("--format", "form", type=click.Choice(["json"]), default="json", help="Form of the report.")
@click.option("--lang", type=click.Choice(LANGUAGES), default=None, help="Language of the report.")
def command(trace: str, form: str, lang: str | None) -> None:
    """What this trace shows, and why the step takes as long as it does."""
    from lanewise.explaining import explain
    from lanewise.loading import load

    click.echo(explain(load(trace), lang or default_language()).to_json())
