from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

from lanewise.errors import UsageError
from lanewise.recording import writing
from lanewise.recording.plan import Plan
from lanewise.recording.writing import file_name, free_name, refuse_existing, rewrite, target

TORCH_JSON = """
 {
    "schemaVersion": 1,
    "traceEvents": [
  {
    "ph": "X", "cat": "user_annotation", "name": "ProfilerStep#7", "pid": 1, "tid": 1, "ts": 5.5, "dur": 3.25
  },
  {
    "ph": "X", "cat": "user_annotation", "name": "ProfilerStep#8", "pid": 1, "tid": 1, "ts": 9.5, "dur": 1.25
  }
  ],
  "traceName": "x"
}"""


def test_a_file_name_carries_host_pid_rank_and_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing.socket, "gethostname", lambda: "node-7.example.org")
    assert file_name("train", 3, 17, 19) == f"train.node-7.{os.getpid()}.rank3.step17-19.json.gz"
    assert file_name("a b/c", 0, None, None) == f"a_b_c.node-7.{os.getpid()}.rank0.whole.json.gz"


def test_a_file_is_taken_as_named_and_a_folder_gets_a_name_of_its_own() -> None:
    assert target(Plan(out="here/x.json"), 0, 1, 1, 2) == Path("here/x.json")
    assert target(Plan(out="here/x.json.gz"), 2, 4, 1, 2) == Path("here/x.rank2.json.gz")
    assert target(Plan(out="here", label="t"), 0, 1, 1, 2).parent == Path("here")
    assert target(Plan(label="t"), 0, 1, 1, 2).parent == Path("traces")


def test_the_header_goes_in_front_and_the_rest_is_untouched(tmp_path: Path) -> None:
    source = tmp_path / "raw.json"
    source.write_text(TORCH_JSON)
    n_bytes = rewrite(source, tmp_path / "out.json.gz", {"schema": "s", "label": "µ"})
    text = gzip.decompress((tmp_path / "out.json.gz").read_bytes())
    assert n_bytes == len(text)
    document = json.loads(text)
    assert document.pop("lanewise") == {"schema": "s", "label": "µ"}
    assert document == json.loads(TORCH_JSON)


def test_plain_json_stays_plain(tmp_path: Path) -> None:
    source = tmp_path / "raw.json"
    source.write_text(TORCH_JSON)
    rewrite(source, tmp_path / "out.json", {})
    assert json.loads((tmp_path / "out.json").read_text())["traceName"] == "x"


@pytest.mark.parametrize("chunk_bytes", [64, 97, 128, 1000])
def test_an_unfinished_step_loses_its_name_wherever_chunks_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk_bytes: int
) -> None:
    monkeypatch.setattr(writing, "_CHUNK_BYTES", chunk_bytes)
    source = tmp_path / "raw.json"
    source.write_text(TORCH_JSON)
    rewrite(source, tmp_path / "out.json", {}, unfinished="ProfilerStep#8")
    names = [event["name"] for event in json.loads((tmp_path / "out.json").read_text())["traceEvents"]]
    assert names == ["ProfilerStep#7", "Unfinished ProfilerStep#8"]


def test_a_failure_leaves_neither_a_file_nor_a_temporary_one(tmp_path: Path) -> None:
    source = tmp_path / "raw.json"
    source.write_text("")
    with pytest.raises(UsageError):
        rewrite(source, tmp_path / "out.json.gz", {})
    assert [path.name for path in tmp_path.iterdir()] == ["raw.json"]


def test_a_failure_keeps_the_file_that_was_there(tmp_path: Path) -> None:
    source = tmp_path / "raw.json"
    source.write_text("no json")
    (tmp_path / "out.json").write_text("old")
    with pytest.raises(UsageError):
        rewrite(source, tmp_path / "out.json", {})
    assert (tmp_path / "out.json").read_text() == "old"


def test_a_taken_name_gets_a_number_unless_forced(tmp_path: Path) -> None:
    path = tmp_path / "x.json.gz"
    assert free_name(path, force=False) == path
    path.touch()
    assert free_name(path, force=False) == tmp_path / "x-2.json.gz"
    (tmp_path / "x-2.json.gz").touch()
    assert free_name(path, force=False) == tmp_path / "x-3.json.gz"
    assert free_name(path, force=True) == path


def test_an_existing_output_is_refused_before_anything_runs(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    refuse_existing(Plan(out=str(path)))
    path.touch()
    with pytest.raises(UsageError, match="--force"):
        refuse_existing(Plan(out=str(path)))
    refuse_existing(Plan(out=str(path), force=True))
    refuse_existing(Plan(out=str(tmp_path)))


def test_each_rank_has_a_file_of_its_own_to_refuse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    plan = Plan(out=str(tmp_path / "x.json"))
    (tmp_path / "x.json").touch()
    refuse_existing(plan)
    (tmp_path / "x.rank1.json").touch()
    with pytest.raises(UsageError, match=r"x\.rank1\.json"):
        refuse_existing(plan)
