"""The report: one versioned document that every renderer, the viewer, comparison and expectations read, and nothing else.

One file a part of it. Times are microseconds with three decimals (`_us`), ratios 0 to 1 (`_ratio`), sizes bytes; None is "not
known", never 0.
"""

from __future__ import annotations

from .diagnosis import BoundNumbers, Check, Evidence, Finding, Verdict, WhereRow
from .document import SCHEMA, Report
from .limits import CeilingRow, KernelLimitRow, LaunchShape, LimitTimes, Roofline, StepLimitRow
from .rows import GpuRow, KernelRow, OpRow, StreamRow
from .source import CoverageSection, Device, TraceSection, TraceWarning
from .steps import StepRow, StepSection, usual_step
from .times import us

__all__ = [
    "SCHEMA",
    "BoundNumbers",
    "CeilingRow",
    "Check",
    "CoverageSection",
    "Device",
    "Evidence",
    "Finding",
    "GpuRow",
    "KernelLimitRow",
    "KernelRow",
    "LaunchShape",
    "LimitTimes",
    "OpRow",
    "Report",
    "Roofline",
    "StepLimitRow",
    "StepRow",
    "StepSection",
    "StreamRow",
    "TraceSection",
    "TraceWarning",
    "Verdict",
    "WhereRow",
    "us",
    "usual_step",
]
