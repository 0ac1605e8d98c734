"""The whole document, and its version."""

from __future__ import annotations

from lanewise.document import Document

from .diagnosis import Check, Finding, Verdict, WhereRow
from .limits import Roofline
from .rows import GpuRow, KernelRow, OpRow
from .source import CoverageSection, TraceSection
from .steps import StepRow, StepSection

__all__ = ["SCHEMA", "Report"]

SCHEMA = "lanewise.report/1"


class Report(Document, frozen=True):
    """The whole document.

    Attributes:
        schema: name and version of the document's form.
        generator: ``lanewise`` and its version.
        lang: language of the texts.
        trace: what was read.
        coverage: how much of the GPU's work it shows.
        gpu: one row a GPU with work.
        step: what one step costs.
        steps: one row a step.
        ops: one row an op name.
        kernels: one row a GPU op name.
        verdict: what bounds the step.
        where: where a usual step's time goes.
        findings: one row a problem found, the dearest first.
        checks: one row a rule.
        roofline: distance from the card's limits.
    """

    schema: str
    generator: str
    lang: str
    trace: TraceSection
    coverage: CoverageSection
    gpu: list[GpuRow]
    step: StepSection
    steps: list[StepRow]
    ops: list[OpRow]
    kernels: list[KernelRow]
    verdict: Verdict
    where: list[WhereRow]
    findings: list[Finding]
    checks: list[Check]
    roofline: Roofline | None = None

    def __repr__(self) -> str:
        """What it is about, in a line: a notebook shows this, and the whole is thousands of rows."""
        found = ", ".join(f.id for f in self.findings if not f.good) or "none"
        return f"<Report on {self.trace.path}: {self.verdict.text} Findings: {found}.>"
