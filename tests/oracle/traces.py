"""Small and nasty traces, each made from its number alone.

A trace has a style (how its profiler spelled and timed things), some threads with nested and overlapping ops, calls, GPU work
on several streams and devices, perhaps steps; and, now and then, each of the oddities of `oddities.py`.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from .oddities import ODDITIES
from .writing import Number, Raw, document

OPS = ("aten::mm", "aten::add", "aten::linear", "aten::to", "aten::copy_", "AddmmBackward0", "triton_poi_fused_add_0")
ANNOTATIONS = ("forward", "Optimizer.step#SGD.step", "aten::mm", "nccl:all_reduce")
COMPUTE = ("sgemm_128x64_nn", "void at::native::vectorized_elementwise_kernel<4>", "triton_poi_fused_add_0", "my_ncclish_gemm")
COLLECTIVES = (
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWork)",
    "void vllm::cross_device_reduce_2stage<__nv_bfloat16, 8>(vllm::RankData*, int)",
)
COPIES = ("Memcpy HtoD (Pinned -> Device)", "Memcpy DtoD (Device -> Device)", "Memcpy DtoH (Device -> Pageable)")
CALLS = {
    "cuda": {
        "kernel": ("cudaLaunchKernel", "cudaLaunchKernelExC", "cudaLaunchCooperativeKernel", "somethingNew"),
        "gpu_memcpy": ("cudaMemcpyAsync", "cudaMemcpy2DAsync"),
        "gpu_memset": ("cudaMemsetAsync",),
        "graph": ("cudaGraphLaunch",),
        "other": ("cudaEventRecord", "cudaStreamIsCapturing", "cudaMalloc", "cudaStreamSynchronize", "cudaFuncSetAttribute"),
    },
    "hip": {
        "kernel": ("hipLaunchKernel", "hipExtModuleLaunchKernel", "hipModuleLaunchKernel", "hipExtLaunchKernel"),
        "gpu_memcpy": ("hipMemcpyWithStream", "hipMemcpyAsync"),
        "gpu_memset": ("hipMemsetAsync",),
        "graph": ("hipGraphLaunch",),
        "other": ("hipEventRecord", "hipStreamSynchronize", "hipGetDeviceProperties"),
    },
}
DRIVER = ("cuLaunchKernel", "cuLaunchKernelEx")
OLD = {
    "cpu_op": "Operator",
    "user_annotation": "Operator",
    "cuda_runtime": "Runtime",
    "cuda_driver": "Runtime",
    "kernel": "Kernel",
    "gpu_memcpy": "Memcpy",
    "gpu_memset": "Memset",
    "python_function": "python_function",
}


@dataclass
class Style:
    """How times and names are written."""

    base: int  # ns added to every time
    grain: int  # ns between times that can be told apart
    old: bool = False
    calls: str = "cuda"
    header: Raw = field(default_factory=dict)


def _style(rng: random.Random) -> Style:
    calls = rng.choice(("cuda", "cuda", "hip"))
    versions: Raw = {"cuda_runtime_version": 12080, "cuda_driver_version": 13000}
    if calls == "hip":
        versions = {"hip_runtime_version": 60342134, "roctracer_version": "4.1"}
    modern: Raw = {"schemaVersion": 1, "baseTimeNanoseconds": 1759309200000000000, **versions}
    return rng.choice(
        (
            Style(4172930551000123, 1, header=modern, calls=calls),
            Style(4172930551000123, 1, header=modern, calls=calls),
            Style(1712195495505582988 + rng.randrange(1000), 1, header={"schemaVersion": 1}, calls=calls),
            Style(1694128201439000000, 1000, header={"schemaVersion": 1}, calls=calls),
            Style(1623143089861000000, 1000, old=True),
            Style(0, 1, header=modern, calls=calls),
            Style(0, 500, calls=calls),
            Style(-40_000, 1, header=modern, calls=calls),
        )
    )


class Maker:
    """One trace in the making; times are in ns from its own 0 until they are written."""

    def __init__(self, number: int) -> None:
        self.rng = random.Random(number)
        self.style = _style(self.rng)
        self.events: list[Raw] = []
        self.graphs: list[list[str]] = []
        self.ids = self.rng.randrange(1, 50)
        self.external = self.rng.randrange(1, 50)
        self.gpu_free: dict[tuple[int, int], int] = {}
        self.devices = self.rng.choice((1, 1, 1, 2))
        self.odd = {name for name in ODDITIES if self.chance(0.12)}
        self.truncate = self.chance(0.05)

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def time(self, low: int, high: int) -> int:
        """A time between two others, often one of them."""
        if self.chance(0.12):
            return self.rng.choice((low, high))
        grain = self.style.grain
        return min(max(self.rng.randint(low, max(low, high)) // grain * grain, low), high)

    def span(self, low: int, high: int) -> tuple[int, int]:
        a, b = sorted((self.time(low, high), self.time(low, high)))
        return (a, a) if self.chance(0.04) else (a, b)

    def event(self, cat: str, name: str, start: int, end: int, pid: Any, tid: Any, args: Raw) -> Raw:
        out = {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": start, "dur": end - start, "args": args}
        self.events.append(out)
        return out

    # ---- the CPU
    def op(self, low: int, high: int, lane: tuple[int, int], depth: int) -> None:
        start, end = self.span(low, high)
        note = self.chance(0.2)
        self.external += 1
        args: Raw = {"External id": self.external, "Ev Idx": self.external}
        if self.chance(0.1):
            args["Input Dims"] = [[8, 8], []]
        name = self.rng.choice(ANNOTATIONS if note else OPS)
        self.event("user_annotation" if note else "cpu_op", name, start, end, *lane, args)
        mine = self.external
        if self.chance(0.15):
            self.event("python_function", "nn.Module: Linear_0", *self.span(start, end), *lane, {"Python id": mine})
        self.inside(start, end, lane, depth + 1, mine)

    def inside(self, low: int, high: int, lane: tuple[int, int], depth: int, owner: int) -> None:
        at = low
        for _ in range(self.rng.choice((0, 1, 1, 2, 3))):
            if at > high:
                return
            if "overlap" in self.odd and self.chance(0.3):
                at = max(low, at - (high - low) // 4)
            piece = (at, self.time(at, high))
            if depth < 4 and self.chance(0.55):
                self.op(*piece, lane, depth)
            else:
                self.call(*piece, lane, owner)
            at = piece[1]

    # ---- calls and what they start
    def call(self, low: int, high: int, lane: tuple[int, int], owner: int | None) -> None:
        names = CALLS[self.style.calls]
        kind = self.rng.choice(("kernel", "kernel", "kernel", "gpu_memcpy", "gpu_memset", "graph", "other"))
        start, end = self.span(low, high)
        if "long calls" in self.odd and self.chance(0.3):
            end += self.time(1, 3000)
        self.ids += self.rng.choice((1, 1, 2, 7))
        args: Raw = {"cbid": 211, "correlation": self.ids}
        if owner is not None and not self.chance(0.1):
            args["External id"] = owner
        driver = kind == "kernel" and self.style.calls == "cuda" and self.chance(0.2)
        name = self.rng.choice(DRIVER if driver else names[kind])
        self.event("cuda_driver" if driver else "cuda_runtime", name, start, end, *lane, args)
        if kind == "kernel" and not driver and self.style.calls == "cuda" and self.chance(0.2):
            inner = dict(args)
            if self.chance(0.2):
                self.ids += 1
                args = inner = {**args, "correlation": self.ids}
            self.event("cuda_driver", self.rng.choice(DRIVER), *self.span(start, end), *lane, inner)
        if kind != "other" and not ("lost work" in self.odd and self.chance(0.3)):
            self.work(kind, start, args)

    def work(self, kind: str, called: int, args: Raw) -> None:
        device, stream = self.rng.randrange(self.devices), self.rng.choice((7, 7, 7, 20))
        if kind != "graph":
            self.gpu_op(kind, called, device, stream, args)
            return
        if not self.graphs or self.chance(0.4):
            self.graphs.append([self.rng.choice(("kernel", "kernel", "gpu_memcpy")) for _ in range(self.rng.randint(2, 4))])
        graph = self.rng.randrange(len(self.graphs))
        for node, cat in enumerate(self.graphs[graph]):
            if "lost nodes" in self.odd and self.chance(0.2):
                continue
            more = {} if "no nodes" in self.odd else {"graph node id": 1000 * graph + node + 1}
            self.gpu_op(cat, called, device, stream, {**args, **more})

    def gpu_op(self, cat: str, called: int, device: int, stream: int, args: Raw) -> None:
        begin = max(called + self.time(0, 4000), self.gpu_free.get((device, stream), called))
        if "skew" in self.odd and self.chance(0.3):
            begin = called - self.time(0, 3000)
        if "overlap" in self.odd and self.chance(0.2):
            begin = called
        end = begin + self.time(0, 9000)
        if "impossible" in self.odd and self.chance(0.3):
            end = begin + 100_000_000 + self.time(0, 2_000_000)
        else:
            self.gpu_free[device, stream] = end
        name = {"gpu_memset": "Memset (Device)", "gpu_memcpy": self.rng.choice(COPIES)}.get(cat)
        name = name or self.rng.choice(COLLECTIVES if self.chance(0.2) else COMPUTE)
        more: Raw = {"device": device, "stream": stream}
        if cat != "kernel":
            more["bytes"] = self.rng.choice((0, 4, 4096))
        if "bare lanes" in self.odd:
            more = {}
        elif self.chance(0.02):
            more = {"device": str(device), "stream": str(stream)}
        kept = {k: v for k, v in args.items() if k != "cbid"}
        tid = f"stream {stream}" if self.style.old else stream
        self.event(cat, name, begin, end, device, tid, {**kept, **more})

    # ---- steps, and what the profiler adds
    def steps(self, length: int, lane: tuple[int, int]) -> None:
        kind = self.rng.choice(("none", "marks", "marks", "marks", "other marks", "single"))
        count = self.rng.randint(1, 4)
        name = "ProfilerStep#{}" if kind == "marks" else self.rng.choice(("step {}", "execute_context_1(8)_generation_{}(4)"))
        start = at = self.time(0, length // 4)
        for number in range(count if kind != "single" else 1):
            if kind == "none":
                break
            end = self.time(at, at + length // count) + self.style.grain
            self.external += 1
            args = {"External id": self.external}
            self.event("user_annotation", name.format(number + 2), at, end, *lane, args)
            if self.chance(0.3):
                self.event("gpu_user_annotation", name.format(number + 2), at + 3000, end + 3000, 0, 7, {})
            if "step copies" in self.odd:
                self.event("user_annotation", name.format(number + 2), at, end, lane[0], lane[1] + 1, dict(args))
            at = end + (0 if self.chance(0.7) else self.time(0, 3000))
            if "step overlap" in self.odd:
                at = max(start + self.style.grain, at - self.time(0, length // 8))
            start = at

    def extras(self, length: int, lane: tuple[int, int]) -> None:
        spot = self.time(0, length)
        if self.chance(0.2):
            self.event("overhead", "Activity Buffer Request", *self.span(0, length), -1, 0, {})
        if self.chance(0.2):
            sync = {"device": 0, "stream": 7, "correlation": self.ids, "cuda_sync_kind": "Stream Sync"}
            self.event("cuda_sync", "Stream Sync", *self.span(0, length), 0, 7, sync)
        if self.chance(0.3):
            self.events += [
                {"ph": "s", "id": 3, "pid": lane[0], "tid": lane[1], "ts": spot, "cat": "fwdbwd", "name": "fwdbwd"},
                {"ph": "f", "id": 3, "pid": 0, "tid": 7, "ts": spot, "cat": "ac2g", "name": "ac2g", "bp": "e"},
                {"ph": "i", "s": "t", "name": "[memory]", "pid": lane[0], "tid": lane[1], "ts": spot, "args": {"Bytes": 512}},
                {"ph": "C", "name": "power", "pid": 0, "tid": 0, "ts": spot, "args": {"W": 300}},
                {"ph": "M", "name": "process_name", "pid": lane[0], "tid": 0, "args": {"name": "python"}},
            ]
        if self.chance(0.3):
            span = self.event(
                "Trace", "PyTorch Profiler (0)", -9000, length + 9000, "Spans", "PyTorch Profiler", {"Op count": 0}
            )
            self.events.append({**span, "ph": "i", "s": "g", "name": "Record Window End", "cat": "", "dur": None})
        if self.chance(0.1):
            self.event("a new kind", "what is this", *self.span(0, length), *lane, {})
        for name in sorted(self.odd):
            for _ in range(self.rng.randint(1, 3)):
                ODDITIES[name](self)

    def crowd(self, begin: int, lane: tuple[int, int]) -> None:
        """About a hundred launches, of which one or two may be lost: what counts is their share."""
        lost = set(self.rng.sample(range(95), self.rng.choice((0, 1, 1, 2))))
        for i in range(self.rng.choice((95, 99, 100, 101))):
            self.ids += 1
            args: Raw = {"cbid": 211, "correlation": self.ids}
            kind = self.rng.choice(("kernel", "graph")) if i in lost else "kernel"
            name = CALLS[self.style.calls][kind][0]
            self.event("cuda_runtime", name, begin + i * 1000, begin + i * 1000 + 500, *lane, args)
            if i not in lost:
                self.gpu_op("kernel", begin + i * 1000, 0, 7, args)

    def fill(self) -> None:
        length = self.rng.choice((20_000, 100_000, 100_000, 1_000_000))
        pid = self.rng.choice((100, 2317, 0))
        lanes = [(pid, pid + i) for i in range(self.rng.choice((1, 1, 2, 3)))]
        if self.chance(0.1):
            lanes.append((pid + 1, pid))
        self.steps(length, lanes[0])
        for lane in lanes:
            self.inside(0, length, lane, 0, 0)
            if self.chance(0.5):
                self.inside(length // 2, length, lane, 0, 0)
        if self.chance(0.85):
            self.call(0, length, lanes[-1], None)
        if self.chance(0.06):
            self.odd.clear()
            self.crowd(length, lanes[0])
        self.extras(length, lanes[0])

    # ---- writing
    def text(self, ns: Any) -> Any:
        """A time as the style writes it; what is no number stays."""
        if not isinstance(ns, int) or isinstance(ns, bool):
            return ns
        us, rest = divmod(abs(ns), 1000)
        sign = "-" if ns < 0 else ""
        if rest == 0 and (self.style.grain >= 1000 or self.chance(0.05)):
            return Number(f"{sign}{us}")
        if "odd numbers" in self.odd and self.chance(0.1):
            return Number(f"{sign}{us * 1000 + rest}{self.rng.choice(('e-3', 'E-03', '.0e-3'))}")
        return Number(f"{sign}{us}.{rest:03d}")

    def written(self, event: Raw) -> Raw:
        out = dict(event)
        if self.style.old and out.get("cat") in OLD:
            out["cat"] = OLD[out["cat"]]
            if "External id" in (out.get("args") or {}) and "correlation" in out["args"]:
                out["args"] = {("external id" if k == "External id" else k): v for k, v in out["args"].items()}
        if isinstance(out.get("ts"), int) and not isinstance(out["ts"], bool):
            out["ts"] = self.text(out["ts"] + self.style.base)
        if "dur" in out:
            out["dur"] = self.text(out["dur"])
        return out

    def data(self) -> bytes:
        self.fill()
        header: Raw = dict(self.style.header)
        if self.chance(0.6):
            header["deviceProperties"] = [{"id": 0, "name": "NVIDIA H200", "numSms": 132}]
        if self.chance(0.2):
            header["distributedInfo"] = {"backend": "nccl", "rank": 3, "world_size": 8, "nccl_version": "2.28.9"}
        if self.chance(0.1):
            header["lanewise"] = {"schema": "lanewise.recording/1", "unprofiled_step_us": {"median": 12.5, "steps": 10}}
        if self.chance(0.25):
            self.rng.shuffle(self.events)
        events = [self.written(e) for e in self.events]
        return document(header, events, self.rng, cut=self.truncate, array=not header and self.chance(0.2))


def before_kineto(rng: random.Random) -> bytes:
    """A trace as `torch.autograd.profiler` wrote it in 2019: a bare array, no categories, arrows from ops to kernels."""
    events: list[Raw] = []

    def op(low: int, high: int, depth: int) -> None:
        start, end = sorted((rng.randint(low, high), rng.randint(low, high)))
        name = rng.choice(OPS[:4])
        lane: Raw = {"tid": 1 + depth % 2 * (rng.random() < 0.1), "pid": "CPU functions"}
        events.append({"name": f"    {name}", "ph": "X", "ts": start, "dur": end - start, **lane, "args": {}})
        for _ in range(rng.choice((0, 0, 1, 2))):
            begin, number, gpu = (
                end + rng.randint(0, 5000),
                len(events),
                {"tid": rng.choice((0, 0, 1)), "pid": "CUDA functions"},
            )
            arrow: Raw = {"id": number, "cat": "cpu_to_cuda", "args": {}}
            kernel = rng.choice((*COMPUTE, *COLLECTIVES[:1]))
            events.append({"name": name, "ph": "s", "ts": start, **lane, **arrow})
            events.append({"name": kernel, "ph": "f", "ts": begin, **gpu, **arrow})
            events.append({"name": kernel, "ph": "X", "ts": begin, "dur": rng.randint(0, 9000), **gpu, "args": {}})
        for _ in range(rng.choice((0, 1, 2)) if depth < 3 else 0):
            op(start, end, depth + 1)

    for low in range(1000, 90_000, 30_000):
        op(low, low + 25_000, 0)
    times = {"ts", "dur"}
    written = [{k: Number(f"{v / 1000:.3f}") if k in times else v for k, v in e.items()} for e in events]
    return document({}, written, rng, array=True)


def trace(number: int) -> bytes:
    """The trace of a number."""
    return before_kineto(random.Random(number)) if number % 25 == 24 else Maker(number).data()
