"""How much arithmetic and memory traffic an op call stands for, from the shapes that Kineto records.

`estimate` answers for one call of the op that launched the kernels: operations (a multiply-add counts two)
and the least traffic with the GPU's memory (every input read once, every output written once). See
`docs/work.md` for the conventions.
"""

from __future__ import annotations

from .estimation import estimate, known_ops
from .lists import list_item_bytes
from .result import Work

__all__ = ["Work", "estimate", "known_ops", "list_item_bytes"]
