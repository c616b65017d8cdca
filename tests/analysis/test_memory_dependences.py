"""Accesses that may change places: readable cases, and claims about drawn ones against what enumeration shows.

`make test` checks 20,000 drawn pairs and triples, `make test-long` more than a million; the last long part prints the
share of answers that could have been better. `pytest tests/analysis -m "slow or long" -k million -s` runs them all.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import pytest
from condition_texts import condition_text
from dependence_truth import Tally, first_wrong

import tilewright.dialects
from tilewright.analysis.memory_accesses import MemoryAccesses
from tilewright.analysis.memory_dependences import MAX_PAIRS, Dependence, Guarded, _meeting, dependence
from tilewright.dialects.tt_memory import Load, Store
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module

pytestmark = pytest.mark.quick

assert tilewright.dialects.__all__

HEAD = "tt.func public @f(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %n: i32, %m: i32, %w: i64, %c: i1)"
PRELUDE = """
    %i = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %zero = arith.constant dense<0.0> : tensor<64xf32>
    %ns = tt.splat %n : i32 -> tensor<64xi32>
    %xs = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %ys = tt.splat %y : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %p = tt.addptr %xs, %i : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    %one = arith.constant dense<1> : tensor<64xi32>
    %two = arith.constant dense<2> : tensor<64xi32>
    %seven = arith.constant dense<7> : tensor<64xi32>
    %eight = arith.constant dense<8> : tensor<64xi32>
    %many = arith.constant dense<64> : tensor<64xi32>
    %last = arith.constant dense<63> : tensor<64xi32>
    %below = arith.cmpi slt, %i, %ns : tensor<64xi32>
"""
TILE, TRUTHS, POINTERS = "tensor<64xi32>", "tensor<64xi1>", "tensor<64x!tt.ptr<f32>>"


def function_of(body: str) -> Op:
    return next(iter(parse_module(f"{HEAD} {{{PRELUDE}{body}\n tt.return\n}}").regions[0].block))


def text_of(answer: Dependence) -> str:
    """`Independent`, `Guarded: apart | same`, …"""
    if not isinstance(answer, Guarded):
        return type(answer).__name__
    return f"Guarded: {condition_text(answer.apart)} | {condition_text(answer.same)}"


def answer(body: str) -> str:
    """The answer about the last two accesses."""
    return answer_in(function_of(body))


def answer_in(function: Op) -> str:
    ops = [op for op in function.walk() if isinstance(op, (Load, Store))]
    accesses = MemoryAccesses()
    return text_of(dependence(*map(accesses.of, ops[-2:]), accesses))


def places(index: str, name: str = "q", base: str = "%xs") -> str:
    return f"%{name} = tt.addptr {base}, {index} : {POINTERS}, {TILE}\n"


def op(name: str, lhs: str, rhs: str, result: str = "j") -> str:
    return f"%{result} = arith.{name} {lhs}, {rhs} : {TILE}\n"


def store(pointer: str, mask: str = "") -> str:
    return f"tt.store {pointer}, %zero{', ' * bool(mask)}{mask} : {POINTERS}\n"


def load(pointer: str = "%p", mask: str = "") -> str:
    return f"%v{pointer[1:]} = tt.load {pointer}{', ' * bool(mask)}{mask} : {POINTERS}\n"


def against_row(index: str) -> str:
    """The answer about `x[i]` and `x[index]`, which is called %j in the text."""
    return answer(load() + index + places("%j") + store("%q"))


@pytest.mark.quick
@pytest.mark.parametrize(
    ("index", "said"),
    [
        pytest.param(op("addi", "%i", "%many"), "Independent", id="the next row"),
        pytest.param(op("addi", "%i", "%seven"), "Ordered", id="shifted by less than a row"),
        pytest.param(op("subi", "%last", "%i"), "Ordered", id="a negative stride"),
        pytest.param(op("subi", "%i", "%many"), "Independent", id="the row before"),
        pytest.param(op("muli", "%i", "%two"), "Ordered", id="every second element"),
        pytest.param(op("muli", "%i", "%one"), "SameElement", id="a product that changes nothing"),
        pytest.param(op("divsi", "%i", "%two"), "Ordered", id="i // 2"),
        pytest.param(op("remsi", "%i", "%many"), "SameElement", id="i % 64 of 64 elements"),
        pytest.param(op("remsi", "%i", "%eight"), "Ordered", id="i % 8"),
        pytest.param(op("xori", "%i", "%eight"), "Ordered", id="i ^ 8"),
        pytest.param(op("xori", "%i", "%many"), "Independent", id="i ^ 64"),
        pytest.param(op("minsi", "%i", "%last"), "SameElement", id="a minimum that changes nothing"),
        pytest.param(op("minsi", "%i", "%seven"), "Ordered", id="a minimum"),
        pytest.param(op("minsi", "%i", "%ns"), "Ordered", id="a minimum with an argument"),
        pytest.param(
            f"%few = arith.cmpi slt, %i, %eight : {TILE}\n%up = arith.addi %i, %one : {TILE}\n"
            f"%j = arith.select %few, %i, %up : {TRUTHS}, {TILE}\n",
            "Ordered",
            id="where",
        ),
        pytest.param(op("muli", "%i", "%ns"), "Ordered", id="a stride that is an argument"),
        pytest.param(
            op("addi", "%i", "%ns"),
            "Guarded: 4·n - 256 >= 0 or -4·n - 256 >= 0 | 4·n == 0",
            id="a distance that is an argument",
        ),
        pytest.param(
            op("andi", "%ns", "%seven", "r") + op("addi", "%r", "%many"), "Independent", id="an index in a range"
        ),
        pytest.param(
            "%g = arith.constant dense<0> : tensor<64xi32>\n"
            "%gs = tt.bitcast %ys : tensor<64x!tt.ptr<f32>> -> tensor<64x!tt.ptr<i32>>\n"
            "%j = tt.load %gs : tensor<64x!tt.ptr<i32>>\n",
            "Ordered",
            id="a gather",
        ),
        pytest.param(
            f"%b = arith.trunci %i : {TILE} to tensor<64xi8>\n%t = arith.constant dense<3> : tensor<64xi8>\n"
            f"%b3 = arith.muli %b, %t : tensor<64xi8>\n%j = arith.extsi %b3 : tensor<64xi8> to {TILE}\n",
            "Ordered",
            id="8 bits that wrap",
        ),
    ],
)
def test_one_array(index: str, said: str) -> None:
    assert against_row(index) == said


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        pytest.param("%below", "%below", "SameElement", id="equal masks"),
        pytest.param("%even", "%odd", "SameElement", id="even and odd lanes"),
        pytest.param("", "%none", "Independent", id="no lane"),
    ],
)
def test_masks(first: str, second: str, said: str) -> None:
    masks = (
        f"%r = arith.remsi %i, %two : {TILE}\n%nil = arith.constant dense<0> : {TILE}\n"
        f"%even = arith.cmpi eq, %r, %nil : {TILE}\n%odd = arith.cmpi ne, %r, %nil : {TILE}\n"
        f"%none = arith.cmpi slt, %i, %nil : {TILE}\n"
    )
    assert answer(masks + load("%p", first) + store("%p", second)) == said


def test_a_mask_ends_what_may_be_reached() -> None:
    shifted = op("addi", "%i", "%eight") + places("%j")
    assert answer(shifted + load("%p", "%below") + store("%q")) == "Guarded: 32 - 4·min(64, n) >= 0 | never"


@pytest.mark.parametrize(
    ("limit", "shared"),
    [("%eight", "Ordered"), ("%ns", "Guarded: -4 + 4·max(0, n) - 4·min(64, n) >= 0 | never")],
)
def test_complements_are_apart(limit: str, shared: str) -> None:
    """An element is loaded one place further on where `i < n`, and stored where `i >= n`."""
    masks = f"%not = arith.cmpi sge, %i, {limit} : {TILE}\n%few = arith.cmpi slt, %i, {limit} : {TILE}\n"
    shifted = op("subi", "%i", "%one") + places("%j")
    assert answer(masks + shifted + load("%q", "%few") + store("%p", "%not")) == "Independent"
    assert answer(masks + shifted + load("%q", "%not") + store("%p", "%few")) == shared


def test_a_fifo_is_ordered_by_its_last_store() -> None:
    """The store of 15 lanes and that behind them touch other elements; the load meets the second one."""
    fifteen = f"%k = arith.constant dense<15> : {TILE}\n%few = arith.cmpi slt, %i, %k : {TILE}\n"
    after = op("addi", "%i", "%k") + places("%j")
    assert answer(fifteen + after + store("%p", "%few") + store("%q")) == "Independent"
    assert answer(fifteen + after + load("%p") + store("%q")) == "Ordered"


def test_lanes_of_one_store_that_meet() -> None:
    windows = op("divsi", "%i", "%two") + places("%j")
    even = f"%r = arith.remsi %i, %two : {TILE}\n%nil = arith.constant dense<0> : {TILE}\n"
    even += f"%m2 = arith.cmpi eq, %r, %nil : {TILE}\n"
    assert answer(windows + load("%q") + store("%q")) == "Ordered"
    assert answer(windows + even + load("%q", "%m2") + store("%q", "%m2")) == "SameElement"


def test_two_names_of_one_array() -> None:
    other = places("%i", "q", "%ys")
    assert answer(load() + other + store("%q")) == "Guarded: y - x - 256 >= 0 or -y + x - 256 >= 0 | y - x == 0"


def test_sums_of_32_bits_are_taken_not_to_wrap() -> None:
    """So `i + n` is the same number in 32 and in 64 bits."""
    moved = op("addi", "%i", "%ns") + op("addi", "%j", "%many", "k") + places("%j") + places("%k", "r")
    assert answer(moved + load("%q") + store("%r")) == "Independent"
    wide = f"%i64 = arith.extsi %i : {TILE} to tensor<64xi64>\n%n64 = arith.extsi %ns : {TILE} to tensor<64xi64>\n"
    wide += "%k64 = arith.addi %i64, %n64 : tensor<64xi64>\n"
    wide += f"%r = tt.addptr %xs, %k64 : {POINTERS}, tensor<64xi64>\n"
    narrow = op("addi", "%i", "%ns") + places("%j")
    assert answer(wide + narrow + load("%q") + store("%r")) == "SameElement"


def test_strides_in_two_dimensions() -> None:
    text = """
    %a = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>
    %rows = tt.expand_dims %a {axis = 1 : i32} : tensor<4xi32> -> tensor<4x1xi32>
    %columns = tt.expand_dims %a {axis = 0 : i32} : tensor<4xi32> -> tensor<1x4xi32>
    %nr = tt.splat %n : i32 -> tensor<4x1xi32>
    %starts = arith.muli %rows, %nr : tensor<4x1xi32>
    %ra = tt.broadcast %starts : tensor<4x1xi32> -> tensor<4x4xi32>
    %ca = tt.broadcast %columns : tensor<1x4xi32> -> tensor<4x4xi32>
    %index = arith.addi %ra, %ca : tensor<4x4xi32>
    %base = tt.splat %x : !tt.ptr<f32> -> tensor<4x4x!tt.ptr<f32>>
    %q = tt.addptr %base, %index : tensor<4x4x!tt.ptr<f32>>, tensor<4x4xi32>
    %v = tt.load %q : tensor<4x4x!tt.ptr<f32>>
    tt.store %q, %v : tensor<4x4x!tt.ptr<f32>>
    """
    said = answer(text)
    assert said.startswith("Guarded: never | ")
    assert "-16 + max(4·n, -4·n) >= 0" in said


@pytest.mark.parametrize(("kind", "said"), [("minsi", "Ordered"), ("remsi", "Guarded")])
def test_a_bound_that_no_lane_need_reach(kind: str, said: str) -> None:
    """min(i, n) is -2^31 at least, for all that is known: n times that, in bytes, may wrap; i % n is small."""
    index = op(kind, "%i", "%ns") + op("muli", "%j", "%ns", "k")
    assert answer(index + places("%i") + places("%k", "r", "%ys") + load("%q") + store("%r")).startswith(said)


BLOCK = 25
"""Drawn functions in one part of the long test, with more than 20,000 pairs and triples; `make test` draws half."""


def check(seeds: range) -> Tally:
    tally = Tally()
    wrong = first_wrong(seeds, tally)
    assert wrong is None, wrong
    return tally


def test_some_drawn_accesses(golden: Callable[[str, str], None]) -> None:
    tally = check(range(3))
    assert tally.pairs > 2000
    golden("".join(f"{kind} {count}\n" for kind, count in sorted(tally.items())), "analysis/drawn_accesses.txt")


@pytest.mark.parametrize(("size", "other"), [(1, 1), (4, 4), (2, 8), (8, 2)])
def test_lanes_that_meet(size: int, other: int) -> None:
    rng = np.random.default_rng(size)
    a, b = rng.integers(0, 40, 30), rng.integers(0, 40, 20)
    found = _meeting(a, b, size, other)
    assert found is not None
    pairs = {(i, j) for i in range(30) for j in range(20) if a[i] < b[j] + other and b[j] < a[i] + size}
    assert set(zip(*(part.tolist() for part in found), strict=True)) == pairs
    assert len(found[0]) == len(pairs)


def test_only_so_many_pairs_are_looked_at() -> None:
    same = np.zeros(MAX_PAIRS // 64, np.int64)
    found = _meeting(same, np.zeros(64, np.int64), 4, 4)
    assert found is not None
    assert len(found[0]) == MAX_PAIRS
    assert _meeting(np.append(same, 0), np.zeros(64, np.int64), 4, 4) is None


@pytest.mark.slow
def test_drawn_accesses() -> None:
    tally = check(range(3, 3 + BLOCK // 2))
    assert tally.pairs + tally["triples"] > 10_000
    assert tally["needless"] <= 0.06 * tally["measured"], tally.text


@pytest.mark.slow
@pytest.mark.long
def test_a_million_drawn_accesses() -> None:
    tally = Tally()
    for block in range(1, 1 + 1100 // BLOCK):
        tally += check(range(block * BLOCK, (block + 1) * BLOCK))
    sys.stdout.write(f"\n{tally.text}\n")
    assert tally.pairs + tally["triples"] > 1_000_000
