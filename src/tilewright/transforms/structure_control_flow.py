"""Structure control flow: branches between the blocks of a function become `scf.if`.

    ^0:                                          %r = scf.if %c -> i32 {
      cf.cond_br %c, ^1, ^2                        scf.yield %x
    ^1:                                          } else {
      tt.return %x                        ->       %y = …
    ^2:                                            scf.yield %y
      %y = …                                     }
      tt.return %y                               tt.return %r

Such blocks come from early returns, so there are no cycles. Both sides of a condition extend to the first block that
every path from it reaches; blocks that both sides reach before that are copied into each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tilewright.analysis.value_flow import reachable
from tilewright.dialects.cf import CondBranch, target_operands
from tilewright.dialects.tt_function import Return
from tilewright.ir.core import Block, Op, Region, Value
from tilewright.ir.dominance import successors
from tilewright.transforms.functions import functions_of


def structure_control_flow(module: Op) -> bool:
    """Give every function of `module` one block, unless its blocks form a cycle; returns whether anything changed."""
    return structure_functions(functions_of(module))


def structure_functions(functions: Iterable[Op]) -> bool:
    """Structure the control flow of some functions, as `structure_control_flow` does."""
    changed = False
    for function in functions:
        region = function.regions[0]
        if len(region.blocks) > 1:
            changed |= _drop_unreachable(region)
        if len(region.blocks) > 1:
            joins = postdominators(region.block)
            if joins is not None:
                _structure(region, joins)
                changed = True
    return changed


def _drop_unreachable(region: Region) -> bool:
    """Erase the blocks that nothing jumps to (front ends leave one behind a `return`); returns whether any was."""
    reached = reachable([region.block], successors)
    unreachable = [block for block in region.blocks if block not in reached]
    for block in unreachable:
        for op in block:
            op.drop_uses()
    region.blocks = [block for block in region.blocks if block in reached]
    return bool(unreachable)


def postdominators(entry: Block) -> dict[Block, Block | None] | None:
    """Per reachable block the first block that every path from it reaches (None: the end); None if there is a cycle."""
    order = _finishing_order(entry)
    if order is None:
        return None
    always: dict[Block, list[Block]] = {}
    for block in order:  # successors first; `always` lists what every path meets, nearest first
        paths = [[target, *always[target]] for target in successors(block)]
        always[block] = [b for b in paths[0] if all(b in path for path in paths[1:])] if paths else []
    return {block: blocks[0] if blocks else None for block, blocks in always.items()}


def _finishing_order(entry: Block) -> list[Block] | None:
    """Blocks with successors before predecessors; None if there is a cycle."""
    order: list[Block] = []
    open_blocks: set[Block] = set()

    def finish(block: Block) -> bool:
        open_blocks.add(block)
        for target in successors(block):
            if target in open_blocks or (target not in order and not finish(target)):
                return False
        open_blocks.discard(block)
        order.append(block)
        return True

    return order if finish(entry) else None


def _structure(region: Region, joins: dict[Block, Block | None]) -> None:
    entry = region.block
    old = list(region.blocks)
    body = Block(name=entry.name)
    mapping: dict[Value, Value] = {}
    terminator = next(block.terminator for block in old if isinstance(block.terminator, Return))
    body.args = entry.args
    for argument in body.args:
        argument.owner = body
    entry.args = []
    results = _copy_path(entry, None, body, mapping, joins)
    body.append(Op.create("tt.return", results, location=terminator.location))
    for block in old:
        for op in block:
            op.drop_uses()
    region.blocks = []
    region.add(body)


def _copy_path(
    block: Block, stop: Block | None, into: Block, mapping: dict[Value, Value], joins: dict[Block, Block | None]
) -> list[Value]:
    """Copy what runs from `block` until `stop` to the end of `into`; returns the values for the arguments of `stop`."""
    while True:
        for op in block:
            if op is not block.last:
                into.append(op.clone(mapping))
        terminator = block.terminator
        if isinstance(terminator, Return):
            return _mapped(terminator.values, mapping)
        target: Block | None
        if isinstance(terminator, CondBranch):
            target = joins[block]
            values = _branch(terminator, target, into, mapping, joins)
        else:
            (target,) = terminator.successors
            values = _mapped(terminator.operands, mapping)
        if target is stop or target is None:
            return values
        mapping.update(zip(target.args, values, strict=True))
        block = target


def _branch(
    jump: CondBranch, stop: Block | None, into: Block, mapping: dict[Value, Value], joins: dict[Block, Block | None]
) -> list[Value]:
    """Append an `scf.if` for a conditional jump whose sides join at `stop`."""
    arms = []
    for target, operands in zip(jump.successors, target_operands(jump), strict=True):
        arm, values, inner = Block(), _mapped(operands, mapping), dict(mapping)
        if target is not stop:
            inner.update(zip(target.args, values, strict=True))
            values = _copy_path(target, stop, arm, inner, joins)
        arm.append(Op.create("scf.yield", values, location=jump.location))
        arms.append(arm)
    types = [value.type for value in arms[0].terminator.operands]
    condition = _mapped([jump.condition], mapping)
    regions = [Region([arm]) for arm in arms]
    return into.append(Op.create("scf.if", condition, types, regions=regions, location=jump.location)).results


def _mapped(values: Sequence[Value], mapping: dict[Value, Value]) -> list[Value]:
    return [mapping.get(value, value) for value in values]
