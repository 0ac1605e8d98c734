"""What the scripts of the ladder have in common: flags, device, tag, recording, the guess.

A script reads::

    lesson = Lesson(__file__, __doc__)
    lesson.size("--size", 64, "rows and columns")
    args = lesson.parse()
    ...
    lesson.record(step, tag=[args.size, args.dtype, ...])
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

from lanewise.errors import LanewiseError, UsageError
from lanewise.expectations.guessing import guess_text, guessed_words
from lanewise.recording import Recorder, Recording, record
from lanewise.recording.accelerator import torch_module
from lanewise.recording.plan import FLAGS
from lanewise.recording.texts import Notice, notice_text
from lanewise.translations import LANGUAGES, default_language, translated_area

__all__ = ["Lesson"]

_DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


def _language() -> str:
    """The language of the flags, which are not read yet."""
    given = next((b for a, b in pairwise(sys.argv) if a == "--lang"), None)
    return given if given in LANGUAGES else default_language()


class Lesson:
    """One rung while it runs.

    Args:
        script: the script's `__file__`; its name is the rung's.
        doc: the script's docstring, which is also its help.
    """

    def __init__(self, script: str, doc: str | None) -> None:
        self.rung = Path(script).stem
        self._gpu = bool(torch_module().cuda.is_available())
        self.parser = argparse.ArgumentParser(
            prog=self.rung, description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        add = self.parser.add_argument
        add("--device", default="cuda" if self._gpu else "cpu", choices=("cuda", "cpu"), help="where it runs")
        add("--dtype", default="bf16", choices=tuple(_DTYPES), help="type of weights and inputs")
        add("--guess", metavar="WORDS", help='the GPU ops of one step that you expect, such as "gemm add"')
        add("--steps", type=int, default=3, metavar="N", help="steps to record")
        add("--out", default="traces", metavar="FOLDER", help="where the trace goes")
        add("--force", action="store_true", help="replace a trace that exists")
        add("--lang", choices=LANGUAGES, default=default_language(), help="language of the messages")
        for flag in FLAGS:
            add(f"--{flag}", action="store_true", help=f"also record {FLAGS[flag].split(';')[0]}")
        self.args = argparse.Namespace()

    def _translate(self, lang: str) -> None:
        """Put the help into another language."""
        if lang == "en":
            return
        texts = translated_area(lang, "ladder")
        self.parser.description = texts["lessons"].get(self.rung, self.parser.description)
        for action in self.parser._actions:
            meaning, gap, default = (action.help or "").partition(" (")
            action.help = f"{texts['flags'].get(meaning, meaning)}{gap}{default}"

    # Flags.

    def size(self, flag: str, default: int, meaning: str, cpu: int | None = None) -> None:
        """A size, with a smaller default where there is no GPU."""
        chosen = default if self._gpu or cpu is None else cpu
        self.parser.add_argument(flag, type=int, default=chosen, metavar="N", help=f"{meaning} ({chosen})")

    def switch(self, flag: str, meaning: str) -> None:
        """Something that is off unless asked for."""
        self.parser.add_argument(flag, action="store_true", help=meaning)

    def choice(self, flag: str, options: Sequence[str], meaning: str, default: str | None = None) -> None:
        """One of several."""
        self.parser.add_argument(flag, choices=tuple(options), default=default or options[0], help=meaning)

    def compiling(self) -> None:
        """`--compile` and its mode."""
        self.switch("--compile", "run what torch.compile makes of it")
        self.parser.add_argument("--mode", choices=_MODES, default="default", help="mode of torch.compile")

    def parse(self) -> argparse.Namespace:
        """The flags that were given; `device` and `dtype` become torch's."""
        self._translate(_language())
        self.args = self.parser.parse_args()
        try:
            self.args.guess = None if self.args.guess is None else guessed_words(self.args.guess, "--guess")
        except UsageError as error:
            self.cannot(error.text(self.args.lang))
        torch = torch_module()
        self.args.dtype_name = self.args.dtype
        self.args.dtype = getattr(torch, _DTYPES[self.args.dtype])
        if self.args.device == "cuda" and not self._gpu:
            self.cannot("--device cuda: torch sees no GPU here. lanewise doctor says why.")
        torch.manual_seed(0)
        return self.args

    # Running.

    @property
    def variant(self) -> str:
        """``eager``, ``compile`` or ``compile_MODE``: the end of the tag."""
        if not getattr(self.args, "compile", False):
            return "eager"
        return "compile" if self.args.mode == "default" else f"compile_{self.args.mode}"

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, or what torch.compile makes of it if the flags say so."""
        if not getattr(self.args, "compile", False):
            return function
        compiled: Callable[..., Any] = torch_module().compile(function, mode=self.args.mode)
        return compiled

    def cannot(self, reason: str) -> NoReturn:
        """Say in one line why this rung does not run here, and leave with 2."""
        sys.stderr.write(f"{self.rung}: {reason}\n")
        raise SystemExit(2)

    def record(self, step: Callable[[], Any], tag: Sequence[object], warm: bool = True) -> Recording:
        """Run a step as often as its recording needs, record it, and compare the guess.

        Args:
            step: one step.
            tag: parts of the file name: sizes, dtype, warm or cold, variant.
            warm: whether steps run before the recorded ones; a cold run shows what first calls cost.
        """
        options: dict[str, Any] = {} if warm else {"skip": 0, "timed": 0, "warmup": 0}
        recorder = self._recorder(tag, options)
        for _ in recorder:
            step()
        return self._told(recorder.recording)

    def record_over(self, items: Any, step: Callable[[Any], Any], tag: Sequence[object]) -> Recording:
        """The same over the items of a loader: the wait for an item belongs to its step."""
        recorder = self._recorder(tag, {}, items)
        for item in recorder:
            step(item)
            if recorder.phase == "done":
                break
        return self._told(recorder.recording)

    def _recorder(self, tag: Sequence[object], options: dict[str, Any], over: Any = None) -> Recorder:
        args = self.args
        name = "_".join(str(part) for part in tag)
        out = Path(args.out) / self.rung / f"{name}.json.gz"
        options |= {flag: getattr(args, flag) for flag in FLAGS}
        options |= {"out": str(out), "label": f"{self.rung}/{name}", "force": args.force, "active": args.steps}
        try:
            recorder: Recorder = record(over, quiet=True, **options)
        except LanewiseError as error:
            self.cannot(error.text(self.args.lang))
        return recorder

    def _told(self, recording: Recording) -> Recording:
        """The recording's notices and the guess on stdout; a lesson that left no trace has failed."""
        lang = self.args.lang
        for notice in recording.notices:
            self._say(notice_text(notice, lang))
        if recording.path is None:
            raise SystemExit(1)
        if self.args.guess is not None:
            self._compare_guess(recording.path)
        if os.environ.get("RANK", "0") == "0":
            self._say(notice_text(Notice("next", {"path": os.path.relpath(recording.path)}), lang))
        return recording

    def _say(self, text: str) -> None:
        sys.stdout.write(f"{text}\n")

    def _compare_guess(self, path: Path) -> None:
        self._say(guess_text(str(path), self.args.guess, self.args.lang).rstrip())
