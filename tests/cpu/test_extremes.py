"""The extreme of all lanes and its place are found one after the other, to the bit as step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from loop_native import run_both

import tilewright as tw
import tilewright.language as tl
from lowered_code import code_on
from machine_levels import compiled_for
from tilewright.backends.cpu.loop_builder import LoopBuilder
from tilewright.backends.cpu.nest.combine import MIN_LANES, Combine
from tilewright.backends.cpu.nest.extremes import extreme_kind
from tilewright.backends.llvm.machine import host_target
from tilewright.dialects.tt_reduce import Reduce
from tilewright.dialects.vector import wide_type
from tilewright.ir.core import Block, Value
from tilewright.ir.parser import parse_module
from tilewright.ir.types import PointerType, VectorType, f32, f64, i32

USUAL = {
    "equal": "arith.cmpf oeq, %a, %b : T",
    "left": "arith.cmpi slt, %i, %j : i32",
    "tie": "arith.andi %equal, %left : i1",
    "more": "arith.cmpf ogt, %a, %b : T",
    "first": "arith.ori %more, %tie : i1",
    "value": "arith.select %first, %a, %b : T",
    "place": "arith.select %first, %i, %j : i32",
}


def reduction(type: str = "f32", **changes: str) -> Reduce:
    lines = "\n".join(f"%{name} = {text}" for name, text in (USUAL | changes).items()).replace("T", type)
    module = parse_module(f"""
    tt.func public @kernel(%x: tensor<16x{type}>, %p: tensor<16xi32>) {{
      %r:2 = "tt.reduce"(%x, %p) <{{axis = 0 : i32}}> ({{
      ^bb0(%a: {type}, %i: i32, %b: {type}, %j: i32):
        {lines}
        tt.reduce.return %value, %place : {type}, i32
      }}) : (tensor<16x{type}>, tensor<16xi32>) -> ({type}, i32)
      tt.return
    }}""")
    return next(op for op in module.walk() if isinstance(op, Reduce))


LEAST = {"more": "arith.cmpf olt, %a, %b : T"}


@pytest.mark.parametrize(("type", "changes", "kind"), [
    ("f32", {}, "ogt"),
    ("f64", {}, "ogt"),
    ("f32", LEAST, "olt"),
    ("f32", {"more": "arith.cmpf olt, %b, %a : T"}, "ogt"),
    ("f32", {"first": "arith.ori %tie, %more : i1", "tie": "arith.andi %left, %equal : i1"}, "ogt"),
    ("f32", {"left": "arith.cmpi sgt, %j, %i : i32"}, "ogt"),
    ("f16", {}, None),
    ("f32", {"left": "arith.cmpi sgt, %i, %j : i32"}, None),
    ("f32", {"left": "arith.cmpi ult, %i, %j : i32"}, None),
    ("f32", {"more": "arith.cmpf oge, %a, %b : T"}, None),
    ("f32", {"more": "arith.cmpf ugt, %a, %b : T"}, None),
    ("f32", {"equal": "arith.cmpf ueq, %a, %b : T"}, None),
    ("f32", {"tie": "arith.ori %equal, %left : i1"}, None),
    ("f32", {"first": "arith.andi %more, %tie : i1"}, None),
    ("f32", {"first": "arith.ori %more, %more : i1"}, None),
    ("f32", {"value": "arith.select %first, %b, %a : T"}, None),
    ("f32", {"place": "arith.select %first, %j, %i : i32"}, None),
    ("f32", {"place": "arith.select %more, %i, %j : i32"}, None),
    ("f32", {"place": "arith.addi %i, %j : i32"}, None),
])
def test_functions_that_give_the_first_extreme(type: str, changes: dict[str, str], kind: str | None) -> None:
    assert extreme_kind(reduction(type, **changes).combine) == kind


def test_little_code_where_that_counts() -> None:
    combine, number, place = Combine(reduction()), *Block([VectorType((16,), f32), VectorType((16,), i32)]).args
    counts = []
    for short in (False, True):
        b = LoopBuilder(Block())
        combine.across(b, [number, place], short=short)
        counts.append(sum(op.name == "scf.if" for op in b.block))
    assert counts == [1, 0]


def step_by_step(values: np.ndarray, places: np.ndarray, *, least: bool) -> tuple[Any, Any]:
    """Halves on halves, as the function of the reduction says."""
    while len(values) > 1:
        half = len(values) // 2
        (a, b), (i, j) = (values[:half], values[half:]), (places[:half], places[half:])
        first = ((a < b) if least else (a > b)) | ((a == b) & (i < j))
        values, places = np.where(first, a, b), np.where(first, i, j)
    return values[0], places[0]


NUMBERS = {
    "any": (-3.5, 1.0, 2.0, 1e30, 7.0, -1e-30),
    "few": (1.0, 2.0),
    "zeros": (0.0, -0.0),
    "zeros and less": (0.0, -0.0, -1.0, -2.0),
    "zeros and more": (0.0, -0.0, 1.0, 2.0),
    "NaN": (np.nan, 1.0, 2.0, 0.0),
    "only NaN": (np.nan,),
    "infinite": (np.inf, -np.inf),
    "infinitely little": (-np.inf,),
    "infinitely much": (np.inf,),
    "subnormal": (1e-45, -1e-45, 3e-45),
}


@pytest.mark.parametrize("lanes", [MIN_LANES // 2, MIN_LANES, 16, 32])
@pytest.mark.parametrize(("type", "least"), [("f32", False), ("f32", True), ("f64", False), ("f64", True)])
def test_all_bits_are_those_of_one_step_after_the_other(lanes: int, type: str, least: bool) -> None:
    """Sixteen rows of each kind of numbers."""
    rows, rng = 16 * len(NUMBERS), np.random.default_rng(lanes)
    element, dtype = (f32, np.float32) if type == "f32" else (f64, np.float64)
    combine = Combine(reduction(type, **LEAST if least else {}))

    def build(b: LoopBuilder, x: Value, p: Value, out: Value, at: Value) -> None:
        with b.loop(0, rows, 1) as loop:
            number = b.load(wide_type(element, lanes), b.offset(x, b.mul(loop.index, lanes)))
            place = b.load(wide_type(i32, lanes), b.offset(p, b.mul(loop.index, lanes)))
            found = combine.across(b, [number, place])
            for value, to in zip(found, (out, at), strict=True):
                b.store(value, b.offset(to, loop.index))

    x = np.concatenate([rng.choice(numbers, (16, lanes)).astype(dtype) for numbers in NUMBERS.values()])
    places = np.array([rng.permutation(1000)[:lanes] - 500 for _ in range(rows)], np.int32)
    places[15::16] = 2**31 - 1
    given = [x, places, np.zeros(rows, dtype), np.zeros(rows, np.int32)]
    types = [PointerType(element), PointerType(i32), PointerType(element), PointerType(i32)]
    expected = [step_by_step(*row, least=least) for row in zip(x, places, strict=True)]
    for found in run_both(build, types, given, host_target()):
        for got, wanted in zip(found[2:], map(np.array, zip(*expected, strict=True)), strict=True):
            np.testing.assert_array_equal(got, wanted)
            np.testing.assert_array_equal(np.signbit(got) & ~np.isnan(got), np.signbit(wanted) & ~np.isnan(wanted))


@tw.jit
def places_of(x, greatest, least, values, n, B: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, B)
    number = tl.load(x + row * n + i, i < n, float("-inf"))
    value, place = tl.max(number, 0, return_indices=True)
    tl.store(values + row, value)
    tl.store(greatest + row, place)
    tl.store(least + row, tl.argmin(tl.where(i < n, number, float("inf")), 0))


@code_on("znver5")
@pytest.mark.parametrize("n", [1, 7, 16, 100, 128, 1000])
def test_rows_of_every_length(n: int) -> None:
    x = np.random.default_rng(n).integers(-9, 9, (20, n)).astype(np.float32)
    greatest, least, values = np.zeros(20, np.int32), np.zeros(20, np.int32), np.zeros(20, np.float32)
    places_of[(20,)](x, greatest, least, values, n, B=1 << max(3, (n - 1).bit_length()))
    np.testing.assert_array_equal(greatest, x.argmax(1))
    np.testing.assert_array_equal(least, x.argmin(1))
    np.testing.assert_array_equal(values, x.max(1))


def test_few_instructions_across_lanes() -> None:
    """Each step is one maximum or one minimum, but where numbers are NaN or zero."""
    x, places = np.zeros(64, np.float32), np.zeros(1, np.int32)
    with compiled_for("x86-64-v3"):
        text = places_of.warmup(x, places, places, x, 64, grid=(1,), B=64).asm["loops"]
    assert text.count("vector.unlikely") == 2


def test_steps_of_a_reduction_leave_zeros_open() -> None:
    """To order them would take half as long again where AVX2 finds the largest number of a row."""
    number = Block([VectorType((4,), f32)]).args
    b = LoopBuilder(Block())
    module = parse_module("""
    tt.func public @kernel(%x: tensor<16xf32>) {
      %r = "tt.reduce"(%x) <{axis = 0 : i32}> ({
      ^bb0(%a: f32, %b: f32):
        %m = arith.maxnumf %a, %b : f32
        tt.reduce.return %m : f32
      }) : (tensor<16xf32>) -> f32
      tt.return
    }""")
    (found,) = Combine(next(op for op in module.walk() if isinstance(op, Reduce))).apply(b, number, number)
    assert found.op is not None
    assert found.op.attributes["fastmath"].name == "nsz"


@tw.jit
def folded(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    value = tl.load(x + i, mask=i < n, other=0)
    tl.store(out, tl.max(value, 0))
    tl.store(out + 1, tl.min(value, 0))
    tl.store(out + 2, tl.xor_sum(value, 0))
    tl.store(out + 3, tl.sum(value, 0))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint32])
def test_folds_of_equal_numbers_begin_with_what_changes_none(dtype: Any) -> None:
    for number in (0, 1, np.iinfo(dtype).max):
        x, out = np.full(40, number, dtype), np.full(4, 7, dtype)
        folded[(1,)](x, out, 40, B=64)
        row = np.concatenate([x, np.zeros(24, dtype)])
        wanted = [row.max(), row.min(), np.bitwise_xor.reduce(row), row.sum(dtype=dtype)]
        assert out.tolist() == [int(each) for each in wanted]
