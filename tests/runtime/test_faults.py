"""Faults around a launch, end to end: results stay right, and nothing half made stays behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from fresh_caches import cache_without_kernels


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A disk cache that holds nothing yet; this process and those it starts use it."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def files(folder: Path) -> dict[str, bytes]:
    return {os.fspath(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@tw.jit
def total_of_two(x_ptr, out_ptr, LEFT: tl.constexpr, RIGHT: tl.constexpr):
    total = tl.load(x_ptr + tl.arange(0, LEFT)) + tl.load(x_ptr + tl.arange(0, RIGHT))
    tl.store(out_ptr + tl.arange(0, LEFT), total)


def test_a_kernel_that_fails_to_compile_changes_nothing(cache: Path) -> None:
    x, out = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    kernel = total_of_two[(1,)](x, out, LEFT=64, RIGHT=64)
    before, texts = files(cache), []
    for _ in range(2):
        out[:] = 0
        with pytest.raises(tw.CompilationError) as caught:
            total_of_two[(1,)](x, out, LEFT=128, RIGHT=64)
        texts.append(str(caught.value))
        assert not out.any()
    assert texts[0] == texts[1]
    assert files(cache) == before
    assert total_of_two[(1,)](x, out, LEFT=64, RIGHT=64) is kernel
    total_of_two[(1,)](x, out, LEFT=128, RIGHT=128)
    assert np.array_equal(out, 2 * x)


PROGRAM = """
import resource, sys, warnings
import numpy as np
import tilewright as tw
import tilewright.language as tl

@tw.jit
def double(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, 2 * tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)

if len(sys.argv) > 1:
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
x = np.arange(1000, dtype=np.float32)
out = np.zeros_like(x)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for block in (128, 256):
        out[:] = 0
        double[(8,)](x, out, 1000, BLOCK=block)
        assert np.array_equal(out, 2 * x)
print(*(warning.message for warning in caught), "llvmlite" in sys.modules, sep="\\n")
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def run(program: Path, *arguments: str) -> list[str]:
    """The warnings that the program printed, and whether it had to compile."""
    found = subprocess.run([sys.executable, program, *arguments], check=True, capture_output=True, text=True)
    return found.stdout.splitlines()


@pytest.mark.slow
def test_a_disk_without_room_costs_one_warning(cache: Path, program: Path) -> None:
    """Files that cannot grow beyond 100 bytes stand for a full disk."""
    before = files(cache_without_kernels(cache))
    *messages, compiled = run(program, "100")
    assert (len(messages), compiled) == (1, "True")
    assert "not kept" in messages[0]
    assert files(cache) == before
    assert run(program) == ["True"]
    assert run(program) == ["False"]
