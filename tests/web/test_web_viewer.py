"""The viewer: this machine only, with the token only, the given files only; every event by zooming in; reload and shutdown."""

from __future__ import annotations

import base64
import gzip
import hashlib
import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from html import escape as html_escape
from itertools import accumulate
from pathlib import Path

import pytest

from lanewise.loading import load
from lanewise.timeline import Tiles, selection, tiles
from lanewise.viewing import Server, Shown
from lanewise.viewing.perfetto import ORIGIN, PerfettoServer
from places import ROOT
from web.conftest import Browse

SINS = ROOT / "examples" / "gpt_train_sins.json.gz"
MLP = ROOT / "examples" / "mlp.json.gz"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    running = Server([Shown(str(MLP), "en")])
    running.start()
    yield running
    running.stop()


def ask(server: Server | PerfettoServer, path: str, method: str = "GET", **headers: str) -> tuple[int, bytes, dict[str, str]]:
    """A request as it stands: nothing is normalised on the way."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.putrequest(method, path, skip_host=True)
    connection.putheader("Host", headers.pop("Host", f"127.0.0.1:{server.port}"))
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    answer = connection.getresponse()
    got = answer.status, answer.read(), {k.lower(): v for k, v in answer.getheaders()}
    connection.close()
    return got


def test_listens_on_this_machine_only(server: Server) -> None:
    assert server.url.startswith("http://127.0.0.1:")
    assert server._http.server_address[0] == "127.0.0.1"
    others = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)} - {"127.0.0.1"}
    for address in others:
        if not str(address).startswith("127."):
            with pytest.raises(OSError):  # noqa: PT011  the kind depends on the system
                socket.create_connection((str(address), server.port), timeout=2).close()


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "localhost.evil:{port}", ""]
)
def test_other_hosts_get_nothing(server: Server, host: str) -> None:
    status, body, _ = ask(server, f"/{server.token}/0/", Host=host.format(port=server.port))
    assert status == 403
    assert b"payload" not in body


@pytest.mark.parametrize("path", ["/", "/0/", "//0/", "/wrong/0/", "/{half}/0/", "/{token}x/0/", "/?token={token}", "/%00/0/"])
def test_without_the_token_there_is_nothing(server: Server, path: str) -> None:
    status, body, _ = ask(server, path.format(token=server.token, half=server.token[:16]).encode().decode("latin-1"))
    assert status == 404
    assert body == b"not found\n"


@pytest.mark.parametrize(
    "rest",
    [
        "../",
        "..%2f..%2fetc/passwd",
        "0/../../../etc/passwd",
        "0//etc/passwd",
        "1/",
        "-1/",
        "00000/",
        "0/page",
        "0/tile/",
        "%C2%B2/",
        "0/%2e%2e/",
        "etc/passwd",
        str(MLP),
        "0/" + str(MLP),
    ],
)
def test_no_other_file_can_be_read(server: Server, rest: str) -> None:
    status, body, _ = ask(server, f"/{server.token}/{rest}".encode().decode("latin-1"))
    assert status == 404
    assert body == b"not found\n"


def test_the_page_and_its_headers(server: Server) -> None:
    status, body, headers = ask(server, f"/{server.token}/0/")
    assert status == 200
    assert b'data-mode="view-1"' in body
    assert b"connect-src 'self'" in body
    assert "access-control-allow-origin" not in headers
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-frame-options"] == "DENY"
    assert headers["cache-control"] == "no-store"
    assert ask(server, f"/{server.token}/")[2]["location"] == f"/{server.token}/0/"


@pytest.mark.parametrize(("lang", "title"), [("en", "2 traces"), ("ja", "トレース 2 件")])
def test_several_traces_are_listed(tmp_path: Path, lang: str, title: str) -> None:
    hostile = tmp_path / "<img src=x onerror=pwned=1>.json.gz"
    hostile.write_bytes(MLP.read_bytes())
    running = Server([Shown(str(MLP), lang), Shown(str(hostile), lang)])
    running.start()
    try:
        status, body, headers = ask(running, f"/{running.token}/")
        assert ask(running, f"/{running.token}/1/")[0] == 200
        assert ask(running, f"/{running.token}/2/")[0] == 404
    finally:
        running.stop()
    text = body.decode("utf-8")
    assert status == 200
    assert f"<h1>{title}</h1>" in text
    assert "<img" not in text
    assert text.count("<li>") == 2
    assert html_escape(running.shown[0].verdict) in text
    assert "default-src 'none'" in headers["content-security-policy"]
    [style] = re.findall("<style>(.*?)</style>", text)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in headers["content-security-policy"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "CONNECT"])
def test_it_only_answers_reading(server: Server, method: str) -> None:
    assert ask(server, f"/{server.token}/0/", method)[0] == 501
    assert ask(server, f"/{server.token}/0/", "OPTIONS", Origin="https://evil.example")[0] == 403


@pytest.mark.parametrize("query", ["", "begin=1", "begin=a&end=2", "begin=5&end=1", f"begin=0&end={2**80}"])
def test_tiles_of_nonsense(server: Server, query: str) -> None:
    assert ask(server, f"/{server.token}/0/tile?{query}")[0] == 400


def test_a_tile_has_every_event_of_its_stretch(server: Server) -> None:
    trace = load(str(MLP))
    base, last = trace.span or (0, 0)
    begin, end = (last - base) // 3, (last - base) // 2
    status, body, _ = ask(server, f"/{server.token}/0/tile?begin={begin}&end={end}")
    assert status == 200
    tile = json.loads(body)
    got = sorted(
        (tile["strings"][n], t, d)
        for lane in tile["lanes"]
        for n, t, d in zip(lane["name"], accumulate(lane["start"]), lane["dur"], strict=True)
    )
    inside = (trace.ts - base <= end) & (trace.end - base >= begin)
    wanted = sorted((trace.name_of(e), int(trace.ts[e]) - base, int(trace.dur[e])) for e in inside.nonzero()[0].tolist())
    assert got == wanted
    assert tile["full"] is True


def test_a_tile_of_too_much_has_the_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "MOST_SLICES", 100)
    trace = load(str(MLP))
    tile = Tiles(trace).tile(0, int(trace.end.max() - trace.ts[0]))
    kept = [d for lane in tile.lanes for d in lane.dur]
    assert tile.full is False
    assert 0 < len(kept) <= 100
    assert min(kept) >= sorted(trace.dur.tolist())[-100]


def test_zooming_in_shows_every_event(browse: Browse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "BUDGET", 1500)
    running = Server([Shown(str(SINS), "en")])
    running.start()
    try:
        script = """(async () => {
          const probe = globalThis.lanewise, before = probe.slices;
          probe.show(5e6, 6e6);
          for (let i = 0; i < 100 && !probe.full(); i++) await new Promise((r) => setTimeout(r, 50));
          return [before, probe.slices, probe.full()];
        })()"""
        job = {"url": f"{running.url}0/", "lang": "ja", "theme": "dark"}
        result, moved = browse([{**job, "search": "aten::"}, {**job, "basic": True, "after": script}])
    finally:
        running.stop()
    before, after, full = moved["after"]
    assert result["errors"] == moved["errors"] == []
    assert full is True
    assert before < after <= 20785
    for shown in result["findings"]:
        assert shown["inView"] or not shown["rows"]


def test_reads_again_when_the_file_changes(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(gzip.decompress(MLP.read_bytes()))
    shown = Shown(str(path), "en")
    first = shown.page
    assert shown.look() == 1
    path.write_bytes((ROOT / "tests" / "cases" / "link-graph-replay.json").read_bytes())
    assert shown.look() == 1  # it may still be written to
    assert shown.look() == 2
    assert shown.page != first
    second = shown.page
    path.write_bytes(b"no trace")
    assert [shown.look(), shown.look()] == [2, 2]
    path.unlink()
    assert [shown.look(), shown.look()] == [2, 2]
    assert shown.page == second


def test_perfetto_may_read_and_nobody_else_is_told() -> None:
    running = PerfettoServer(b"data", "a b.json", port=0)
    running.start()
    try:
        path = f"/{running.token}/a%20b.json"
        status, body, headers = ask(running, path, Origin=ORIGIN)
        assert (status, body) == (200, b"data")
        assert headers["access-control-allow-origin"] == ORIGIN
        assert running.link == f"{ORIGIN}/#!/?url=http://127.0.0.1:{running.port}/{running.token}/a%2520b.json"
        assert ask(running, path, "OPTIONS", Origin=ORIGIN)[2]["access-control-allow-private-network"] == "true"
        assert ask(running, path, "OPTIONS", Origin="https://evil.example")[0] == 403
        assert ask(running, "/a%20b.json")[0] == 404
        assert ask(running, path, Host="evil.example")[0] == 403
        assert running.fetched.is_set()
    finally:
        running.stop()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_ends_cleanly(number: signal.Signals) -> None:
    command = [sys.executable, "-m", "lanewise", "view", str(MLP), "--no-browser", "--quiet", "--lang", "en"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert running.stdout is not None
    address = running.stdout.readline().strip()
    assert address.startswith("http://127.0.0.1:")
    begun = time.monotonic()
    running.send_signal(number)
    _, errors = running.communicate(timeout=20)
    assert running.returncode == 0
    assert errors == ""
    assert time.monotonic() - begun < 10


def test_a_file_that_is_not_there() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lanewise", "view", "nothing.json", "--lang", "en"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert done.stderr.startswith("lanewise: nothing.json: there is no such file.")
