"""Brings the recorder into a Python process that `lanewise record` started, directly or through launchers.

Python imports `sitecustomize` before it runs a program, and this folder is first on PYTHONPATH then. It takes
itself out of `sys.path`, runs the `sitecustomize` that would have been found without it, and waits for torch
to be imported. A process that never imports torch is left alone, and whatever goes wrong here is kept from
the program.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import Any

_here = os.path.dirname(os.path.abspath(__file__))


def _load(name: str, path: str, search: Any = None) -> Any:
    """A module from its file, whatever `sys.path` says."""
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=search)
    if spec is None or spec.loader is None:
        raise ImportError(name)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _chain() -> None:
    """Run the `sitecustomize` that this one hides."""
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != _here]
    ours = sys.modules.pop("sitecustomize")
    try:
        __import__("sitecustomize")
    except ImportError as error:
        if getattr(error, "name", None) != "sitecustomize":
            raise
    finally:
        sys.modules.setdefault("sitecustomize", ours)  # the import that is under way expects one


def _say(error: object) -> None:
    sys.stderr.write("lanewise: this process is not recorded: %r\n" % (error,))  # noqa: UP031 - for old Pythons


def _attach(_torch: object) -> None:
    """Start the recorder; lanewise comes from where it runs, if this interpreter has none of its own."""
    try:
        package = os.path.dirname(os.path.dirname(_here))
        if "lanewise" not in sys.modules and importlib.util.find_spec("lanewise") is None:
            _load("lanewise", os.path.join(package, "__init__.py"), [package])
        from lanewise.recording.attach import attach

        attach()
    except Exception as error:  # noqa: BLE001 - the program must run whatever happens to its recording
        _say(error)


if os.environ.get("LANEWISE_RECORD") and sys.version_info >= (3, 10):
    try:
        imports = _load("_lanewise_imports", os.path.join(os.path.dirname(_here), "imports.py"))
        imports.when_imported("torch", _attach)
    except Exception as error:  # noqa: BLE001 - the same, and it is said
        _say(error)
_chain()
