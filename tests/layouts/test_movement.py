"""The moves of data when layouts change, the buffers on the way, and their bank conflicts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from math import prod
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tilewright.layouts.conversion import to_linear_layout
from tilewright.layouts.encodings import Blocked, Distributed, DotOperand, encoding
from tilewright.layouts.memory_access import (
    MatrixAccess,
    address_in,
    bank_conflicts,
    matrix_access,
    simulated,
    vector_of,
)
from tilewright.layouts.movement import Movement, conversion, movement, needs_shared_memory
from tilewright.layouts.queries import num_ctas, num_warps
from tilewright.layouts.shared_choice import nvmma_for, swizzled_for
from tilewright.layouts.swizzle import conversion_buffer, scratch_elements

sys.path.insert(0, str(Path(__file__).parent))

from layout_oracle import asked
from random_layouts import Shape, as_triton_call, random_layout

pytestmark = pytest.mark.quick

BLOCKED = "#ttg.blocked<{{sizePerThread = [{}], threadsPerWarp = [{}], warpsPerCTA = [{}], order = [{}]}}>"
ROWS = BLOCKED.format("1, 8", "8, 4", "4, 1", "1, 0")
COLUMNS = BLOCKED.format("8, 1", "4, 8", "1, 4", "0, 1")
WIDE = BLOCKED.format("1, 8", "4, 8", "4, 1", "1, 0")
SWAPPED = "#ttg.linear<{register = [[2], [1]], lane = [[4], [8], [16], [32], [64]], warp = [], block = []}>"
MMA = "#ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 8]}>"
OPERAND = f"#ttg.dot_op<{{opIdx = 0, parent = {MMA}, kWidth = 2}}>"
SWIZZLED = "#ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}>"
PLAIN = "#ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>"
TILE = (64, 64)


def made(text: str) -> Any:
    return encoding(text)


def linear(text: str, shape: Shape = TILE) -> Any:
    return to_linear_layout(made(text), shape)


@pytest.mark.parametrize(
    ("source", "result", "shape", "expected"),
    [
        (ROWS, ROWS, TILE, Movement.NOTHING),
        (BLOCKED.format("1", "32", "4", "0"), BLOCKED.format("2", "32", "4", "0"), (256,), Movement.SHARED),
        (BLOCKED.format("1", "32", "4", "0"), BLOCKED.format("2", "32", "4", "0"), (32,), Movement.LANES),
        (BLOCKED.format("4", "32", "1", "0"), SWAPPED, (128,), Movement.REGISTERS),
        (BLOCKED.format("1, 4", "8, 4", "4, 1", "1, 0"), ROWS, (32, 32), Movement.LANES),
        (MMA, OPERAND, TILE, Movement.NOTHING),
        (ROWS, COLUMNS, TILE, Movement.SHARED),
    ],
)
def test_how_far_values_travel(source: str, result: str, shape: Shape, expected: Movement) -> None:
    assert movement(made(source), made(result), shape) is expected


def test_a_conversion_says_where_values_come_from() -> None:
    source, result = made(BLOCKED.format("1, 4", "8, 4", "4, 1", "1, 0")), made(ROWS)
    found = conversion(source, result, (32, 32))
    assert found.out_names == ("register", "lane")
    before, after = to_linear_layout(source, (32, 32)), to_linear_layout(result, (32, 32))
    for register in range(8):
        for lane in range(32):
            where = dict(zip(found.out_names, found.apply(register=register, lane=lane), strict=True))
            assert before.apply(**where) == after.apply(register=register, lane=lane)


def test_vectors_are_as_wide_as_registers_follow_memory() -> None:
    assert vector_of(linear(ROWS), linear(SWIZZLED), 16).width == 8
    assert vector_of(linear(ROWS), linear(PLAIN), 16).width == 8
    assert vector_of(linear(ROWS), linear(PLAIN), 32).width == 4
    assert vector_of(linear(ROWS), linear(PLAIN), 16, most=2).width == 2
    assert vector_of(linear(COLUMNS), linear(SWIZZLED), 16).width == 1
    assert vector_of(linear(COLUMNS), linear(PLAIN), 16).register_bits[0] == 0


def test_ldmatrix_reads_rows_and_columns() -> None:
    operand_b = f"#ttg.dot_op<{{opIdx = 1, parent = {MMA}, kWidth = 2}}>"
    assert matrix_access(linear(OPERAND), linear(SWIZZLED), 16) is MatrixAccess.PLAIN
    assert matrix_access(linear(operand_b), linear(SWIZZLED), 16) is MatrixAccess.TRANSPOSED
    assert matrix_access(linear(operand_b), linear(SWIZZLED.replace("1, 0", "0, 1")), 16) is MatrixAccess.PLAIN
    assert matrix_access(linear(operand_b), linear(SWIZZLED), 32) is None
    assert matrix_access(linear(ROWS), linear(SWIZZLED), 16) is None
    assert matrix_access(linear(OPERAND), linear(SWIZZLED.replace("vec = 8", "vec = 4")), 16) is None


def test_swizzling_avoids_bank_conflicts() -> None:
    assert bank_conflicts(linear(WIDE), linear(SWIZZLED), 16) == 0
    assert bank_conflicts(linear(ROWS), linear(SWIZZLED), 16) == 1
    assert bank_conflicts(linear(OPERAND), linear(PLAIN), 16) == 7
    assert bank_conflicts(linear(OPERAND), linear(SWIZZLED), 16) == 0
    assert simulated(linear(OPERAND), linear(PLAIN), 16).passes == 8
    assert simulated(linear(OPERAND), linear(SWIZZLED), 16).words == (1,) * 32


def test_holes_avoid_bank_conflicts_too() -> None:
    padded = "#ttg.padded_shared<[64:+8] {order = [1, 0], shape = [64, 64]}>"
    assert simulated(linear(OPERAND), linear(padded), 16).passes == 8
    assert simulated(linear(OPERAND), linear(padded), 16, address_in(made(padded))).passes == 1


def test_buffers_of_conversions_are_swizzled() -> None:
    buffer = conversion_buffer(made(ROWS), made(COLUMNS), TILE, 16)
    assert buffer.layout.is_invertible
    assert (buffer.store_conflicts, buffer.load_conflicts) == (0, 0)
    assert scratch_elements(made(ROWS), made(COLUMNS), TILE, 16) == 4096


def test_blocks_that_all_have_the_same_few_elements_need_a_buffer_for_them() -> None:
    """Four blocks have copies of two elements, and then two of them one each."""
    before = Blocked((1, 2), (32, 1), (2, 1), (1, 0), ((1, 0), (2, 0)))
    after = Blocked((1, 1), (32, 1), (2, 1), (1, 0), ((0, 1), (0, 0)))
    assert needs_shared_memory(before, after, (1, 2))
    assert scratch_elements(before, after, (1, 2), 32) == 2


@pytest.mark.parametrize("seed", range(40))
def test_buffers_of_drawn_conversions_have_no_conflicts_on_either_side(seed: int) -> None:
    random = Random(seed)

    def drawn() -> Any:
        splits = [random.randint(0, 5), random.randint(0, 2)]
        lanes, warps = ((1 << bits, 1 << total - bits) for bits, total in zip(splits, (5, 2), strict=True))
        per_thread = (1 << random.randint(0, 2), 1 << random.randint(0, 2))
        return Blocked(per_thread, lanes, warps, random.choice([(0, 1), (1, 0)]))

    buffer = conversion_buffer(drawn(), drawn(), TILE, random.choice([16, 32]))
    assert buffer.layout.is_invertible
    assert (buffer.store_conflicts, buffer.load_conflicts) == (0, 0)


@pytest.mark.parametrize(
    ("shape", "order", "bits", "expected"),
    [((128, 64), (1, 0), 16, 128), ((128, 32), (1, 0), 16, 64), ((64, 8), (0, 1), 8, 64), ((4, 64), (1, 0), 16, 0)],
)
def test_nvmma_swizzles_as_far_as_rows_reach(shape: Shape, order: Shape, bits: int, expected: int) -> None:
    layout = nvmma_for(shape, order, bits=bits)
    assert layout.swizzling_byte_width == expected
    assert layout.transposed == (order == (0, 1))


@pytest.mark.parametrize(
    ("side", "shape", "order", "bits", "expected"),
    [
        (0, (128, 64), (1, 0), 16, (8, 1, 8)),
        (0, (128, 32), (1, 0), 16, (8, 2, 4)),
        (1, (64, 128), (1, 0), 16, (8, 1, 8)),
        (0, (128, 32), (0, 1), 32, (8, 1, 4)),
        (1, (16, 16), (1, 0), 64, (4, 1, 4)),
    ],
)
def test_operands_get_buffers_without_conflicts(
    side: int, shape: Shape, order: Shape, bits: int, expected: Shape
) -> None:
    operand = DotOperand(side, made(MMA), max(32 // bits, 1))
    layout = swizzled_for(operand, shape, order, bits=bits)
    assert (layout.vec, layout.per_phase, layout.max_phase) == expected
    if bits == 16:
        assert bank_conflicts(to_linear_layout(operand, shape), to_linear_layout(layout, shape), bits) == 0


# Against Triton

KINDS = ("blocked", "blocked", "nvidia_mma", "nvidia_operand", "slice", "linear")
ELEMENTS = {8: "i8", 16: "f16", 32: "f32", 64: "f64"}


def tensor(shape: Shape, layout: Distributed, bits: int) -> str:
    return f"tensor<{'x'.join(map(str, shape))}x{ELEMENTS[bits]}, {layout.text}>"


def is_whole(layout: Distributed, shape: Shape, warps: int) -> bool:
    """One block of warps of 32 lanes, as passes have it."""
    found = to_linear_layout(layout, shape)
    return found.in_size("lane") == 32 and found.in_size("warp") == warps and num_ctas(layout) == 1


def pairs(random: Random, count: int) -> Iterator[tuple[Any, Any, Shape]]:
    """Two layouts of the same tile and number of warps."""
    found = 0
    while found < count:
        before, shape = random_layout(random, random.choice(KINDS))
        if random.random() < 0.5:
            shape = tuple(max(extent, 16) for extent in shape)
        after, _ = random_layout(random, random.choice(KINDS))
        if before.rank == after.rank:
            warps = num_warps(before)
            if is_whole(before, shape, warps) and is_whole(after, shape, warps):
                found += 1
                yield before, after, shape


@pytest.mark.needs_triton_python
@pytest.mark.slow
def test_buffers_are_as_large_as_tritons() -> None:
    random = Random("buffers")
    cases, expected = [], []
    for before, after, shape in pairs(random, 600):
        bits, capability = random.choice([8, 16, 16, 32, 64]), random.choice([80, 90])
        source, result = tensor(shape, before, bits), tensor(shape, after, bits)
        attributes = f'"ttg.num-warps" = {num_warps(before)} : i32, ttg.target = "cuda:{capability}"'
        cases.append(
            [
                f"module attributes {{{attributes}}} {{ tt.func @f(%a: {source}) {{\n"
                f"%0 = ttg.convert_layout %a : {source} -> {result}\ntt.return }} }}",
                capability,
            ]
        )
        elements = scratch_elements(before, after, shape, bits, stores=capability >= 90, loads=True)
        expected.append(elements * bits // 8 if needs_shared_memory(before, after, shape) else 0)
    assert asked("shared", cases) == expected


@pytest.mark.needs_triton_python
@pytest.mark.slow
def test_bank_conflicts_are_tritons() -> None:
    random = Random("banks")
    cases, expected = [], []
    while len(cases) < 300:
        memory, shape = random_layout(random, random.choice(["swizzled", "nvmma", "shared_linear"]))
        registers, _ = random_layout(random, random.choice(["blocked", "nvidia_mma", "nvidia_operand"]))
        if registers.rank != memory.rank or num_ctas(registers) > 1 or num_ctas(memory) > 1:
            continue
        bits = getattr(memory, "element_bit_width", 0) or random.choice([8, 16, 32, 64])
        if prod(shape) * bits < 8192 or prod(shape) > 8192 or getattr(memory, "fp4_padded", False):
            continue
        cases.append([as_triton_call(registers), as_triton_call(memory), shape, bits])
        expected.append(bank_conflicts(to_linear_layout(registers, shape), to_linear_layout(memory, shape), bits))
    assert asked("banks", cases) == expected
