"""Run something right after a module has been imported, without importing it.

Only the standard library, and nothing of lanewise: the bootstrap loads this file by its path into every
Python process that a recorded command starts.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["when_imported"]


class _Watcher:
    """A meta path finder that finds nothing itself: it lets the others find one module and adds to its loading."""

    def __init__(self, name: str, action: Callable[[Any], None]) -> None:
        self.name = name
        self.action = action
        self.asking = False

    def find_spec(self, name: str, _path: Any = None, _target: Any = None) -> Any:
        """The spec that the other finders give, with the action behind its loader's `exec_module`."""
        if name != self.name or self.asking:
            return None
        self.asking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.asking = False
        loader = getattr(spec, "loader", None)
        if loader is None or isinstance(loader, type) or not hasattr(loader, "exec_module"):
            return spec
        execute = loader.exec_module
        owned = "exec_module" in vars(loader)

        def exec_module(module: Any) -> None:
            # A loader may serve several modules, so it is left as it was as soon as this one comes.
            if module.__name__ != self.name:
                execute(module)
                return
            if owned:
                loader.exec_module = execute
            else:
                del loader.exec_module
            execute(module)
            self.remove()
            self.action(module)

        loader.exec_module = exec_module
        return spec

    def remove(self) -> None:
        """Watch no longer."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)


def when_imported(name: str, action: Callable[[Any], None]) -> Callable[[], None]:
    """Call `action` with a module once it has been imported, at once if it has.

    Returns:
        What ends the waiting.
    """
    module = sys.modules.get(name)
    if module is not None:
        action(module)
        return lambda: None
    watcher = _Watcher(name, action)
    sys.meta_path.insert(0, watcher)
    return watcher.remove
