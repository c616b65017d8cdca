"""Loops that read what they write keep that order when they are pipelined, divided, or write by descriptor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from simulated import compiled, launch

import tilewright as tw
import tilewright.language as tl

ROWS, N = 6, 32
CAPABILITIES = (80, 90, 100)


@tw.jit
def plus_one_by_pointer(a, out, n, BM: tl.constexpr, IN_PLACE: tl.constexpr):
    at = tl.arange(0, BM)
    target = a if IN_PLACE else out
    for start in tl.range(0, n - BM, BM, num_stages=3):
        tl.store(target + start + BM + at, tl.load(a + start + at) + 1)


@tw.jit
def powers(a, b, out, steps, N: tl.constexpr, IN_PLACE: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    right = tl.load(b + at)
    target = a if IN_PLACE else out
    for step in tl.range(0, steps, num_stages=3):
        left = tl.load(a + step * N * N + at)
        tl.store(target + (step + 1) * N * N + at, tl.dot(left, right).to(tl.float16))


@tw.jit
def plus_one_by_descriptor(a, out, n, BM: tl.constexpr, BN: tl.constexpr, IN_PLACE: tl.constexpr):
    rows = tl.make_tensor_descriptor(a, [n, BN], [BN, 1], [BM, BN])
    target = rows if IN_PLACE else tl.make_tensor_descriptor(out, [n, BN], [BN, 1], [BM, BN])
    for start in tl.range(0, n - BM, BM, num_stages=3):
        target.store([start + BM, 0], rows.load([start, 0]) + 1)


@tw.jit
def stored_in_turns(out, n, BM: tl.constexpr, BN: tl.constexpr, HOW: tl.constexpr):
    """Steps that write halves of a block side by side, one over the other, the same block again, or add to it."""
    target = tl.make_tensor_descriptor(out, [n, 2 * BN], [2 * BN, 1], [BM, BN])
    for start in tl.range(0, n, BM):
        tile = tl.full((BM, BN), 1, tl.float32) * (start + 1)
        if HOW == "halves":
            target.store([start, 0], tile)
            target.store([start, BN], tile + 1)
        elif HOW == "over":
            target.store([start, 0], tile)
            target.store([start, start * 0], tile + 1)
        elif HOW == "again":
            target.store([0, 0], tile)
        else:
            target.atomic_add([0, 0], tile)


@tw.jit
def products_by_descriptor(a, b, out, steps, N: tl.constexpr, IN_PLACE: tl.constexpr):
    left = tl.make_tensor_descriptor(a, [(steps + 1) * 128, N], [N, 1], [128, N])
    right = tl.make_tensor_descriptor(b, [N, N], [N, 1], [N, N])
    target = left if IN_PLACE else tl.make_tensor_descriptor(out, [(steps + 1) * 128, N], [N, 1], [128, N])
    for step in tl.range(0, steps, num_stages=3, warp_specialize=True):
        product = tl.dot(left.load([step * 128, 0]), right.load([0, 0]))
        target.store([(step + 1) * 128, 0], product.to(tl.float16))


@tw.jit(noinline=True)
def raised(a, start, BM: tl.constexpr):
    at = start + tl.arange(0, BM)
    tl.store(a + BM + at, tl.load(a + at) + 1)


@tw.jit
def sums_of_what_others_store(a, out, n, BM: tl.constexpr, HOW: tl.constexpr):
    at = tl.arange(0, BM)
    total = tl.zeros((BM,), tl.float32)
    for start in tl.range(0, n - BM, BM, num_stages=3):
        found = tl.load(a + start + at)
        total += found
        if HOW == "call":
            raised(a, start, BM)
        else:
            bits = (a + start + BM + at).to(tl.int64)
            asm: tl.constexpr = "st.global.b32 [$1], $2; mov.b32 $0, 0;"
            tl.inline_asm_elementwise(asm, "=r,l,r", [bits, found + 1], tl.int32, is_pure=False, pack=1)
    tl.store(out + at, total)


@tw.jit
def next_row(a, table, steps, N: tl.constexpr):
    """Each step writes which row the next one reads."""
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    total = tl.zeros((N, N), tl.float32)
    for step in tl.range(0, steps, num_stages=3):
        row = tl.load(table + step)
        block = tl.load(a + row * N * N + at)
        total = tl.dot(block, block, total)
        tl.store(table + step + 1, row + 2)
    tl.store(a + at, total.to(tl.float16))


@tw.jit
def plus_one_through_tables(a, out, table, other, n, BM: tl.constexpr, ONE_TABLE: tl.constexpr, WHERE: tl.constexpr):
    targets = table + 1 if ONE_TABLE else other
    tl.store(table, a.to(tl.int64))
    tl.store(targets, (a if ONE_TABLE else out).to(tl.int64))
    tl.debug_barrier()
    pointer: tl.constexpr = tl.pointer_type(tl.float32)
    at = tl.arange(0, BM)
    source, target = tl.load(table).to(pointer), tl.load(targets).to(pointer)
    for start in tl.range(0, n - BM, BM, num_stages=3):
        if WHERE == "in the loop":
            source, target = tl.load(table + start * 0).to(pointer), tl.load(targets + start * 0).to(pointer)
        tl.store(target + start + BM + at, tl.load(source + start + at) + 1)


@tw.jit
def plus_one_through_a_table(a, table, n, BM: tl.constexpr, LOADS: tl.constexpr):
    """The kernel stores through a loaded pointer and loads through the argument that it equals, or vice versa."""
    tl.store(table, a.to(tl.int64))
    tl.debug_barrier()
    loaded = tl.load(table).to(tl.pointer_type(tl.float32))
    source, target = (loaded, a) if LOADS else (a, loaded)
    at = tl.arange(0, BM)
    for start in tl.range(0, n - BM, BM, num_stages=3):
        tl.store(target + start + BM + at, tl.load(source + start + at) + 1)


def has_run_ahead(kernel: Any) -> bool:
    text = kernel.asm["ttgir"]
    return "async_commit_group" in text or "<3x" in text or "<2x" in text


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_loads_do_not_run_ahead_of_stores_that_they_may_meet(capability: int) -> None:
    a, out = np.zeros(1024, np.float32), np.zeros(1024, np.float32)
    kernel = compiled(plus_one_by_pointer, [a, out, 1024], capability=capability, BM=128, IN_PLACE=True)
    np.testing.assert_array_equal(launch(kernel, (1,), [a, out, 1024])[0][::128], np.arange(8))
    assert not has_run_ahead(kernel)
    kernel = compiled(plus_one_by_pointer, [a, out, 1024], capability=capability, BM=128, IN_PLACE=False)
    np.testing.assert_array_equal(launch(kernel, (1,), [a, out, 1024])[1][::128], [0, *[1] * 7])
    assert has_run_ahead(kernel)


@pytest.mark.parametrize("where", ["in front of the loop", "in the loop"])
@pytest.mark.parametrize("capability", CAPABILITIES)
def test_two_pointers_of_one_table_may_be_the_same(capability: int, where: str) -> None:
    """They counted as pointers to different tensors, so that loads ran ahead of the stores that they read."""
    for one_table in (True, False):
        a, out, *tables = (np.zeros(size, kind) for size, kind in ((1024, "f4"), (1024, "f4"), (2, "i8"), (2, "i8")))
        arguments, options = [a, out, *tables, 1024], {"BM": 128, "ONE_TABLE": one_table, "WHERE": where}
        kernel = compiled(plus_one_through_tables, arguments, capability=capability, **options)
        found = launch(kernel, (1,), arguments)[0 if one_table else 1]
        np.testing.assert_array_equal(found[::128], np.arange(8) if one_table else [0, *[1] * 7])
        tiles_run_ahead = "<3x128xf32" in kernel.asm["ttgir"] or "<2x128xf32" in kernel.asm["ttgir"]
        assert tiles_run_ahead is not one_table


@pytest.mark.parametrize("loads", [True, False])
@pytest.mark.parametrize("capability", CAPABILITIES)
def test_a_loaded_pointer_may_be_an_argument(capability: int, loads: bool) -> None:
    """It counted as a pointer to another tensor, so that loads ran ahead of the stores that they read."""
    a = np.zeros(1024, np.float32)
    arguments = [a, np.zeros(1, np.int64), 1024]
    kernel = compiled(plus_one_through_a_table, arguments, capability=capability, BM=128, LOADS=loads)
    np.testing.assert_array_equal(launch(kernel, (1,), arguments)[0][::128], np.arange(8))


@pytest.mark.parametrize("how", ["call", "assembly"])
def test_functions_and_assembly_may_store_where_their_operands_lead(how: str) -> None:
    arguments = [np.zeros(1024, np.float32), np.zeros(128, np.float32), 1024]
    kernel = compiled(sums_of_what_others_store, arguments, BM=128, HOW=how)
    np.testing.assert_array_equal(launch(kernel, (1,), arguments)[1], sum(range(7)))
    assert not has_run_ahead(kernel)


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_products_of_what_the_step_before_has_stored(capability: int) -> None:
    a, out = np.zeros((2, ROWS, N, N), np.float16)
    a[0], b = np.eye(N), (2 * np.eye(N)).astype(np.float16)
    for in_place in (True, False):
        arguments = [a, b, out, ROWS - 1]
        kernel = compiled(powers, arguments, capability=capability, N=N, IN_PLACE=in_place)
        found = launch(kernel, (1,), arguments)[0 if in_place else 2]
        np.testing.assert_array_equal(found[:, 0, 0], 2 ** np.arange(ROWS) if in_place else [0, 2, 0, 0, 0, 0])
        assert has_run_ahead(kernel) is not in_place


@pytest.mark.parametrize("capability", [90, 100, 120])
def test_descriptors_of_one_tensor(capability: int) -> None:
    a, out = np.zeros((64, 32), np.float16), np.zeros((64, 32), np.float16)
    for in_place in (True, False):
        options = {"capability": capability, "BM": 8, "BN": 32}
        kernel = compiled(plus_one_by_descriptor, [a, out, 64], IN_PLACE=in_place, **options)
        found = launch(kernel, (1,), [a, out, 64])[0 if in_place else 1]
        np.testing.assert_array_equal(found[::8, 0], np.arange(8) if in_place else [0, *[1] * 7])
        waits = kernel.asm["ptx"].count("cp.async.bulk.wait_group.read") - kernel.asm["ptx"].count("tensormap.cp")
        assert (waits == 0) is in_place  # stores run on while nobody reads what they write


@pytest.mark.parametrize("capability", [90, 100])
@pytest.mark.parametrize("how", ["halves", "over", "again", "added"])
def test_stores_run_on_while_no_other_overwrites_them(how: str, capability: int) -> None:
    out = np.zeros((32, 64), np.float32)
    kernel = compiled(stored_in_turns, [out, 32], capability=capability, BM=8, BN=32, HOW=how)
    found = launch(kernel, (1,), [out, 32])[0]
    starts = np.arange(0, 32, 8) + 1
    first = {"halves": starts, "over": starts + 1, "again": [25, 0, 0, 0], "added": [sum(starts), 0, 0, 0]}
    np.testing.assert_array_equal(found[::8, 0], first[how])
    np.testing.assert_array_equal(found[::8, 32], starts + 1 if how == "halves" else 0)
    assert ("read_only" in kernel.asm["ttgir"]) is (how in ("halves", "added"))


@pytest.mark.parametrize("capability", [pytest.param(90, marks=pytest.mark.slow), 100])
def test_divided_loops_of_products(capability: int) -> None:
    steps, n = 4, 64
    a, out = np.zeros((2, (steps + 1) * 128, n), np.float16)
    a[:n], b = np.eye(n), (2 * np.eye(n)).astype(np.float16)
    for in_place in (True, False):
        arguments = [a, b, out, steps]
        kernel = compiled(products_by_descriptor, arguments, capability=capability, N=n, IN_PLACE=in_place)
        found = launch(kernel, (1,), arguments)[0 if in_place else 2]
        expected = 2 ** np.arange(steps + 1) if in_place else [0, 2, 0, 0, 0]
        np.testing.assert_array_equal(found[::128, 0], expected)
        assert ("ttg.warp_specialize(" in kernel.asm["ttgir"]) is not in_place


def test_numbers_that_lead_to_tiles_keep_their_place() -> None:
    a = np.zeros((9, N, N), np.float16)
    a[:] = np.eye(N) * np.arange(9)[:, None, None]
    table = np.zeros(5, np.int32)
    arguments = [a, table, 4]
    kernel = compiled(next_row, arguments, N=N, num_warps=1)
    found, rows = launch(kernel, (1,), arguments)
    np.testing.assert_array_equal(rows, [0, 2, 4, 6, 8])
    assert found[0, 0, 0] == 0 + 4 + 16 + 36


@tw.jit
def handed_to_the_other(a, out, flag, N: tl.constexpr):
    if tl.program_id(0) == 0:
        tl.make_tensor_descriptor(a, [N, N], [N, 1], [N, N]).store([0, 0], tl.full((N, N), 3, tl.float32))
        tl.debug_barrier()
        tl.atomic_xchg(flag, 1, sem="release")
    else:
        while tl.atomic_add(flag, 0, sem="acquire") == 0:
            pass
        tl.debug_barrier()
        at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
        tl.store(out + at, tl.load(a + at))


def test_a_store_by_descriptor_is_complete_before_an_atomic_op_tells_of_it() -> None:
    arguments = [np.zeros((N, N), np.float32), np.zeros((N, N), np.float32), np.zeros(1, np.int32)]
    kernel = compiled(handed_to_the_other, arguments, capability=90, N=N)
    np.testing.assert_array_equal(launch(kernel, (2,), arguments)[1], 3)
    assert "cp.async.bulk.wait_group \t0" in kernel.asm["ptx"]
