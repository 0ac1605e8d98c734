"""Called ops, copies between host and GPU, waits, stretches without launches."""

from __future__ import annotations

import numpy as np
import pytest

from builder import TraceBuilder
from lanewise.analyses.called_ops import called_ops
from lanewise.analyses.copies import host_copies
from lanewise.analyses.cpu_activity import activities, allocation_calls, blocking_calls
from lanewise.analyses.host_syncs import SYNC_KINDS, copy_waits, host_syncs
from lanewise.analyses.quiet_times import quiet_times, recorded_holes
from lanewise.analyses.replay import replay


def test_called_op_is_the_outermost_of_a_library() -> None:
    t = TraceBuilder()
    t.annotation("forward", 0, 100)
    t.op("aten::linear", 5, 50)
    t.op("aten::addmm", 10, 40)
    t.launch(20, 5, gpu=(30, 10))
    t.op("autograd::engine::evaluate_function: AddmmBackward0", 200, 60, tid=2)
    t.op("AddmmBackward0", 205, 50, tid=2)
    t.op("aten::mm", 210, 20, tid=2)
    t.launch(215, 5, gpu=(225, 10), tid=2)
    t.call("cudaDeviceSynchronize", 110, 5)
    trace = t.load()
    called = trace.analysis(called_ops)
    assert [trace.name_of(int(e)) for e in called.event] == ["aten::linear", "aten::mm"]
    assert called.kernels.tolist() == [1, 1]
    assert [trace.name_of(int(called.event[c])) for c in called.of_row] == ["aten::linear", "aten::mm"]
    outside = [e for e in range(len(trace)) if trace.name_of(e) in ("forward", "cudaDeviceSynchronize")]
    assert (called.of_event[outside] == -1).all()


def copies() -> TraceBuilder:
    """A large copy from pageable memory, a staged one, a pinned one, and one out."""
    t = TraceBuilder()
    where = {"cat": "gpu_memcpy", "call": "cudaMemcpyAsync"}
    t.op("aten::copy_", 0, 130)
    t.launch(5, 110, gpu=(20, 100), name="Memcpy HtoD (Pageable -> Device)", bytes=1 << 20, **where)
    t.call("cudaStreamSynchronize", 116, 4)
    t.op("aten::copy_", 140, 30)
    t.launch(145, 5, gpu=(152, 1), name="Memcpy HtoD (Pageable -> Device)", bytes=64, **where)
    t.call("cudaStreamSynchronize", 151, 6)
    t.op("aten::copy_", 180, 10)
    t.launch(182, 5, gpu=(190, 40), name="Memcpy HtoD (Pinned -> Device)", bytes=2_000_000, **where)
    t.op("aten::item", 200, 60)
    t.launch(205, 5, gpu=(230, 1), name="Memcpy DtoH (Device -> Pinned)", bytes=4, **where)
    t.call("cudaStreamSynchronize", 211, 24)
    return t


def test_copies_by_way_memory_and_what_waits() -> None:
    trace = copies().load()
    found = trace.analysis(host_copies)
    assert found.to_gpu.tolist() == [True, True, True, False]
    assert found.pageable.tolist() == [True, True, False, False]
    assert found.pinned.tolist() == [False, False, True, True]
    assert found.held.tolist() == [True, False, False, False]
    assert found.bytes.tolist() == [1 << 20, 64, 2_000_000, 4]
    assert found.rate(to_gpu=True) == pytest.approx(2_000_000 / 40e-6)
    assert found.rate(to_gpu=False) is None
    place, waits = trace.analysis(copy_waits)
    assert place.tolist() == [0, 0, 1]
    assert [trace.name_of(int(w)) for w in waits] == ["cudaMemcpyAsync", "cudaStreamSynchronize", "cudaStreamSynchronize"]


def test_large_pageable_copy_waits_but_is_no_synchronisation() -> None:
    trace = copies().load()
    names = [trace.name_of(int(e)) for e in trace.analysis(blocking_calls)]
    assert names == ["cudaMemcpyAsync", *["cudaStreamSynchronize"] * 3]
    starts, ends = trace.analysis(activities).by_name["sync"]
    assert (ends - starts).tolist() == [4000, 6000, 24000]


def test_copies_of_other_vendors() -> None:
    t = TraceBuilder()
    t.launch(0, 5, gpu=(10, 5), name="Memcpy HtoD (Host -> Device)", cat="gpu_memcpy", call="hipMemcpyAsync")
    t.launch(20, 5, gpu=(30, 5), name="CopyDeviceToHost", cat="gpu_memcpy", call="hipMemcpyAsync")
    t.launch(40, 5, gpu=(50, 5), name="Memcpy DtoD (Device -> Device)", cat="gpu_memcpy", call="cudaMemcpyAsync")
    found = t.load().analysis(host_copies)
    assert found.to_gpu.tolist() == [True, False]
    assert not found.pageable.any()
    assert found.bytes.tolist() == [-1, -1]


def test_waits_of_the_allocator_and_of_compilation_are_not_the_programs() -> None:
    t = TraceBuilder()
    t.launch(0, 2, gpu=(5, 2))
    t.call("cudaDeviceSynchronize", 10, 20)
    t.call("cudaFree", 31, 20)
    t.op("_compile.compile_inner (dynamo_timed)", 60, 100)
    t.call("cudaDeviceSynchronize", 70, 20)
    t.call("cudaDeviceSynchronize", 200, 20)
    trace = t.load()
    syncs = trace.analysis(host_syncs)
    assert trace.ts[syncs.waits].tolist() == [200_000]
    assert [SYNC_KINDS[k] for k in syncs.kind] == ["explicit"]
    assert (syncs.begin == syncs.end).all()
    assert [trace.name_of(int(e)) for e in trace.analysis(allocation_calls)] == ["cudaFree"]


def test_stretches_without_a_launch() -> None:
    t = TraceBuilder()
    t.step(0, 0, 1000)
    t.op("aten::add", 300, 50)
    t.launch(310, 5, gpu=(320, 5))
    t.op("aten::view", 400, 20)
    t.op("aten::to", 700, 50)
    t.launch(710, 5, gpu=(720, 5), name="Memcpy HtoD (Pinned -> Device)", cat="gpu_memcpy", call="cudaMemcpyAsync")
    trace = t.load()
    quiet = trace.analysis(quiet_times)
    assert list(zip(quiet.begin // 1000, quiet.end // 1000, strict=True)) == [(0, 300), (350, 700), (750, 1000)]
    assert quiet.first.tolist() == [True, False, False]
    assert quiet.to_copy.tolist() == [False, True, False]
    assert quiet.next_call[2] == -1
    holes = recorded_holes(trace, (quiet.begin, quiet.end))
    assert list(zip(holes[0] // 1000, holes[1] // 1000, strict=True)) == [(0, 300), (350, 400), (420, 700), (750, 1000)]


def test_annotation_that_holds_nothing_is_no_hole() -> None:
    t = TraceBuilder()
    t.step(0, 0, 100)
    t.annotation("fetch", 10, 30)
    t.annotation("forward", 50, 50)
    t.op("aten::add", 60, 10)
    t.launch(62, 2, gpu=(70, 1))
    trace = t.load()
    window = (np.array([0]), np.array([100_000]))
    starts, ends = recorded_holes(trace, window)
    assert list(zip(starts // 1000, ends // 1000, strict=True)) == [(0, 10), (40, 60), (70, 100)]


def test_replay_of_waits_that_return_late() -> None:
    """Steps of one launch and one wait: the kernel runs 50 us, the call returns 6 us after it."""
    t = TraceBuilder()
    for i in range(4):
        s = i * 100
        t.step(i, s, 99)
        t.op("aten::add", s + 10, 10)
        t.launch(s + 12, 4, gpu=(s + 20, 50))
        t.call("cudaDeviceSynchronize", s + 21, 55)
    found = t.load().analysis(replay)
    assert found is not None
    assert found.return_ns == 6_000
    assert found.base_ns == 100_000
