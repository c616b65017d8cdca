"""Plans of accesses to shared memory, played through: what an instruction moves lies where the layout says."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random

import pytest

from long_runs import LONG
from tilewright.backends.nvidia.lower.access_plan import Plan, Unit, plan_of
from tilewright.backends.nvidia.lower.convert_layout import conversion_plan
from tilewright.layouts.conversion import to_linear_layout
from tilewright.layouts.encodings import Encoding, SwizzledShared, encoding
from tilewright.layouts.errors import LayoutError
from tilewright.layouts.linear_layout import LinearLayout
from tilewright.layouts.movement import Movement, movement

sys.path.insert(0, str(Path(__file__).parents[1] / "layouts"))

import random_layouts

MMA = "#ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [2, 2], instrShape = [16, 8]}>"


def linear(text: str, shape: tuple[int, ...]) -> LinearLayout:
    return to_linear_layout(encoding(text), shape)


def start(plan: Plan, register: int, lane: int, warp: int) -> int:
    """The address that a lane gives for `register`."""
    found = sum(plan.place.constant(register))
    for name, value in (("lane", lane), ("warp", warp)):
        for bit, column in enumerate(plan.place.columns[name]):
            found ^= column if value >> bit & 1 else 0
    return found


WORDS = {
    Unit.MATRIX: lambda word, inside, lane, bits: (word, lane // 4, lane % 4 * 4 + inside * bits // 8),
    Unit.TRANSPOSED: lambda word, inside, lane, bits: (word, lane % 4 * 2 + inside, lane // 4 * 2),
    Unit.LOADED_BYTES: lambda word, inside, lane, bits: (word // 2, lane % 4 * 4 + inside, lane // 4 + word % 2 * 8),
    Unit.STORED_BYTES: lambda word, inside, lane, bits: (word, lane % 4 * 2 + inside % 2, lane // 4 + inside // 2 * 8),
}
"""The matrix, row and byte of an element of a lane's word, per unit, as the hardware has it."""


def held(plan: Plan, bits: int, lane: int, warp: int) -> dict[int, int]:
    """The byte of shared memory that an instruction moves to or from each register, as the hardware does."""
    found = {}
    for move in plan.moves:
        for index, register in enumerate(move.registers):
            if plan.unit is Unit.VECTOR:
                found[register] = start(plan, move.start, lane, warp) + index * bits // 8
                continue
            word, inside = divmod(index, 32 // bits)
            matrix, row, column = WORDS[plan.unit](word, inside, lane, bits)
            height = 16 if plan.unit is Unit.LOADED_BYTES else 8
            found[register] = start(plan, move.start, height * matrix + row, warp) + column
    return found


def check(plan: Plan, offsets: LinearLayout, bits: int) -> None:
    for warp in range(offsets.in_size("warp")):
        for lane in range(32):
            places = held(plan, bits, lane, warp)
            for register in range(offsets.in_size("register")):
                index = {"register": register, "lane": lane, "warp": warp}
                place = dict(zip(offsets.out_names, offsets.unpack(offsets.image(index)), strict=True))
                assert places[plan.same[register]] == place["offset"] * bits // 8


def registers_of(random: Random, shape: tuple[int, ...]) -> Encoding:
    makers = (random_layouts.blocked, random_layouts.nvidia_mma, random_layouts.nvidia_operand, random_layouts.linear)
    return random.choice(makers)(random, 2, shape)


def random_moves(seed: int, count: int, units: tuple[Unit, ...]) -> set[Unit]:
    """Check so many random pairs of tile and buffer; the units that were used."""
    random, seen, done = Random(seed), set(), 0
    while done < count:
        shape = random_layouts.shape(random, 2, 8, 64)
        bits = random.choice([8, 16, 32, 64])
        registers, memory = registers_of(random, shape), random_layouts.swizzled(random, 2, shape)
        memory = SwizzledShared(memory.vec, memory.per_phase, memory.max_phase, memory.order)
        try:
            tile = to_linear_layout(registers, shape)
        except LayoutError:
            continue
        offsets = tile.invert_and_compose(to_linear_layout(memory, shape))
        if tile.in_size("block") == 1 and tile.in_size("register") <= 32:
            plan = plan_of(offsets, bits, units=units)
            check(plan, offsets, bits)
            seen.add(plan.unit)
            done += 1
    return seen


def test_random_moves() -> None:
    units = (Unit.MATRIX, Unit.TRANSPOSED, Unit.VECTOR)
    assert random_moves(1, 8, units) >= {Unit.VECTOR}


@pytest.mark.slow
@pytest.mark.parametrize("count", [150, pytest.param(1000, marks=LONG)])
def test_many_random_moves(count: int) -> None:
    units = (Unit.MATRIX, Unit.TRANSPOSED, Unit.VECTOR)
    assert random_moves(2, count, units) == set(units)


@pytest.mark.parametrize(("order", "unit"), [("[1, 0]", Unit.MATRIX), ("[0, 1]", Unit.TRANSPOSED)])
def test_operands_of_products_are_matrices(order: str, unit: Unit) -> None:
    operand = linear(f"#ttg.dot_op<{{opIdx = 0, parent = {MMA}, kWidth = 2}}>", (64, 32))
    memory = linear(f"#ttg.swizzled_shared<{{vec = 8, perPhase = 2, maxPhase = 4, order = {order}}}>", (64, 32))
    offsets = operand.invert_and_compose(memory)
    plan = plan_of(offsets, 16, units=(Unit.MATRIX, Unit.TRANSPOSED, Unit.VECTOR))
    assert plan.unit is unit
    assert [len(move.registers) for move in plan.moves] == [8] * 4  # four matrices each
    check(plan, offsets, 16)


@pytest.mark.parametrize("unit", [Unit.LOADED_BYTES, Unit.STORED_BYTES])
def test_bytes_are_transposed(unit: Unit) -> None:
    operand = linear(f"#ttg.dot_op<{{opIdx = 0, parent = {MMA}, kWidth = 4}}>", (64, 64))
    memory = linear("#ttg.swizzled_shared<{vec = 16, perPhase = 2, maxPhase = 4, order = [0, 1]}>", (64, 64))
    offsets = operand.invert_and_compose(memory)
    plan = plan_of(offsets, 8, units=(Unit.MATRIX, Unit.TRANSPOSED, unit, Unit.VECTOR))
    assert plan.unit is unit
    assert [len(move.registers) for move in plan.moves] == [16] * 4
    check(plan, offsets, 8)


def test_conversions_through_memory_arrive() -> None:
    random, done, parts = Random(5), 0, set()
    while done < 8:
        shape = random_layouts.shape(random, 2, 8, 64)
        before, after = registers_of(random, shape), registers_of(random, shape)
        bits, capability = random.choice([8, 16, 32, 64]), random.choice([70, 80, 90])
        try:
            tiles = [to_linear_layout(layout, shape) for layout in (before, after)]
            if any(tile.in_size("block") > 1 or tile.in_size("register") > 64 for tile in tiles):
                continue
            if (
                tiles[0].in_size("warp") != tiles[1].in_size("warp")
                or movement(before, after, shape) is not Movement.SHARED
            ):
                continue
        except LayoutError:
            continue
        plan = conversion_plan(before, after, shape, bits, capability)
        arrives(plan, tiles, bits)
        parts.add(len(plan.parts))
        done += 1
    assert len(parts) > 1


def arrives(plan, tiles: list[LinearLayout], bits: int) -> None:
    """Every element that is loaded has been stored there, in the same part."""
    names = tiles[0].out_names
    tiles = [tile.transpose_outs(names) for tile in tiles]
    for part in plan.parts:
        memory = {}
        for half, registers, tile in ((plan.store, part.stored, tiles[0]), (plan.load, part.loaded, tiles[1])):
            for warp in range(tile.in_size("warp")):
                for lane in range(32):
                    for index, byte in held(half, bits, lane, warp).items():
                        element = tile.image({"register": registers[index], "lane": lane, "warp": warp})
                        if half is plan.store:
                            assert memory.setdefault(byte, element) == element
                        else:
                            assert memory[byte] == element
