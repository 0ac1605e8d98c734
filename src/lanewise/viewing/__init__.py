"""The viewer: a server on this machine alone that shows traces with all of their events."""

from __future__ import annotations

from .server import Server
from .shown import Shown

__all__ = ["Server", "Shown"]
