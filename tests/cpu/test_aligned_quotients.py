"""Ranges that begin at a multiple of their divisor: no vector is divided, and what lies there is read once."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from guarded_memory import between_guards

import tilewright as tw
import tilewright.language as tl
from lowered_code import code_on
from machine_levels import compiled_for
from tilewright.backends.cpu.affine import MAX_ALIGNMENT, multiple_of
from tilewright.dialects.arith import Division
from tilewright.dialects.vector import lanes_of
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module

DIVISORS = (2, 4, 8, 16, 32, 64)


@tw.jit
def parts(quotient, rest, first, n, STEP: tl.constexpr, D: tl.constexpr, B: tl.constexpr):
    """Quotients and remainders of numbers from a multiple of STEP on."""
    lane = tl.program_id(0) * B + tl.arange(0, B)
    i = first * STEP + lane
    tl.store(quotient + lane, i // D, lane < n)
    tl.store(rest + lane, i % D, lane < n)


@tw.jit
def scaled(x, scale, out, n, D: tl.constexpr, B: tl.constexpr):
    """A scale for each D elements."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + i, tl.load(x + i, i < n) * tl.load(scale + i // D, i < n), i < n)


@tw.jit
def copied(x, out, n, first, D: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + i, tl.load(x + (first + i) // D, i < n), i < n)


@tw.jit
def by_turns(x, out, n, LOW: tl.constexpr, D: tl.constexpr, B: tl.constexpr):
    for start in range(LOW, n, B):
        i = start + tl.arange(0, B)
        tl.store(out + i, tl.load(x + i // D, i < n) + i % D, i < n)


@tw.jit
def of_bytes(out, D: tl.constexpr, B: tl.constexpr):
    """A range whose numbers wrap."""
    lane = tl.arange(0, B)
    tl.store(out + lane, lane.to(tl.int8) // D)


@tw.jit
def transposed(x, out, D: tl.constexpr, B: tl.constexpr):
    """The lanes of the loop are columns of the one and rows of the other."""
    i = tl.arange(0, B)
    tile = tl.load(x + (i // D)[:, None] * B + i[None, :] % D)
    tl.store(out + i[:, None] * B + i[None, :], tl.trans(tile))


def ops_of(kernel: Any, *arguments: Any, **meta: Any) -> list[Op]:
    return list(parse_module(kernel.warmup(*arguments, grid=(1,), **meta).asm["loops"]).walk())


def vector_divisions(ops: list[Op]) -> int:
    return sum(isinstance(op, Division) and lanes_of(op.result.type) > 1 for op in ops)


def loads_of(ops: list[Op], element: str) -> set[int]:
    """The numbers of lanes that are loaded at once."""
    types = [op.results[0].type for op in ops if op.name == "vector.load"]
    return {lanes_of(type) for type in types if type.scalar.text == element}


@pytest.mark.parametrize("divisor", [*DIVISORS, 3, 24, 128])
@pytest.mark.parametrize("step", [1, 4, 64])
@pytest.mark.parametrize("first", [0, 1, 5, -1, -16, 2**25 - 3, 2**25, 2**31 - 40])
def test_quotients_and_remainders(divisor: int, step: int, first: int) -> None:
    """Numbers that are negative, or wrap, are divided as ever."""
    i = (first * step + np.arange(192) + 2**31) % 2**32 - 2**31
    for n in (192, 150):
        quotient, rest = np.full((2, 192), -7, np.int32)
        parts[(3,)](quotient, rest, first, n, STEP=step, D=divisor, B=64)
        expected = np.trunc(i / divisor).astype(np.int64)
        np.testing.assert_array_equal(quotient, np.where(np.arange(192) < n, expected, -7))
        np.testing.assert_array_equal(rest, np.where(np.arange(192) < n, i - expected * divisor, -7))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.int8, np.int64, np.bool_])
@pytest.mark.parametrize("divisor", [*DIVISORS, 256])
def test_what_lies_at_quotients(dtype: Any, divisor: int) -> None:
    """Not a byte beyond is read."""
    for n in (256, 200, 64):
        for end in (0, 1):
            x, out = between_guards(-(-n // divisor), dtype)[end], np.zeros(n, dtype)
            copied[(-(-n // 64),)](x, out, n, 0, D=divisor, B=64)
            np.testing.assert_array_equal(out, x[np.arange(n) // divisor])


@pytest.mark.parametrize("first", [0, 1, 4, 8, 63, -8, -64])
def test_ranges_that_begin_anywhere(first: int) -> None:
    memory, out, i = np.arange(400, dtype=np.float32), np.zeros(192, np.float32), np.arange(192)
    copied[(3,)](memory[100:], out, 192, first, D=8, B=64)
    np.testing.assert_array_equal(out, 100 + np.trunc((first + i) / 8))


@pytest.mark.parametrize("low", [0, 4, 16, 64])
@pytest.mark.parametrize("n", [64, 200, 256])
@code_on("znver5")
def test_turns_of_a_loop(low: int, n: int) -> None:
    x, out, i = np.arange(64, dtype=np.int32) * 3, np.zeros(n, np.int32), np.arange(n)
    by_turns[(1,)](x, out, n, LOW=low, D=8, B=64)
    np.testing.assert_array_equal(out, np.where(i < low, 0, x[i // 8] + i % 8))


def test_ranges_of_bytes_wrap() -> None:
    out = np.zeros(256, np.int8)
    of_bytes[(1,)](out, D=8, B=256)
    np.testing.assert_array_equal(out, np.trunc(np.arange(256, dtype=np.int64).astype(np.int8) / 8))


def test_either_axis() -> None:
    x, i = np.random.default_rng(0).standard_normal((16, 64)).astype(np.float32), np.arange(64)
    out = np.zeros((64, 64), np.float32)
    transposed[(1,)](x, out, D=4, B=64)
    np.testing.assert_array_equal(out, x[i // 4][:, i % 4].T)


@pytest.mark.parametrize(("divisor", "lanes"), [(2, 4), (4, 2), (8, 1), (32, 1)])
def test_each_element_is_read_once(divisor: int, lanes: int) -> None:
    """Behind the test for what wraps: as few elements as there are, and only the general version divides vectors."""
    x, few = np.zeros(64, np.int64), np.zeros(64, np.float64)
    with tw.knobs.tilewright.scope():
        tw.knobs.tilewright.cpu = "znver4"
        ops = ops_of(scaled, x, few, x, 64, D=divisor, B=64)
    assert loads_of(ops, "f64") == {lanes}
    assert vector_divisions(ops) == 1


def test_what_begins_at_no_multiple_is_divided() -> None:
    x = np.zeros(64, np.int32)
    for step, divided in ((8, 2), (4, 4), (1, 4)):
        with compiled_for("znver5"):  # loops of shorter vectors have fewer divisions
            ops = ops_of(parts, x, x, 1, 64, STEP=step, D=8, B=64)
        assert vector_divisions(ops) == divided, step


def test_a_range_from_a_known_number_needs_no_test() -> None:
    x = np.zeros((64, 64), np.float32)
    assert vector_divisions(ops_of(transposed, x, x, D=4, B=64)) == 0


def test_multiples() -> None:
    """The results of ops, and counters of loops, are as even as what they are made of."""
    module = parse_module("""
    tt.func public @numbers(%out: !tt.ptr<i32>, %n: i32, %wide: i64) {
      %c0 = arith.constant 0 : i32
      %c8 = arith.constant 8 : i32
      %c12 = arith.constant 12 : i32
      %product = arith.muli %n, %c8 : i32
      %sum = arith.addi %product, %c12 : i32
      %difference = arith.subi %product, %c8 : i32
      %longer = arith.extsi %sum : i32 to i64
      %both = arith.muli %product, %sum : i32
      %quotient = arith.divsi %product, %c8 : i32
      %narrow = arith.trunci %wide : i64 to i32
      scf.for %i = %c8 to %n step %c12 : i32 {
        scf.for %j = %c0 to %n step %product : i32 {
          tt.store %out, %i : !tt.ptr<i32>
          tt.store %out, %j : !tt.ptr<i32>
        }
      }
      tt.return
    }
    """)
    of_names = {value.name: multiple_of(value) for op in module.walk() for value in op.results}
    assert of_names == {
        "c0": MAX_ALIGNMENT, "c8": 8, "c12": 4, "product": 8, "sum": 4, "difference": 8, "longer": 4, "both": 32,
        "quotient": 1, "narrow": 1,
    }  # fmt: skip
    assert [multiple_of(op.operands[1]) for op in module.walk() if op.name == "tt.store"] == [4, 8]
    assert multiple_of(-24) == 8


@tw.jit
def moved(out, least, near, far, D: tl.constexpr, B: tl.constexpr):
    """Numbers that are a quotient further, and the least lane of those that are near."""
    i = tl.arange(0, B)
    at = i // D + i
    place = at.to(tl.int64)
    tl.store(out + i, place)
    tl.store(least, tl.min(tl.where(near + 4 * place < far, i, B), 0))


@pytest.mark.parametrize("divisor", DIVISORS[:4])
@pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v3", "x86-64-v4", ""])
def test_a_quotient_that_is_zero_in_the_first_vector_is_another_number_in_the_next(cpu: str, divisor: int) -> None:
    """A condition that is asked for in front of the loop knows the quotient of the first vector only."""
    out, least = np.zeros(32, np.int64), np.zeros(1, np.int32)
    with compiled_for(cpu):
        moved[(1,)](out, least, 5, 200, D=divisor, B=32)
    np.testing.assert_array_equal(out, np.arange(32) // divisor + np.arange(32))
    assert least[0] == 0
