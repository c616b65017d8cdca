"""Plans of reductions, scans and gathers, without any device: which bits are folded where, what memory they need."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright.dialects  # noqa: F401  (declares the ops)
from tilewright.analysis.gather_distance import step_of
from tilewright.analysis.reduction_plan import (
    Function,
    Run,
    axis_runs,
    function_of,
    gather_bytes,
    reduction_plan,
    scan_bytes,
)
from tilewright.backends.nvidia.lower.gather import owners
from tilewright.backends.nvidia.lower.scan import ScanMemory
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.layouts.conversion import to_linear_layout
from tilewright.layouts.distributed import Blocked
from tilewright.layouts.linear_layout import LinearLayout

pytestmark = pytest.mark.quick


def blocked(shape: tuple[int, ...], *, registers: int = 4, warps: int = 4, seed: int = 0) -> Blocked:
    """A layout of 32 lanes with the bits of everything dealt out at random, of the kind that passes choose."""
    draw = np.random.default_rng(seed)
    rank = len(shape)

    def dealt(count: int) -> tuple[int, ...]:
        parts = [1] * rank
        for _ in range(count.bit_length() - 1):
            parts[draw.integers(rank)] *= 2
        return tuple(parts)

    return Blocked(dealt(registers), dealt(32), dealt(warps), tuple(map(int, draw.permutation(rank))))


def plan(layout: Blocked, shape: tuple[int, ...], axis: int = 0, cost: int = 1) -> tuple[object, ...]:
    found = reduction_plan(to_linear_layout(layout, shape), axis, Function((32,), cost))
    return tuple((fold.registers, fold.lanes) for fold in found.folds)


def test_warps_are_folded_by_each_thread_or_by_lanes() -> None:
    four = plan(Blocked((4,), (32,), (4,), (0,)), (1024,))
    assert four == (((1, 2, 4), (16, 8, 4, 2, 1)), ((2, 1), ()))  # one load of four parts, two sums
    many = plan(Blocked((4,), (32,), (32,), (0,)), (4096,))
    assert many[1] == ((1,), (8, 4, 2, 1))  # two parts, 16 apart, are one load: then sixteen lanes have sums
    eight = plan(Blocked((4,), (32,), (8,), (0,)), (1024,))
    assert eight[1] == ((1,), (2, 1))  # one shuffle less is two sums more, and twice as many parts at once
    dear = plan(Blocked((4,), (32,), (4,), (0,)), (512,), cost=2)
    assert dear[1] == ((1,), (1,))  # three times a function of two ops is more than two and a shuffle


def test_warps_are_folded_by_lanes_that_have_addresses_of_their_own() -> None:
    """Where each lane has other rows, nothing is saved if all parts of a row are folded by each of them."""
    rows = plan(Blocked((1, 2), (8, 4), (1, 4), (1, 0)), (8, 32), axis=1)
    assert rows[1] == ((1,), (1,))
    assert plan(Blocked((2,), (32,), (4,), (0,)), (256,))[1] == ((2, 1), ())


def test_parts_of_warps_are_folded_in_the_order_of_shuffles() -> None:
    """The highest bit of the warp first, whether registers or lanes have it: sums round as they do in Triton."""
    found = reduction_plan(to_linear_layout(Blocked((4,), (32,), (8,), (0,)), (1024,)), 0, Function((32,)))
    second = found.folds[1].layout
    assert second.columns["register"] == (4,)
    assert second.columns["lane"] == (1, 2, 0, 0, 0)
    registers = reduction_plan(to_linear_layout(Blocked((4,), (32,), (4,), (0,)), (1024,)), 0, Function((32,))).folds[1]
    assert (registers.layout.columns["register"], registers.registers) == ((1, 2), (2, 1))


def test_pairs_are_neighbours_and_come_apart_last() -> None:
    layout = to_linear_layout(Blocked((4,), (32,), (4,), (0,)), (1024,))
    fold = reduction_plan(layout, 0, Function((16,), is_paired=True)).folds[0]
    assert (fold.registers, fold.is_paired) == ((2, 4, 1), True)
    few = to_linear_layout(Blocked((2,), (32,), (4,), (0,)), (256,))
    assert not reduction_plan(few, 0, Function((16,), is_paired=True)).folds[0].is_paired


def reduce_of(element: str, op: str) -> Op:
    """A `tt.reduce` of 64 elements."""
    module = parse_module(
        f"""tt.func @f(%x: tensor<64x{element}>) {{
          %r = "tt.reduce"(%x) <{{axis = 0 : i32}}> ({{
          ^bb0(%a: {element}, %b: {element}):
            %c = arith.{op} %a, %b : {element}
            tt.reduce.return %c : {element}
          }}) : (tensor<64x{element}>) -> {element}
          tt.return
        }}"""
    )
    return next(found for found in module.walk() if found.name == "tt.reduce")


def test_elements_take_whole_bytes() -> None:
    kinds = {"i1": 8, "i8": 8, "i16": 16, "i64": 64}
    assert {kind: function_of(reduce_of(kind, "ori"), 90).bits for kind in kinds} == {
        kind: (bits,) for kind, bits in kinds.items()
    }


@pytest.mark.parametrize(
    ("element", "op", "since"),
    [
        ("f16", "addf", 90),
        ("f16", "maximumf", 90),
        ("f32", "addf", 100),
        ("f32", "maximumf", None),
        ("i32", "addi", None),
    ],
)
def test_capabilities_that_take_two_elements_at_once(element: str, op: str, since: int | None) -> None:
    reduce = reduce_of(element, op)
    paired = [capability for capability in (80, 89, 90, 100, 120) if function_of(reduce, capability).is_paired]
    assert paired == [capability for capability in (90, 100, 120) if since and capability >= since]


@pytest.mark.parametrize(("warps", "folds"), [(32, [True, True]), (16, [True, False])])
def test_one_instruction_folds_the_lanes_of_a_whole_warp(warps: int, folds: list[bool]) -> None:
    layout = to_linear_layout(Blocked((1,), (32,), (warps,), (0,)), (32 * warps,))
    found = reduction_plan(layout, 0, Function((32,), folds_warps=True))
    assert [fold.folds_warp for fold in found.folds] == folds


def test_copies_are_not_folded() -> None:
    found = reduction_plan(to_linear_layout(Blocked((4,), (32,), (4,), (0,)), (16,)), 0, Function((32,)))
    assert [(fold.registers, fold.lanes) for fold in found.folds] == [((1, 2), (2, 1))]


def test_lanes_share_rows() -> None:
    """Each lane with 32 rows folds one in the end: 31 shuffles instead of 160."""
    rows = to_linear_layout(Blocked((1, 1), (1, 32), (2, 2), (1, 0)), (64, 64))
    found = reduction_plan(rows, 1, Function((32,)))
    assert found.folds[0].halves == ((16, 16), (8, 8), (4, 4), (2, 2), (1, 1))
    assert (found.folds[0].lanes, found.folds[0].is_gathered) == ((), False)
    assert found.results[0].bases["lane"] == ((2, 0), (4, 0), (8, 0), (16, 0), (32, 0))  # as registers had been
    alone = reduction_plan(to_linear_layout(Blocked((1, 1), (1, 32), (4, 1), (1, 0)), (16, 64)), 1, Function((32,)))
    assert alone.folds[0].is_gathered  # nobody else puts the rows together
    assert alone.results[0].columns["lane"] == (0,) * 5
    few = reduction_plan(to_linear_layout(Blocked((2, 1), (8, 4), (4, 1), (1, 0)), (64, 64)), 1, Function((32,)))
    assert few.folds[0].halves == ()  # two rows over four lanes: choices cost more than they save


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("seed", range(12))
def test_totals_of_a_scan_fit_into_the_scratch_memory_and_have_a_place_each(axis: int, seed: int) -> None:
    shape = (64, 32)
    layout = blocked(shape, warps=8, seed=seed)
    linear = to_linear_layout(layout, shape)
    runs = axis_runs(linear, axis)
    level = next((number for number, run in enumerate(runs) if run.name == "warp"), None)
    if level is None:
        return
    below = [mask for run in runs[:level] for mask in run.masks if run.name == "register"]
    rows = [1 << bit for bit in range(len(linear.columns["register"])) if 1 << bit not in below]
    lanes = sum(mask for run in runs[:level] for mask in run.masks if run.name == "lane")
    memory = ScanMemory(linear, runs[level], rows, lanes=lanes)
    assert 4 * memory.size <= scan_bytes(layout, shape, axis, [32])
    assert memory.store.is_surjective
    # What is loaded as part w is what warp w has stored.
    mask = runs[level].masks[0]
    assert memory.load.columns["register"][0] == memory.store.columns["warp"][mask.bit_length() - 1] == 1


def test_runs_of_a_scan() -> None:
    layout = to_linear_layout(Blocked((2,), (32,), (2,), (0,)), (512,))
    names = [(run.name, len(run.masks)) for run in axis_runs(layout, 0)]
    assert names == [("register", 1), ("lane", 5), ("warp", 1), ("register", 2)]
    turned = LinearLayout({"register": (), "lane": (2, 1), "warp": (), "block": ()}, (("dim0", 4),))
    assert axis_runs(turned, 0) == [Run("lane", (2, 1))]


def test_partners_at_a_distance() -> None:
    layout = to_linear_layout(Blocked((2,), (32,), (2,), (0,)), (256,))
    assert [step_of(layout, 0, 1 << bit) for bit in (0, 3, 6, 7)] == [
        {"register": 1, "lane": 0, "warp": 0, "block": 0},
        {"register": 0, "lane": 4, "warp": 0, "block": 0},
        {"register": 0, "lane": 0, "warp": 1, "block": 0},
        {"register": 2, "lane": 0, "warp": 0, "block": 0},
    ]


def test_owners_of_what_a_gather_looks_for() -> None:
    layout = to_linear_layout(Blocked((1, 2), (4, 8), (1, 1), (1, 0)), (8, 16))
    found = owners(layout, layout, 1)
    # The rows are the index's own; of the columns, bit 0 is a register, the others are lanes.
    assert found.lanes["lane"] == (0, 0, 0, 8, 16)
    assert found.columns == (0, 2)
    assert list(zip(found.lane_steps, found.register_steps, strict=True)) == [(0, 1), (1, 0), (2, 0), (4, 0)]


def test_gathers_within_warps_need_no_memory() -> None:
    """Rows of 16 stay in a warp, columns do not; nor do rows of indices that lie in other lanes than their elements."""
    shape, rows = (16, 16), Blocked((1, 2), (4, 8), (4, 1), (1, 0))
    turned, halves = Blocked((2, 1), (8, 4), (1, 4), (0, 1)), Blocked((1, 2), (4, 4), (4, 2), (1, 0))
    assert gather_bytes(rows, shape, rows, shape, 1, 32) == 0
    assert gather_bytes(rows, shape, rows, (16, 32), 1, 32) == 0
    assert gather_bytes(rows, shape, rows, shape, 0, 32) == 16 * 16 * 4
    assert gather_bytes(rows, shape, turned, shape, 1, 16) == 16 * 16 * 2
    assert gather_bytes(halves, shape, halves, shape, 1, 1) == 16 * 16
