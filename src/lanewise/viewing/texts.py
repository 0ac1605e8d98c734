"""The words of what is added to a trace for other viewers. Japanese in ``translations/ja/viewing.toml``."""

from __future__ import annotations

from lanewise.translations import Catalog

__all__ = ["TEXTS"]

TEXTS = Catalog(
    "viewing",
    {
        "track-findings": "findings",
        "track-decoded": "{lane}: names in words",
        "track-step-time": "step time (ms)",
        "track-step-gpu": "GPU busy of the step (ms)",
        "track-step-launches": "launches of the step",
    },
)
