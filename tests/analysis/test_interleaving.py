"""Tiles that lie in each other's gaps: readable cases, and drawn ones against all addresses."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from condition_texts import condition_text
from enumerated_accesses import Samples

import tilewright.dialects
from tilewright.analysis.guard_conditions import NEVER, Sum, is_zero, minus, remainder, whole
from tilewright.analysis.memory_accesses import MemoryAccesses
from tilewright.analysis.memory_dependences import Guarded, dependence, interleaved
from tilewright.dialects.tt_memory import Load, Store
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module

assert tilewright.dialects.__all__

ROWS, COLUMNS = 4, 8
INDEX, TILE = f"tensor<{ROWS}x{COLUMNS}xi32>", f"tensor<{ROWS}x{COLUMNS}x!tt.ptr<f32>>"


def tile(name: str, base: str, steps: tuple[int, int]) -> str:
    """The pointers to a tile of an array, with a step per axis in elements."""
    lines = [f"%{name} = tt.splat %{base} : !tt.ptr<f32> -> {TILE}"]
    for axis, (extent, step) in enumerate(zip((ROWS, COLUMNS), steps, strict=True)):
        line = f"{extent}x1" if axis == 0 else f"1x{extent}"
        at = f"%{name}{axis}"
        lines += [
            f"{at}r = tt.make_range {{start = 0 : i32, end = {extent} : i32}} : tensor<{extent}xi32>",
            f"{at}e = tt.expand_dims {at}r {{axis = {1 - axis} : i32}} : tensor<{extent}xi32> -> tensor<{line}xi32>",
            f"{at}s = arith.constant dense<{step}> : tensor<{line}xi32>",
            f"{at}m = arith.muli {at}e, {at}s : tensor<{line}xi32>",
            f"{at}b = tt.broadcast {at}m : tensor<{line}xi32> -> {INDEX}",
        ]
    lines.append(f"%{name}i = arith.addi %{name}0b, %{name}1b : {INDEX}")
    return "\n".join([*lines, f"%{name}p = tt.addptr %{name}, %{name}i : {TILE}, {INDEX}"])


def function_of(first: tuple[int, int], second: tuple[int, int], mask: str = "") -> Op:
    """A load of a tile of x with these steps, and a store to one of y."""
    body = (
        f"%n: i32) {{\n{tile('a', 'x', first)}\n{tile('b', 'y', second)}\n"
        f"%z = arith.constant dense<0.0> : tensor<{ROWS}x{COLUMNS}xf32>\n%ns = tt.splat %n : i32 -> {INDEX}\n"
        f"%below = arith.cmpi slt, %b1b, %ns : {INDEX}\n%v = tt.load %ap : {TILE}\ntt.store %bp, %z{mask} : {TILE}\n"
    )
    text = f"tt.func public @f(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, {body} tt.return\n}}"
    return next(iter(parse_module(text).regions[0].block))


def accesses_of(function: Op) -> list[Op]:
    return [op for op in function.walk() if isinstance(op, (Load, Store))]


def said(first: tuple[int, int], second: tuple[int, int], mask: str = "") -> str:
    """The condition under which a tile of x and one of y lie in each other's gaps."""
    known = MemoryAccesses()
    a, b = (known.of(op) for op in accesses_of(function_of(first, second, mask)))
    return condition_text(interleaved(a.lanes, b.lanes, known.between(a, b)))


def test_halves_of_rows() -> None:
    assert said((16, 1), (16, 1)) == "-32 + (y - x) mod 64 >= 0 and 32 - (y - x) mod 64 >= 0"


def test_rows_of_other_tiles_may_be_longer() -> None:
    assert said((20, 1), (40, 1)) == "-32 + (y - x) mod 80 >= 0 and 48 - (y - x) mod 80 >= 0"


def test_steps_may_be_negative() -> None:
    assert said((16, -1), (-16, 1)) == "-32 + (y - x + 28) mod 64 >= 0 and 32 - (y - x + 28) mod 64 >= 0"


def test_a_mask_leaves_room() -> None:
    text = said((12, 1), (12, 1), ", %below")
    assert text == "-32 + (y - x) mod 48 >= 0 and 48 - 4·min(8, n) - (y - x) mod 48 >= 0"


@pytest.mark.quick
@pytest.mark.parametrize("steps", [(8, 1), (15, 2), (0, 1)])
def test_no_gap_is_wide_enough(steps: tuple[int, int]) -> None:
    assert said(steps, steps) == "never"


def test_what_multiples_leave_is_known() -> None:
    assert remainder(whole(-3), 8) == whole(5)
    assert is_zero(minus(remainder(Sum({(): 19}), 16), whole(3))) != NEVER


@pytest.mark.parametrize("seed", range(20))
def test_drawn_tiles(seed: int) -> None:
    """No tiles of which the condition holds share a byte; masks and steps are drawn."""
    rng = Random(seed)
    for _ in range(10):
        first, second = ((rng.choice([16, 24, 32, 48, -24]), rng.choice([1, 1, -1, 2, 3])) for _ in range(2))
        mask = rng.choice(["", ", %below"])
        function = function_of(first, second, mask)
        samples = Samples(function, rng, 40)
        distance = np.array([rng.randrange(-300, 300) * rng.choice([1, 4]) for _ in range(40)])
        x, y, *_ = function.regions[0].block.args
        samples.values[y] = samples.values[x] + distance
        samples.run(function.regions[0].block)
        known = MemoryAccesses()
        ops = accesses_of(function)
        claim = dependence(*(known.of(op) for op in ops), known, gaps=True)
        assert isinstance(claim, Guarded)
        holds = samples.holds(claim.apart)
        lanes = [samples.lanes(op, ROWS * COLUMNS) for op in ops]
        meet = abs(lanes[0].address[:, :, None] - lanes[1].address[:, None, :]) < 4
        meet &= lanes[0].active[:, :, None] & lanes[1].active[:, None, :]
        assert not (holds & meet.any((1, 2))).any(), (first, second, mask)


def test_drawn_tiles_do_interleave() -> None:
    """The condition holds at all distances of halves of rows that leave room for both, and at no others."""
    function = function_of((24, 1), (24, 1))
    samples = Samples(function, Random(1), 40)
    x, y, *_ = function.regions[0].block.args
    samples.values[y] = samples.values[x] + 4 * np.arange(-20, 20)
    known = MemoryAccesses()
    a, b = (known.of(op) for op in accesses_of(function))
    found = samples.holds(interleaved(a.lanes, b.lanes, known.between(a, b)))
    assert found.tolist() == [8 <= distance % 24 <= 16 for distance in range(-20, 20)]
