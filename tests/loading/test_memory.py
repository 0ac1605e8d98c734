"""The text of a trace is never held whole: peak memory is the columns and a few blocks."""

from __future__ import annotations

import subprocess
import sys

import pytest

# A file object that makes up a trace of so many MB as it is read, loaded in a process of its own.
_SCRIPT = r"""
import io, resource, sys
import lanewise
from lanewise.loading import load

class Endless(io.RawIOBase):
    def __init__(self, megabytes):
        self.left = megabytes
        self.number = 0
        self.buffer = b'{"schemaVersion": 1, "traceEvents": [\n'

    def readable(self):
        return True

    def read(self, size=-1):
        while len(self.buffer) < size and self.left:
            events = []
            for _ in range(2000):
                self.number += 1
                n = self.number
                fields = '"name": "aten::op%d", "pid": 1, "tid": 1, "ts": %d.250, "dur": 1.5' % (n % 50, n * 2)
                args = '{"External id": %d, "padding": "%s"}' % (n, "x" * 400)
                events.append('{"ph": "X", "cat": "cpu_op", ' + fields + ', "args": ' + args + "}")
            self.buffer += (",\n".join(events) + (",\n" if self.left > 1 else "\n]}")).encode()
            self.left -= 1
        out, self.buffer = self.buffer[:size], self.buffer[size:]
        return out

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 if sys.platform == "darwin" else 1024)

load(Endless(3), processes=0)
before = peak()
trace = load(Endless(int(sys.argv[1])), processes=0)
assert not trace.truncated
print(before, peak(), len(trace))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no resource module")
def test_peak_memory() -> None:
    done = subprocess.run([sys.executable, "-c", _SCRIPT, "120"], capture_output=True, text=True, timeout=240, check=True)
    before, peak, events = map(float, done.stdout.split())
    assert events == 240_000
    # 130 MB of text. Columns of an event take some 60 bytes, twice while chunks are joined; a block in work 12 times its 4 MB.
    assert peak - before < 2 * 60 * events / 1e6 + 40
