"""A loop whose step is known only at run time counts up: with a step of 0 or less it has no turn, wherever it runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
import numpy as np
import tilewright as tw
import tilewright.language as tl

def counted(out, x, low, high, step):
    turns = 0
    for i in range(low, high, step):
        turns += 1
    tl.store(out, turns)

def known_bounds(out, x, low, high, step):
    turns = 0
    for i in range(0, 4, step):
        turns += 1
    tl.store(out, turns)

def left_early(out, x, low, high, step):
    turns = 0
    for i in range(low, high, step):
        turns += 1
        if turns == 3:
            break
    tl.store(out, turns)

def summed(out, x, low, high, step):
    row = tl.zeros([64], tl.int32)
    for i in range(low, high, step):
        row += tl.load(x + i * 64 + tl.arange(0, 64))
    tl.store(out, tl.max(row, 0))

def in_two_branches(out, x, low, high, step):
    # The same three i64 numbers bound two loops, of which neither runs before the other.
    turns, low, high, step = 0, low.to(tl.int64), high.to(tl.int64), step.to(tl.int64)
    if high > 0:
        for i in range(low, high, step):
            turns += 1
            tl.store(out, turns)
    else:
        for i in range(low, high, step):
            turns += 2
            tl.store(out, turns)
    tl.store(out, turns)

CASES = {(0, 4, -1): 0, (0, 4, 0): 0, (0, 4, 3): 2, (4, 0, -1): 0}
for kernel in counted, known_bounds, left_early, summed, in_two_branches:
    jitted = tw.jit(kernel, interpret=sys.argv[1] == "interpret")
    for bounds, turns in CASES.items():
        out = np.full(1, -1, np.int32)
        jitted[(1,)](out, np.ones(4 * 64, np.int32), *bounds)
        assert out[0] == turns, (kernel, bounds, out[0])
print("done")
"""


@pytest.mark.parametrize("how", ["compile", "interpret"])
def test_run_time_step(how: str, tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    done = subprocess.run([sys.executable, str(path), how], capture_output=True, text=True, timeout=120)
    assert done.stdout == "done\n", done.stderr
