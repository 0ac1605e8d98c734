"""The words of the list of traces, and of what is added for other viewers. Japanese in ``translations/ja/viewing.toml``."""

from __future__ import annotations

from lanewise.translations import Catalog

__all__ = ["TEXTS"]

TEXTS = Catalog(
    "viewing",
    {
        "listing": "{count} traces",
        "track-findings": "findings",
        "track-decoded": "{lane}: names in words",
        "track-step-time": "step time (ms)",
        "track-step-gpu": "GPU busy of the step (ms)",
        "track-step-launches": "launches of the step",
    },
)
