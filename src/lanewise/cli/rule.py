"""``lanewise rule``: the page of a rule."""

from __future__ import annotations

import difflib

import click

from lanewise.cli import options
from lanewise.errors import UsageError

__all__ = ["command"]


@click.command("rule", short_help="What a finding means: why it costs time, how to fix it, how it is measured.")
@click.argument("rule_id", metavar="[ID]", required=False)
@options.form_option("terminal", "md")
@options.lang_option
def command(rule_id: str | None, form: str, lang: str) -> None:
    """Show the page of a rule, or without ID the list of all.

    \b
    lanewise rule                  all rules
    lanewise rule host-sync        one rule
    """
    from lanewise.rules import rules
    from lanewise.rules.pages import rule_page

    every = rules()
    if rule_id is None:
        width = max(len(r.id) for r in every)
        for r in every:
            click.echo(f"{r.id:{width}}  {r.catalog('name', lang)}")
        return
    found = next((r for r in every if r.id == rule_id.replace("_", "-")), None)
    if found is None:
        from lanewise.cli.texts import TEXTS

        near = difflib.get_close_matches(rule_id, [r.id for r in every], n=1)
        key = "near-rule" if near else "unknown-rule"
        raise UsageError("", TEXTS(key, lang, word=rule_id, near=near[0] if near else ""))
    page = rule_page(found, lang)
    if form == "terminal":
        from lanewise.rendering.rule_page import render

        width, color = options.screen()
        page = render(page, width=width, color=color)
    options.write_text(page, None, force=False)
