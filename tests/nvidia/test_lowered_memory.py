"""Loads, stores and atomics on a GPU: every type, width and mask, against NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from simulated import compiled, launch, run

import tilewright as tw
import tilewright.language as tl

TYPES = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.bool_, np.float16, np.float32, np.float64]
TYPES += [ml_dtypes.bfloat16]
RNG = np.random.default_rng(11)


def slow_but_first(values: list[Any]) -> list[Any]:
    return [values[0], *(pytest.param(value, marks=pytest.mark.slow) for value in values[1:])]


@tw.jit
def copied(x, out, n, B: tl.constexpr, OTHER: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + i, tl.load(x + i, mask=i < n, other=OTHER))


@pytest.mark.parametrize("n", slow_but_first([256, 250]))
@pytest.mark.parametrize("dtype", slow_but_first(TYPES), ids=lambda dtype: np.dtype(dtype).name)
def test_masked_copies(dtype: Any, n: int) -> None:
    """256 elements are known to be a multiple of 16, so that vectors are masked as a whole; 250 are not."""
    x = (RNG.random(512) * 100).astype(dtype) if dtype is not np.bool_ else RNG.random(512) < 0.5
    other = 1 if dtype is np.bool_ else 1.5 if np.dtype(dtype).kind == "f" else 100
    _, found = run(copied, (2,), x, np.zeros(1024, dtype), n, B=512, OTHER=other)
    expected = np.full(1024, other).astype(dtype)
    expected[:n] = x[:n]
    assert (found == expected).all()


@tw.jit
def hinted(x, out, B: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(x + i, eviction_policy="evict_first")
    a += tl.load(x + i, cache_modifier=".cg") + tl.load(x + i, volatile=True)
    tl.store(out + i, a, eviction_policy="evict_last")
    tl.store(out + B + i, a, cache_modifier=".wt")


@pytest.mark.slow
def test_hints_for_caches() -> None:
    x = RNG.random(512, np.float32)
    ptx = compiled(hinted, [x, x], B=512).asm["ptx"]
    for instruction in (
        "createpolicy.fractional.L2::evict_first.b64",
        "ld.global.L1::evict_first.L2::cache_hint.v4.b32",
        "ld.global.cg.v4.b32",
        "ld.volatile.global.v4.b32",
        "st.global.L1::evict_last.L2::cache_hint.v4.b32",
        "st.global.wt.v4.b32",
    ):
        assert instruction in ptx


@tw.jit
def few(x, out, old, B: tl.constexpr):
    """16 elements over 128 threads: seven of eight threads hold copies."""
    i = tl.arange(0, B)
    tl.store(old + i, tl.atomic_add(out + i, tl.load(x + i)))


@tw.jit
def counted(x, out, old, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(old + i, tl.atomic_add(out + i % 64, tl.load(x + i, mask=i < n, other=0), mask=i < n), mask=i < n)


@tw.jit
def summed(x, out, old, B: tl.constexpr):
    i = tl.arange(0, B)
    before = tl.atomic_add(out, tl.sum(tl.load(x + i), 0))
    tl.store(old + i, before + tl.zeros((B,), tl.float32))


@pytest.mark.slow
@pytest.mark.parametrize("capability", [80, 90])
def test_sums_in_memory(capability: int) -> None:
    x = np.arange(300, dtype=np.int32)
    _, found, _ = run(counted, (3,), x, np.zeros(64, np.int32), x, 300, capability=capability, B=128)
    assert (found == np.bincount(x % 64, weights=x, minlength=64)).all()
    start = np.arange(16, dtype=np.int32) * 5
    _, found, old = run(few, (1,), start, start, start * 0, capability=capability, B=16)
    assert (found == 2 * start).all()
    assert (old == start).all()
    x = RNG.random(128, np.float32)
    _, total, old = run(summed, (1,), x, np.full(1, 2, np.float32), x, capability=capability, B=128)
    np.testing.assert_allclose(total, x.sum() + 2, rtol=1e-6)
    assert (old == 2).all()


@tw.jit
def combined(x, out, old, OP: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    value = tl.load(x + i)
    if OP == "max":
        found = tl.atomic_max(out + i, value)
    elif OP == "min":
        found = tl.atomic_min(out + i, value)
    elif OP == "and":
        found = tl.atomic_and(out + i, value)
    elif OP == "or":
        found = tl.atomic_or(out + i, value)
    elif OP == "xor":
        found = tl.atomic_xor(out + i, value)
    elif OP == "xchg":
        found = tl.atomic_xchg(out + i, value)
    else:
        found = tl.atomic_add(out + i, value, sem="relaxed")
    tl.store(old + i, found)


RULES = {
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "xchg": lambda old, new: new,
    "add": np.add,
}
KINDS = [(op, kind) for op in ("max", "min", "xchg", "add") for kind in (np.int32, np.uint32, np.float32)]
KINDS += [(op, kind) for op in ("and", "or", "xor") for kind in (np.int32, np.int64)]
KINDS += [("add", kind) for kind in (np.float16, np.float64, ml_dtypes.bfloat16)]


@pytest.mark.slow
@pytest.mark.parametrize("capability", [80, 90])
@pytest.mark.parametrize(("op", "dtype"), KINDS, ids=lambda value: value if isinstance(value, str) else value.__name__)
def test_every_operation(op: str, dtype: Any, capability: int) -> None:
    if np.dtype(dtype).kind in "iu":
        x = RNG.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, 1024, dtype)
    else:
        x = (RNG.standard_normal(1024) * 8).astype(dtype)
    start = x[::-1].copy()
    _, found, old = run(combined, (1,), x, start, x, capability=capability, OP=op, B=1024)
    with np.errstate(all="ignore"):
        assert (found == RULES[op](start, x)).all()
    assert (old == start).all()


@tw.jit
def swapped(out, old, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(old + i, tl.atomic_cas(out + i, i, i + 1000))


def test_compare_and_swap() -> None:
    start = np.arange(256, dtype=np.int32)
    start[::3] = 7
    found, old = run(swapped, (1,), start, start * 0, B=256)
    assert (found == np.where(start == np.arange(256), start + 1000, start)).all()
    assert (old == start).all()


@tw.jit
def waited(flag, out):
    while tl.atomic_add(flag, 0, sem="acquire") == 0:
        pass
    tl.store(out, tl.load(out) + 1)


def test_adding_nothing_is_a_load() -> None:
    flag, out = np.ones(1, np.int32), np.zeros(1, np.int32)
    made = compiled(waited, [flag, out])
    assert "ld.acquire.gpu.global.b32" in made.asm["ptx"]
    assert launch(made, (1,), [flag, out])[1] == 1


@tw.jit
def met(out, old, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(old + i, tl.atomic_add(out + i % n, (i % 8 + 1).to(tl.bfloat16), mask=i < B - 3))


@pytest.mark.slow
def test_sums_of_bf16_leave_the_neighbour_alone() -> None:
    """An array of an odd number of elements: the word of the last one reaches behind its end."""
    zeros = [np.zeros(n, ml_dtypes.bfloat16) for n in (37, 128)]
    made = compiled(met, [*zeros, 37], B=128)
    found, old = launch(made, (1,), [*zeros, 37])
    lanes = np.arange(125)
    assert found.tolist() == np.bincount(lanes % 37, weights=lanes % 8 + 1).tolist()
    assert (old[:125] < found[lanes % 37]).all()
    assert "cas.b16" in made.asm["ptx"]
    assert "cas.b32" not in made.asm["ptx"]


@pytest.mark.slow
def test_widths_of_atomic_sums() -> None:
    x = np.zeros(1024, np.float16)
    assert "add.noftz.f16x2" in compiled(combined, [x, x, x], OP="add", B=1024).asm["ptx"]
    assert "add.noftz.v8.f16" in compiled(combined, [x, x, x], capability=90, OP="add", B=1024).asm["ptx"]


@pytest.mark.slow
def test_sums_of_clusters() -> None:
    """Four blocks share each tile, and agree on what was in memory."""
    start = np.arange(16, dtype=np.int32) * 5
    _, found, old = run(few, (1,), start, start, start * 0, capability=90, num_ctas=4, B=16)
    assert (found == 2 * start).all()
    assert (old == start).all()
    x = RNG.random(1024, np.float32)
    _, total, old = run(summed, (1,), x, np.full(1, 2, np.float32), x, capability=90, num_ctas=4, B=1024)
    np.testing.assert_allclose(total, x.sum() + 2, rtol=1e-6)
    assert (old == 2).all()
