"""Which process of a distributed run this is."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

__all__ = ["Ranks", "ranks"]


@dataclass(frozen=True)
class Ranks:
    """Rank, world size and local rank; 0, 1 and 0 where nothing is distributed."""

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0


def ranks() -> Ranks:
    """From the process group where there is one, else from the variables that launchers set (torchrun, Slurm, MPI)."""
    rank = _number("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
    world_size = _number("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
    local_rank = _number("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK")
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        rank = distributed.get_rank()
        world_size = distributed.get_world_size()
    return Ranks(rank or 0, world_size or 1, local_rank or 0)


def _number(*names: str) -> int | None:
    """The first of these variables that holds a number."""
    for name in names:
        value = os.environ.get(name, "")
        if value.isdigit():
            return int(value)
    return None
