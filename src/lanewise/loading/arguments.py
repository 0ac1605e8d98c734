"""The arguments of events as columns: one growing table for each group of categories."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Raw

from .numbering import Numbering, Numbers
from .records import NOTHING, Args
from .values import LARGEST_STREAM, MOST_DEVICES, Codes, Floats, Integers, Triples, integers, ratios, within

__all__ = ["TABLES", "Collectives", "Table", "args_of", "known_args"]

Array = npt.NDArray[Any]
_INT32 = 2**31
_DEFAULTS: dict[str, Any] = {f.name: f.default for f in msgspec.structs.fields(Args)}


class Table(Protocol):
    """The columns of one table."""

    def __init__(self, numbers: Numbers) -> None: ...

    def add(self, args: list[Any]) -> None:
        """Take in the arguments of some events."""

    def columns(self) -> dict[str, Array]:
        """All columns (n,)."""


class _External(Integers):
    """External ids; traces of 2021 spell them in lower case."""

    def add(self, values: list[Any]) -> None:
        """Take in those of some arguments."""
        ids = [a.external_id for a in values]
        if ids[0] == -1 and ids.count(-1) == len(ids):
            ids = [a.old_external_id for a in values]
        super().add(ids)


class GpuOps:
    """Kernels, copies and memsets."""

    def __init__(self, numbers: Numbers) -> None:
        self._external = _External()
        self._correlation, self._device, self._stream, self._bytes = Integers(), Integers(), Integers(), Integers()
        self._grid, self._block = Triples(), Triples()
        self._registers, self._shared_memory, self._graph_node = Integers(), Integers(), Integers()
        self._occupancy = Floats()

    def add(self, args: list[Any]) -> None:
        """Take in the arguments of some events."""
        self._external.add(args)
        self._correlation.add([a.correlation for a in args])
        self._device.add([a.device for a in args])
        self._stream.add([a.stream for a in args])
        self._bytes.add([a.bytes for a in args])
        self._grid.add([a.grid for a in args])
        self._block.add([a.block for a in args])
        self._registers.add([a.registers for a in args])
        self._shared_memory.add([a.shared_memory for a in args])
        self._occupancy.add([a.occupancy for a in args])
        self._graph_node.add([a.graph_node for a in args])

    def columns(self) -> dict[str, Array]:
        """All columns (n,)."""
        grid, block = self._grid.column, self._block.column
        return {
            "correlation": self._correlation.column,
            "external_id": self._external.column,
            "device": within(self._device.column, MOST_DEVICES),
            "stream": within(self._stream.column, LARGEST_STREAM),
            "bytes": self._bytes.column,
            "grid_x": grid[:, 0],
            "grid_y": grid[:, 1],
            "grid_z": grid[:, 2],
            "block_x": block[:, 0],
            "block_y": block[:, 1],
            "block_z": block[:, 2],
            "registers": within(self._registers.column, _INT32).astype(np.int32),
            "shared_memory": within(self._shared_memory.column, _INT32).astype(np.int32),
            "occupancy": ratios(self._occupancy.column),
            "graph_node": self._graph_node.column,
        }


class Calls:
    """Runtime and driver calls."""

    def __init__(self, numbers: Numbers) -> None:
        self._correlation, self._external = Integers(), _External()

    def add(self, args: list[Any]) -> None:
        """Take in the arguments of some events."""
        self._correlation.add([a.correlation for a in args])
        self._external.add(args)

    def columns(self) -> dict[str, Array]:
        """All columns (n,)."""
        return {"correlation": self._correlation.column, "external_id": self._external.column}


class CpuOps:
    """Ops and annotations with their inputs."""

    def __init__(self, numbers: Numbers) -> None:
        self._strings = numbers.strings
        self._external, self._sequence, self._forward_thread = _External(), Integers(), Integers()
        self._inputs, self._stacks = Codes(numbers.inputs), Codes(Numbering())

    def add(self, args: list[Any]) -> None:
        """Take in the arguments of some events."""
        self._external.add(args)
        self._sequence.add([a.sequence for a in args])
        self._forward_thread.add([a.forward_thread for a in args])
        self._stacks.add([a.call_stack for a in args])
        dims, types = [a.dims for a in args], [a.types for a in args]
        if dims.count(NOTHING) == len(args) and types.count(NOTHING) == len(args):
            self._inputs.add_missing(len(args))
        else:
            self._inputs.add(_signatures(args))

    def columns(self) -> dict[str, Array]:
        """All columns (n,)."""
        return {
            "external_id": self._external.column,
            "sequence": self._sequence.column,
            "forward_thread": self._forward_thread.column,
            "inputs": self._inputs.column,
            "call_stack": self._stacks.renumbered(self._strings),
        }


def _signatures(args: list[Any]) -> list[Any]:
    """The inputs of ops, as text; None where nothing was recorded."""
    return [
        None
        if a.dims is NOTHING and a.types is NOTHING
        else (bytes(a.dims) or None, bytes(a.types) or None, bytes(a.strides) or None, bytes(a.concrete) or None)
        for a in args
    ]


class PythonFrames:
    """Python frames and module calls."""

    def __init__(self, numbers: Numbers) -> None:
        self._id, self._parent, self._module = Integers(), Integers(), Integers()

    def add(self, args: list[Any]) -> None:
        """Take in the arguments of some events."""
        self._id.add([a.python_id for a in args])
        self._parent.add([a.python_parent for a in args])
        self._module.add([a.python_module for a in args])

    def columns(self) -> dict[str, Array]:
        """All columns (n,)."""
        return {"python_id": self._id.column, "python_parent": self._parent.column, "python_module": self._module.column}


class Syncs:
    """Synchronisation records."""

    def __init__(self, numbers: Numbers) -> None:
        self._strings = numbers.strings
        self._correlation, self._device, self._stream = Integers(), Integers(), Integers()
        self._kind, self._wait_stream, self._wait_record = Codes(Numbering()), Integers(), Integers()

    def add(self, args: list[Any]) -> None:
        """Take in the arguments of some events."""
        self._correlation.add([a.correlation for a in args])
        self._device.add([a.device for a in args])
        self._stream.add([a.stream for a in args])
        self._kind.add([a.sync_kind for a in args])
        self._wait_stream.add([a.wait_stream for a in args])
        self._wait_record.add([a.wait_record for a in args])

    def columns(self) -> dict[str, Array]:
        """All columns (n,)."""
        return {
            "correlation": self._correlation.column,
            "device": within(self._device.column, MOST_DEVICES),
            "stream": within(self._stream.column, LARGEST_STREAM),
            "kind": self._kind.renumbered(self._strings),
            "wait_on_stream": self._wait_stream.column,
            "wait_on_record": self._wait_record.column,
        }


TABLES: dict[str, type[Table]] = {
    "gpu_ops": GpuOps,
    "calls": Calls,
    "cpu_ops": CpuOps,
    "python_frames": PythonFrames,
    "syncs": Syncs,
}


class Collectives:
    """Collectives, which carry their sizes on CPU ops (record_param_comms) and, since torch 2.4, on kernels too."""

    def __init__(self) -> None:
        self._rows: list[int] = []
        self._args: list[Any] = []

    def add(self, rows: list[int], args: list[Any]) -> None:
        """Take in what is one among some events, given with their rows."""
        names = [a.collective for a in args]
        if names.count(None) == len(names):
            return
        found = [i for i, name in enumerate(names) if name is not None]
        self._rows += [rows[i] for i in found]
        self._args += [args[i] for i in found]

    def columns(self, strings: Numbering) -> dict[str, Array]:
        """All columns (n,), or none when there are no collectives."""
        some = self._args
        if not some:
            return {}
        dtype, name, text = Codes(strings), Codes(strings), Codes(strings)
        columns = {
            "event": np.array(self._rows, dtype=np.int64),
            "collective": strings.codes([a.collective for a in some]),
            "in_elements": integers([a.in_elements for a in some]),
            "out_elements": integers([a.out_elements for a in some]),
        }
        dtype.add([a.dtype for a in some])
        name.add([a.group_name for a in some])
        text.add([a.group_text for a in some])
        return columns | {
            "dtype": dtype.column,
            "group_size": integers([a.group_size for a in some]),
            "group_name": name.column,
            "group_description": text.column,
        }


def known_args(args: Args | None) -> dict[str, Any] | None:
    """What some arguments say, by field, in little memory and free of the text that they came from."""
    found: dict[str, Any] = {}
    for name, default in _DEFAULTS.items() if args is not None else ():
        value = getattr(args, name)
        if isinstance(value, Raw):
            value = bytes(value)
            if value not in (b"", b"null"):
                found[name] = value
        elif value is not None and value != default:
            found[name] = value
    return found or None


def args_of(found: dict[str, Any]) -> Args:
    """Arguments that say what `known_args` found."""
    args = Args()
    for name, value in found.items():
        setattr(args, name, Raw(value) if isinstance(value, bytes) else value)
    return args
