"""Expectations out of a TOML file or a dict: every key is known, every value has its form, or the error says what was meant."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lanewise.errors import UsageError
from lanewise.expectations.bounds import Bound, count_bound, ratio_bound, size_bound
from lanewise.expectations.keys import KEYS, SECTIONS, TRACE_KEYS, Key
from lanewise.expectations.texts import EXPECT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["Baseline", "Entry", "Expectations", "Ratio", "Section", "expectations_of", "read_expectations"]

RATIO_TIMES = ("gpu", "wall")
_RATIO_KEYS = ("of", "to", "time", "is")
_BASELINE_KEYS = ("trace", "gpu_time", "step_time")
_BOUNDS = {"count": count_bound, "counts": count_bound, "table": count_bound, "ratio": ratio_bound, "size": size_bound}


@dataclass(frozen=True, slots=True)
class Entry:
    """One expectation.

    Attributes:
        key: its key.
        sub: the entry of a table (``gemm`` of ``kernels``), empty for none.
        bound: of a number.
        names: of a list of names, or a word.
        flag: of a flag.
    """

    key: Key
    sub: str = ""
    bound: Bound | None = None
    names: tuple[str, ...] = ()
    flag: bool | None = None

    @property
    def label(self) -> str:
        """``kernels.gemm``."""
        return f"{self.key.name}.{self.sub}" if self.sub else self.key.name

    @property
    def wanted(self) -> str:
        """What is wanted, as text."""
        if self.bound is not None:
            return self.bound.text
        return str(self.flag).lower() if self.flag is not None else ", ".join(self.names)


@dataclass(frozen=True, slots=True)
class Section:
    """The expectations of a step or of an annotation.

    Attributes:
        kind: ``step``, ``annotation`` or ``trace``.
        name: of the annotation.
        entries: its expectations.
    """

    kind: str
    name: str
    entries: tuple[Entry, ...]

    @property
    def label(self) -> str:
        """``annotation.mlp_fwd``."""
        return f"{self.kind}.{self.name}" if self.name else self.kind


@dataclass(frozen=True, slots=True)
class Ratio:
    """A time as a part of another time of the same trace: ``step`` or an annotation each."""

    of: str
    to: str
    time: str
    bound: Bound


@dataclass(frozen=True, slots=True)
class Baseline:
    """Times as parts of those of another trace."""

    trace: str
    bounds: tuple[tuple[str, Bound], ...]


@dataclass(frozen=True, slots=True)
class Expectations:
    """All expectations of a file.

    Attributes:
        source: the file, or what it is called in messages.
        sections: of steps, annotations and the trace.
        ratios: times as parts of other times.
        baseline: times as parts of another trace's; None for none.
    """

    source: str
    sections: tuple[Section, ...] = ()
    ratios: tuple[Ratio, ...] = ()
    baseline: Baseline | None = None
    folder: Path = field(default_factory=Path)


def read_expectations(path: str) -> Expectations:
    """The expectations of a TOML file.

    Raises:
        UsageError: the file cannot be read, is not TOML, or has something in it that is not known.
    """
    try:
        document = tomllib.loads(Path(path).read_text("utf-8"))
    except OSError as why:
        reason = why.strerror or str(why)
        raise UsageError(path, EXPECT.message("unreadable", why=reason), EXPECT.message("unreadable-next")) from why
    except UnicodeDecodeError as why:
        raise UsageError(path, EXPECT.message("not-text"), EXPECT.message("not-text-next")) from why
    except tomllib.TOMLDecodeError as why:
        raise UsageError(path, EXPECT.message("no-toml", why=str(why))) from why
    return expectations_of(document, path, Path(path).parent)


def expectations_of(document: Mapping[str, Any], source: str = "expect", folder: Path | None = None) -> Expectations:
    """The expectations of a document; one without sections is that of a step: ``{"kernels": 5}``.

    Raises:
        UsageError: something in it is not known, or has another form.
    """
    if document and not set(document) & set(SECTIONS) and all(k in {x.name for x in KEYS} for k in document):
        document = {"step": document}
    sections: list[Section] = []
    for name, value in document.items():
        if name not in SECTIONS:
            raise _unknown(source, name, SECTIONS, "unknown-section")
        if name in ("ratio", "baseline"):
            continue
        tables = _tables(source, name, value)
        sections += [Section(name, inner, _entries(source, name, inner, table)) for inner, table in tables]
    found = Expectations(source, tuple(sections), _ratios(source, document), _baseline(source, document), folder or Path())
    if not found.sections and not found.ratios and found.baseline is None:
        raise UsageError(source, EXPECT.message("empty"), EXPECT.message("empty-next"))
    return found


def _tables(source: str, name: str, value: Any) -> list[tuple[str, Mapping[str, Any]]]:
    """The tables of a section: one, or one an annotation."""
    if not isinstance(value, Mapping):
        raise UsageError(source, EXPECT.message("no-table", name=name))
    if name != "annotation":
        return [("", value)]
    for inner, table in value.items():
        if not isinstance(table, Mapping):
            raise UsageError(source, EXPECT.message("no-annotation-table", name=inner), EXPECT.message("annotation-form"))
    return [(str(inner), table) for inner, table in value.items()]


def _entries(source: str, kind: str, name: str, table: Mapping[str, Any]) -> tuple[Entry, ...]:
    known = {k.name: k for k in (TRACE_KEYS if kind == "trace" else KEYS) if kind in k.of}
    where = f"[{kind}.{name}]" if name else f"[{kind}]"
    out: list[Entry] = []
    for word, value in table.items():
        key = known.get(word)
        if key is None:
            raise _unknown(f"{source}: {where}", word, tuple(known), "unknown-key")
        out += _of_key(f"{source}: {where} {word}", key, value)
    return tuple(out)


def _of_key(subject: str, key: Key, value: Any) -> list[Entry]:
    if isinstance(value, Mapping) and key.form in ("counts", "table"):
        return [_in_table(subject, key, str(sub), inner) for sub, inner in value.items()]
    if key.form in ("count", "counts", "ratio", "size"):
        return [Entry(key, "total" if key.form == "counts" else "", bound=_bound(subject, key, value))]
    if key.form == "names" and isinstance(value, list | tuple) and all(isinstance(v, str) for v in value):
        _check_rules(subject, key, value)
        return [Entry(key, names=(v,)) for v in value]
    if key.form == "word" and isinstance(value, str):
        if value not in key.words:
            raise _unknown(subject, value, key.words, "unknown-word")
        return [Entry(key, names=(value,))]
    if key.form == "flag" and isinstance(value, bool):
        return [Entry(key, flag=value)]
    raise UsageError(subject, EXPECT.message("form", value=repr(value)), EXPECT.message(f"form-{key.form}"))


def _in_table(subject: str, key: Key, sub: str, value: Any) -> Entry:
    if key.words and sub not in key.words:
        raise _unknown(subject, sub, key.words, "unknown-word")
    return Entry(key, sub, bound=_bound(f"{subject}.{sub}", key, value))


def _bound(subject: str, key: Key, value: Any) -> Bound:
    bound = _BOUNDS[key.form](value)
    if bound is None:
        raise UsageError(subject, EXPECT.message("form", value=repr(value)), EXPECT.message(f"form-{key.form}"))
    return bound


def _check_rules(subject: str, key: Key, names: Any) -> None:
    if key.name != "findings_absent":
        return
    from lanewise.rules import rules

    ids = tuple(rule.id for rule in rules())
    for name in names:
        if name != "*" and name not in ids:
            raise _unknown(subject, name, ids, "unknown-word")


def _ratios(source: str, document: Mapping[str, Any]) -> tuple[Ratio, ...]:
    found = document.get("ratio", [])
    rows = [found] if isinstance(found, Mapping) else found
    out = []
    for row in rows:
        for word in row if isinstance(row, Mapping) else ():
            if word not in _RATIO_KEYS:
                raise _unknown(f"{source}: [[ratio]]", word, _RATIO_KEYS, "unknown-key")
        bound = ratio_bound(row.get("is")) if isinstance(row, Mapping) else None
        if bound is None or not isinstance(row.get("of"), str) or row.get("time", "gpu") not in RATIO_TIMES:
            raise UsageError(
                f"{source}: [[ratio]]", EXPECT.message("form", value=repr(row)), EXPECT.message("form-ratio-table")
            )
        out.append(Ratio(row["of"], str(row.get("to", "step")), str(row.get("time", "gpu")), bound))
    return tuple(out)


def _baseline(source: str, document: Mapping[str, Any]) -> Baseline | None:
    table = document.get("baseline")
    if table is None:
        return None
    subject = f"{source}: [baseline]"
    if not isinstance(table, Mapping) or not isinstance(table.get("trace"), str):
        raise UsageError(subject, EXPECT.message("no-baseline-trace"), EXPECT.message("form-baseline"))
    bounds = []
    for word, value in table.items():
        if word not in _BASELINE_KEYS:
            raise _unknown(subject, word, _BASELINE_KEYS, "unknown-key")
        if word == "trace":
            continue
        bound = ratio_bound(value)
        if bound is None:
            raise UsageError(f"{subject} {word}", EXPECT.message("form", value=repr(value)), EXPECT.message("form-ratio"))
        bounds.append((word, bound))
    return Baseline(table["trace"], tuple(bounds))


def _unknown(subject: str, word: str, known: tuple[str, ...], key: str) -> UsageError:
    """An error about a word that is not known, with the one that was probably meant."""
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    if near:
        return UsageError(subject, EXPECT.message(key, word=repr(word)), EXPECT.message("near", near=near[0]))
    return UsageError(subject, EXPECT.message(key, word=repr(word)), EXPECT.message("known", known=", ".join(known)))
