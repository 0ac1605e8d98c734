#!/usr/bin/env python3
"""What each kernel costs per step, from a trace's tables: python examples/kernels_per_step.py [TRACE]"""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl

import lanewise


def kernels_per_step(trace: lanewise.Trace) -> pl.DataFrame:
    """Calls and microseconds per step of each kernel, copy and memset, the most expensive first."""
    steps = lanewise.explain(trace).step.count or 1
    times = trace.gpu_ops.join(trace.events, on="event")
    return (
        times.group_by(pl.col("name").cast(pl.String))
        .agg(per_step=pl.len() / steps, us_per_step=pl.col("dur").sum() / 1000 / steps)
        .sort("us_per_step", descending=True)
    )


if __name__ == "__main__":
    path = sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "mlp.json.gz"
    print(kernels_per_step(lanewise.load(path)).head(10))
