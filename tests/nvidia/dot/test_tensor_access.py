"""Loads from tensor memory: each layout in which a tile can be accessed has a plan, which moves each word once."""

from __future__ import annotations

import pytest

from tilewright.backends.nvidia.lower.dot.tensor_access import MAX_WORDS, plan_access
from tilewright.layouts.conversion import to_linear_layout
from tilewright.layouts.encodings import Blocked, TensorMemory, TensorMemoryScales
from tilewright.layouts.linear_layout import LinearLayout
from tilewright.layouts.tensor_memory import compatible_layouts, linear_memory

Shape = tuple[int, int]
MEMORIES = [
    (TensorMemory(128, 128, 1), (128, 128), 32),
    (TensorMemory(128, 64, 1), (256, 128), 32),
    (TensorMemory(64, 64, 1), (64, 64), 32),
    (TensorMemory(64, 64, 1), (128, 128), 32),
    (TensorMemory(128, 64, 1), (128, 64), 16),
    (TensorMemory(128, 64, 2), (128, 64), 16),
    (TensorMemory(128, 64, 1), (128, 64), 8),
    (TensorMemoryScales(), (128, 16), 8),
    (TensorMemoryScales(), (64, 4), 8),
]


def plans(
    memory: TensorMemory | TensorMemoryScales, shape: Shape, bits: int
) -> list[tuple[LinearLayout, LinearLayout]]:
    places = linear_memory(memory, shape, bits)
    found = [layout for warps in (4, 8) for layout in compatible_layouts(memory, shape, bits=bits, warps=warps)]
    assert found
    return [(to_linear_layout(layout, shape), places) for layout in found]


@pytest.mark.parametrize(("memory", "shape", "bits"), MEMORIES)
def test_every_register_is_moved_once(memory: TensorMemory | TensorMemoryScales, shape: Shape, bits: int) -> None:
    for tile, places in plans(memory, shape, bits):
        plan = plan_access(tile, places, bits)
        assert plan is not None, tile
        moved = [register for message in plan.messages for word in message.registers for register in word]
        assert len(moved) == len(set(moved))
        assert set(moved) == set(plan.first)
        assert all(len(message.registers) <= MAX_WORDS for message in plan.messages)
        assert len({message.offset for message in plan.messages}) == len(plan.messages)


def test_a_row_for_each_lane_is_moved_32_words_at_a_time() -> None:
    """One instruction could move all 128: ptxas then needs as many registers in a row, and spills others for them."""
    memory = TensorMemory(128, 128, 1)
    tile, places = plans(memory, (128, 128), 32)[0]
    plan = plan_access(tile, places, 32)
    assert plan is not None
    assert (plan.shape.name, plan.repeats, len(plan.messages), plan.spread) == ("32x32b", 32, 4, False)


def test_64_rows_are_in_half_of_the_lanes_each_with_half_of_the_columns() -> None:
    tile, places = plans(TensorMemory(64, 64, 1), (64, 64), 32)[0]
    plan = plan_access(tile, places, 32)
    assert plan is not None
    assert (plan.shape.name, plan.distance, plan.repeats) == ("16x32bx2", 32, 32)


def test_halves_that_lie_apart_are_packed_on_the_way() -> None:
    tile, places = plans(TensorMemory(128, 64, 2), (128, 64), 16)[0]
    plan = plan_access(tile, places, 16)
    assert plan is not None
    assert plan.spread
    assert plan.messages[0].registers[:2] == ((0, 1), (2, 3))


def test_a_layout_that_no_warp_can_reach() -> None:
    columns_first = Blocked((1, 1), (1, 32), (4, 1), (1, 0))
    places = linear_memory(TensorMemory(128, 64, 1), (128, 64), 32)
    assert plan_access(to_linear_layout(columns_first, (128, 64)), places, 32) is None


@pytest.mark.quick
@pytest.mark.parametrize(
    ("shape", "spread", "registers"),
    [((128, 4), False, (0, 1, 2, 3)), ((128, 2), True, (0, 1, 2, 3)), ((32, 2), False, (0, 1)), ((32, 1), False, (0,))],
)
def test_scales_are_packed_as_many_as_there_are(
    shape: tuple[int, int], spread: bool, registers: tuple[int, ...]
) -> None:
    tile, places = plans(TensorMemoryScales(), shape, 8)[0]
    plan = plan_access(tile, places, 8)
    assert plan is not None
    assert plan.spread is spread
    assert plan.messages[0].registers[0] == registers
