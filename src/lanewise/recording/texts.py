"""What the recorder says to people. English here, Japanese in ``translations/ja/recording.toml``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lanewise import units
from lanewise.translations import Catalog

__all__ = ["TEXTS", "Notice", "notice_text"]


@dataclass(frozen=True)
class Notice:
    """Something to say: the key of a text and the raw values of its slots.

    The unit of a value is the end of its name: ``_ns``, ``_bytes``, ``_ratio``; other numbers are counts. A
    value that begins with ``cause-`` is itself the key of a text.
    """

    key: str
    slots: dict[str, Any] = field(default_factory=dict)


def notice_text(notice: Notice, lang: str = "en") -> str:
    """The notice in a language, numbers as text."""
    return TEXTS(notice.key, lang, **{name: _value(name, value, lang) for name, value in notice.slots.items()})


def _value(name: str, value: Any, lang: str) -> str:
    if isinstance(value, str):
        return TEXTS(value, lang) if value.startswith("cause-") else value
    if name.endswith("_ns"):
        return units.duration(value, lang)
    if name.endswith("_bytes"):
        return units.size(value, lang)
    if name.endswith("_ratio"):
        return units.percent(value, lang)
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 10 else f"{value:.1f}" if value >= 0.95 else f"{value:.2g}"
    return units.count(value, lang) if value is None or isinstance(value, int) else str(value)


_ENGLISH = {
    # One line a capture, then what is in it.
    "written": "{path}: {file_bytes}, {steps} steps, {cpu_ops} CPU ops, {launches} launches, {gpu_ops} GPU ops.",
    "step-time": "Step: {median_ns} without the profiler (median of {steps}, {min_ns} to {max_ns}), {profiled_ns} with it "
    "({factor} times).",
    "step-time-mean": "Step: {median_ns} without the profiler (mean of {steps}), {profiled_ns} with it ({factor} times).",
    "next": "Next: lanewise explain {path}",
    # What went wrong, or almost.
    "not-reached": "No trace: {came} steps came, {needed} were needed ({skip} skipped, {timed} timed, {warmup} warm-up, "
    "{active} recorded).",
    "try-fewer": "For {came} steps: --skip {skip} --timed {timed} --warmup {warmup} --active {active}",
    "try-whole": "To record everything from start to end, without steps: --whole",
    "no-step-calls": "No step was marked: call rec.step() at the end of each, iterate over record(loader), or give whole=True.",
    "no-steps": "No trace: torch was imported, but no optimizer stepped and no module with parameters was called. Name a "
    "function that is one step, --step-on train_step or --step-on package.module:function, or record everything with --whole.",
    "no-step-function": "No trace: {function} was not called, or once only. "
    "Is it module:function, or a function of the script itself?",
    "no-torch": "No trace: no Python process that this command started imported torch. lanewise cannot enter an interpreter "
    "that runs with -I or -E, or in a container of its own.",
    "ended-early": "The run ended in the window ({reason}): {steps} of {active} steps are whole.",
    "gpu-missing": "{path}: no GPU events, though {launches} kernels were launched. {cause}",
    "gpu-missing-memory": "{path}: no GPU events, though the GPU was in use ({allocations} allocations in the window). {cause}",
    "cause-torch-without-cupti": "This torch was built without CUPTI, so its profiler cannot see the GPU. Install torch from "
    "its official wheels.",
    "cause-other-profiler": "Another profiler is attached to this process (Nsight Systems, Nsight Compute, DCGM or a second "
    "torch profiler), and CUPTI serves one at a time. Run without it.",
    "cause-permission": "The driver reserves profiling for the administrator. Run as root, or load the module with "
    "NVreg_RestrictProfilingToAdminUsers=0.",
    "cause-device": "CUPTI does not serve this device (virtual GPU, confidential mode, or too old). Record on the bare GPU.",
    "cause-unknown": "CUPTI was not available; lanewise doctor checks why.",
    "wrong-thread": "No trace: the window was opened by another thread, which has to end it. Mark steps on the main thread.",
    "profiler-failed": "No trace: torch's profiler failed: {error}",
    "profiler-busy": "No trace: another torch profiler was running when the window was to open. Record without it, or without "
    "lanewise.",
    "write-failed": "No trace: {path} could not be written: {error}",
    "table-failed": "{path}: torch could not make its table: {error}",
    "table-left-out": "{path}: left out, since torch takes minutes to make a table of {events} events.",
    "estimate": "One step takes {step_bytes} of JSON; {active} steps will take about {total_bytes}.",
    "fewer-steps": "One step takes {step_bytes} of JSON, so {active} are recorded instead of {planned}, within the limit of "
    "{limit_bytes}. --limit raises it; fewer flags shrink a step.",
    "too-large": "No trace: one step takes {step_bytes} of JSON, more than the limit of {limit_bytes}. Leave out --stack, "
    "--memory or --shapes, or raise --limit.",
    "over-limit": "{path}: {json_bytes} of JSON, more than the limit of {limit_bytes}: viewers may not open"
    " it. Record fewer steps.",
    "renamed": "{wanted} was there already and is kept; this capture is {path}.",
    "damaged": "{path}: the file reads back incomplete ({error}). Is the disk full?",
    "killed": "Process {pid} (rank {rank}) ended in the window without writing a trace: it was killed, or left by os._exit.",
}

_DOCTOR = {
    "check-python": "Python",
    "check-torch": "torch",
    "check-kineto": "torch's profiler",
    "check-gpu": "GPU",
    "check-capture": "A tiny capture",
    "check-cupti": "CUPTI",
    "check-permission": "Permission to profile",
    "check-clocks": "Clocks and power",
    "check-triton": "Triton",
    "check-compiler": "C compiler",
    "check-disk": "Disk",
    "state-ok": "ok",
    "state-warning": "warning",
    "state-failed": "failed",
    "state-absent": "not here",
    "doctor-ok": "This machine can record.",
    "doctor-ok-cpu": "This machine can record CPU ops; torch sees no GPU here.",
    "doctor-failed": "This machine cannot record yet: {count} failed.",
    "doctor-free": "{free_bytes} free",
    "advice-python": "lanewise needs Python 3.10 or later.",
    "advice-torch-missing": "torch is not installed for this Python: pip install 'lanewise[record]'. Reading traces needs "
    "none.",
    "advice-torch-broken": "torch could not be imported. Try: python -c 'import torch'",
    "advice-torch-old": "Recording needs torch 2.4 or later.",
    "advice-kineto": "This torch was built without Kineto. Install torch from its official wheels.",
    "advice-gpu-unseen": "There is an NVIDIA driver, but torch sees no GPU: CUDA_VISIBLE_DEVICES, a driver older than torch's "
    "CUDA, or a container without --gpus.",
    "advice-gpu-cpu-build": "There is an NVIDIA driver, but this torch is a CPU build. Install one that is built for CUDA.",
    "advice-capture": "torch's profiler failed on two ops. Try the same with a fresh environment, and report it to torch if "
    "it fails.",
    "advice-clocks": "Clocks and power cannot be read here, so captures will not say whether the GPU was throttled.",
    "advice-throttled": "The GPU is throttled right now; timings will not repeat. Cool it, or raise its power limit.",
    "advice-triton": "torch.compile needs Triton on a GPU: pip install triton. Recording works without.",
    "advice-compiler": "torch.compile needs a C compiler: apt install gcc, or set CC. Recording works without.",
    "advice-disk-full": "Traces with stacks take tens of MB each. Make room, or give another folder with --out.",
    "advice-disk-unwritable": "{path} cannot be written. Give another folder with --out.",
}

_ERRORS = {
    "no-command": "no command to record.",
    "no-command-next": "Write: lanewise record -- python train.py",
    "bad-option-next": "See help(lanewise.record).",
    "not-started": "could not be started ({why}).",
    "not-started-next": "Is it on the PATH?",
    "below-0": "{number} is below 0.",
    "no-active": "0 steps to record.",
    "no-active-next": "Give 1 or more.",
    "exists": "exists already, and nothing is overwritten.",
    "exists-next": "--force replaces it.",
    "exists-often": "exists already, with 9,998 more of that name.",
    "exists-often-next": "Clear the folder.",
    "nothing-written": "torch wrote no trace.",
    "nothing-written-next": "Is the disk full?",
    "no-rung": "no rung has this name.",
    "no-rung-next": "There are: {rungs}.",
    "several-rungs": "may be {rungs}.",
    "several-rungs-next": "Give more of the name.",
    "no-script": "its script is not installed.",
    "no-script-next": "Reinstall lanewise, or run from a checkout.",
}

# The lessons' own first lines, for the list of rungs.
_RUNGS = {
    "rung-01_matmul_add": "one matrix product, one addition, and everything around them",
    "rung-02_linear": "a linear layer, and the kernel that is not there",
    "rung-03_simple_mlp": "the feed-forward layer of a transformer, gated by a GELU",
    "rung-03_kernels_mlp": "the same layer with a kernel that somebody tuned",
    "rung-04_a_naive_attention": "attention as the formula has it",
    "rung-04_b_inplace_ops_attention": "the same attention, one letter longer",
    "rung-04_c_sdpa_attention": "attention as one op, and the backend behind it",
    "rung-04_d_kernels_attention": "an attention kernel from the kernels hub",
    "rung-05_transformer": "a whole small decoder, forward or training",
    "rung-06_decode": "generation, one token at a time",
    "rung-07_data_pipeline": "a data pipeline that is too slow, on demand",
    "rung-08_distributed": "several processes that train one model",
}

TEXTS = Catalog("recording", {**_ENGLISH, **_DOCTOR, **_ERRORS, **_RUNGS})
