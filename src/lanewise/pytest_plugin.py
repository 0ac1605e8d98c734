"""The pytest plugin: record some steps in a test and assert on their structure.

    def test_step(lanewise_trace):
        t = lanewise_trace(train_step, steps=3)
        assert t.step.ops["aten::mm"] == 3
        assert t.step.kernels == 5              # skipped without a GPU

The trace of a failing test is kept, and the failure says where it is and what ran. See docs/expectations.md.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from types import TracebackType

    from lanewise.expectations.document import Outcomes
    from lanewise.expectations.observing import Counts, Observed
    from lanewise.model.trace import Trace
    from lanewise.recording import Recorder

__all__ = ["LanewiseTrace", "LanewiseTracer", "lanewise_trace"]

# Steps before the recorded ones: the first compiles and allocates, the second may still compile a dynamic shape.
_WARMUP = 2
_STEPS = 3


def pytest_addoption(parser: pytest.Parser) -> None:
    """The plugin's options."""
    group = parser.getgroup("lanewise", "lanewise: structure of recorded steps")
    group.addoption("--lanewise-artifacts", metavar="DIR", help="keep the traces of failing tests in this folder")
    group.addoption(
        "--lanewise-no-skip", action="store_true", help="fail a test that asks for what only a GPU shows, where there is none"
    )


class _CountsOrSkip:
    """Counts whose questions skip the test where the trace cannot tell."""

    def __init__(self, counts: Counts, cannot: Callable[[str], Any]) -> None:
        self._counts, self._cannot = counts, cannot

    def __getattr__(self, name: str) -> Any:
        from lanewise.expectations.observing import CannotTellError

        try:
            value = getattr(self._counts, name)
        except CannotTellError as error:
            self._cannot(str(error))
            raise
        return _Guarded(value, self._cannot) if isinstance(value, Mapping) else value

    def __repr__(self) -> str:
        return f"<counts of {len(self._counts.parts)} parts>"


class _Guarded(Mapping[str, int]):
    """A table of counts that skips the test where the trace cannot tell."""

    def __init__(self, table: Mapping[str, int], cannot: Callable[[str], Any]) -> None:
        self._table, self._cannot = table, cannot

    def __getitem__(self, name: str) -> int:
        from lanewise.expectations.observing import CannotTellError

        try:
            return self._table[name]
        except CannotTellError as error:
            self._cannot(str(error))
            raise

    def __iter__(self) -> Any:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)

    def __repr__(self) -> str:
        return repr(self._table)


class LanewiseTrace:
    """Recorded steps, and what may be asserted of them.

    Args:
        tracer: what records.
        path: where the trace goes.
        expected: expectations to check when it is recorded: a dict, or a TOML file's path.
        options: of the recorder.
    """

    def __init__(self, tracer: LanewiseTracer, path: Path, expected: Any, options: dict[str, Any]) -> None:
        self.path = path
        self.kept: Path | None = None
        self.break_reasons: dict[str, int] = {}
        self.outcomes: Outcomes | None = None
        self._tracer, self._expected, self._options = tracer, expected, options
        self._recorder: Recorder | None = None
        self._compiled = False
        self._loaded: Observed | None = None

    # ---- recording
    def __enter__(self) -> LanewiseTrace:
        self._begin(skip=0, timed=0, warmup=0, active=1)
        assert self._recorder is not None
        self._recorder.open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._recorder is not None
        if kind is None:
            self._recorder.step()
        self._recorder.close("the end of the block" if kind is None else kind.__name__)
        if kind is None:
            self._finish()

    def run(self, step: Callable[[], Any], steps: int, warmup: int) -> None:
        """Warm up, then record some steps."""
        self._begin(skip=warmup, timed=0, warmup=1, active=steps)
        assert self._recorder is not None
        for _ in self._recorder:
            step()
        self._finish()

    def _begin(self, **plan: int) -> None:
        from lanewise.recording import Plan, Recorder

        self._before = _dynamo_counters()
        asked: dict[str, Any] = {**plan, **self._options, "out": str(self.path), "force": True}
        self._recorder = Recorder(Plan(**asked), source="lanewise_trace")

    def _finish(self) -> None:
        after = _dynamo_counters()
        self._compiled = after["compiled"] > self._before["compiled"]
        reasons = {k: n - self._before["breaks"].get(k, 0) for k, n in after["breaks"].items()}
        self.break_reasons = {k: n for k, n in reasons.items() if n > 0}
        if self._recorder is not None and self._recorder.path is None:
            from lanewise.recording.texts import notice_text

            told = " ".join(notice_text(n, "en") for n in self._recorder.recording.notices)
            pytest.fail(f"lanewise_trace: nothing was recorded. {told}".strip(), pytrace=False)
        if self._expected is not None:
            self.expect(self._expected)

    # ---- what may be asserted
    @property
    def observed(self) -> Observed:
        """The trace with its steps."""
        if self._loaded is None:
            from lanewise.expectations.observing import Observed
            from lanewise.loading import load

            self._loaded = Observed(load(str(self.path)))
        return self._loaded

    @property
    def trace(self) -> Trace:
        """The trace, as `lanewise.load` gives it."""
        return self.observed.trace

    @property
    def step(self) -> Any:
        """Counts of a usual step: ``kernels``, ``launches``, ``copies``, ``host_syncs``, ``ops["aten::mm"]`` ..."""
        return _CountsOrSkip(self.observed.step, self._tracer.cannot)

    def annotation(self, name: str) -> Any:
        """The same of each call of an annotation."""
        return _CountsOrSkip(self.observed.annotation(name), self._tracer.cannot)

    def uses(self, word: str) -> bool:
        """Whether a kernel, op or library of that word, as `lanewise guess` knows it, runs in every usual step."""
        from lanewise.expectations.observing import CannotTellError

        try:
            return self.observed.uses(word)
        except CannotTellError as error:
            self._tracer.cannot(str(error))
            raise

    @property
    def graph_breaks(self) -> int:
        """Graph breaks while the steps ran, warm-up included, as Dynamo counts them; of code that was compiled before, the
        compiled frames beyond the first in a step."""
        return sum(self.break_reasons.values()) if self._compiled else self.observed.frames_beyond_first

    def expect(self, expected: Mapping[str, Any] | str | Path) -> Outcomes:
        """Check expectations: a dict as in a TOML file (without sections, of the step), or such a file's path.

        Fails the test when one is broken, with all explanations; skips it when none could be checked.
        """
        from lanewise.expectations.checking import checked
        from lanewise.expectations.reading import expectations_of, read_expectations
        from lanewise.rendering.expect import explained

        wanted = expectations_of(expected) if isinstance(expected, Mapping) else read_expectations(str(expected))
        self.outcomes = checked(self.trace, wanted)
        if self.outcomes.of("breached"):
            pytest.fail(explained(self.outcomes), pytrace=False)
        unchecked = self.outcomes.of("not-checked")
        if unchecked and (len(unchecked) == len(self.outcomes.rows) or self._tracer.no_skip):
            self._tracer.cannot("; ".join(f"{r.where}: {r.key}: {r.reason}" for r in unchecked))
        return self.outcomes

    # ---- after a failure
    def explanation(self) -> list[str]:
        """What a failing test's report says about this trace."""
        if not self.path.exists():
            return ["no trace was written"]
        lines = [f"trace kept: {self.kept or self.path}"]
        what = "GPU ops" if self.observed.gpu else "CPU ops (no GPU work was recorded)"
        lines += [f"a usual step ran these {what}:", *self.observed.listing()]
        if self.break_reasons:
            lines += ["graph breaks:", *(f"{n:>4}x {reason.splitlines()[0]}" for reason, n in self.break_reasons.items())]
        if self.outcomes is not None and self.outcomes.of("not-checked"):
            names = ", ".join(f"{r.where}: {r.key} ({r.reason})" for r in self.outcomes.of("not-checked"))
            lines.append(f"not checked: {names}")
        return [*lines, f"next: lanewise explain {self.kept or self.path}"]


def _dynamo_counters() -> dict[str, Any]:
    """Frames that Dynamo has compiled, and graph breaks by reason; nothing where it is not loaded."""
    utils = sys.modules.get("torch._dynamo.utils")
    counters = getattr(utils, "counters", None)
    if counters is None:
        return {"compiled": 0, "breaks": {}}
    return {"compiled": int(sum(counters["frames"].values())), "breaks": dict(counters["graph_break"])}


class LanewiseTracer:
    """Records steps for one test.

    Args:
        folder: where traces go.
        no_skip: whether what cannot be told without a GPU fails.
    """

    def __init__(self, folder: Path, no_skip: bool) -> None:
        self.folder, self.no_skip = folder, no_skip
        self.traces: list[LanewiseTrace] = []

    def __call__(
        self,
        step: Callable[[], Any] | None = None,
        *,
        steps: int = _STEPS,
        warmup: int = _WARMUP,
        expect: Any = None,
        shapes: bool = False,
        memory: bool = False,
        stack: bool = False,
    ) -> LanewiseTrace:
        """Record steps, or without `step` a block, which is one step.

        Args:
            step: called once a step.
            steps: steps to record; of three or more the first is not counted.
            warmup: calls before them, which are not recorded.
            expect: expectations to check: a dict, or a TOML file's path.
            shapes, memory, stack: what else to record.
        """
        pytest.importorskip("torch", reason="lanewise_trace needs torch")
        options = {"shapes": shapes, "memory": memory, "stack": stack}
        made = LanewiseTrace(self, self.folder / f"trace_{len(self.traces)}.json.gz", expect, options)
        self.traces.append(made)
        if step is not None:
            made.run(step, steps, warmup)
        return made

    def cannot(self, reason: str) -> None:
        """Skip the test, or fail it where skipping is not wanted."""
        if self.no_skip:
            pytest.fail(f"lanewise_trace: cannot be told here: {reason}", pytrace=False)
        pytest.skip(f"lanewise_trace: cannot be told here: {reason}")


_TRACERS = pytest.StashKey[list[LanewiseTracer]]()


@pytest.fixture
def lanewise_trace(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LanewiseTracer:
    """Record some steps and assert on their structure: ``lanewise_trace(step)`` or ``with lanewise_trace() as t:``."""
    folder = tmp_path_factory.mktemp("lanewise")
    tracer = LanewiseTracer(folder, bool(request.config.getoption("--lanewise-no-skip")))
    request.node.stash.setdefault(_TRACERS, []).append(tracer)
    return tracer


@pytest.hookimpl(hookwrapper=True)  # the form that pytest 7 knows too: this module is loaded beside whatever pytest there is
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Generator[None, Any, None]:
    """Keep the traces of a failing test and say in its report what they show."""
    outcome = yield
    report = outcome.get_result()
    if call.when == "call" and report.failed:
        folder = item.config.getoption("--lanewise-artifacts")
        for tracer in item.stash.get(_TRACERS, []):
            for number, trace in enumerate(tracer.traces):
                report.sections.append(("lanewise", "\n".join(_kept(trace, folder, item.nodeid, number))))


def _kept(trace: LanewiseTrace, folder: str | None, test: str, number: int) -> list[str]:
    """Copy a trace to the artifacts, and explain it; what goes wrong with that must not hide the failure itself."""
    try:
        if folder is not None and trace.path.exists():
            name = re.sub(r"[^\w.\[\]-]+", "_", test).strip("_")
            Path(folder).mkdir(parents=True, exist_ok=True)
            trace.kept = Path(folder) / f"{name}{f'_{number}' if number else ''}.json.gz"
            shutil.copyfile(trace.path, trace.kept)
        return trace.explanation()
    except Exception as error:  # noqa: BLE001  shown in its place; the test's own failure is what counts
        return [f"{trace.path}: {type(error).__name__}: {error}"]
