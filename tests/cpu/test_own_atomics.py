"""Atomics with `scope="cta"`: no other program uses the element, so a CPU needs no atomic instruction."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from machine_levels import run_here

OPERATIONS = {
    "add": tl.atomic_add,
    "and": tl.atomic_and,
    "or": tl.atomic_or,
    "xor": tl.atomic_xor,
    "max": tl.atomic_max,
}
NUMPY: dict[str, Any] = {
    "add": np.add,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "max": np.maximum,
}


@tw.jit
def update_own(x_ptr, places_ptr, rows_ptr, old_ptr, n, bins, F: tl.constexpr, SCOPE: tl.constexpr, N: tl.constexpr):
    row_ptr = rows_ptr + tl.program_id(0) * bins
    i = tl.arange(0, N)
    place = tl.load(places_ptr + i)
    old = F(row_ptr + place, tl.load(x_ptr + i), mask=i < n, sem="relaxed", scope=SCOPE)
    tl.store(old_ptr + tl.program_id(0) * N + i, old)


@pytest.mark.parametrize(
    ("name", "kind"),
    [(name, kind) for name in OPERATIONS for kind in (np.int32, np.int64)] + [("add", np.float32), ("add", np.float64)],
)
def test_updates_of_a_row_of_ones_own(name: str, kind: Any) -> None:
    """Lanes with one address act one after the other; those behind the mask change nothing and give 0."""
    random = np.random.default_rng(2)
    n, bins, programs, count = 100, 7, 4, 128
    x, places = random.integers(-9, 9, count).astype(kind), random.integers(0, bins, count).astype(np.int32)
    start = random.integers(-9, 9, (programs, bins)).astype(kind)
    rows, old = start.copy(), np.ones((programs, count), kind)
    kernel = update_own[(programs,)](x, places, rows, old, n, bins, OPERATIONS[name], "cta", count, num_threads=2)
    wanted, before = start.copy(), np.zeros_like(old)
    for program in range(programs):
        for lane in range(n):
            before[program, lane] = wanted[program, places[lane]]
            wanted[program, places[lane]] = NUMPY[name](before[program, lane], x[lane])
    np.testing.assert_array_equal(rows, wanted)
    np.testing.assert_array_equal(old, before)
    assert ("atomicrmw" in kernel.asm["llir"]) == (name == "max")


def test_other_scopes_stay_atomic() -> None:
    x, places = np.ones(16, np.int32), np.zeros(16, np.int32)
    for scope in ("gpu", "sys"):
        rows = np.zeros((64, 1), np.int32)
        kernel = update_own[(64,)](x, places, rows, np.zeros((64, 16), np.int32), 16, 0, tl.atomic_add, scope, 16)
        assert rows[0] == 64 * 16
        assert re.search("atomicrmw add", kernel.asm["llir"])


@tw.jit
def add_halves(x_ptr, out_ptr, old_ptr):
    i = tl.program_id(0) * 8 + tl.arange(0, 8)
    tl.store(old_ptr + i, tl.atomic_add(out_ptr + i % 2, tl.load(x_ptr + i)))


@pytest.mark.parametrize("cpu", run_here("x86-64-v2", "x86-64-v3"))
@pytest.mark.parametrize("num_threads", [1, 2])
def test_halves(num_threads: int, cpu: str) -> None:
    """LLVM would call functions that are not there for additions of halves where there is no instruction."""
    x, out, old = np.ones(512, np.float16), np.zeros(2, np.float16), np.zeros(512, np.float16)
    with tw.knobs.tilewright.scope():
        tw.knobs.tilewright.cpu = cpu
        tw.jit(add_halves.fn)[(64,)](x, out, old, num_threads=num_threads)
    assert out.tolist() == [256, 256]
    for side in (0, 1):
        np.testing.assert_array_equal(np.sort(old[side::2]), np.arange(256))


X86 = ("x86-64-v2", "x86-64-v3", "znver4")


@pytest.mark.parametrize("scope", ["cta", "gpu", "launch"])
@pytest.mark.parametrize("kind", [ml_dtypes.bfloat16, np.float16])
@pytest.mark.parametrize("cpu", ["", *run_here(*X86)])
def test_sums_of_short_floats_are_rounded_once_each(cpu: str, kind: Any, scope: str) -> None:
    """As the interpreter rounds them, to nearest even; what LLVM makes of an addition of bfloats cuts bits off."""
    random = np.random.default_rng(5)
    n, bins, count = 250, 7, 256
    x = (random.standard_normal(count) * 2.0 ** random.integers(-9, 4, count)).astype(kind)
    x[[3, 40]], x[41] = np.array([2**-133, 2**-24]).astype(kind), kind(np.inf)
    places = random.integers(1, bins - 2, count).astype(np.int32)
    places[[3, 40, 41]], places[[7, 8]] = (0, bins - 2, bins - 2), bins - 1
    x[[7, 8]] = np.array([np.inf, -np.inf]).astype(kind)
    out, old = np.zeros((1, bins), kind), np.ones((1, count), kind)
    with tw.knobs.tilewright.scope():
        if cpu:  # else this machine's own
            tw.knobs.tilewright.cpu = cpu
        tw.jit(update_own.fn)[(1,)](x, places, out, old, n, bins, tl.atomic_add, scope, count)
    wanted, before = np.zeros((1, bins), kind), np.zeros((1, count), kind)
    with np.errstate(invalid="ignore"):
        for lane in range(n):
            before[0, lane] = wanted[0, places[lane]]
            wanted[0, places[lane]] = kind(np.float32(wanted[0, places[lane]]) + np.float32(x[lane]))
    np.testing.assert_array_equal(out.astype(np.float32), wanted.astype(np.float32))
    np.testing.assert_array_equal(old.astype(np.float32), before.astype(np.float32))
