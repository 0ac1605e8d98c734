"""Our ops and kernels beside torch's own ``key_averages()`` table of the same capture.

The tables agree but for these, each of which is asserted here:

- Annotations have a second row in torch's table for their span on the GPU. That is no GPU work, and no row here.
- torch adds up the totals of ops of one name that are inside one another; here the outermost counts once.
- torch counts a kernel twice whose launch filled the profiler's buffer: once for the op, once for the "Activity Buffer Request"
  inside it, whose own GPU time is then also in the totals of everything around it.
- torch leaves out GPU ops that an annotation launched with no op in between, as when a CUDA graph is replayed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import lanewise
from lanewise.analyses.call_tree import op_tree
from lanewise.analyses.tables import kernel_table, op_table, op_times
from lanewise.model.schema import CATEGORY_CODES
from lanewise.model.trace import Trace
from places import DATA, SHARED

_UNITS = {"us": 1, "ms": 1_000, "s": 1_000_000}
_BUFFER = "Activity Buffer Request"


@dataclass(frozen=True)
class Shown:
    """A time as the table shows it: three decimals of its unit."""

    us: float
    unit_us: int

    def equals(self, ns: float) -> bool:
        return abs(self.us - ns / 1e3) <= 0.0005001 * self.unit_us + 1e-6


@dataclass(frozen=True)
class TorchRow:
    name: str
    cpu_self: Shown
    cpu_total: Shown
    gpu_self: Shown
    gpu_total: Shown
    count: int


@dataclass(frozen=True)
class OpSums:
    """Sums over all ops of a name, nested ones too; ns."""

    count: int
    own: int
    total: int
    gpu_own: int
    gpu_total: int
    left_out: int


def _shown(text: str) -> Shown:
    match = re.fullmatch(r"([\d.]+)(us|ms|s)", text)
    assert match is not None, text
    unit = _UNITS[match[2]]
    return Shown(float(match[1]) * unit, unit)


def torch_rows(path: Path) -> list[TorchRow]:
    """The rows of a table as torch prints it."""
    lines = path.read_text("utf-8").splitlines()
    columns = re.split(r"\s{2,}", next(line for line in lines if "# of Calls" in line).strip())
    rows = []
    for line in lines:
        cells = re.split(r"\s{2,}", line.strip())
        if len(cells) != len(columns) or cells[0] == "Name" or line.startswith("---"):
            continue
        row = dict(zip(columns, cells, strict=True))
        own, total, gpu_own, gpu_total = (_shown(row[c]) for c in ("Self CPU", "CPU total", "Self CUDA", "CUDA total"))
        rows.append(TorchRow(row["Name"], own, total, gpu_own, gpu_total, int(row["# of Calls"])))
    return rows


def our_sums(trace: Trace) -> dict[str, OpSums]:
    """Every op name's sums, steps under one name as in torch's table."""
    times, left_out = trace.analysis(op_times), _under_no_op(trace)
    names = np.array([re.sub(r"^ProfilerStep#\d+$", "ProfilerStep*", trace.name_of(int(e))) for e in times.event], dtype=object)
    out = {}
    for name in dict.fromkeys(names):
        some = names == name
        values = (times.own, times.total, times.gpu_own, times.gpu_total, left_out)
        out[name] = OpSums(int(some.sum()), *(int(v[some].sum()) for v in values))
    return out


def _under_no_op(trace: Trace) -> npt.NDArray[np.int64]:
    """In each op of `op_times`, time of GPU ops that annotations launched by themselves."""
    tree, times = trace.analysis(op_tree), trace.analysis(op_times)
    own = np.zeros(len(trace), dtype=np.int64)
    annotation = trace.category[times.event] == CATEGORY_CODES["user_annotation"]
    own[times.event[annotation]] = times.gpu_own[annotation]
    total = np.zeros(len(trace), dtype=np.int64)
    total[tree.events] = tree.totals(own[tree.events])
    return total[times.event]


def _named(name: str, names: list[str]) -> list[str]:
    """Full names that a shown name can stand for: long ones are cut and end in dots."""
    return [n for n in names if n.startswith(name[:-3])] if name.endswith("...") else [n for n in names if n == name]


def _op_matches(row: TorchRow, sums: OpSums, counted_twice: Shown | None) -> bool:
    if row.count != sums.count or not row.cpu_self.equals(sums.own) or not row.cpu_total.equals(sums.total):
        return False
    if not row.gpu_self.equals(sums.gpu_own) and not (sums.left_out and row.gpu_self.us == 0):
        return False
    if row.gpu_total.equals(sums.gpu_total - sums.left_out):
        return True
    return counted_twice is not None and row.gpu_total.equals(sums.gpu_total - sums.left_out + counted_twice.us * 1e3)


def compare(trace_path: Path, table: Path) -> tuple[int, int]:
    """Check all rows of a table; numbers of op rows and kernel rows that were compared."""
    trace = lanewise.load(trace_path)
    sums, kernels = our_sums(trace), {k.name: k for k in kernel_table(trace)}
    rows = torch_rows(table)
    buffer = next((r.gpu_self for r in rows if r.name == _BUFFER and r.gpu_self.us), None)
    compared_ops = compared_kernels = 0
    for row in rows:
        on_cpu = row.cpu_total.us > 0
        ops, gpu = _named(row.name, list(sums)), _named(row.name, list(kernels))
        if on_cpu and ops:
            assert any(_op_matches(row, sums[n], buffer) for n in ops), (row, [sums[n] for n in ops])
            compared_ops += 1
        elif not on_cpu and gpu:
            assert any(kernels[n].count == row.count and row.gpu_self.equals(kernels[n].total_ns) for n in gpu), row
            compared_kernels += 1
        elif on_cpu:
            # Runtime and driver calls and the profiler's own time have rows of their own in torch's table only.
            assert row.name == _BUFFER or re.match(r"cu|hip|Lazy|Buffer|Runtime|Instrum|Command|Resource", row.name), row
        elif row.gpu_self.us:
            annotations = {r.name for r in op_table(trace) if r.cat == "user_annotation"}
            assert _named(row.name, list(annotations)), row
    return compared_ops, compared_kernels


def _tables(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.txt")) if folder.is_dir() else []


def _id(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


@pytest.mark.parametrize("table", _tables(DATA), ids=_id)
def test_shipped_trace(table: Path) -> None:
    n_ops, n_kernels = compare(table.with_suffix(".json.gz"), table)
    assert n_ops >= 2
    assert n_kernels >= 1


@pytest.mark.shared
@pytest.mark.parametrize("table", _tables(SHARED / "traces" / "h200"), ids=_id)
def test_shared_trace(table: Path) -> None:
    n_ops, n_kernels = compare(table.with_suffix(".json.gz"), table)
    assert n_ops >= 2
    assert n_kernels >= 1


def test_totals_of_ops_inside_themselves_count_the_outermost_only() -> None:
    trace = lanewise.load(DATA / "05_gpt_train" / "clean_eager.json.gz")
    row = next(r for r in op_table(trace) if r.name == "aten::linear")
    assert row.cpu_total_ns < our_sums(trace)["aten::linear"].total  # torch's table has the larger one
    times = trace.analysis(op_times)
    linear = np.array([trace.name_of(int(e)) == "aten::linear" for e in times.event])
    assert row.cpu_total_ns == times.total[linear & times.outermost].sum()
    assert row.count == linear.sum()
