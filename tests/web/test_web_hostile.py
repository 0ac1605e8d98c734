"""Names in a trace are untrusted: none of them may become markup or script, wherever they are shown."""

from __future__ import annotations

import base64
import json
import re
import zlib
from pathlib import Path

from lanewise.rendering import html
from web.conftest import Browse
from web.pages import parts_of, write

NASTY = "</script><img src=x onerror=\"globalThis.pwned='name'\"><script>globalThis.pwned='script'</script>"


def hostile_trace(folder: Path) -> Path:
    """A trace in which every text that is shown tries to run something; in a file whose name does too."""
    lane = {"pid": 1, "tid": 1}
    call = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "args": {"correlation": 7}}
    kernel = {
        "cat": "kernel",
        "name": NASTY,
        "args": {"correlation": 7, "device": 0, "stream": 7, "grid": [1, 1, 1], "block": [32, 1, 1]},
    }
    module = {"cat": "python_function", "name": f"nn.Module: {NASTY}", "args": {"Python id": 1, "Python module id": 0}}
    events = [
        {"ph": "M", "name": "thread_name", **lane, "args": {"name": NASTY}},
        {"ph": "M", "name": "process_name", **lane, "args": {"name": NASTY}},
        {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "ts": 1, "dur": 300, **lane},
        {"ph": "X", "ts": 2, "dur": 290, **module, **lane},
        {"ph": "X", "cat": "cpu_op", "name": NASTY, "ts": 3, "dur": 280, **lane},
        {"ph": "X", "ts": 10, "dur": 5, **call, **lane},
        {"ph": "X", "ts": 20, "dur": 200, "pid": 0, "tid": 7, **kernel},
    ]
    device = {"id": 0, "name": NASTY, "numSms": 1}
    path = folder / "<img src=x onerror=globalThis.pwned=1>.json"
    path.write_text(json.dumps({"deviceProperties": [device], "distributedInfo": {"backend": NASTY}, "traceEvents": events}))
    return path


def test_nothing_is_executed(browse: Browse, tmp_path: Path) -> None:
    trace = hostile_trace(tmp_path)
    page = write(trace, tmp_path / "page.html")
    names = ["onerror", "kernel"]
    jobs = [{"file": str(page), "lang": lang, "theme": "light", "search": name} for lang in ("en", "ja") for name in names[:1]]
    for result in browse(jobs):
        assert result["errors"] == []
        assert result["requests"] == []
        assert result["pwned"] is None
        assert result["images"] == 0
        assert result["scripts"] == 2  # the payload and the page's own
        assert result["search"]["name"].endswith(NASTY)
        assert NASTY in result["search"]["panel"]


def test_no_name_is_in_the_markup(tmp_path: Path) -> None:
    text = write(hostile_trace(tmp_path), tmp_path / "page.html").read_text("utf-8")
    assert "onerror" not in text.replace("&lt;img src=x onerror=globalThis.pwned=1&gt;", "")
    assert text.count("<script") == 2
    assert "unsafe" not in text


def test_the_policy_allows_this_script_only() -> None:
    text = html.page("t", "", "en")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; script-src 'sha256-")
    assert "connect-src 'none'" in policy[1]


def test_the_payload_is_the_report(tmp_path: Path) -> None:
    trace = hostile_trace(tmp_path)
    text = write(trace, tmp_path / "page.html").read_text("utf-8")
    payload = re.search(r'id="payload">([A-Za-z0-9+/=]*)</script>', text)
    assert payload is not None
    data = json.loads(zlib.decompress(base64.b64decode(payload[1])))
    assert data["reports"]["en"] == parts_of(trace)[0]["en"].to_dict()
    assert {**data["reports"]["en"], **data["reports"]["ja"]} == parts_of(trace)[0]["ja"].to_dict()
