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
from tilewright.ir.attributes import Attribute, Keyword, Number
from tilewright.ir.core import Block, Op, Region, Value
from tilewright.ir.types import Type, i1

MARK = "__test_peel_epilogue"


def peel_marked_loops(module: Op) -> bool:
    """Peel the last step of every loop of `module` with the attribute `__test_peel_epilogue`.

    Returns:
        whether there were any.
    """
    loops = [op for op in module.walk() if isinstance(op, For) and MARK in op.attributes]
    for loop in reversed(loops):
        del loop.attributes[MARK]
        peel_last_step(loop)
    return bool(loops)


def peel_last_step(loop: For) -> Op:
    """Let the last step of an `scf.for` run behind the loop.

    Returns:
        the `scf.if` whose first region is that step.
    """
    assert loop.block is not None, "a loop is in a block"
    shortened = _insert(loop, loop, "arith.subi", loop.high, loop.step)
    after = loop.next
    last = _last_counter(loop, after)
    condition = _insert(loop, after, "arith.cmpi", loop.low, loop.high, i1, {"predicate": Keyword("slt")})
    peeled, otherwise = Region(), Region([Block()])
    mapping = dict(zip(loop.body.args, [last, *loop.results], strict=True))
    block = peeled.add(Block())
    for op in loop.body:
        block.append(op.clone(mapping))
    otherwise.block.append(Op.create("scf.yield", loop.results, location=loop.location))
    types = [result.type for result in loop.results]
    choice = Op.create("scf.if", [condition], types, regions=[peeled, otherwise], location=loop.location)
    _redirect_uses(loop, choice)
    loop.block.insert(choice, after)
    loop.high = shortened
    return choice


def _redirect_uses(loop: Op, choice: Op) -> None:
    """Let all users of the results of `loop` but those inside `choice` use the results of `choice`."""
    inside = set(choice.walk())
    for old, new in zip(loop.results, choice.results, strict=True):
        for user in [user for user in old.uses if user not in inside]:
            user.set_operands([new if value is old else value for value in user.operands])


def _last_counter(loop: For, before: Op | None) -> Value:
    """((high - low - 1) / step) * step + low."""
    low, high, step = loop.low, loop.high, loop.step
    extent = _insert(loop, before, "arith.subi", high, low)
    one = Op.create("arith.constant", (), (low.type,), {"value": Number(1, low.type)}, location=loop.location)
    assert loop.block is not None, "a loop is in a block"
    loop.block.insert(one, before)
    inner = _insert(loop, before, "arith.subi", extent, one.result)
    steps = _insert(loop, before, "arith.divsi", inner, step)
    return _insert(loop, before, "arith.addi", _insert(loop, before, "arith.muli", steps, step), low)


def _insert(
    loop: Op,
    before: Op | None,
    name: str,
    a: Value,
    b: Value,
    type: Type | None = None,
    attributes: dict[str, Attribute] | None = None,
) -> Value:
    assert loop.block is not None, "a loop is in a block"
    op = Op.create(name, (a, b), (type or a.type,), attributes, location=loop.location)
    return loop.block.insert(op, before).result
