"""The message about a kernel that accesses what it must not, on every system that compiles kernels."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.runtime.drivers.cpu.launcher import is_native

PROGRAM = """
import numpy as np
import tilewright as tw
import tilewright.language as tl

@tw.jit
def reads_far(x, first, far, BLOCK: tl.constexpr):
    i = (tl.program_id(0) + 8 * tl.program_id(1)) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i + far * (tl.program_id(0) >= first)))

x = np.zeros(4096, np.float32)
reads_far[8, 4](x, 64, 0, BLOCK=64, num_threads={threads})
print("good", flush=True)
reads_far[8, 4](x, 0, 2**40, BLOCK=64, num_threads={threads})
print("not reached", flush=True)
"""


@pytest.mark.skipif(not is_native(), reason="there is no native launcher here")
@pytest.mark.parametrize("threads", [pytest.param(1, marks=pytest.mark.spared), 3])
def test_the_kernel_is_named_once_before_the_process_dies(threads: int, tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM.format(threads=threads))
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout == "good\n"
    assert done.returncode != 0
    assert done.stderr.count("tilewright: access violation at address 0x") == 1
    assert "in the kernel reads_far, launched over the grid (8, 4, 1)" in done.stderr
