"""Names for operands, attributes and regions."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import getattr_static

import pytest

from tilewright.dialects.arith import Binary, Compare, Constant
from tilewright.dialects.scf import For
from tilewright.dialects.tt_memory import Load
from tilewright.dialects.ttng_barriers import WaitBarrier
from tilewright.dialects.ttng_descriptors import AsyncTmaCopyGlobalToLocal
from tilewright.dialects.ttng_mma import TensorCoreMma
from tilewright.ir.attributes import UNIT, Attribute
from tilewright.ir.core import Block, Op, Value, typed
from tilewright.ir.declare import ANY, OPS
from tilewright.ir.fields import Body, Field, Operand, Operands, OptionalOperand, RegionOf, Result
from tilewright.ir.operands import segment_attribute
from tilewright.ir.parser import parse_module
from tilewright.ir.types import i32

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


def _op(name: str, groups: Sequence[Sequence[Value]], attributes: dict[str, Attribute] | None = None) -> Op:
    segments = segment_attribute(OPS[name].operand_names, [len(group) for group in groups])
    return Op.create(name, [value for group in groups for value in group], (), {**(attributes or {}), **segments})


def test_names_of_operands_behind_others_whose_number_differs() -> None:
    a, b, total, token, m, n, barrier = Block([i32] * 7).args
    groups = [[a], [b], [total], [token], [m], [n], [barrier], [m]]
    product = _op("ttng.tc_gen5_mma", groups, {"is_async": UNIT})
    assert isinstance(product, TensorCoreMma)
    assert (product.accumulator, product.token) == (total, token)
    assert (product.uses_accumulator, product.predicate) == (m, n)
    assert (product.barriers, product.barrier_predicates) == ([barrier], [m])
    assert (product.is_async, product.multicast) == (True, False)


def test_such_operands_may_be_missing_and_set() -> None:
    barrier, phase, m, buffer = Block([i32] * 4).args
    wait = _op("ttng.wait_barrier", [[barrier], [phase], [], [buffer]])
    assert isinstance(wait, WaitBarrier)
    assert (wait.predicate, wait.dependencies) == (None, [buffer])
    wait.predicate = m
    assert (wait.barrier, wait.phase, wait.predicate, wait.dependencies) == (barrier, phase, m, [buffer])
    wait.dependencies = []
    assert wait.operands == [barrier, phase, m]
    assert (m.uses, buffer.uses) == ({wait: 1}, {})


def test_places_from_the_end() -> None:
    """The buffer of a copy stands behind as many indices as there are."""
    descriptor, index, barrier, buffer, m = Block([i32] * 5).args
    copy = _op("ttng.async_tma_copy_global_to_local", [[descriptor], [index] * 3, [], [barrier], [buffer], [m]])
    assert isinstance(copy, AsyncTmaCopyGlobalToLocal)
    assert (copy.indices, copy.offsets) == ([index] * 3, [])
    assert (copy.barrier, copy.buffer, copy.predicate) == (barrier, buffer, m)


def test_an_optional_operand_may_be_added_and_replaced(ops: dict[str, Op]) -> None:
    whole, some = typed(ops["all"], Load), typed(ops["some"], Load)
    mask, other = some.mask, some.other
    assert mask is not None
    whole.mask = mask
    assert whole.operands == [whole.pointer, mask]
    some.mask = whole.pointer
    assert some.operands == [whole.pointer, whole.pointer, other]
    assert mask.uses == {whole: 1}


def test_an_op_of_another_class_is_refused(ops: dict[str, Op]) -> None:
    with pytest.raises(AssertionError, match=r"tt\.load is no For"):
        typed(ops["all"], For)


def test_copies_have_the_same_class(ops: dict[str, Op]) -> None:
    copy = typed(ops["sum"], For).clone()
    assert copy.bounds == (copy.low, copy.high, copy.step)
    assert copy.yielded[0].owner is copy.body.first


def test_fields_say_how_many_operands_there_are() -> None:
    assert OPS["tt.load"].operands == (1, 3)
    assert OPS["arith.addi"].operands == (2, 2)
    assert OPS["scf.for"].operands == (3, ANY)
    assert OPS["builtin.module"].operands == (0, 0)


@pytest.mark.parametrize(
    "kinds", [(Operand, OptionalOperand, Operands), (Result,), (RegionOf, Body)], ids=["operands", "results", "regions"]
)
def test_names_leave_no_place_out(kinds: tuple[type[Field], ...]) -> None:
    """A class that names a place names all places before it."""
    for definition in OPS.values():
        fields = (getattr_static(definition.kind, name) for name in dir(definition.kind))
        places = {field.index for field in fields if isinstance(field, kinds) and field.index >= 0}
        assert places == {*range(len(places))}, definition.name


@pytest.mark.parametrize("definition", [d for d in OPS.values() if d.kind is not None], ids=lambda d: d.name)
def test_classes_add_names_and_nothing_else(definition) -> None:
    """Otherwise ops could not become objects of them."""
    assert definition.kind.__doc__
    assert all(base.__slots__ == () for base in definition.kind.__mro__[:-2])
