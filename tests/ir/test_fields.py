"""Names for operands, attributes and regions."""

from __future__ import annotations

import pytest

from tilewright.dialects.arith import Binary, Compare, Constant
from tilewright.dialects.scf import For
from tilewright.dialects.tt_memory import Load
from tilewright.ir.core import Op
from tilewright.ir.declare import ANY, OPS
from tilewright.ir.parser import parse_module

TEXT = """
module {
  tt.func public @kernel(%p: !tt.ptr<f32>, %m: i1, %n: i32) {
    %zero = arith.constant 0.0 : f32
    %all = tt.load %p : !tt.ptr<f32>
    %some = tt.load %p, %m, %zero {isVolatile = true} : !tt.ptr<f32>
    %less = arith.cmpf olt, %all, %some : f32
    %sum = scf.for %i = %n to %n step %n iter_args(%s = %zero) -> (f32)  : i32 {
      %t = arith.addf %s, %all : f32
      scf.yield %t : f32
    }
    tt.return
  }
}
"""


@pytest.fixture
def ops() -> dict[str, Op]:
    module = parse_module(TEXT)
    return {op.results[0].name or "": op for op in module.walk() if op.results}


def test_an_op_is_of_its_kinds_class(ops: dict[str, Op]) -> None:
    assert type(ops["all"]) is Load
    assert type(ops["all"].clone()) is Load
    assert type(Op.create("tt.load", ops["all"].operands, [ops["all"].result.type])) is Load


def test_missing_operands_and_attributes(ops: dict[str, Op]) -> None:
    whole, some = ops["all"], ops["some"]
    assert isinstance(whole, Load)
    assert isinstance(some, Load)
    assert (whole.mask, whole.other, whole.is_volatile) == (None, None, False)
    assert (some.mask, some.other, some.is_volatile) == (some.operands[1], ops["zero"].result, True)


def test_literals_and_words(ops: dict[str, Op]) -> None:
    zero, less = ops["zero"], ops["less"]
    assert isinstance(zero, Constant)
    assert isinstance(less, Compare)
    assert getattr(zero.value, "value", None) == 0.0
    assert less.predicate == "olt"


def test_a_loop(ops: dict[str, Op]) -> None:
    loop = ops["sum"]
    assert isinstance(loop, For)
    assert loop.low is loop.high is loop.step
    assert loop.inits == [ops["zero"].result]
    assert [loop.induction_variable.name, *(value.name for value in loop.carried)] == ["i", "s"]
    assert loop.yielded == [ops["t"].result]


def test_a_field_sets_the_operand_and_its_uses(ops: dict[str, Op]) -> None:
    total = ops["t"]
    assert isinstance(total, Binary)
    before = total.rhs
    total.rhs = total.lhs
    assert total not in before.uses
    assert total.lhs.uses[total] == 2
    assert total.operands == [total.lhs, total.lhs]


def test_fields_say_how_many_operands_there_are() -> None:
    assert OPS["tt.load"].operands == (1, 3)
    assert OPS["arith.addi"].operands == (2, 2)
    assert OPS["scf.for"].operands == (3, ANY)
    assert OPS["builtin.module"].operands == (0, 0)


@pytest.mark.parametrize("definition", [d for d in OPS.values() if d.kind is not None], ids=lambda d: d.name)
def test_classes_add_names_and_nothing_else(definition) -> None:
    """Otherwise ops could not become objects of them."""
    assert definition.kind.__doc__
    assert all(base.__slots__ == () for base in definition.kind.__mro__[:-2])
