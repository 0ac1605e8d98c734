"""Recording with Hugging Face: a callback for `Trainer`, and a recorder for loops with Accelerate.

    trainer = Trainer(..., callbacks=[trainer_callback(active=5)])

    with accelerate_recorder(accelerator, active=5):
        for batch in loader:                       # the loop as it is: optimizer steps end the steps
            ...

transformers and accelerate are imported by their users, never here before they are needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from lanewise.recording import Recorder, record
from lanewise.recording.stepping import follow_optimizers

__all__ = ["accelerate_recorder", "trainer_callback"]


def trainer_callback(**options: Any) -> Any:
    """A `transformers.TrainerCallback` that records training steps.

    A step is an optimizer step with all its micro-batches; evaluation between steps is part of the step that follows it. If the
    training ends by an exception, what was recorded is written at exit.

    Args:
        options: as `lanewise.record` has them.
    """
    base = import_module("transformers").TrainerCallback
    recorder = record(**options)
    recorder.source = "steps of Trainer"

    class RecordCallback(base):  # type: ignore[misc, valid-type]
        """Opens the recorder with the training and ends a step where the trainer does."""

        def __init__(self) -> None:
            self.recorder = recorder

        def on_train_begin(self, *_: Any, **__: Any) -> None:
            """The training begins."""
            recorder.open()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            """An optimizer step has been made."""
            recorder.step()

        def on_train_end(self, *_: Any, **__: Any) -> None:
            """The training has ended."""
            recorder.close("the end of the training")

    return RecordCallback()


@contextmanager
def accelerate_recorder(accelerator: Any, **options: Any) -> Iterator[Recorder]:
    """Record a training loop with Accelerate, without a change to the loop.

    Steps end with the optimizer's steps, so that micro-batches under `accelerator.accumulate` make one step. Every process
    records its own part, and all wait for each other at the end, so that none leaves while another is still writing.

    Args:
        accelerator: the loop's `accelerate.Accelerator`.
        options: as `lanewise.record` has them; the label is the name of the accelerator's project, where it has one.
    """
    project = getattr(accelerator, "project_dir", None)
    if project and "label" not in options:
        options["label"] = str(project).rstrip("/").rpartition("/")[2]
    recorder = record(**options)
    detach = follow_optimizers(recorder)
    try:
        with recorder:
            yield recorder
    finally:
        detach()
    accelerator.wait_for_everyone()
