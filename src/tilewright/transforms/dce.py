"""Dead code elimination: ops whose results nobody uses and that change nothing are erased, last first.

%a = arith.addi %x, %y            ->    tt.return
%b = arith.muli %a, %a
tt.return
"""

from __future__ import annotations

from tilewright.ir.core import Block, Op
from tilewright.ir.effects import is_dead
from tilewright.transforms.functions import functions_of


def dce(module: Op) -> None:
    """Erase dead ops in every function of `module`."""
    for function in functions_of(module):
        for block in reversed(function.regions[0].blocks):
            _erase_dead(block)


def _erase_dead(block: Block) -> None:
    op = block.last
    while op is not None:
        before = op.previous
        if is_dead(op):
            op.erase()
        else:
            for region in op.regions:
                for inner in region.blocks:
                    _erase_dead(inner)
        op = before
