"""The ops of a class are found wherever they stand, and in the order of a walk."""

from __future__ import annotations

from pathlib import Path

import pytest

import tilewright.dialects  # noqa: F401  (declares the ops)
from tilewright.dialects.builtin import Module
from tilewright.dialects.scf import For, If
from tilewright.dialects.traits import ControlFlow
from tilewright.dialects.tt_function import Func
from tilewright.dialects.tt_memory import Load, Store
from tilewright.ir.core import Block, Op
from tilewright.ir.declare import OPS, OpDefinition
from tilewright.ir.parser import parse_module
from tilewright.ir.types import i32

MODULE = parse_module((Path(__file__).parent / "every_op.ttir").read_text())


@pytest.mark.quick
@pytest.mark.parametrize("kind", [Op, Module, ControlFlow, For, (If, For), (For, Load), (Load, Store)], ids=str)
def test_order_is_that_of_a_walk(kind: type[Op] | tuple[type[Op], ...]) -> None:
    found = MODULE.ops_of(kind)
    assert found
    assert found == [op for op in MODULE.walk() if isinstance(op, kind)]


def test_an_op_is_among_its_own() -> None:
    loop = MODULE.ops_of(ControlFlow)[0]
    assert loop.ops_of(ControlFlow)[0] is loop
    assert loop.ops_of(Module) == []


def test_ops_with_regions_are_found_where_they_were_moved() -> None:
    module = parse_module("""
tt.func @f(%c: i1, %low: i32, %high: i32, %step: i32) {
  scf.for %i = %low to %high step %step : i32 {
  }
  scf.if %c {
  }
  tt.return
}
""")
    (loop,), (branch,) = module.ops_of(For), module.ops_of(If)
    assert (loop.body.is_outer, branch.regions[0].block.is_outer) == (False, False)
    branch.regions[0].block.splice([loop], branch.regions[0].block.first)
    assert (loop.body.is_outer, branch.regions[0].block.is_outer) == (False, True)
    assert module.ops_of(For) == [loop]
    assert module.ops_of((For, If)) == [branch, loop]
    loop.body.insert(branch.clone(), loop.body.first)
    assert module.ops_of(If) == [branch, loop.body.first]


def test_ops_are_found_in_blocks_that_come_later() -> None:
    module = parse_module("""
tt.func @f(%c: i1, %p: !tt.ptr<i32>) {
  scf.if %c {
  }
  tt.return
}
""")
    (branch,) = module.ops_of(If)
    inner, block = branch.clone(), Block()
    assert module.ops_of(Load) == []
    inner.regions[0].block.insert(Op.create("tt.load", [module.ops_of(Func)[0].body.args[1]], [i32]), None)
    block.append(inner)
    branch.regions[0].add(block)
    assert module.ops_of(If) == [branch, inner]
    assert module.ops_of(Load) == [inner.regions[0].block.last]


def test_kinds_that_are_declared_later_belong_to_their_class() -> None:
    before = len(MODULE.ops_of(ControlFlow))

    class Late(ControlFlow):
        """A kind that a plug-in brings."""

        __slots__ = ()

    OPS["test.late"] = OpDefinition(name="test.late", kind=Late)
    try:
        late = MODULE.regions[0].block.append(Op.create("test.late"))
        assert MODULE.ops_of(ControlFlow)[-1] is late
        assert len(MODULE.ops_of(ControlFlow)) == before + 1
        late.erase()
    finally:
        del OPS["test.late"]


@pytest.mark.quick
@pytest.mark.parametrize("at_end", [False, True])
def test_all_ops_of_a_block_move_at_once(at_end: bool) -> None:
    module = parse_module("""
tt.func @f(%c: i1, %low: i32, %high: i32, %step: i32, %p: !tt.ptr<i32>) {
  scf.if %c {
    %x = tt.load %p : !tt.ptr<i32>
    scf.for %i = %low to %high step %step : i32 {
      tt.store %p, %x : !tt.ptr<i32>
    }
  }
  tt.return
}
""")
    (function,), (branch,) = module.ops_of(Func), module.ops_of(If)
    inner, body = branch.regions[0].block, function.body
    inner.terminator.erase()
    before, moved = body.ops(), inner.ops()
    assert (body.ops_of(Load), body.ops_of(Store)) == ([], [])  # those in the branch are not the block's own

    body.splice(inner, None if at_end else branch)

    assert body.ops() == [*body] == ([*before, *moved] if at_end else [*moved, *before])
    assert [op.block for op in moved] == [body, body]
    assert body.ops_of((Load, For)) == moved
    assert (inner.ops(), inner.first, inner.last) == ([], None, None)
    assert [op.parent for op in module.ops_of(Store)] == body.ops_of(For)
