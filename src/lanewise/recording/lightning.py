"""Recording with Lightning: a callback for its `Trainer`.

    trainer = lightning.Trainer(..., callbacks=[lightning_callback(active=5)])

Lightning is imported by its users, never here before it is needed.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from lanewise.recording import record

__all__ = ["lightning_callback"]


def _callback_class() -> Any:
    """The callback class of the package that the program uses; the two packages do not accept each other's."""
    if "lightning.pytorch" in sys.modules or "pytorch_lightning" not in sys.modules:
        return import_module("lightning.pytorch").Callback
    return import_module("pytorch_lightning").Callback


def lightning_callback(**options: Any) -> Any:
    """A Lightning callback that records training batches.

    A step is one batch of the training loop, the wait for it included. The sanity check and validation are no steps.

    Args:
        options: as `lanewise.record` has them.
    """
    base = _callback_class()
    recorder = record(**options)
    recorder.source = "batches of Lightning"

    class RecordCallback(base):  # type: ignore[misc, valid-type]
        """Opens the recorder with the training and ends a step with each batch."""

        def __init__(self) -> None:
            self.recorder = recorder

        def on_train_start(self, *_: Any, **__: Any) -> None:
            """The training begins."""
            recorder.open()

        def on_train_batch_end(self, *_: Any, **__: Any) -> None:
            """A batch is done."""
            recorder.step()

        def on_train_end(self, *_: Any, **__: Any) -> None:
            """The training has ended."""
            recorder.close("the end of the training")

        def on_exception(self, _trainer: Any, _module: Any, exception: BaseException) -> None:
            """The training has failed; what was recorded is written now."""
            recorder.close(type(exception).__name__)

    return RecordCallback()
