"""Recorded inputs of ops: what is not of the form that the profiler gives them is not known, so that readers need no checks."""

from __future__ import annotations

import re

import msgspec

from .decoding import DECODE_ERRORS

__all__ = ["Inputs", "sound_inputs"]

# Dims, types, strides and concrete values as JSON text, as they are in the file.
Inputs = tuple[bytes | None, ...]

# For each argument a list of sizes, or for a list of tensors a list of such lists; [] for what is no tensor.
_Sizes = list[list[int | list[int]]]
_SIZES: msgspec.json.Decoder[_Sizes] = msgspec.json.Decoder(_Sizes)
_TEXTS: msgspec.json.Decoder[list[str]] = msgspec.json.Decoder(list[str])
# No tensor has a trillion elements in one dimension; a number like that is damage.
_TOO_LARGE = re.compile(rb"[0-9]{13}")


def sound_inputs(row: Inputs) -> Inputs:
    """The same with None for what is malformed; strides are not known where sizes are not."""
    dims, types, strides, concrete = row
    dims = _sizes(dims)
    return dims, _texts(types), None if dims is None else _sizes(strides), _texts(concrete)


def _sizes(text: bytes | None) -> bytes | None:
    try:
        return None if text is None or (_SIZES.decode(text) and _TOO_LARGE.search(text)) else text
    except DECODE_ERRORS:
        return None


def _texts(text: bytes | None) -> bytes | None:
    try:
        return None if text is None or _TEXTS.decode(text) is None else text
    except DECODE_ERRORS:
        return None
