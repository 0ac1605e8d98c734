"""What came of expectations: a row each, with what was wanted, what was found and the evidence."""

from __future__ import annotations

from msgspec import Struct, field

from lanewise.document import Document

__all__ = ["SCHEMA", "STATUSES", "Outcome", "Outcomes"]

SCHEMA = "lanewise.expectations/1"
STATUSES = ("held", "breached", "not-checked")


class Outcome(Struct, frozen=True):
    """One expectation and what came of it.

    Attributes:
        where: section of the file: ``step``, ``annotation.NAME``, ``trace``, ``ratio`` or ``baseline``.
        key: what was expected something of; ``kernels.gemm`` for an entry of a table.
        wanted: what was expected, as the file has it.
        status: ``held``, ``breached`` or ``not-checked``.
        found: what the trace shows, in words; None where it does not tell.
        evidence: lines that show it: ops, kernels, places in the code.
        reason: why it was not checked, or what to know about the figure.
    """

    where: str
    key: str
    wanted: str
    status: str
    found: str | None = None
    evidence: list[str] = field(default_factory=list)
    reason: str | None = None


class Outcomes(Document, frozen=True):
    """All outcomes of one trace.

    Attributes:
        schema: name and version of the document's form.
        trace: the trace.
        source: the file of the expectations.
        steps: what "a step" stands for, in words.
        rows: one row an expectation, in the order of the file.
    """

    schema: str
    trace: str
    source: str
    steps: str
    rows: list[Outcome]

    def of(self, *statuses: str) -> list[Outcome]:
        """Rows of some statuses."""
        return [r for r in self.rows if r.status in statuses]

    def failed(self, strict: bool = False) -> bool:
        """Whether an expectation is breached; when strict, also whether one could not be checked."""
        return bool(self.of("breached", *(["not-checked"] if strict else [])))
