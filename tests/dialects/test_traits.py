"""Fields that ops of several dialects share, and fields that only some ops have under a name."""

from __future__ import annotations

import numpy as np

from tilewright.dialects.arith import (
    Binary,
    Bitwise,
    Compare,
    CompareFloats,
    CompareIntegers,
    Division,
    Extreme,
    FloatExtreme,
    IntegerCast,
    IntegerExtreme,
    IntegerRemainder,
    ModularArithmetic,
    NumberExtreme,
)
from tilewright.dialects.math import Approximate, Exact
from tilewright.dialects.scf import For, If, While
from tilewright.dialects.traits import ControlFlow, Loop, WritesMemory
from tilewright.dialects.tt_function import Call, Func
from tilewright.dialects.ttg_program import ScopedBarrier
from tilewright.ir.core import Op
from tilewright.ir.declare import OPS, Effect
from tilewright.ir.effects import effect_of
from tilewright.ir.fields import Operand
from tilewright.ir.parser import parse_module
from tilewright.ir.types import FunctionType, f32, i1, i32

TEXT = """
module {
  tt.func public @kernel(%p: !tt.ptr<i32> {tt.divisibility = 16 : i32}, %n: i32) {
    %one = arith.constant 1 : i32
    %r = scf.while (%a = %n) : (i32) -> i32 {
      %more = arith.cmpi slt, %a, %n : i32
      scf.condition(%more) %one : i32
    } do {
    ^bb0(%b: i32):
      scf.yield %b : i32
    }
    tt.store %p, %r : !tt.ptr<i32>
    ttg.barrier local|global_read
    tt.call @missing(%n) : (i32) -> ()
    tt.return
  }
}
"""


def one(kind: type[Op]) -> Op:
    (found,) = (op for op in parse_module(TEXT).walk() if isinstance(op, kind))
    return found


def kinds(trait: type[Op]) -> set[str]:
    return {name for name, facts in OPS.items() if facts.kind is not None and issubclass(facts.kind, trait)}


def test_loops_are_control_flow() -> None:
    assert kinds(Loop) == {"scf.for", "scf.parallel", "scf.while"}
    assert kinds(ControlFlow) == {"scf.for", "scf.if", "scf.parallel", "scf.while"}
    assert not issubclass(If, Loop)
    assert issubclass(For, Loop)


def test_both_comparisons_are_comparisons() -> None:
    assert (kinds(CompareIntegers), kinds(CompareFloats)) == ({"arith.cmpi"}, {"arith.cmpf"})
    assert kinds(Compare) == {"arith.cmpi", "arith.cmpf"}


def test_families_of_arithmetic() -> None:
    """Each op of one or two integers or floats is of the class that says what passes ask about it."""
    assert kinds(ModularArithmetic) == {"arith.addi", "arith.subi", "arith.muli"}
    assert kinds(Bitwise) == {"arith.andi", "arith.ori", "arith.xori"}
    assert kinds(IntegerRemainder) == {"arith.remsi", "arith.remui"}
    divided = (name for name in OPS if any(part in name for part in ("arith.div", "divsi", "divui", "arith.rem")))
    assert kinds(Division) == set(divided)
    assert kinds(IntegerExtreme) == {"arith.minsi", "arith.maxsi", "arith.minui", "arith.maxui"}
    assert kinds(NumberExtreme) == {"arith.minnumf", "arith.maxnumf"}
    assert kinds(FloatExtreme) == kinds(NumberExtreme) | {"arith.minimumf", "arith.maximumf"}
    assert kinds(Extreme) == kinds(IntegerExtreme) | kinds(FloatExtreme)
    casts = ("extsi", "extui", "trunci", "index_cast", "index_castui")
    assert kinds(IntegerCast) == {f"arith.{name}" for name in casts}


def test_functions_are_exact_or_approximate() -> None:
    assert kinds(Exact) == {"math.absf", "math.absi", "math.ceil", "math.ctlz", "math.ctpop", "math.floor", "math.sqrt"}
    assert kinds(Exact) | kinds(Approximate) == {name for name in OPS if name.startswith("math.")} - {"math.fma"}


def test_what_writes_says_where() -> None:
    store = one(WritesMemory)
    assert isinstance(store, WritesMemory)
    assert store.address.name == "p"
    assert all(OPS[name].effect in (Effect.WRITE, Effect.READ_WRITE) for name in kinds(WritesMemory))


def test_a_while_loop() -> None:
    loop = one(While)
    assert isinstance(loop, While)
    assert [value.name for value in loop.inits] == ["n"]
    assert loop.condition.condition.name == "more"
    assert [value.name for value in loop.condition.values] == ["one"]
    assert loop.yielded == loop.after.args


def test_what_a_barrier_orders() -> None:
    barrier = one(ScopedBarrier)
    assert isinstance(barrier, ScopedBarrier)
    assert barrier.scopes == ("local", "global_read")
    assert not OPS["ttg.barrier"].synchronizes  # that depends on its scopes


def test_a_functions_signature_may_be_set() -> None:
    function = one(Func)
    assert isinstance(function, Func)
    first, second = function.argument_attributes
    assert function.is_public
    assert (list(first), second) == (["tt.divisibility"], {})
    function.type = FunctionType((i1,), (i32,))
    function.argument_attributes = [{}]
    assert (function.type.inputs, function.argument_attributes) == ((i1,), [{}])


def test_a_call_of_a_function_that_is_not_there() -> None:
    call = one(Call)
    assert isinstance(call, Call)
    assert (call.callee, call.function) == ("missing", None)


def test_names_of_operands_stand_for_places_that_differ() -> None:
    for kind in {cls for facts in OPS.values() if facts.kind is not None for cls in facts.kind.__mro__}:
        places = [field.index for field in vars(kind).values() if type(field) is Operand]
        assert len(places) == len(set(places)), kind


def test_assembly_without_pure_may_do_anything() -> None:
    for pure, effect in (("true", Effect.NONE), ("false", Effect.UNKNOWN)):
        facts = f'constraints = "=r,r", packed_element = 1 : i32, pure = {pure}'
        line = f'%r = tt.elementwise_inline_asm "" {{{facts}}} %a : i32 -> i32'
        module = parse_module(f"tt.func @f(%a: i32) {{\n  {line}\n  tt.return\n}}")
        (assembly,) = [op for op in module.walk() if op.name == "tt.elementwise_inline_asm"]
        assert effect_of(assembly) is effect


NUMBERS = {
    i32: np.array([-(2**31), -7, -1, 0, 1, 2, 9, 31, 2**31 - 1], np.int32),
    f32: np.array([-np.inf, -1.5, 0, 0.1, 1, 2.5, 1e9, np.inf, np.nan], np.float32),
}


def test_an_op_is_commutative_exactly_if_it_computes_so() -> None:
    """An op that is declared to be associative or idempotent computes so, too."""
    kinds = {name: found.kind or Op for name, found in OPS.items() if found.semantics}
    binary = [name for name, kind in kinds.items() if issubclass(kind, Binary) and not issubclass(kind, Compare)]
    assert {"arith.addi", "arith.shli", "arith.minnumf", "tt.mulhiui", "tt.precise_divf"} <= {*binary}
    for name in binary:
        definition = OPS[name]
        type = f32 if name.endswith("f") else i32
        op = Op.create(name, (), (type,))
        b, a = np.meshgrid(NUMBERS[type], NUMBERS[type])
        with np.errstate(all="ignore"):
            found = definition.semantics(op, a, b)
            assert definition.commutative == np.array_equal(found, found.T, equal_nan=True), name
            assert not definition.idempotent or np.array_equal(found.diagonal(), NUMBERS[type], equal_nan=True), name
            for c in NUMBERS[type] if definition.associative else ():
                right = definition.semantics(op, a, definition.semantics(op, b, np.full_like(a, c)))
                np.testing.assert_array_equal(definition.semantics(op, found, np.full_like(a, c)), right, name)
