"""Loop unroll: a loop marked with a factor runs that many steps at once.

    scf.for %i = %lo to %hi step %s {            scf.for %i = %lo to %m step 2*%s {
      A(%i)                               ->       A(%i)
    } {tt.loop_unroll_factor = 2 : i32}            A(%i + %s)
                                                 }
                                                 scf.for %i = %m to %hi step %s {
                                                   A(%i)
                                                 }

%m is as far as whole groups of steps reach; the second loop does the rest.
"""

from __future__ import annotations

from tilewright.dialects.scf import For
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op, Value
from tilewright.ir.types import Type, i32
from tilewright.transforms.canonicalize import canonicalize

FACTOR = "tt.loop_unroll_factor"
STAGES = "tt.num_stages"


def loop_unroll(module: Op) -> bool:
    """Unroll the loops of `module` that carry a factor, inner loops first.

    Returns:
        whether there were any.
    """
    loops = [op for op in module.walk() if isinstance(op, For) and FACTOR in op.attributes]
    for loop in reversed(loops):
        factor = loop.attributes.pop(FACTOR)
        if isinstance(factor, Number) and factor.value > 1:
            _unroll(loop, int(factor.value))
    return bool(loops)


def unroll_and_tidy(module: Op) -> bool:
    """Unroll the loops of `module` that carry a factor, and bring what that leaves into canonical form.

    Returns:
        whether there were any.
    """
    return loop_unroll(module) and (canonicalize(module) or True)


def _unroll(loop: For, factor: int) -> None:
    """Split `loop` into one of groups of `factor` steps and one for the rest."""
    low, high, step, *initial = loop.operands
    assert loop.block is not None, "a loop is in a block"
    rest = loop.clone()
    rest.attributes[STAGES] = Number(1, i32)  # a few steps are not worth a pipeline
    loop.block.insert(rest, loop.next)
    for old, new in zip(loop.results, rest.results, strict=True):
        old.replace_by(new)
    middle = _whole_groups(loop, factor)
    wide = _binary(loop, "arith.muli", step, _constant(loop, factor, step.type))
    loop.set_operands([low, middle, wide, *initial])
    rest.set_operands([middle, high, step, *loop.results])
    _repeat_body(loop, factor, step)


def _whole_groups(loop: For, factor: int) -> Value:
    """low + (n - n % factor) * step, n the number of steps; not above low if there is none."""
    low, high, step = loop.low, loop.high, loop.step
    steps = _binary(loop, "arith.ceildivsi", _binary(loop, "arith.subi", high, low), step)
    odd = _binary(loop, "arith.remsi", steps, _constant(loop, factor, low.type))
    whole = _binary(loop, "arith.muli", _binary(loop, "arith.subi", steps, odd), step)
    return _binary(loop, "arith.addi", low, whole)


def _repeat_body(loop: For, factor: int, step: Value) -> None:
    block, terminator = loop.body, loop.body.terminator
    counter, *carried = block.args
    steps = [op for op in block if op is not terminator]
    yielded = list(terminator.operands)
    for k in range(1, factor):
        offset = _binary(terminator, "arith.muli", step, _constant(terminator, k, step.type))
        shifted = _binary(terminator, "arith.addi", counter, offset)
        mapping = {counter: shifted, **dict(zip(carried, yielded, strict=True))}
        for op in steps:
            block.insert(op.clone(mapping), terminator)
        yielded = [mapping.get(value, value) for value in terminator.operands]
    terminator.set_operands(yielded)


def _insert(before: Op, name: str, operands: tuple[Value, ...], type: Type, value: Number | None = None) -> Value:
    op = Op.create(name, operands, (type,), {} if value is None else {"value": value}, location=before.location)
    assert before.block is not None, f"{before.name} is in no block"
    return before.block.insert(op, before).result


def _binary(before: Op, name: str, a: Value, b: Value) -> Value:
    return _insert(before, name, (a, b), a.type)


def _constant(before: Op, value: int, type: Type) -> Value:
    return _insert(before, "arith.constant", (), type, Number(value, type))
