"""Loop unroll: one iteration of a marked loop executes several original iterations.

    scf.for %i = %lo to %hi step %s {            scf.for %i = %lo to %m step 2*%s {
      A(%i)                               ->       A(%i)
    } {tt.loop_unroll_factor = 2 : i32}            A(%i + %s)
                                                 }
                                                 scf.for %i = %m to %hi step %s {
                                                   A(%i)
                                                 }

%m is the bound up to which whole groups of iterations reach; the second loop does the rest, which is everything if %m
would overflow.

Loop peeling: the last iteration of a loop runs after it.

%r = scf.for %i = %lo to %hi step %s          %end = arith.subi %hi, %s
    iter_args(%a = %x) {                      %q = scf.for %i = %lo to %end step %s iter_args(%a = %x) {…}
  %b = A(%i, %a)                        ->    %last = ((%hi - %lo - 1) / %s) * %s + %lo
  scf.yield %b                                %r = scf.if %lo < %hi {
}                                               yield A(%last, %q)
                                              } else { yield %q }
"""

from __future__ import annotations

from functools import partial, reduce

from tilewright.dialects.scf import For
from tilewright.ir.attributes import Number
from tilewright.ir.core import Block, Op, Region, Value
from tilewright.ir.types import i32
from tilewright.transforms.canonicalize import canonicalize
from tilewright.transforms.matching import integer_of
from tilewright.transforms.op_builder import OpBuilder

FACTOR = "tt.loop_unroll_factor"
NUM_STAGES = "tt.num_stages"


def loop_unroll(module: Op) -> bool:
    """Unroll the loops of `module` that carry a factor, inner loops first; returns whether there were any."""
    loops = [op for op in module.ops_of(For) if FACTOR in op.attributes]
    for loop in reversed(loops):
        factor = loop.attributes.pop(FACTOR)
        if isinstance(factor, Number) and factor.value > 1:
            _unroll(loop, int(factor.value))
    return bool(loops)


def unroll_and_tidy(module: Op) -> bool:
    """Unroll the loops of `module` that carry a factor, and bring what that leaves into canonical form."""
    return loop_unroll(module) and (canonicalize(module) or True)


def _unroll(loop: For, factor: int) -> None:
    """Split `loop` into one of groups of `factor` steps and one for the rest."""
    low, high, step, *initial = loop.operands
    rest = OpBuilder.after(loop).insert(loop.clone())
    rest.attributes[NUM_STAGES] = Number(1, i32)  # a few iterations are not worth a pipeline
    for old, new in zip(loop.results, rest.results, strict=True):
        old.replace_by(new)
    at = OpBuilder(loop)
    middle = _whole_groups(at, loop, factor)
    wide = at.compute("arith.muli", step, at.constant(factor, step.type))
    loop.set_operands([low, middle, wide, *initial])
    rest.set_operands([middle, high, step, *loop.results])
    _repeat_body(loop, factor, step)


def _whole_groups(at: OpBuilder, loop: For, factor: int) -> Value:
    """low + (n - n % factor) * step, n the number of iterations; low if there is no group, or on overflow."""
    low, high, step = loop.low, loop.high, loop.step
    room = at.compute("arith.subi", high, low)
    steps = at.compute("arith.ceildivsi", room, step)
    odd = at.compute("arith.remsi", steps, at.constant(factor, low.type))
    whole = at.compute("arith.muli", at.compute("arith.subi", steps, odd), step)
    middle = at.compute("arith.addi", low, whole)
    widest = ((1 << (low.type.bits - 1)) - 1) // factor
    is_exact = [
        at.compare("slt", low, high),
        at.compare("sle", low, middle),
        at.compare("sle", step, at.constant(widest, low.type)),
    ]
    if integer_of(low) != 0:
        is_exact.append(at.compare("sgt", room, at.constant(0, low.type)))
    return at.compute("arith.select", reduce(partial(at.compute, "arith.andi"), is_exact), middle, low)


def _repeat_body(loop: For, factor: int, step: Value) -> None:
    block, terminator = loop.body, loop.body.terminator
    counter, *carried = block.args
    steps = [op for op in block if op is not terminator]
    yielded, at = list(terminator.operands), OpBuilder(terminator)
    for k in range(1, factor):
        offset = at.compute("arith.muli", step, at.constant(k, step.type))
        shifted = at.compute("arith.addi", counter, offset)
        mapping = {counter: shifted, **dict(zip(carried, yielded, strict=True))}
        for op in steps:
            at.insert(op.clone(mapping))
        yielded = [mapping.get(value, value) for value in terminator.operands]
    terminator.set_operands(yielded)


MARK = "__test_peel_epilogue"


def peel_marked_loops(module: Op) -> bool:
    """Peel the last iteration of every loop of `module` with the attribute `__test_peel_epilogue`."""
    loops = [op for op in module.ops_of(For) if MARK in op.attributes]
    for loop in reversed(loops):
        del loop.attributes[MARK]
        peel_last_step(loop)
    return bool(loops)


def peel_last_step(loop: For) -> Op:
    """Let the last iteration of an `scf.for` run behind the loop; returns the `scf.if` with that iteration."""
    shortened = OpBuilder(loop).compute("arith.subi", loop.high, loop.step)
    after = OpBuilder.after(loop)
    last = _last_counter(loop, after)
    condition = after.compare("slt", loop.low, loop.high)
    peeled, otherwise = Region(), Region([Block()])
    mapping = dict(zip(loop.body.args, [last, *loop.results], strict=True))
    block = peeled.add(Block())
    for op in loop.body:
        block.append(op.clone(mapping))
    otherwise.block.append(Op.create("scf.yield", loop.results, location=loop.location))
    types = [result.type for result in loop.results]
    choice = Op.create("scf.if", [condition], types, regions=[peeled, otherwise], location=loop.location)
    _redirect_uses(loop, choice)
    after.insert(choice)
    loop.high = shortened
    return choice


def _redirect_uses(loop: Op, choice: Op) -> None:
    """Let all users of the results of `loop` but those inside `choice` use the results of `choice`."""
    inside = set(choice.walk())
    for old, new in zip(loop.results, choice.results, strict=True):
        for user in [user for user in old.uses if user not in inside]:
            user.set_operands([new if value is old else value for value in user.operands])


def _last_counter(loop: For, at: OpBuilder) -> Value:
    """((high - low - 1) / step) * step + low."""
    low, high, step = loop.low, loop.high, loop.step
    extent = at.compute("arith.subi", high, low)
    inner = at.compute("arith.subi", extent, at.constant(1, low.type))
    steps = at.compute("arith.divsi", inner, step)
    return at.compute("arith.addi", at.compute("arith.muli", steps, step), low)
