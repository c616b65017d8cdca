"""The part of a loop that a partition needs: what it may compute for itself, and what only another one has."""

from __future__ import annotations

import pytest

from tilewright.dialects.scf import For
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.transforms.gpu.warp_specialization.slices import (
    DEFAULT,
    WITHOUT_CORRECTION,
    ForeignValueError,
    Slice,
    mark,
)

pytestmark = pytest.mark.quick

BODY = """
#b = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
module attributes {"ttg.num-warps" = 4 : i32} {
tt.func @kernel(%p: !tt.ptr<f32>, %q: !tt.ptr<i32>, %n: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  scf.for %i = %zero to %n step %one : i32 {
    %far = arith.muli %i, %n : i32
    %lanes = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32, #b>
    %tile = arith.muli %lanes, %lanes : tensor<128xi32, #b>
    %read = tt.load %q : !tt.ptr<i32>
    %sum = arith.addi %far, %read : i32
    STORE
    scf.yield
  }
  tt.return
}}
"""
NUMBER = "tt.store %q, %NEEDED : !tt.ptr<i32>"
TILE = """%sp = tt.splat %q : !tt.ptr<i32> -> tensor<128x!tt.ptr<i32>, #b>
    tt.store %sp, %tile : tensor<128x!tt.ptr<i32>, #b>"""


def loop_of(needed: str, partition: int, others: dict[str, int]) -> For:
    """The loop, whose store is of one partition, and the ops of these names of others."""
    store = TILE if needed == "tile" else NUMBER.replace("NEEDED", needed)
    (loop,) = parse_module(BODY.replace("STORE", store)).ops_of(For)
    named: dict[str | None, Op] = {op.results[0].name: op for op in loop.walk() if op.results}
    for name, number in others.items():
        mark(named[name], [number])
    mark(next(op for op in loop.walk() if op.name == "tt.store"), [partition])
    return loop


def needs(needed: str, partition: int, others: dict[str, int], *repeated: str) -> set[str]:
    """The names of what the slice of a partition computes."""
    loop = loop_of(needed, partition, others)
    again = [op for op in loop.walk() if op.results and op.results[0].name in repeated]
    return {op.results[0].name or "" for op in Slice(loop, partition, repeated=again).ops if op.results}


@pytest.mark.parametrize("partition", [DEFAULT, WITHOUT_CORRECTION.mma, WITHOUT_CORRECTION.load])
def test_cheap_numbers_are_computed_by_everyone(partition: int) -> None:
    assert "far" in needs("far", partition, {"far": 3})


@pytest.mark.parametrize("partition", [DEFAULT, WITHOUT_CORRECTION.load])
def test_addresses_are_computed_by_all_but_those_that_multiply(partition: int) -> None:
    assert {"lanes", "tile"} <= needs("tile", partition, {"lanes": 3, "tile": 3})
    with pytest.raises(ForeignValueError, match=r"partition 1 needs what only another one has: arith\.muli"):
        needs("tile", WITHOUT_CORRECTION.mma, {"lanes": 3, "tile": 3})


@pytest.mark.parametrize("partition", [DEFAULT, WITHOUT_CORRECTION.mma, WITHOUT_CORRECTION.load])
def test_what_has_an_effect_belongs_to_one_unless_it_is_repeated(partition: int) -> None:
    with pytest.raises(ForeignValueError, match=r"only another one has: tt\.load") as caught:
        needs("sum", partition, {"read": 3})
    assert caught.value.op.name == "tt.load"
    assert caught.value.partition == partition
    assert {"far", "read", "sum"} <= needs("sum", partition, {"read": 3}, "read")
    assert {"far", "read", "sum"} <= needs("sum", partition, {"read": partition})
