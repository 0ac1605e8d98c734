"""What can go wrong, as exceptions. Each message says what, where, and what to do next.

    LanewiseError
    ├── UsageError              wrong arguments, or a request that this trace cannot answer
    └── LoadError               a file that could not be read as a PyTorch trace
        ├── NotATraceError      some other kind of file; the message names the kind
        └── EmptyTraceError     nothing in it, or nothing that could be kept

A fact or next step that is a `lanewise.translations.Message` can be had in other languages too (`LanewiseError.text`).

The command line turns each of them into one message on stderr and exit status 2.
"""

from __future__ import annotations

from lanewise.translations import Message

__all__ = ["EmptyTraceError", "LanewiseError", "LoadError", "NotATraceError", "UsageError"]


class LanewiseError(Exception):
    """Base of all errors that lanewise raises on purpose.

    Args:
        subject: what the message is about: a file name, an option.
        fact: what is wrong with it.
        next_step: what the user can do about it; may be empty.
    """

    def __init__(self, subject: str, fact: str, next_step: str = "") -> None:
        self.subject = subject
        self.fact = fact
        self.next_step = next_step
        super().__init__(str(self))

    def __str__(self) -> str:
        return self.text("en")

    def text(self, lang: str) -> str:
        """The whole message in a language, as far as it is translated."""
        fact, next_step = _in_language(self.fact, lang), _in_language(self.next_step, lang)
        text = f"{self.subject}: {fact}" if self.subject else fact
        # Japanese sentences follow one another without a space.
        gap = "" if text.endswith(("。", "）")) else " "
        return f"{text}{gap}{next_step}" if next_step else text


def _in_language(text: str, lang: str) -> str:
    return text.text(lang) if isinstance(text, Message) else text


class UsageError(LanewiseError):
    """Wrong arguments, or a question that this trace cannot answer."""


class LoadError(LanewiseError):
    """A file that could not be read as a PyTorch trace."""


class NotATraceError(LoadError):
    """The file is of another kind, which the message names."""


class EmptyTraceError(LoadError):
    """There is nothing in the file, or nothing that could be kept."""
