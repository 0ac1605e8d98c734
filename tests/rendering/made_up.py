"""Reports made up for tests: every section, every kind of finding and check, with known texts."""

from __future__ import annotations

from collections.abc import Callable

from lanewise.report import (
    SCHEMA,
    BoundNumbers,
    Check,
    CoverageSection,
    Device,
    Evidence,
    Finding,
    GpuRow,
    KernelRow,
    OpRow,
    Report,
    StepRow,
    StepSection,
    StreamRow,
    TraceSection,
    TraceWarning,
    Verdict,
    WhereRow,
)

LONG_KERNEL = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int)"
)

_TEXTS = {
    "verdict": {
        "en": "Launch-bound: the GPU works 4.00 ms of the 10.0 ms step and waits for launches the rest.",
        "ja": "起動律速です。GPU が動いているのは 1 ステップ 10.0 ms のうち 4.00 ms で、残りは起動を待っています。",
    },
    "title": {"en": "The loss is read back in every step", "ja": "毎ステップ、損失を CPU に読み戻しています"},
    "text": {
        "en": "aten::item waits for the GPU 3 times a step; after each wait the GPU has nothing to do for 700 µs, since the CPU"
        " has launched nothing ahead.",
        "ja": "aten::item が 1 ステップに 3 回 GPU を待ち、そのたびに GPU は 700 µs のあいだ空きます。"
        "CPU が先の処理を起動していないためです。",
    },
    "fix": {
        "en": "Keep the loss on the GPU (loss.detach()) and read it once in a hundred steps.",
        "ja": "損失は GPU に置いたまま（loss.detach()）にし、読み出しは 100 ステップに 1 回にしてください。",
    },
    "minor": {"en": "Copies from pageable memory", "ja": "ページ可能メモリからのコピー"},
    "minor-fix": {"en": "pin_memory=True", "ja": "pin_memory=True"},
    "good": {
        "en": "torch.compile fused 12 ops into 3 kernels",
        "ja": "torch.compile が 12 個の op を 3 個のカーネルに融合しました",
    },
    "reason": {"en": "input shapes were not recorded", "ja": "入力の形状が記録されていません"},
    "broken": {"en": "ZeroDivisionError", "ja": "ZeroDivisionError"},
    "warning": {
        "en": "2 GPU ops were launched before the recording began; they belong to no step.",
        "ja": "GPU 処理 2 件は記録の開始前に起動されたもので、どのステップにも属しません。",
    },
}


_OPS = [
    OpRow("train_step", "user_annotation", 3, 36_000.0, 900.0, 12_000.0, 0.0, 1200),
    OpRow("aten::addmm", "cpu_op", 300, 9_000.0, 6_000.0, 7_000.0, 7_000.0, 300),
    OpRow("aten::_scaled_dot_product_cudnn_attention_backward", "cpu_op", 36, 2_000.0, 800.0, 3_000.0, 2_500.0, 36),
    OpRow("aten::empty", "cpu_op", 900, 950.5, 950.5, 0.0, 0.0, 0),
]
_KERNELS = [
    KernelRow("nvjet_tst_128x256_64x4", "gemm", "GEMM bf16 128x256 +bias", 300, 7_000.0, 23.333, 23.0, ["aten::addmm"]),
    KernelRow(LONG_KERNEL, "elementwise", "element-wise add fp32", 900, 900.0, 1.0, 0.9, ["aten::add", "aten::add_"]),
    KernelRow("Memcpy HtoD (Pageable -> Device)", "memcpy-htod", "copy HtoD pageable", 3, 60.0, 20.0, 20.0, []),
]
_WHERE = [
    WhereRow("compute", 3_500.0, 0.35),
    WhereRow("communication", 300.0, 0.03),
    WhereRow("copy", 200.0, 0.02),
    WhereRow("idle_sync", 3_000.0, 0.30),
    WhereRow("idle_dispatch", 2_900.0, 0.29),
    WhereRow("idle_launch", 80.0, 0.008),
    WhereRow("idle_unknown", 20.0, 0.002),
]


def full_report(lang: str = "en") -> Report:
    """A training trace on two GPUs with two problems, good news, and checks of every outcome."""

    def text(key: str) -> str:
        return _TEXTS[key][lang]

    return Report(
        schema=SCHEMA,
        generator="lanewise 0",
        lang=lang,
        trace=_trace(text("warning")),
        coverage=CoverageSection(launches=1200, launches_linked=1199, gpu_ops=1202, gpu_ops_linked=1200, gpu_timing="ok"),
        gpu=[_gpu(0, 12_000.0), _gpu(1, 9_000.0)],
        step=StepSection(
            count=3,
            time_us=10_000.0,
            source="unprofiled",
            wall_us=12_000.0,
            gpu_busy_us=4_000.0,
            profiled_time_us=12_345.678,
            marks="ProfilerStep",
            unprofiled_steps=60,
        ),
        steps=[
            StepRow(f"ProfilerStep#{i}", i, 12_000.0, time, 4_000.0, 400, 380, 15, 5, 400, 1_000.0 * i)
            for i, time in ((2, 12_300.0), (3, 12_345.678), (4, 24_000.0))
        ],
        ops=_OPS,
        kernels=_KERNELS,
        verdict=Verdict(
            "launch",
            text("verdict"),
            [Evidence(5_185_884_705_100.0, 6.5, "thread 415 (python3)", "cudaLaunchKernel")],
            BoundNumbers(0.4, 4_000.0, 9_800.0, 2.5, 1.0, 1.3),
        ),
        where=_WHERE,
        findings=_findings(text),
        checks=_checks(text),
    )


def _trace(warning: str) -> TraceSection:
    return TraceSection(
        path="runs/2025-06-01/a-folder-with-a-long-name/gpt_train_rank1.pt.trace.json.gz",
        format="kineto",
        events=20_785,
        skipped_events=0,
        repaired_events=0,
        stray_events=0,
        truncated=False,
        span_us=36_345.678,
        ranks=[1],
        world_size=8,
        devices=[Device(0, "NVIDIA H200", 132), Device(1, "NVIDIA H200", 132), Device(2, "NVIDIA H200", 132)],
        capabilities=["cpu_ops", "gpu_events", "sequence", "steps"],
        warnings=[TraceWarning("launched-before", warning)],
        file_bytes=502_098,
        versions={"torch": "2.11.0", "CUDA": "13.0", "CUDA driver": "13.0"},
    )


def _gpu(device: int, busy: float) -> GpuRow:
    return GpuRow(
        device=device,
        name="NVIDIA H200",
        ops=601,
        busy_us=busy,
        idle_us=36_000.0 - busy,
        window_us=36_000.0,
        sum_us=busy + 500.0,
        compute_us=busy - 1_500.0,
        communication_us=1_000.0,
        copy_us=600.0,
        memset_us=0.0,
        exposed_communication_us=900.0,
        streams=[StreamRow(7, 590, busy - 700.0), StreamRow(20, 11, 1_000.0)],
    )


def _findings(text: Callable[[str], str]) -> list[Finding]:
    sync = [Evidence(5_185_884_705_018.347 + i, 700.0, "thread 415 (python3)", "cudaStreamSynchronize") for i in range(4)]
    return [
        Finding(
            id="host-sync",
            title=text("title"),
            text=text("text"),
            fix=text("fix"),
            cost_us_per_step=2_100.0,
            saving_us_per_step=2_000.0,
            share_ratio=0.2,
            confidence="high",
            evidence=[Evidence(5_185_884_705_000.0, 8.5, "stream 7", LONG_KERNEL), *sync],
            saving_low_us_per_step=1_500.0,
            saving_high_us_per_step=2_300.0,
            where="train.py(42): step",
            folded=["small-copies"],
        ),
        Finding("pageable-copy", text("minor"), text("minor"), text("minor-fix"), None, 0.0, 0.0, "low"),
        Finding("compiled-fusion", text("good"), "", "", None, None, None, "high", good=True),
    ]


def _checks(text: Callable[[str], str]) -> list[Check]:
    return [
        Check("host-sync", "found"),
        Check("pageable-copy", "found"),
        Check("data-starvation", "clear"),
        Check("graph-breaks", "clear"),
        Check("sdpa-math", "clear"),
        Check("misaligned-dims", "not-checked", text("reason")),
        Check("layout-copy", "not-checked", text("reason")),
        Check("underfilled-gpu", "failed", text("broken")),
    ]


def cpu_report() -> Report:
    """A CPU-only trace without steps, findings and rules."""
    return Report(
        schema=SCHEMA,
        generator="lanewise 0",
        lang="en",
        trace=TraceSection(
            path="cpu.json",
            format="kineto",
            events=7,
            skipped_events=0,
            repaired_events=0,
            stray_events=0,
            truncated=False,
            span_us=1_000.0,
            ranks=[],
            world_size=None,
            devices=[],
            capabilities=["cpu_ops"],
            warnings=[],
        ),
        coverage=CoverageSection(0, 0, 0, 0, "none"),
        gpu=[],
        step=StepSection(0, None, None, None, None, None, None, None),
        steps=[],
        ops=[OpRow("aten::mm", "cpu_op", 2, 50.0, 10.0, 0.0, 0.0, 0), OpRow("aten::add", "cpu_op", 4, 90.0, 90.0, 0.0, 0.0, 0)],
        kernels=[],
        verdict=Verdict("unknown", "No GPU work in this trace: the CPU report is complete."),
        where=[],
        findings=[],
        checks=[],
    )
