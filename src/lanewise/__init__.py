"""lanewise: why is this PyTorch program slow, and what is it worth to fix it?

    import lanewise

    trace = lanewise.load("trace.json.gz")
    print(trace.notes)                    # what to know before believing the numbers
    report = lanewise.explain(trace)      # the document that every renderer reads
    trace.events                          # a Polars frame of all timed events

Everything is loaded when first used, so that ``import lanewise`` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lanewise.errors import EmptyTraceError, LanewiseError, LoadError, NotATraceError, UsageError
    from lanewise.explaining import explain
    from lanewise.loading import load
    from lanewise.model.trace import Trace
    from lanewise.recording import record
    from lanewise.report import Finding, Report
    from lanewise.version import __version__

__all__ = [
    "EmptyTraceError",
    "Finding",
    "LanewiseError",
    "LoadError",
    "NotATraceError",
    "Report",
    "Trace",
    "UsageError",
    "__version__",
    "explain",
    "load",
    "record",
]

_HOME = {
    "EmptyTraceError": "lanewise.errors",
    "Finding": "lanewise.report",
    "LanewiseError": "lanewise.errors",
    "LoadError": "lanewise.errors",
    "NotATraceError": "lanewise.errors",
    "Report": "lanewise.report",
    "Trace": "lanewise.model.trace",
    "UsageError": "lanewise.errors",
    "__version__": "lanewise.version",
    "explain": "lanewise.explaining",
    "load": "lanewise.loading",
    "record": "lanewise.recording",
}


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'lanewise' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
