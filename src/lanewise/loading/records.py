"""What one event looks like in the file, as typed records: only the fields that lanewise reads.

Types are wide where exporters differ (ids as numbers or as text), so that no sound file fails to decode. Shapes stay text
(`msgspec.Raw`) until somebody asks for them.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct, field

__all__ = [
    "ARGS_FIELDS",
    "EXACT_FLOAT_US",
    "LONGEST_US",
    "NOTHING",
    "Args",
    "Event",
    "TextEvent",
    "event_decoder",
    "text_event_decoder",
]

Number = int | float | str | None
# msgspec has no union of Raw and null: an absent field is this, a null is Raw("null").
NOTHING = Raw(b"")
_NO_SIZE = (-1, -1, -1)

# Below this many microseconds a double keeps whole nanoseconds: its spacing is 2^-10 us, so it is wrong by at most 0.49 ns.
# Kineto's offsets from baseTimeNanoseconds stay below 8e12; epoch microseconds (1.7e15) do not fit.
EXACT_FLOAT_US = float(2**43)
# A duration beyond a year is none: a negative one as an unsigned number, or a number out of a damaged file. It is left out, so
# that sums of durations fit into int64.
LONGEST_US = 366 * 86400 * 1e6


class Args(Struct, gc=False):
    """The arguments of an event; -1 stands for a number that is not there, so that columns need no second look."""

    correlation: Number = -1
    external_id: Number = field(default=-1, name="External id")
    old_external_id: Number = field(default=-1, name="external id")
    # GPU ops
    device: Number = -1
    stream: Number = -1
    bytes: Number = -1
    grid: Any = _NO_SIZE
    block: Any = _NO_SIZE
    registers: Number = field(default=-1, name="registers per thread")
    shared_memory: Number = field(default=-1, name="shared memory")
    occupancy: Number = field(default=None, name="est. achieved occupancy %")
    graph_node: Number = field(default=-1, name="graph node id")
    # CPU ops
    sequence: Number = field(default=-1, name="Sequence number")
    forward_thread: Number = field(default=-1, name="Fwd thread id")
    dims: Raw = field(default=NOTHING, name="Input Dims")
    types: Raw = field(default=NOTHING, name="Input type")
    strides: Raw = field(default=NOTHING, name="Input Strides")
    concrete: Raw = field(default=NOTHING, name="Concrete Inputs")
    call_stack: str | None = field(default=None, name="Call stack")
    # Python frames
    python_id: Number = field(default=-1, name="Python id")
    python_parent: Number = field(default=-1, name="Python parent id")
    python_module: Number = field(default=-1, name="Python module id")
    # collectives
    collective: str | None = field(default=None, name="Collective name")
    in_elements: Number = field(default=-1, name="In msg nelems")
    out_elements: Number = field(default=-1, name="Out msg nelems")
    dtype: str | None = None
    group_size: Number = field(default=-1, name="Group size")
    group_name: str | None = field(default=None, name="Process Group Name")
    group_text: str | None = field(default=None, name="Process Group Description")
    # synchronisation records
    sync_kind: str | None = field(default=None, name="cuda_sync_kind")
    wait_stream: Number = field(default=-1, name="wait_on_stream")
    wait_record: Number = field(default=-1, name="wait_on_cuda_event_record_corr_id")
    # memory events
    memory_bytes: Number = field(default=-1, name="Bytes")
    address: Number = field(default=-1, name="Addr")
    device_type: Number = field(default=-1, name="Device Type")
    device_id: Number = field(default=-1, name="Device Id")
    total_allocated: Number = field(default=-1, name="Total Allocated")
    total_reserved: Number = field(default=-1, name="Total Reserved")
    # names of processes and threads
    name: Any = None
    labels: Any = None


class Event(Struct, gc=False):
    """One entry of ``traceEvents``; times are microseconds."""

    ph: str | None = None
    cat: str | None = None
    name: str | None = None
    pid: Number = None
    tid: Number = None
    ts: float | None = None
    dur: float | None = None
    id: Number = None
    args: Args | None = None


class TextEvent(Struct, gc=False):
    """The same with the timestamp kept as text, for times that a double cannot hold to the nanosecond."""

    ph: str | None = None
    cat: str | None = None
    name: str | None = None
    pid: Number = None
    tid: Number = None
    ts: Raw = NOTHING
    dur: float | None = None
    id: Number = None
    args: Args | None = None


ARGS_FIELDS: dict[str, str] = {f.encode_name: f.name for f in msgspec.structs.fields(Args)}

event_decoder = msgspec.json.Decoder(list[Event])
text_event_decoder = msgspec.json.Decoder(list[TextEvent])
