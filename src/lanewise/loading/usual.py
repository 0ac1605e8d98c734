"""Events of the usual form: one record a category, told apart by ``cat``, with only the fields that its table has.

Decoding into these takes two thirds of the time of `records.Event`, whose arguments are those of all categories. An event of
another form (no category or an unknown one, a phase that its category never has) does not decode, and is read as an `Event`;
the fields have the same names and meanings there.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Literal, Union

import msgspec
from msgspec import NODEFAULT, Raw, Struct, defstruct, field

from lanewise.model.schema import CATEGORIES, OTHER_CATEGORY

from .records import NOTHING, Args, Number

__all__ = ["LAUNCH_ARROWS", "Kind", "kinds", "usual_decoder"]

# Arrows from calls to GPU ops say what correlation ids say too; they are a third of all entries, and not kept.
LAUNCH_ARROWS = frozenset({"ac2g", "async_cpu_to_gpu", "async"})

_ArrowPhase = Literal["s", "f", "t"]
_Size = tuple[int, int, int]
_COLLECTIVE = ("collective", "in_elements", "out_elements", "dtype", "group_size", "group_name", "group_text")
# The arguments that each table is made of, in the order in which Kineto writes them: that is found fastest.
_ARGS: dict[str, tuple[str, ...]] = {
    "cpu_ops": (
        *("external_id", "sequence", "forward_thread", "concrete", "types", "strides", "dims"),
        *("old_external_id", "call_stack", *_COLLECTIVE),
    ),
    "gpu_ops": (
        *("external_id", "device", "stream", "correlation", "bytes", "registers", "shared_memory"),
        *("grid", "block", "occupancy", "graph_node", "old_external_id", *_COLLECTIVE),
    ),
    "calls": ("external_id", "correlation", "old_external_id"),
    "python_frames": ("python_id", "python_parent", "python_module"),
    "syncs": ("sync_kind", "stream", "correlation", "device", "wait_stream", "wait_record"),
}
_MEMORY_ARGS = ("total_reserved", "total_allocated", "memory_bytes", "address", "device_type", "device_id")


class Kind(msgspec.Struct, frozen=True):
    """What the events of one record are.

    Attributes:
        category: ``cat`` as in the file.
        span: whether they have a duration (phase ``X``).
        kept: whether they go into a table.
    """

    category: str
    span: bool = False
    kept: bool = True


@cache
def _args(table: str) -> Any:
    """The record of the arguments of one table's events."""
    names = _ARGS.get(table)
    return Args if names is None else _part_of_args(f"Args_{table}", names)


def _part_of_args(name: str, wanted: tuple[str, ...]) -> Any:
    """A record with some of the fields of `Args`; sizes of grids are of the usual form, too."""
    fields = {f.name: f for f in msgspec.structs.fields(Args)}
    parts = []
    for key in wanted:
        f = fields[key]
        default = None if f.default is NODEFAULT else f.default
        parts.append((key, _Size if key in ("grid", "block") else f.type, field(default=default, name=f.encode_name)))
    return defstruct(name, parts, gc=False)


def _record(kind: Kind, phase: Any, args: Any, time: tuple[Any, Any]) -> type[Struct]:
    """The record of one category; all fields of an `Event`, so that what is no event of the form is seen."""
    fields: list[Any] = [
        ("ph", phase),
        ("name", str | None, None),
        ("pid", Number, None),
        ("tid", Number, None),
        ("ts", *time),
        ("dur", float | None, None),
        ("args", args | None, None),
        ("id", Number, None),
    ]
    name = f"Usual_{kind.category}"
    return defstruct(name, fields, tag_field="cat", tag=kind.category, gc=False, namespace={"cat": kind.category})


def _records(time: tuple[Any, Any]) -> Iterator[tuple[type[Struct], Kind]]:
    """All records of the usual form, with their kinds."""
    for name, category in CATEGORIES.items():
        if name == OTHER_CATEGORY:
            continue
        for spelling in (name, *category.spellings):
            kind = Kind(spelling, span=True)
            yield _record(kind, Literal["X"], _args(category.table), time), kind
    for spelling in sorted(LAUNCH_ARROWS):
        kind = Kind(spelling, kept=False)
        yield _record(kind, _ArrowPhase, Args, time), kind
    for spelling in ("fwdbwd", "cpu_to_cuda"):
        kind = Kind(spelling)
        yield _record(kind, _ArrowPhase, Args, time), kind
    kind = Kind("cpu_instant_event")
    yield _record(kind, Literal["i"], _part_of_args("Args_memory", _MEMORY_ARGS), time), kind


_KINDS: dict[type[Any], Kind] = {}


@cache
def usual_decoder(text: bool) -> msgspec.json.Decoder[list[Any]]:
    """Decodes a list of events of the usual form, timestamps as numbers or as their text."""
    found = dict(_records((Raw, NOTHING) if text else (float | None, None)))
    _KINDS.update(found)
    union: Any = Union[tuple(found)]  # noqa: UP007  of as many types as there are
    return msgspec.json.Decoder(list[union])


def kinds() -> dict[type[Any], Kind]:
    """The kinds of all records that a `usual_decoder` has given."""
    return _KINDS
