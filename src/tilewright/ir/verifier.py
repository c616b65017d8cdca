"""The verifier: rules of SSA form and of every op kind, about three microseconds per op.

Checked for every op: the numbers of operands, results and regions; required attributes; that operands dominate their
uses and list them among their uses; that each block ends with its only terminator; then the rule of its kind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from tilewright.ir.core import Block, Op, Region, Value
from tilewright.ir.declare import ANY, OpDefinition
from tilewright.ir.dominance import dominator_children
from tilewright.ir.errors import VerificationError, counted
from tilewright.ir.operands import check_operand_groups, has_varying_groups


def verify(module: Op) -> None:
    """Check `module` and everything in it.

    Raises:
        VerificationError: names the op and the rule it breaks.
    """
    _verify_op(module, set())


def _verify_op(op: Op, visible: set[Value]) -> None:
    facts = _FACTS.get(op.definition) or _facts_of(op.definition)
    least, most, results, has_groups, required, regions, verify_kind = facts
    operands = op.operands
    if not least <= len(operands) <= most:
        raise VerificationError(op, _count_rule("operand", least, most, len(operands)))
    if results is not None and len(op.results) != results:
        raise VerificationError(op, _count_rule("result", results, results, len(op.results)))
    for value in operands:
        if value not in visible or op not in value.uses:
            raise VerificationError(op, _operand_rule(op, value, visible))
    if has_groups:
        check_operand_groups(op)
    for name in required:
        if name not in op.attributes:
            raise VerificationError(op, f"attribute {name} is missing")
    if regions != 0 or op.regions:
        if regions is not None and len(op.regions) != regions:
            raise VerificationError(op, _count_rule("region", regions, regions, len(op.regions)))
        for region in op.regions:
            _verify_region(region, op, set() if op.definition.isolated else visible)
    if verify_kind is not None:
        verify_kind(op)


_Facts: TypeAlias = tuple[int, int, int | None, bool, tuple[str, ...], int | None, Callable[[Any], None] | None]
_FACTS: dict[OpDefinition, _Facts] = {}
"""The facts by which ops of a kind are checked: reading them from its definition takes a fifth of the time."""


def _facts_of(definition: OpDefinition) -> _Facts:
    facts = _FACTS[definition] = (
        *definition.operands,
        definition.results,
        has_varying_groups(definition.operand_names),
        definition.required,
        definition.regions,
        definition.verify,
    )
    return facts


def _verify_region(region: Region, op: Op, visible: set[Value]) -> None:
    if region.op is not op:
        raise VerificationError(op, "a region belongs to another op")
    blocks = region.blocks
    if len(blocks) == 1:
        added: list[Value] = []
        _verify_block(blocks[0], region, op.definition, visible, added)
        visible.difference_update(added)
    elif blocks:
        _verify_graph(region, op, visible)


def _verify_graph(region: Region, op: Op, visible: set[Value]) -> None:
    """Blocks along the dominator tree: each sees what its dominators define. Unreachable blocks see everything."""
    children = dominator_children(region)
    everything: list[Value] = []

    def descend(block: Block) -> None:
        added: list[Value] = []
        _verify_block(block, region, op.definition, visible, added)
        for child in children.pop(block, ()):
            descend(child)
        visible.difference_update(added)
        everything.extend(added)

    reachable = {region.block, *(child for below in children.values() for child in below)}
    descend(region.block)
    rest = [block for block in region.blocks if block not in reachable]
    if rest:
        everything.extend(value for block in rest for inner in block for value in inner.results)
        everything.extend(arg for block in rest for arg in block.args)
        visible.update(everything)
        for block in rest:
            _verify_block(block, region, op.definition, visible, [])
        visible.difference_update(everything)


def _verify_block(block: Block, region: Region, owner: OpDefinition, visible: set[Value], added: list[Value]) -> None:
    """Check one block; the values it defines become visible and are listed in `added`."""
    if block.region is not region:
        raise VerificationError(_owner(region), "a block belongs to another region")
    visible.update(block.args)
    added.extend(block.args)
    op = block.first
    while op is not None:
        if op.block is not block:
            raise VerificationError(op, "the op belongs to another block")
        _verify_op(op, visible)
        if op.definition.terminator and op.next is not None:
            raise VerificationError(op, "a terminator stands in the middle of its block")
        results = op.results
        if len(results) == 1:
            visible.add(results[0])
            added.append(results[0])
        elif results:
            visible.update(results)
            added.extend(results)
        op = op.next
    if owner.terminated and (block.last is None or not block.last.definition.terminator):
        raise VerificationError(block.last or _owner(region), "the block does not end with a terminator")
    if block.last is not None and block.last.successors:
        for target in block.last.successors:
            if target.region is not region:
                raise VerificationError(block.last, "a successor is in another region")


def _owner(region: Region) -> Op:
    assert region.op is not None, "a region without an op"
    return region.op


def _count_rule(what: str, least: int, most: int, found: int) -> str:
    if least == most:
        wanted = counted(least, what)
    elif most == ANY:
        wanted = f"at least {counted(least, what)}"
    else:
        wanted = f"{least} to {counted(most, what)}"
    return f"needs {wanted}, has {found}"


def _operand_rule(op: Op, value: Value, visible: Sequence[Value] | set[Value]) -> str:
    position = op.operands.index(value)
    if op not in value.uses:
        return f"operand {position} does not know this use"
    name = f" (%{value.name})" if value.name else ""
    assert value not in visible
    return f"operand {position}{name} does not dominate this use"
