"""Structured control flow (loops, conditions) becomes branches between blocks.

%r = scf.for %i = %a to %b step %c              cf.br ^1(%a, %x)
     iter_args(%s = %x) -> (i32) {            ^1(%i: i32, %s: i32):
  %y = …                                        %0 = arith.cmpi slt, %i, %b
  scf.yield %y                                  cf.cond_br %0, ^2, ^3
}                                       ->    ^2:
… %r …                                          %y = …
                                                %1 = arith.addi %i, %c
                                                cf.br ^1(%1, %y)
                                              ^3:
                                                … %s …
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright.dialects.scf import For, If, While
from tilewright.dialects.ttg_warp_specialize import WarpSpecialize, WarpSpecializePartitions
from tilewright.ir.attributes import Keyword
from tilewright.ir.core import Block, Op, Region, Value
from tilewright.ir.types import i1
from tilewright.transforms.functions import functions_of
from tilewright.transforms.matching import following
from tilewright.transforms.op_builder import OpBuilder


def convert_scf_to_cf(module: Op) -> bool:
    """Replace the `scf` ops of `module`, also within partitions of warps; returns whether there were any.

    The functions of reductions, scans and maps stay as they are: they have one block.
    """
    changed = False
    for function in functions_of(module):
        for region in function.regions:
            changed |= _convert(region)
    return changed


def _convert(region: Region) -> bool:
    changed = False
    waiting = list(region.blocks)
    while waiting:
        block = waiting.pop(0)
        for op in block:
            convert = _CONVERSIONS.get(op.name)
            if convert is not None:
                new = convert(op)
                place = region.blocks.index(block) + 1
                for position, added in enumerate(new, place):
                    region.add(added, position)
                waiting[:0] = new
                changed = True
                break
            if isinstance(op, (WarpSpecialize, WarpSpecializePartitions)):
                for inner in op.regions:
                    changed |= _convert(inner)
    return changed


def _split(op: Op) -> tuple[Block, Block]:
    """The block of `op`, which now ends before it, and a block with everything that follows."""
    block, rest = op.block, Block()
    assert block is not None, "an op of a function is in a block"
    rest.splice(following(op))
    op.unlink()
    return block, rest


def _become_arguments(values: Sequence[Value], block: Block) -> None:
    """The results of an op, or the arguments of another block, become arguments of `block`."""
    for value in values:
        argument = block.add_argument(value.type, value.name)
        argument.location = value.location
        value.replace_by(argument)


def _jump(block: Block, op: Op, target: Block, values: Sequence[Value] = ()) -> None:
    block.append(Op.create("cf.br", values, successors=[target], location=op.location))


def _end_in_jump(block: Block, target: Block, *first: Value) -> None:
    """The terminator of `block` becomes a jump that passes on `first` and what it yielded."""
    last = block.terminator
    last.unlink()
    _jump(block, last, target, [*first, *last.operands])
    last.drop_uses()


def _branch(block: Block, op: Op, condition: Value, targets: tuple[Block, Block], values: Sequence[Value] = ()) -> None:
    """A jump to one of two blocks, both of which get `values`."""
    operands = [condition, *values, *values]
    block.append(Op.create("cf.cond_br", operands, successors=list(targets), location=op.location))


def _convert_if(op: If) -> list[Block]:
    block, rest = _split(op)
    _become_arguments(op.results, rest)
    arms = [region.block for region in op.arms]
    for arm in arms:
        _end_in_jump(arm, rest)
    _branch(block, op, op.condition, (arms[0], arms[1] if len(arms) > 1 else rest))
    _release(op)
    return [*arms, rest]


def _convert_for(op: For) -> list[Block]:
    (block, rest), head, body = _split(op), Block(), op.body
    _become_arguments(body.args, head)
    body.args = []
    counter, *carried = head.args
    for result, argument in zip(op.results, carried, strict=True):
        result.replace_by(argument)
    _jump(block, op, head, [op.low, *op.inits])
    less = Op.create("arith.cmpi", (counter, op.high), (i1,), {"predicate": Keyword("slt")}, location=op.location)
    _branch(head, op, head.append(less).result, (body, rest))
    at = OpBuilder(body.terminator)
    at.location = op.location
    _end_in_jump(body, head, at.compute("arith.addi", counter, op.step))
    _release(op)
    return [head, body, rest]


def _convert_while(op: While) -> list[Block]:
    (block, rest), test, before, after = _split(op), op.condition, op.before, op.after
    _become_arguments(op.results, rest)
    _jump(block, op, before, op.inits)
    test.unlink()
    _branch(before, test, test.condition, (after, rest), test.values)
    _end_in_jump(after, before)
    test.drop_uses()
    _release(op)
    return [before, after, rest]


def _release(op: Op) -> None:
    """Forget an op whose blocks live on elsewhere."""
    op.regions = ()
    op.drop_uses()


_CONVERSIONS: Mapping[str, Callable[[Any], list[Block]]] = {
    "scf.if": _convert_if,
    "scf.for": _convert_for,
    "scf.while": _convert_while,
}
