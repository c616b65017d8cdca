"""Loop peeling: the last step of a loop runs behind it.

%r = scf.for %i = %lo to %hi step %s          %end = arith.subi %hi, %s
    iter_args(%a = %x) {                      %q = scf.for %i = %lo to %end step %s iter_args(%a = %x) {…}
  %b = A(%i, %a)                        ->    %last = ((%hi - %lo - 1) / %s) * %s + %lo
  scf.yield %b                                %r = scf.if %lo < %hi {
}                                               yield A(%last, %q)
                                              } else { yield %q }
"""

from __future__ import annotations

from tilewright.dialects.scf import For
from tilewright.ir.core import Block, Op, Region, Value
from tilewright.transforms.op_builder import OpBuilder

MARK = "__test_peel_epilogue"


def peel_marked_loops(module: Op) -> bool:
    """Peel the last step of every loop of `module` with the attribute `__test_peel_epilogue`."""
    loops = [op for op in module.walk() if isinstance(op, For) and MARK in op.attributes]
    for loop in reversed(loops):
        del loop.attributes[MARK]
        peel_last_step(loop)
    return bool(loops)


def peel_last_step(loop: For) -> Op:
    """Let the last step of an `scf.for` run behind the loop; returns the `scf.if` whose first region is that step."""
    shortened = OpBuilder(loop).compute("arith.subi", loop.high, loop.step)
    behind = OpBuilder.behind(loop)
    last = _last_counter(loop, behind)
    condition = behind.compare("slt", loop.low, loop.high)
    peeled, otherwise = Region(), Region([Block()])
    mapping = dict(zip(loop.body.args, [last, *loop.results], strict=True))
    block = peeled.add(Block())
    for op in loop.body:
        block.append(op.clone(mapping))
    otherwise.block.append(Op.create("scf.yield", loop.results, location=loop.location))
    types = [result.type for result in loop.results]
    choice = Op.create("scf.if", [condition], types, regions=[peeled, otherwise], location=loop.location)
    _redirect_uses(loop, choice)
    behind.insert(choice)
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
