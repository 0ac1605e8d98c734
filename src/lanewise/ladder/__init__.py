"""The ladder: small workloads from two kernels to several GPUs, each a script that is a lesson and leaves a
trace.

The scripts are in the folder `ladder/`; here is what they share and what finds and runs them.
"""

from __future__ import annotations

from lanewise.ladder.lesson import Lesson
from lanewise.ladder.registry import RUNGS, rung_named, rung_title, script_path

__all__ = ["RUNGS", "Lesson", "rung_named", "rung_title", "script_path"]
