"""Loops that carry tiles and only read memory go inside the loops over elements; others stay where they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from guarded_memory import between_guards
from pass_kernels import loops_of

import tilewright as tw
import tilewright.language as tl
from lowered_code import code_on
from machine_levels import run_here
from tilewright.backends.cpu import interchange_loops
from tilewright.backends.llvm.machine import host_target
from tilewright.dialects.scf import For, If
from tilewright.dialects.tt_memory import AddPtr
from tilewright.dialects.vector import MaskedLoad
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.types import i64
from tilewright.transforms.matching import is_inside

Golden = Callable[[str, str], None]
Array = np.ndarray[Any, Any]

ROWS, COLUMNS = 8, 100
"""The extents of the matrix: no multiple of a tile's."""


@tw.jit
def sum_rows(x, out, rows, columns, BM: tl.constexpr, BN: tl.constexpr):
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, columns, BN):
        column = start + tl.arange(0, BN)[None, :]
        inside = (row < rows)[:, None] & (column < columns)
        total += tl.load(x + row[:, None] * columns + column, inside, 0.0)
    tl.store(out + row, tl.sum(total, 1), row < rows)


@tw.jit
def moving_pointers(x, out, rows, columns, BM: tl.constexpr, BN: tl.constexpr):
    row, lane = tl.arange(0, BM), tl.arange(0, BN)[None, :]
    places, total = x + row[:, None] * columns + lane, tl.zeros((BM, BN), tl.float32)
    for turn in range(tl.cdiv(columns, BN)):
        total += tl.load(places, lane < columns - turn * BN, 0.0)
        places += BN
    tl.store(out + row, tl.sum(total, 1), row < rows)


@tw.jit
def sum_of_products(x, out, rows, columns, BM: tl.constexpr, BN: tl.constexpr):
    row = tl.arange(0, BM)[:, None]
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, columns, BN):
        column = start + tl.arange(0, BN)[None, :]
        inside = (row < rows) & (column < columns)
        total += tl.load(x + row * columns + column, inside, 0.0) * tl.load(x + column, column < columns, 0.0)
    tl.store(out + tl.arange(0, BM), tl.sum(total, 1), tl.arange(0, BM) < rows)


@tw.jit
def sums_and_tops(x, out, rows, columns, BM: tl.constexpr, BN: tl.constexpr):
    """Two tiles are carried; one begins with what is loaded, and the other depends on it."""
    row = tl.arange(0, BM)[:, None]
    lane = tl.arange(0, BN)[None, :]
    total, top = tl.load(x + row * columns + lane), tl.full((BM, BN), float("-inf"), tl.float32)
    for start in range(BN, columns, BN):
        column = start + lane
        total += tl.load(x + row * columns + column, (row < rows) & (column < columns), 0.0)
        top = tl.maximum(top, total)
    tl.store(out + tl.arange(0, BM), tl.sum(total, 1) - tl.max(top, 1), tl.arange(0, BM) < rows)


@tw.jit
def fading_sum(x, out, rows, columns, BM: tl.constexpr, BN: tl.constexpr):
    """A part of each turn needs nothing but what is carried."""
    row = tl.arange(0, BM)[:, None]
    total = tl.full((BM, BN), 1.0, tl.float32)
    for start in range(0, columns, BN):
        column = start + tl.arange(0, BN)[None, :]
        faded = tl.where(total > 0.25, total * 0.75, -total)
        total = faded + tl.load(x + row * columns + column, (row < rows) & (column < columns), 0.0)
    tl.store(out + tl.arange(0, BM), tl.sum(total, 1), tl.arange(0, BM) < rows)


@tw.jit
def sums_in_an_outer_loop(x, out, rows, columns, BM: tl.constexpr, BN: tl.constexpr):
    row = tl.arange(0, BM)[:, None]
    total = tl.zeros((BM, BN), tl.float32)
    for turn in range(3):
        for start in range(0, columns, BN):
            column = start + tl.arange(0, BN)[None, :]
            total += tl.load(x + row * columns + column, (row < rows) & (column < columns), 0.0)
        total *= turn + 1.5
    tl.store(out + tl.arange(0, BM), tl.sum(total, 1), tl.arange(0, BM) < rows)


@tw.jit
def squares_about_the_mean(x, out, rows, columns, BM: tl.constexpr, BN: tl.constexpr):
    """Two reductions ask for the carried tile, the second of which needs the first."""
    row = tl.arange(0, BM)[:, None]
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, columns, BN):
        column = start + tl.arange(0, BN)[None, :]
        total += tl.load(x + row * columns + column, (row < rows) & (column < columns), 0.0)
    centred = total - tl.sum(total, 1)[:, None] / BN
    tl.store(out + tl.arange(0, BM), tl.sum(centred * centred, 1), tl.arange(0, BM) < rows)


@tw.jit
def down_columns(x, out, rows, columns, BM: tl.constexpr, BN: tl.constexpr):
    """Turns read rows one after the other, and all of them the same columns."""
    lane = tl.arange(0, BN)[None, :]
    total = tl.full((BM, BN), -0.0, tl.float32)
    for start in range(0, rows + 2, BM):
        row = start + tl.arange(0, BM)[:, None]
        total += tl.load(x + row * columns + lane, (row < rows) & (lane < columns - 93), 0.0)
    tl.store(out + tl.arange(0, BN), tl.sum(total, 0))


@tw.jit
def whole_columns(x, out, rows, columns, BM: tl.constexpr, BN: tl.constexpr):
    """Masks are for rows alone, and one of two loads has another one."""
    lane = tl.arange(0, BN)[None, :]
    total, top = tl.zeros((BM, BN), tl.float32), tl.full((BM, BN), float("-inf"), tl.float32)
    for start in range(0, rows, BM):
        row = start + tl.arange(0, BM)[:, None]
        value = tl.load(x + row * columns + lane, row < rows, 0.0)
        total += value
        top = tl.maximum(top, value - tl.load(x + row * columns + lane, row < rows - 1, 1.0))
    tl.store(out + tl.arange(0, BN), tl.sum(total, 0) - tl.max(top, 0))


@tw.jit
def reads_what_was_stored(x, out, rows, columns, BM: tl.constexpr, BN: tl.constexpr):
    """`x` and `out` may be one array, which is written in front of the loop and behind it."""
    row, lane = tl.arange(0, BM), tl.arange(0, BN)
    tl.store(out + lane, tl.load(x + lane) + 1.0)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, columns, BN):
        column = start + lane[None, :]
        total += tl.load(x + row[:, None] * columns + column, (row < rows)[:, None] & (column < columns), 0.0)
    tl.store(out + row * columns + columns, tl.sum(total, 1), row < rows - 1)
    tl.store(out + row, tl.sum(total, 1), row < rows)


APPLIED = [
    sum_rows,
    moving_pointers,
    sum_of_products,
    sums_and_tops,
    fading_sum,
    sums_in_an_outer_loop,
    squares_about_the_mean,
    down_columns,
    whole_columns,
    reads_what_was_stored,
]


ROW = 4 * host_target().lanes(32)
"""The length of a row of which two are in this machine's registers at a time."""


def matrix(special: float = 1.0) -> Array:
    x = np.random.default_rng(3).standard_normal((ROWS, COLUMNS)).astype(np.float32)
    x[::3, ::7] = special
    return x


def assert_same_bits(found: Array, expected: Array) -> None:
    """Either of two NaNs that are added may be the result."""
    np.testing.assert_array_equal(found, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(expected[numbers]))


def ttcir(kernel: Any, **constants: Any) -> str:
    text = kernel.warmup(matrix(), matrix(), ROWS, COLUMNS, grid=(1,), **constants).asm["ttcir"]
    assert isinstance(text, str)
    return text


@pytest.mark.parametrize("special", [1.0, -0.0, float("nan"), float("-inf")])
@pytest.mark.parametrize("tile", [(8, 32), (16, 16), (1, ROW), (8, 8)])
@pytest.mark.parametrize("kernel", APPLIED, ids=lambda kernel: kernel.__name__)
def test_every_bit_stays_as_it_was(kernel: Any, tile: tuple[int, int], special: float) -> None:
    """Loops that look for signals in each turn stay as they are."""
    constants = dict(zip(("BM", "BN"), tile, strict=True))
    assert "cpu.accumulate" in ttcir(kernel, **constants)
    found, expected = matrix(special), matrix(special)
    same = kernel is reads_what_was_stored
    kernel[(1,)](found if same else matrix(special), found, ROWS, COLUMNS, **constants)
    plain = kernel[(1,)](
        expected if same else matrix(special), expected, ROWS, COLUMNS, **constants, interruptible=True
    )
    assert "cpu.accumulate" not in plain.asm["ttcir"]
    assert_same_bits(found, expected)


def test_carried_tiles_are_in_registers(golden: Golden) -> None:
    """No turn writes memory, and only the turn with the end of the row has masks."""
    x, out = matrix(), np.zeros(ROWS, np.float32)
    module = loops_of(sum_rows, (x, out, ROWS, COLUMNS), "znver4", BM=8, BN=32)
    golden(print_op(module), "cpu/interchanged_sum.ttir")


def test_what_no_turn_changes_is_asked_in_front_of_all() -> None:
    """Whether eight rows side by side are all there is one number; a turn asks for its columns, and for that."""
    module = loops_of(sum_of_products, (matrix(), matrix(), ROWS, COLUMNS), "znver4", BM=8, BN=16)
    turns = next(loop for loop in module.ops_of(For) if len(loop.results) == 8)
    both, *others = [op for op in turns.body if op.name == "arith.andi"]
    (choice,) = [op for op in turns.body if isinstance(op, If)]
    assert choice.condition is both.results[0]
    assert not others
    assert [is_inside(value, turns) for value in both.operands] == [True, False]


def test_a_turn_adds_to_addresses_only_what_it_changes() -> None:
    """Where each of eight rows begins is an address in front of the turns."""
    module = loops_of(sum_of_products, (matrix(), matrix(), ROWS, COLUMNS), "znver4", BM=8, BN=16)
    turns = next(loop for loop in module.ops_of(For) if len(loop.results) == 8)
    steps = [op for op in turns.body if isinstance(op, AddPtr)]
    assert len(steps) == 8, "the vector begins where the first row does"
    assert len({op.pointer for op in steps}) == 8
    assert not any(is_inside(op.pointer, turns) for op in steps)
    assert not any(op.name == "arith.addi" and op.results[0].type is i64 for op in turns.body)


def test_rows_of_a_turn_are_asked_by_one_comparison() -> None:
    """Where they are all on, the second vector of each is loaded only if it has columns."""
    module = loops_of(down_columns, (matrix(), matrix(), ROWS, COLUMNS), "znver4", BM=8, BN=32)
    turns = next(loop for loop in module.ops_of(For) if len(loop.results) == 8)
    assert sum(op.name == "arith.cmpi" for op in turns.body) == 1
    (rows,) = [op for op in turns.body if isinstance(op, If)]
    (columns,) = [op for op in rows.arms[0].block if isinstance(op, If)]
    (second,) = [op for op in columns.arms[1].block if isinstance(op, If)]
    loads = [[isinstance(op, MaskedLoad) for op in arm.block].count(True) for arm in second.arms]
    assert loads == [4, 0]
    assert not is_inside(second.condition, turns)


@tw.jit
def wrapping_rows(x, out, rows, columns, shift, end):
    """Rows count where a sum is below `end` that wraps for the last of them."""
    lane = tl.arange(0, 32)[None, :]
    total = tl.zeros((8, 32), tl.float32)
    for start in range(0, rows, 8):
        row = start + tl.arange(0, 8)[:, None]
        total += tl.load(x + row * columns + lane, (row + shift < end) & (lane < columns), 0.0)
    tl.store(out + tl.arange(0, 32), tl.sum(total, 0))


@pytest.mark.parametrize("columns", [7, 20, 32])
@pytest.mark.parametrize(("shift", "end"), [(2**31 - 13, 5), (2**31 - 8, 5), (-9, 5), (-8, 0), (-16, 0), (0, 11)])
def test_sums_of_rows_may_wrap(shift: int, end: int, columns: int) -> None:
    x, out = np.random.default_rng(3).integers(-9, 9, (16, columns)).astype(np.float32), np.zeros(32, np.float32)
    kernel = wrapping_rows[(1,)](x, out, 16, columns, shift, end)
    assert "cpu.accumulate" in kernel.asm["ttcir"]
    sums = (np.arange(16) + shift).astype(np.int32)
    np.testing.assert_array_equal(out[:columns], x[sums < end].sum(0))
    assert not out[columns:].any()


@tw.jit
def all_and_those_behind(x, out, rows, first):
    """Columns from `first` on count twice: a mask that no prefix of the lanes is, in a row of several vectors."""
    lane = (tl.num_programs(0) - 1 - tl.program_id(0)) * 64 + tl.arange(0, 64)[None, :]
    total = tl.zeros((8, 64), tl.float32)
    for start in range(0, rows, 8):
        row = start + tl.arange(0, 8)[:, None]
        places = x + row * 128 + lane
        total += tl.load(places, row < rows, 0.0) + tl.load(places, (row < rows) & (lane >= first), 0.0)
    tl.store(out + lane, tl.sum(total, 0)[None, :])


@pytest.mark.parametrize("first", [0, 3, 17, 100, 128])
@pytest.mark.parametrize("rows", [3, 7, 8, 20])
def test_each_vector_has_a_mask_of_its_own(rows: int, first: int) -> None:
    """In a pair of rows of which one counts, all vectors had the mask of the last one."""
    x, out = np.arange(24 * 128, dtype=np.float32).reshape(24, 128), np.empty(128, np.float32)
    compiled = all_and_those_behind[(2,)](x, out, rows, first)
    assert "cpu.accumulate" in compiled.asm["ttcir"]
    np.testing.assert_array_equal(out, x[:rows].sum(0) * np.where(np.arange(128) >= first, 2, 1))


@pytest.mark.parametrize("tile", [(8, 32), (16, 16), (1, 128), (8, 8)])
@pytest.mark.parametrize("kernel", [sum_rows, moving_pointers, sum_of_products], ids=lambda kernel: kernel.__name__)
def test_no_lane_that_is_masked_off_touches_memory(kernel: Any, tile: tuple[int, int]) -> None:
    rows = min(tile[0], ROWS - 1) if kernel is not moving_pointers else tile[0]
    for columns in (1, 31, 32, COLUMNS):
        for x in between_guards(rows * columns, np.float32):
            x[:], out = 1, np.empty(rows, np.float32)
            kernel[(1,)](x, out, rows, columns, *tile)
            assert (out == columns).all()


@pytest.mark.parametrize("kernel", APPLIED, ids=lambda kernel: kernel.__name__)
@pytest.mark.parametrize("cpu", ["znver4", "x86-64-v2", "neoverse-n1"])
def test_the_interpreter_runs_them(kernel: Any, cpu: str) -> None:
    """As tiles and as loops of vectors."""
    arguments = (matrix(), matrix(), ROWS, COLUMNS)
    constants = {"BM": 8, "BN": 32}
    expected = matrix()
    kernel[(1,)](matrix(), expected, ROWS, COLUMNS, **constants, interruptible=True)
    tiles = parse_module(kernel.warmup(*arguments, grid=(1,), **constants).asm["ttcir"])
    for module in (tiles, loops_of(kernel, arguments, cpu, **constants)):
        found = matrix()
        run_ir(module, [matrix(), found, ROWS, COLUMNS])
        np.testing.assert_allclose(found, expected, 1e-3, 1e-3)


@tw.jit
def sum_of_moving_rows(x, y, out, rows, step, WIDTH: tl.constexpr):
    columns = tl.arange(0, WIDTH)
    total = tl.zeros((WIDTH,), tl.float32)
    for row in range(rows):
        total += tl.load(x + columns) * tl.load(y + row)
        x += step
    tl.store(out + columns, total)


@pytest.mark.parametrize("step", [0, 3, 16, 40])
def test_a_pointer_that_a_loop_moves_by_a_number(step: int) -> None:
    x, out = np.arange(1, 301, dtype=np.float32), np.zeros(16, np.float32)
    sum_of_moving_rows[(1,)](x, x, out, 6, step, WIDTH=16)
    rows = np.lib.stride_tricks.as_strided(x, (6, 16), (4 * step, 4))
    assert np.array_equal(out, x[:6] @ rows)


def test_no_turn_runs_at_all() -> None:
    out = np.ones(ROWS, np.float32)
    sum_rows[(1,)](matrix(), out, ROWS, 0, BM=8, BN=32)
    assert not out.any()


@tw.jit
def nothing_else(total, out, inside, number):
    return total


@tw.jit
def store(total, out, inside, number):
    tl.store(out, total, inside)
    return total


@tw.jit
def atomic(total, out, inside, number):
    tl.atomic_add(out, total, inside)
    return total


@tw.jit
def volatile_load(total, out, inside, number):
    return total + tl.load(out, inside, 0.0, volatile=True)


@tw.jit
def address(total, out, inside, number):
    return total + tl.load(out + total.to(tl.int32), inside, 0.0)


@tw.jit
def reduction(total, out, inside, number):
    return total + tl.sum(total, 1)[:, None]


@tw.jit
def scan(total, out, inside, number):
    return tl.cumsum(total, 1)


@tw.jit
def other_lanes(total, out, inside, number):
    return tl.reshape(tl.trans(total), (8, 32))


@tw.jit
def exponential(total, out, inside, number):
    return tl.exp(total)


@tw.jit
def inner_loop(total, out, inside, number):
    for inner in range(number):
        total = tl.exp(total - inner)
    return total


@tw.jit
def branch(total, out, inside, number):
    if number > 7:
        total += tl.load(out, inside, 0.0)
    return total


@tw.jit
def plain(x, out, rows, columns, MORE: tl.constexpr, ENDS: tl.constexpr):
    """With `ENDS`, the last value of a scalar that the loop carries is asked for."""
    row, lane = tl.arange(0, 8)[:, None], tl.arange(0, 32)[None, :]
    total, last = tl.zeros((8, 32), tl.float32), 0
    for start in range(0, columns, 32):
        places, inside = row * columns + start + lane, (row < rows) & (start + lane < columns)
        total += tl.load(x + places, inside, 0.0)
        total = MORE(total, out + places, inside, start)
        last += start
    tl.store(out + row * columns + lane, total + last if ENDS else total, row < rows)


@tw.jit
def counted_by_while(x, out, rows, columns):
    lane, start = tl.arange(0, 32), 0
    total = tl.zeros((32,), tl.float32)
    while start < columns:
        total += tl.load(x + start + lane, start + lane < columns, 0.0)
        start += 32
    tl.store(out + lane, total)


@tw.jit
def shared_rows(x, out, rows, columns):
    """All rows of the tile load one row, which would be read again for each of them."""
    row, lane = tl.arange(0, 8)[:, None], tl.arange(0, 32)[None, :]
    total = tl.zeros((8, 32), tl.float32)
    for start in range(rows):
        total += tl.load(x + start * columns + lane + row * 0) + tl.load(x + start * columns + lane)
    tl.store(out + tl.arange(0, 32), tl.sum(total, 0))


@tw.jit
def rows_too_long(x, out, rows, columns):
    """A row of the tile is longer than what registers hold."""
    row, lane = tl.arange(0, 8)[:, None], tl.arange(0, 1024)[None, :]
    total = tl.zeros((8, 1024), tl.float32)
    for start in range(0, rows, 8):
        total += tl.load(x + (start + row) * columns + lane, start + row < rows, 0.0)
    tl.store(out + tl.arange(0, 1024), tl.sum(total, 0))


MORE = [
    store,
    atomic,
    volatile_load,
    address,
    reduction,
    scan,
    other_lanes,
    exponential,
    inner_loop,
    branch,
]


def test_the_plain_loop_goes_inside() -> None:
    assert "cpu.accumulate" in ttcir(plain, MORE=nothing_else, ENDS=False)


@pytest.mark.parametrize("more", MORE, ids=lambda more: more.__name__)
def test_what_does_more_than_read_stays(more: Any) -> None:
    assert "cpu.accumulate" not in ttcir(plain, MORE=more, ENDS=False)


def test_a_loop_whose_last_number_is_asked_for_stays() -> None:
    assert "cpu.accumulate" not in ttcir(plain, MORE=nothing_else, ENDS=True)


@pytest.mark.parametrize("kernel", [counted_by_while, shared_rows, rows_too_long], ids=lambda kernel: kernel.__name__)
@code_on("neoverse-v1")
def test_other_loops_stay(kernel: Any) -> None:
    assert "cpu.accumulate" not in ttcir(kernel)


@tw.jit
def beside_narrow_sums(x, out, n, m, R: tl.constexpr, C: tl.constexpr, NARROW: tl.constexpr):
    """The nest of the loop also reduces rows of another length, which it does not carry."""
    i, j = tl.arange(0, R), tl.arange(0, C)
    narrow = tl.load(x + i[:, None] * C + tl.arange(0, NARROW)[None, :])
    tile = tl.load(x + 1 + i[:, None] * C + j[None, :], (j[None, :] < n) & (i[:, None] < m), other=1)
    for _ in range(2):
        tile = tl.where(j[None, :] < n, tile, tile + tile)
    tl.store(out + i, tl.sum(narrow, 1))
    tl.store(out + R + i[:, None] * C + j[None, :], tile)


@pytest.mark.parametrize("cpu", run_here("x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"))
@pytest.mark.parametrize("narrow", [4, 64])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_rows_of_other_lengths_in_the_nest(cpu: str, narrow: int, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CPU", cpu)
    x = np.random.default_rng(3).integers(-9, 9, 33 * 64).astype(dtype)
    out, n, m = np.zeros((9, 32), dtype), 5, 3
    kernel = beside_narrow_sums[(1,)](x, out, n, m, 32, 8, narrow)
    assert "cpu.accumulate" in kernel.asm["ttcir"]
    rows, columns = np.arange(32)[:, None] * 8, np.arange(8)
    tile = np.where((np.arange(32)[:, None] < m) & (columns < n), x[1 + rows + columns], 1)
    np.testing.assert_array_equal(out[0], x[rows + np.arange(narrow)].sum(1))
    np.testing.assert_array_equal(out[1:].reshape(32, 8), np.where(columns < n, tile, 4 * tile))


@tw.jit
def one_after_the_other(x, out, n, R: tl.constexpr, C: tl.constexpr):
    """The nest of the first loop also computes what the second one chooses by, with a division."""
    place = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    tile = tl.load(x + place + 32)
    for _ in range(n):
        tile = tl.maximum(tile, tl.load(x + place))
    for _ in range(3):
        tile = tl.where((tl.arange(0, R)[:, None] + tl.arange(0, C)[None, :]) % 2 == 0, tile, tile + tile)
    tl.store(out + place, tile)


@pytest.mark.parametrize("cpu", run_here("x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"))
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("n", [0, 2])
def test_every_version_has_all_of_a_row(cpu: str, dtype: Any, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of a nest go through the loop together, in front of what depends on the quotient of each."""
    monkeypatch.setenv("TILEWRIGHT_CPU", cpu)
    x = np.random.default_rng(3).integers(-9, 9, 32 + 16 * 8).astype(dtype)
    out = np.zeros((16, 8), dtype)
    kernel = one_after_the_other[(1,)](x, out, n, *out.shape)
    assert kernel.asm["ttcir"].count("cpu.accumulate") == 2
    tile = np.maximum(x[32:], x[:128] if n else x[32:]).reshape(out.shape)
    odd = np.add.outer(np.arange(16), np.arange(8)) % 2 == 1
    np.testing.assert_array_equal(out, np.where(odd, 8 * tile, tile))


@tw.jit
def remainders_of_what_is_carried(x, out, n, limit):
    """No number in front of the loop tells them."""
    lane = tl.arange(0, 2)
    tile = tl.load(x + lane * 3, lane * 3 < limit)
    for _ in range(n):
        tile += tl.where(lane < limit, tile, 1) % 2
    tl.store(out + (lane ^ 1), tile)


@pytest.mark.parametrize("n", [0, 3])
def test_remainders_of_what_is_carried(n: int) -> None:
    x, out = np.arange(1, 9, dtype=np.int32), np.zeros(2, np.int32)
    remainders_of_what_is_carried[(1,)](x, out, n, 7)
    assert out.tolist() == [4, 2 if n else 1]


@tw.jit
def known_trip_count(x, out, ITERATIONS: tl.constexpr):
    lane, total = tl.arange(0, 1024), tl.zeros((1024,), tl.float32)
    for start in range(0, 1024 * ITERATIONS, 1024):
        total += tl.load(x + start + lane)
    tl.store(out, tl.sum(total, 0))


@pytest.mark.parametrize(("turns", "goes_inside"), [(4, True), (5, False)])
def test_where_the_turns_are_known_there_is_one_version(turns: int, goes_inside: bool) -> None:
    text = known_trip_count.warmup(matrix(), matrix(), ITERATIONS=turns, grid=(1,)).asm["ttcir"]
    assert ("cpu.accumulate" in text) is goes_inside
    assert ("scf.for" in text) is not goes_inside
    assert "scf.if" not in text


@pytest.mark.parametrize(
    ("bounds", "turns"),
    [
        ((0, 10, 3), 4),
        ((-2, 10, 1), 12),
        ((5, 5, 1), 0),
        ((7, 3, 2), 0),
        ((0, 10, 0), None),
        ((10, 0, -1), None),
        ((None, 10, 1), None),
        ((0, None, 1), None),
        ((0, 10, None), None),
    ],
)
def test_turns_that_are_known(bounds: tuple[int | None, ...], turns: int | None) -> None:
    """Those of a loop with three numbers for bounds, which counts upwards."""
    numbers = [f"%{i} = arith.constant {bound or 0} : i32" for i, bound in enumerate(bounds)]
    low, high, step = ("%n" if bound is None else f"%{i}" for i, bound in enumerate(bounds))
    lines = [*numbers, f"scf.for %i = {low} to {high} step {step} : i32 {{", "}", "tt.return"]
    module = parse_module("\n".join(["tt.func @f(%n: i32) {", *lines, "}"]))
    assert [interchange_loops.known_trip_count(op) for op in module.walk() if isinstance(op, For)] == [turns]


@tw.jit
def thirds(x, out, n, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    value = tl.load(x + at)
    for _ in range(n):
        value = tl.abs((value.to(tl.float32) / 3.0).to(value.dtype))
    tl.store(out + at, value)


@pytest.mark.parametrize("tile", [(16, 8), (1, 64)])
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32])
def test_a_carried_tile_that_is_divided(dtype: Any, tile: tuple[int, int]) -> None:
    """Whether a division may be a product is asked for in front of the iteration, where the tile is not known."""
    x = np.arange(tile[0] * tile[1]).astype(dtype).reshape(tile)
    out = np.zeros_like(x)
    thirds[(1,)](x, out, 2, *tile)
    third = (x.astype(np.float32) / 3).astype(dtype)
    np.testing.assert_allclose(
        out.astype(np.float32), (third.astype(np.float32) / 3).astype(dtype).astype(np.float32), rtol=2**-7
    )
