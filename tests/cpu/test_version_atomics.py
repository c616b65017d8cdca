"""Atomics of one launch are plain additions where one thread runs all of it, and only there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.cpu.pipeline import cpu_passes
from tilewright.backends.cpu.version_atomics import version_atomics
from tilewright.backends.llvm.machine import host_target
from tilewright.dialects.scf import If
from tilewright.dialects.tt_atomics import AtomicRmw
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.pass_manager import run_passes
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify

Golden = Callable[[str, str], None]
TARGET = host_target("znver4")
LANES, BINS = 32, 4


@tw.jit
def count(x_ptr, places_ptr, sums_ptr, SCOPE: tl.constexpr, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.atomic_add(sums_ptr + tl.load(places_ptr + i), tl.load(x_ptr + i), sem="relaxed", scope=SCOPE)


@tw.jit
def number(x_ptr, places_ptr, sums_ptr, SCOPE: tl.constexpr, N: tl.constexpr):
    """The sums that were there before take the place of `x`."""
    i = tl.program_id(0) * N + tl.arange(0, N)
    old = tl.atomic_add(sums_ptr + tl.load(places_ptr + i), tl.load(x_ptr + i), sem="acq_rel", scope=SCOPE)
    tl.store(x_ptr + i, old)


def numbers(programs: int, kind: Any = np.float32) -> tuple[Any, Any, Any]:
    random = np.random.default_rng(programs)
    x = random.integers(-9, 9, programs * LANES).astype(kind)
    return x, random.integers(0, BINS, programs * LANES).astype(np.int32), np.zeros(BINS, kind)


def sums(x: Any, places: Any) -> Any:
    return np.bincount(places, x, BINS).astype(x.dtype)


def lowered(scope: str, kernel: Any = count) -> Op:
    x, places, out = numbers(1)
    module = parse_module(kernel[(1,)](x, places, out, scope, LANES).asm["ttir"])
    run_passes(module, cpu_passes(TARGET))
    return module


def test_golden(golden: Golden) -> None:
    module = lowered("launch")
    assert version_atomics(module)
    verify(module)
    golden(print_op(module), "cpu/version_atomics.ttcir")


@pytest.mark.parametrize("programs", [1, 3])
def test_both_versions_mean_the_same(programs: int) -> None:
    """The interpreter runs the plain one where there is one program, and the atomic one where there are more."""
    module = lowered("launch")
    version_atomics(module)
    x, places, out = numbers(programs)
    run_ir(module, [x, places, out], grid=(programs,))
    np.testing.assert_array_equal(out, sums(x, places))


def test_other_scopes_have_one_version() -> None:
    """Programs of other launches may use the memory, too."""
    for scope in ("gpu", "sys", "cta"):
        module = lowered(scope)
        assert not version_atomics(module)
        assert [op.scope for op in module.walk() if isinstance(op, AtomicRmw)] == [scope]


def test_the_other_side_stays_atomic() -> None:
    module = lowered("launch")
    version_atomics(module)
    (choice,) = [op for op in module.walk() if isinstance(op, If)]
    assert choice.condition.op is not None
    assert choice.condition.op.name == "cpu.runs_alone"
    scopes = [[op.scope for op in arm.walk() if isinstance(op, AtomicRmw)] for arm in choice.regions]
    assert scopes == [["cta"], ["launch"]]


@pytest.mark.parametrize("kind", [np.float32, np.int64])
@pytest.mark.parametrize("num_threads", [1, 2])
def test_threads_that_share_a_launch_lose_nothing(num_threads: int, kind: Any) -> None:
    """Two threads add to four numbers all the time: plain additions would lose some."""
    x, places, out = numbers(4096, kind)
    x[:] = 1
    kernel = count[(4096,)](x, places, out, "launch", LANES, num_threads=num_threads)
    np.testing.assert_array_equal(out, sums(x, places))
    assert kernel.asm["llir"].count("atomicrmw") > 0


def test_grids_of_three_axes() -> None:
    """Whether a thread runs all programs depends on all extents."""
    x, places, out = numbers(1)
    count[(1, 32, 64)](x, places, out, "launch", LANES, num_threads=2)
    np.testing.assert_array_equal(out, 32 * 64 * sums(x, places))


def test_results_that_are_used() -> None:
    x, places, out = numbers(1)
    given, before, wanted = x.copy(), np.zeros_like(x), np.zeros_like(out)
    for lane, place in enumerate(places):
        before[lane] = wanted[place]
        wanted[place] += given[lane]
    number[(1,)](x, places, out, "launch", LANES)
    np.testing.assert_array_equal(x, before)
    np.testing.assert_array_equal(out, wanted)


@tw.jit
def count_some(x_ptr, places_ptr, sums_ptr, old_ptr, n, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    on = i < n
    old = tl.atomic_add(
        sums_ptr + tl.load(places_ptr + i, mask=on, other=0),
        tl.load(x_ptr + i, mask=on),
        mask=on,
        sem="relaxed",
        scope="launch",
    )
    tl.store(old_ptr + i, old, mask=on)


@tw.jit
def add_rows(x_ptr, places_ptr, rows_ptr, n, ROWS: tl.constexpr, N: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    lane = tl.arange(0, N)[None, :]
    place = tl.load(places_ptr + row)
    on = lane < n
    x = tl.load(x_ptr + row * n + lane, mask=on)
    tl.atomic_add(rows_ptr + place * n + lane, x, mask=on, sem="relaxed", scope="launch")


@pytest.mark.parametrize("n", [0, 1, 31, 32, 33, 63, 64])
def test_lanes_behind_a_mask_add_nothing(n: int) -> None:
    """The first program may be full, and is without masks then; the second one is not, or has nothing to do."""
    x, places, _ = numbers(2)
    found, old, wanted, before = np.zeros(BINS, np.float32), np.full(64, 9, np.float32), np.zeros(BINS, np.float32), []
    count_some[(2,)](x, places, found, old, n, N=LANES, num_threads=1)
    for place, value in zip(places[:n], x[:n], strict=True):
        before.append(wanted[place])
        wanted[place] += value
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(old, [*before, *[9] * (64 - n)])


@pytest.mark.parametrize("n", [1, 15, 32])
def test_rows_add_to_one_another_in_order(n: int) -> None:
    random = np.random.default_rng(n)
    x, places = random.standard_normal((8, n)).astype(np.float32), np.array([1, 1, 0, 2, 1, 0, 2, 1])
    x[3, 0], x[5, 0] = np.nan, np.inf
    found, wanted = np.zeros((3, n), np.float32), np.zeros((3, n), np.float32)
    add_rows[(2,)](x, places, found, n, ROWS=4, N=32, num_threads=1)
    for place, row in zip(places, x, strict=True):
        wanted[place] += row
    np.testing.assert_array_equal(found, wanted)


def test_full_tiles_have_no_masks_where_nobody_competes() -> None:
    """Atomic instructions take so long that a version without masks gains nothing."""
    types = dict.fromkeys(("x_ptr", "sums_ptr", "old_ptr"), "*fp32") | {"places_ptr": "*i32", "n": "i32"}
    signature = {
        name: types.get(name, "constexpr") for name in ("x_ptr", "places_ptr", "sums_ptr", "old_ptr", "n", "N")
    }
    source = tw.ASTSource(count_some, signature, {"N": LANES})
    text = str(tw.compile(source, target=tw.GPUTarget("cpu", "znver4", 0)).asm["loops"])
    masked = {
        scope: [", i1)" in line for line in text.splitlines() if f"fadd, relaxed, {scope}," in line]
        for scope in ("cta", "launch")
    }
    assert masked == {"cta": [False, True], "launch": [True]}
