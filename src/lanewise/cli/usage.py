"""What click finds wrong with a command line, in the words of the other messages and in both languages."""

from __future__ import annotations

import re

import click

from lanewise.cli.texts import TEXTS
from lanewise.translations import Message

__all__ = ["usage_text"]

# What click's own messages say, by what they are about; the groups are the slots of the text.
_SAID: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("too-many", re.compile(r"Got unexpected extra arguments? \((?P<words>.*)\)\Z", re.DOTALL)),
    ("needs-value", re.compile(r"Option '(?P<name>.*)' requires an argument\.\Z")),
    ("no-value", re.compile(r"Option '(?P<name>.*)' does not take a value\.\Z")),
    ("bad-choice", re.compile(r"(?P<value>'.*') is not (?:one of )?(?P<choices>'.*')\.\Z")),
    ("bad-range", re.compile(r"(?P<value>.*) is not in the range (?P<range>.*)\.\Z")),
    ("bad-number", re.compile(r"(?P<value>'.*') is not a valid (?:integer|float)(?: range)?\.\Z")),
)


def usage_text(error: click.ClickException, lang: str) -> str:
    """What is wrong, and where to read on."""
    text = _fact(error, lang)
    ctx = getattr(error, "ctx", None)
    if ctx is None or ctx.parent is None:
        return text
    gap = "" if text.endswith("。") else " "
    return f"{text}{gap}{TEXTS('see-help', lang, command=ctx.command_path)}"


def _fact(error: click.ClickException, lang: str) -> str:
    if isinstance(error, click.MissingParameter):
        return TEXTS("missing", lang, name=_name_of(error))
    if isinstance(error, click.NoSuchOption):
        known = [o for o in error.possibilities or [] if o != "--help"]
        key = "no-option-near" if known else "no-option"
        return TEXTS(key, lang, name=error.option_name, near=", ".join(known))
    said = error.message.text(lang) if isinstance(error.message, Message) else _translated(error.message, lang)
    return f"{_name_of(error)}: {said}" if isinstance(error, click.BadParameter) and error.param is not None else said


def _name_of(error: click.BadParameter) -> str:
    """``TRACE``, or an option by its longest name."""
    if error.param is None:
        return str(error.param_hint or "")
    if error.param.param_type_name == "option":
        return max(error.param.opts, key=len)
    return error.param.make_metavar(error.ctx) if error.ctx is not None else str(error.param.name).upper()


def _translated(message: str, lang: str) -> str:
    for key, pattern in _SAID:
        found = pattern.match(message)
        if found is not None:
            return TEXTS(key, lang, **found.groupdict())
    return message
