"""What every versioned document of this package can do: become JSON text or plain data, and be read back."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

__all__ = ["Document"]

_D = TypeVar("_D", bound="Document")


class Document(msgspec.Struct, frozen=True):
    """A document without keys of its own; its kinds add `schema` and the rest."""

    def to_json(self, *, indent: int | None = None) -> str:
        """The document as JSON text (no NaN, no Infinity)."""
        data = msgspec.json.encode(self)
        return (data if indent is None else msgspec.json.format(data, indent=indent)).decode()

    def to_dict(self) -> dict[str, Any]:
        """The document as plain dicts and lists."""
        result: dict[str, Any] = msgspec.to_builtins(self)
        return result

    @classmethod
    def from_json(cls: type[_D], text: str | bytes) -> _D:
        """A document out of its JSON text; raises msgspec.ValidationError for one of another kind."""
        return msgspec.json.decode(text, type=cls)
