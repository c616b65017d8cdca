"""`tl.assume` reaches LLVM; it takes scalars alone."""

import re

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl


@tw.jit
def lower_half(out_ptr, n):
    tl.assume(n < 8)
    at = tl.arange(0, 16)
    if n < 9:
        tl.store(out_ptr + at, at, at < n)
    else:
        tl.store(out_ptr + at, 77)


@pytest.mark.spared
def test_assumption(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    out = np.full(16, -1, np.int32)
    kernel = lower_half[(1,)](out, 5)
    assert out.tolist() == [0, 1, 2, 3, 4] + [-1] * 11
    assert len(re.findall(r"call void @llvm\.assume\(i1 %", kernel.asm["llir"])) == 1


@tw.jit
def assumes_tile(out_ptr):
    at = tl.arange(0, 16)
    tl.assume(at >= 0)
    tl.store(out_ptr + at, at)


def test_tile_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    with pytest.raises(tw.CompilationError, match="scalar"):
        assumes_tile[(1,)](np.zeros(16, np.int32))
