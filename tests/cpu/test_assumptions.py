"""`tl.assume` reaches LLVM; it takes scalars alone, and says nothing of the elements of tiles."""

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


@tw.jit
def sum_of_promised(a, b):
    tl.assume(b >= 0)
    if a > b:
        tl.assume(a > b)
        return a + b
    return b + a


@tw.jit(noinline=True)
def added(a, b):
    tl.assume(a >= 0)
    return a + b


@tw.jit(noinline=True)
def added_elsewhere(a, b):
    return added(a, b)


@tw.jit
def sum_of_others(a, b):
    return added_elsewhere(a, b)


@tw.jit
def of_elements(out_ptr, FUNCTION: tl.constexpr):
    at = tl.arange(0, 64)
    tl.store(out_ptr, tl.reduce(at, 0, FUNCTION))
    tl.store(out_ptr + 64 + at, tl.associative_scan(at, 0, FUNCTION))
    tl.store(out_ptr + 128 + at, tl.map_elementwise(FUNCTION, at, at % 7))


@pytest.mark.parametrize("function", [sum_of_promised, added, sum_of_others])
def test_promises_about_elements_are_left_out(function, tmp_path, monkeypatch):
    """The lanes of a vector that are no elements need not hold them; such functions are inlined, all of them."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    out = np.zeros(192, np.int32)
    kernel = of_elements[(1,)](out, function)
    at = np.arange(64)
    assert out[0] == at.sum()
    np.testing.assert_array_equal(out[64:128], at.cumsum())
    np.testing.assert_array_equal(out[128:], at + at % 7)
    assert "llvm.assume" not in kernel.asm["llir"]


@tw.jit
def printed(a, b):
    tl.device_print("a", a)
    return a + b


@tw.jit
def reduces_with_effects(out_ptr):
    tl.store(out_ptr, tl.reduce(tl.arange(0, 16), 0, printed))


@tw.jit
def scans_with_effects(out_ptr):
    tl.store(out_ptr + tl.arange(0, 16), tl.associative_scan(tl.arange(0, 16), 0, printed))


@pytest.mark.parametrize("kernel", [reduces_with_effects, scans_with_effects])
def test_combine_functions_have_no_effects(kernel, tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    with pytest.raises(tw.CompilationError, match="a function without effects"):
        kernel[(1,)](np.zeros(16, np.int32))
