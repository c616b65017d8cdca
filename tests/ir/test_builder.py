"""Recording ops: where they go, where they come from, and that constants are shared."""

from __future__ import annotations

import math

import pytest

import tilewright.dialects  # noqa: F401  (declares the ops)
from tilewright.ir.attributes import FileLocation
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block
from tilewright.ir.parser import parse_module
from tilewright.ir.types import PointerType, TensorType, f16, f32, i1, i8, i32, i64

TILE = TensorType((4,), i32)


def names(block: Block) -> list[str]:
    return [op.name for op in block]


def test_ops_go_to_the_end_with_the_location() -> None:
    block = Block([i32])
    builder = Builder(block)
    builder.location = FileLocation("k.py", 2, 3)
    (total,) = builder.emit("arith.addi", [block.args[0], block.args[0]], [i32])
    builder.emit("tt.return", [total])
    assert names(block) == ["arith.addi", "tt.return"]
    assert block.first.location == FileLocation("k.py", 2, 3)


def test_equal_constants_are_one_value() -> None:
    builder = Builder(Block())
    assert builder.constant(3, i32) is builder.constant(3, i32)
    assert builder.constant(3, i32) is not builder.constant(3, i64)
    assert builder.constant(3, i32) is not builder.constant(3, TILE)
    assert builder.constant(0.0, f32) is not builder.constant(-0.0, f32)
    assert builder.constant(math.nan, f32) is builder.constant(math.nan, f32)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("value", "type", "held"),
    [
        (255, i8, -1),
        (2**31, i32, -(2**31)),
        (True, i1, 1),
        (-1, i1, 1),
        (0.1, f16, 0.0999755859375),
        (1e9, f16, math.inf),
    ],
)
def test_constants_are_as_the_type_holds_them(value, type, held) -> None:
    constant = Builder(Block()).constant(value, type)
    assert constant.op.attributes["value"].value == held


def test_constants_stand_in_order_at_the_start_of_the_entry_block() -> None:
    entry = Block([i32])
    inner = Block()
    builder = Builder(entry)
    builder.emit("gpu.barrier")
    with builder.recording(inner):
        two = builder.constant(2, i32)
        builder.emit("arith.addi", [two, two], [i32])
        builder.constant(1, i32)
    builder.emit("tt.return")
    assert names(entry) == ["arith.constant", "arith.constant", "gpu.barrier", "tt.return"]
    assert [op.attributes["value"].value for op in entry if op.definition.constant] == [2, 1]
    assert names(inner) == ["arith.addi"]


def test_a_second_builder_finds_the_constants() -> None:
    entry = Block()
    first = Builder(entry).constant(2, i32)
    assert Builder(Block(), entry).constant(2, i32) is first


def test_builders_side_by_side_share_constants() -> None:
    entry = Block()
    builders = [Builder(Block(), entry) for _ in range(2)]
    first = builders[1].constant(2, i32)
    assert builders[0].constant(2, i32) is first
    assert builders[1].constant(3, i32) is not first
    assert len(list(entry)) == 2


def test_an_erased_constant_is_made_anew() -> None:
    builder = Builder(Block())
    builder.constant(2, i32).op.erase()
    assert builder.constant(2, i32).op.block is builder.block


def test_no_constants_of_pointers() -> None:
    with pytest.raises(TypeError, match=r"no constants of type !tt.ptr<f32>"):
        Builder(Block()).constant(0, PointerType(f32))


def test_a_value_that_is_replaced_by_itself_keeps_its_users_and_one_without_users_its_name() -> None:
    block = Block([i32, i32, i32])
    a, b, c = block.args
    a.name, b.name = "a", "b"
    (added,) = Builder(block).emit("arith.addi", [a, a], [i32])
    a.replace_by(a)
    b.replace_by(c)
    assert a.uses == {added.op: 2}
    assert c.name is None
    a.replace_by(c)
    assert (a.uses, c.uses, c.name) == ({}, {added.op: 2}, "a")


def test_ops_that_are_destroyed_refer_to_nothing_at_any_depth() -> None:
    module = parse_module(
        "tt.func @f(%c: i1, %x: i32) {\n scf.if %c {\n %y = arith.addi %x, %x : i32\n }\n tt.return\n}"
    )
    ops, blocks = list(module.walk()), [op.regions[0].block for op in module.walk() if op.regions]
    module.destroy()
    assert [(op.operands, op.results, op.next, op.previous) for op in ops] == [([], [], None, None)] * len(ops)
    assert [(block.args, block.first, block.last, block.region) for block in blocks] == [([], None, None, None)] * 3
