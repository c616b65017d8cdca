"""Control flow sink: ops that only one side of a branch uses move into that side.

    %count = arith.select %on, %n, %c0             scf.if %all {
    scf.if %all {                                    …
      …                                            } else {
    } else {                                  →      %count = arith.select %on, %n, %c0
      scf.for %i = %c0 to %count { … }               scf.for %i = %c0 to %count { … }
    }                                              }

For example, the unmasked version of a loop does not need the values computed for the masks of the other version. Only
ops without effects move, and only those with operands: constants cost nothing. Unused ops are removed, since passes
compute addresses before they know whether they need them. The pass is MLIR's `control-flow-sink`, with dead code
elimination.
"""

from __future__ import annotations

from tilewright.dialects.scf import If
from tilewright.ir.core import Block, Op
from tilewright.ir.effects import is_dead, is_pure
from tilewright.transforms.functions import functions_of


def control_flow_sink(module: Op) -> bool:
    """Move ops of every function of `module` into the branches that need them; returns whether any moved or went."""
    found = False
    for function in functions_of(module):
        for block in function.regions[0].blocks:
            found = _sink_in_block(block) or found
    return found


def _sink_in_block(block: Block) -> bool:
    """Move what stands before the branches of a block, users first; then within regions."""
    found, has_branches, outer = False, False, list[Op]()
    before = block.last if block.is_outer else None
    while before is not None:
        op, before = before, before.previous
        if op.regions:
            outer.append(op)
            has_branches = has_branches or isinstance(op, If)
            continue
        if not op.operands:
            continue
        if op.results and not op.results[0].uses and is_dead(op):
            op.erase()
            found = True
            continue
        side = _side_that_needs(op) if has_branches and is_pure(op) else None
        if side is not None:
            op.unlink()
            side.insert(op, side.first)
            found = True
    for op in reversed(outer):
        for region in op.regions:
            for inner in region.blocks:
                found = _sink_in_block(inner) or found
    return found


def _side_that_needs(op: Op) -> Block | None:
    """The block of a branch beside `op` in which all of its uses are, or None."""
    block, side = op.block, None
    for result in op.results:
        for use in result.uses:
            found = None if use.block is block else _side_of(use, block)
            if found is None or (side is not None and found is not side):
                return None
            side = found
    return side


def _side_of(use: Op, block: Block | None) -> Block | None:
    """The block of a branch in `block` that a use is in; None if it is in no branch of it."""
    inner = use.block
    while inner is not None and inner.region is not None:
        around = inner.region.op
        assert around is not None, "a region is that of an op"
        if around.block is block:
            return inner if isinstance(around, If) else None
        inner = around.block
    return None
