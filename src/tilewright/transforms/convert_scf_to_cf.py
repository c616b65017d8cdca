"""Loops and conditions as jumps between blocks: what machine code is made of.

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


def convert_scf_to_cf(module: Op) -> bool:
    """Replace the `scf` ops of `module`, also within partitions of warps; returns whether there were any.

    The functions of reductions, scans and maps stay as they are: they have one block.
    """
    regions = [region for function in functions_of(module) for region in function.regions]
    return sum(map(_convert, regions)) > 0


def _convert(region: Region) -> bool:
    changed = False
    waiting = list(region.blocks)
    while waiting:
        block = waiting.pop(0)
        for op in block:
            convert = _CONVERSIONS.get(op.name)
            if convert is not None:
                new = convert(op)
                region.blocks[region.blocks.index(block) + 1 : region.blocks.index(block) + 1] = new
                for added in new:
                    added.region = region
                waiting[:0] = new
                changed = True
                break
            if isinstance(op, (WarpSpecialize, WarpSpecializePartitions)):
                changed |= sum(map(_convert, op.regions)) > 0
    return changed


def _split_after(op: Op) -> Block:
    """A block with everything that follows `op`."""
    rest = Block()
    for later in following(op):
        later.unlink()
        rest.append(later)
    return rest


def _with_results(op: Op, rest: Block) -> None:
    """The results of `op` become arguments of the block behind it."""
    for result in op.results:
        argument = rest.add_argument(result.type, result.name)
        argument.location = result.location
        result.replace_by(argument)


def _jump(block: Block, op: Op, target: Block, values: Sequence[Value] = ()) -> None:
    block.append(Op.create("cf.br", values, successors=[target], location=op.location))


def _branch(
    block: Block,
    op: Op,
    condition: Value,
    targets: tuple[Block, Block],
    values: tuple[Sequence[Value], Sequence[Value]] = ((), ()),
) -> None:
    operands = [condition, *values[0], *values[1]]
    block.append(Op.create("cf.cond_br", operands, successors=list(targets), location=op.location))


def _body(block: Block) -> tuple[Block, Op]:
    """A block, now without its terminator, and that terminator."""
    last = block.terminator
    last.unlink()
    return block, last


def _convert_if(op: If) -> list[Block]:
    block, rest = op.block, _split_after(op)
    assert block is not None, "an op of a function is in a block"
    _with_results(op, rest)
    arms: list[Block] = []
    for region in op.arms:
        arm, last = _body(region.block)
        _jump(arm, last, rest, last.operands)
        last.drop_uses()
        arms.append(arm)
    targets = (arms[0], arms[1] if len(arms) > 1 else rest)
    op.unlink()
    _branch(block, op, op.condition, targets)
    _release(op)
    return [*arms, rest]


def _convert_for(op: For) -> list[Block]:
    block, rest, head = op.block, _split_after(op), Block()
    assert block is not None, "an op of a function is in a block"
    body, last = _body(op.body)
    for argument in body.args:
        new = head.add_argument(argument.type, argument.name)
        new.location = argument.location
        argument.replace_by(new)
    body.args = []
    counter, *carried = head.args
    for result, argument in zip(op.results, carried, strict=True):
        result.replace_by(argument)
    op.unlink()
    _jump(block, op, head, [op.low, *op.inits])
    less = Op.create("arith.cmpi", (counter, op.high), (i1,), {"predicate": Keyword("slt")}, location=op.location)
    _branch(head, op, head.append(less).result, (body, rest))
    following = body.append(Op.create("arith.addi", (counter, op.step), (counter.type,), location=op.location)).result
    _jump(body, last, head, [following, *last.operands])
    last.drop_uses()
    _release(op)
    return [head, body, rest]


def _convert_while(op: While) -> list[Block]:
    block, rest = op.block, _split_after(op)
    assert block is not None, "an op of a function is in a block"
    _with_results(op, rest)
    test = op.condition
    before, _ = _body(op.before)
    after, last = _body(op.after)
    op.unlink()
    _jump(block, op, before, op.inits)
    _branch(before, test, test.condition, (after, rest), (test.values, test.values))
    _jump(after, last, before, last.operands)
    test.drop_uses()
    last.drop_uses()
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
