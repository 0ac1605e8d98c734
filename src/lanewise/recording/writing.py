"""Where a trace goes, and how it gets there without harming what is there already.

torch writes plain JSON. It is exported to a temporary name in the target folder, then streamed once: the
recorder's own object goes in front (torch's `add_metadata_json` has no effect once the profiler has stopped),
a step that never ended loses its step name, the bytes are compressed, and only a complete file gets the final
name.
"""

from __future__ import annotations

import gzip
import json
import os
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import IO, Any, cast

from lanewise.errors import UsageError
from lanewise.recording.plan import Plan
from lanewise.recording.ranks import ranks
from lanewise.recording.texts import TEXTS

__all__ = ["SUFFIXES", "file_name", "rewrite", "target", "temporary_beside"]

SUFFIXES = (".json.gz", ".json")
_CHUNK_BYTES = 4 * 2**20
_GZIP_LEVEL = 3  # torch's own level, 9, takes about ten times as long for a file a few percent smaller


def file_name(label: str, rank: int, first_step: int | None, last_step: int | None) -> str:
    """``train.host-a.4711.rank0.step17-19.json.gz``: label, host, pid, rank and steps, so that no two captures meet."""
    host = _plain(socket.gethostname().split(".")[0]) or "host"
    steps = "whole" if first_step is None else f"step{first_step}-{last_step}"
    return f"{_plain(label) or 'trace'}.{host}.{os.getpid()}.rank{rank}.{steps}.json.gz"


def _plain(text: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in text).strip("_")


def target(plan: Plan, rank: int, world_size: int, first_step: int | None, last_step: int | None) -> Path:
    """The file that a capture is meant for.

    A path that ends in `.json` or `.json.gz` is that file, with the rank before the suffix where there are
    several; any other is a folder in which the capture gets a name of its own.
    """
    label = plan.label or default_label()
    if plan.out is None or not is_file(plan.out):
        return Path(plan.out or "traces") / file_name(label, rank, first_step, last_step)
    if world_size == 1:
        return Path(plan.out)
    suffix = suffix_of(plan.out)
    return Path(f"{plan.out[: -len(suffix)]}.rank{rank}{suffix}")


def is_file(out: str) -> bool:
    """Whether this output names a file, not a folder."""
    return out.endswith(SUFFIXES)


def suffix_of(path: str) -> str:
    """`.json.gz` or `.json`, whichever the path ends in, else empty."""
    return next((suffix for suffix in SUFFIXES if path.endswith(suffix)), "")


def default_label() -> str:
    """The name of the running script, without folder and suffix."""
    return Path(sys.argv[0]).stem if sys.argv and sys.argv[0] not in ("", "-c", "-m") else "trace"


def refuse_existing(plan: Plan) -> None:
    """Stop before anything runs if the file that the plan names is there already.

    Raises:
        UsageError: the file exists and `force` is off.
    """
    if plan.out is None or plan.force or not is_file(plan.out):
        return
    here = ranks()
    path = target(plan, here.rank, here.world_size, None, None)
    if path.exists():
        raise UsageError(str(path), TEXTS.message("exists"), TEXTS.message("exists-next"))


def free_name(path: Path, force: bool) -> Path:
    """This path, or with a number before its suffix if it is taken: a finished capture is never lost for its name."""
    if force or not path.exists():
        return path
    suffix = suffix_of(path.name)
    stem = path.name[: len(path.name) - len(suffix)]
    for number in range(2, 10_000):
        candidate = path.with_name(f"{stem}-{number}{suffix}")
        if not candidate.exists():
            return candidate
    raise UsageError(str(path), TEXTS.message("exists-often"), TEXTS.message("exists-often-next"))


@contextmanager
def temporary_beside(path: Path, suffix: str) -> Iterator[Path]:
    """A name in the same folder for a file in the making, removed at the end if it is still there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}{suffix}")
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def rewrite(source: Path, destination: Path, header: Mapping[str, Any], unfinished: str | None = None) -> int:
    """Stream a trace to its place with the recorder's object in front.

    Args:
        source: plain JSON from torch.
        destination: written through a temporary name; compressed if it ends in `.gz`.
        header: goes under the key ``lanewise``.
        unfinished: name of a step that did not end; it is renamed so that no reader takes it for a whole
            step.

    Returns:
        Bytes of JSON before compression.
    """
    renamed = None
    if unfinished is not None:
        renamed = (f'"name": "{unfinished}"'.encode(), f'"name": "Unfinished {unfinished}"'.encode())
    n_bytes = 0
    with temporary_beside(destination, ".part") as part:
        with source.open("rb") as raw, _writer(part, destination.name.endswith(".gz")) as out:
            for piece in _pieces(raw, header, renamed):
                out.write(piece)
                n_bytes += len(piece)
        os.replace(part, destination)
    return n_bytes


def _pieces(raw: IO[bytes], header: Mapping[str, Any], renamed: tuple[bytes, bytes] | None) -> Iterator[bytes]:
    first = raw.read(_CHUNK_BYTES)
    brace = first.find(b"{")
    if brace < 0:
        raise UsageError("", TEXTS.message("nothing-written"), TEXTS.message("nothing-written-next"))
    yield b'{\n"lanewise": ' + json.dumps(header, ensure_ascii=False).encode() + b","
    kept = first[brace + 1 :]
    while True:
        following = raw.read(_CHUNK_BYTES)
        # Cut before the last line, so that no name is cut in two.
        cut = kept.rfind(b"\n") if following else len(kept)
        ready, kept = (kept[:cut], kept[cut:]) if cut > 0 else (kept, b"")
        yield ready.replace(*renamed) if renamed is not None else ready
        if not following:
            return
        kept += following


def _writer(path: Path, compressed: bool) -> IO[bytes]:
    if not compressed:
        return path.open("wb")
    try:
        igzip: Any = import_module("isal.igzip")
    except ImportError:  # the recorded script's interpreter need not have lanewise's dependencies
        igzip = gzip
    return cast("IO[bytes]", igzip.open(path, "wb", compresslevel=_GZIP_LEVEL))
