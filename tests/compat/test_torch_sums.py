"""Sums by index in graphs: atomics of one launch, plain additions where one thread runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import optional_peers
import tilewright

pytestmark = [pytest.mark.needs_torch, pytest.mark.slow]
torch = optional_peers.module("torch")

PROGRAM = """
import torch
from torch._inductor.utils import run_and_get_code
import tilewright as tw, tilewright.language as tl
import tilewright.torch_compile

@tw.jit
def count(x_ptr, sums_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.atomic_add(sums_ptr + tl.load(x_ptr + i), 1, sem="relaxed")

torch.set_num_threads({threads})
def add(sums, places, x):
    return sums.index_put((places,), x, accumulate=True)
places, x, sums = torch.randint(4, (1 << 18,)), torch.ones(1 << 18), torch.zeros(4)
got, (text,) = run_and_get_code(torch.compile(add, backend="tilewright"), sums, places, x)
print((got == add(sums, places, x)).all().item(), "sem='relaxed', scope='launch')" in text)

def users(places):
    sums = torch.zeros(4, dtype=torch.int32)
    torch.library.wrap_triton(count)[(1,)](places, sums, 64)
    return sums
got, (text,) = run_and_get_code(torch.compile(users, backend="tilewright"), places[:64].int())
print((got == places[:64].bincount(minlength=4)).all().item(), "scope=" in text)
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_sums_by_index(tmp_path: Path, installed: Path, threads: int) -> None:
    """Kernels of users keep the scope that they say, since other launches may compete with them."""
    script = tmp_path / "program.py"
    script.write_text(PROGRAM.format(threads=threads))
    source = str(Path(tilewright.__file__).parents[1])
    environment = os.environ | {
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor"),
        "PYTHONPATH": os.pathsep.join([source, str(installed)]),
    }
    command = [sys.executable, "-S", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.splitlines() == ["True True", "True False"]
