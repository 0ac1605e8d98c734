"""What measuring and keeping measurements can say went wrong."""

from __future__ import annotations

from lanewise.translations import Catalog

__all__ = ["TEXTS"]

TEXTS = Catalog(
    "devices",
    {
        "no_torch": "PyTorch is not installed here.",
        "install_torch": "It measures with PyTorch: pip install torch.",
        "no_gpu": "PyTorch sees no GPU on this machine.",
        "run_elsewhere": "Run it where the traces are recorded; see lanewise doctor.",
        "no_such_gpu": "there is no GPU {index}: this machine has {count}, numbered from 0.",
        "unknown_dtype": "this type is not measured.",
        "known_dtypes": "Known: {dtypes}.",
        "no_memory": "the GPU has less than 512 MB free.",
        "free_memory": "End what runs on it, and try again.",
        "unusable": "these measurements cannot be read: {reason}.",
        "wrong_schema": "its schema is not {schema}",
        "incomplete": "a measurement in it is not complete",
        "calibrate_again": "Run lanewise calibrate again.",
        "not_writable": "the measurements cannot be kept here: {reason}.",
        "other_folder": "LANEWISE_CACHE_DIR names another folder.",
    },
)
