"""The order of ops, so that few registers are in use and buffers are filled as soon as their data is there.

conversions move behind the last buffer that is given back before their first use
loads of a dot's operand from shared memory move into the loop that uses them
a tile goes into its buffer, and is transposed, right after it was computed
of a dot's operands in shared memory the first is loaded first
"""

from __future__ import annotations

from tilewright.analysis.live_ranges import ancestor_in
from tilewright.ir.core import Op, Value
from tilewright.ir.effects import writes_memory
from tilewright.ir.types import MemDescType
from tilewright.layouts.encodings import DotOperand
from tilewright.transforms.gpu.relayout import layout_of

TRANSPOSITIONS = frozenset({"tt.trans", "ttg.memdesc_trans"})
SPREAD = frozenset({"arith.constant", "tt.splat"})
"""What makes a tile of one number: a buffer early would only be in use for longer."""


def reorder_instructions(module: Op) -> bool:
    """Move ops of `module` within what their operands, users and effects allow."""
    changed = False
    for move in (_sink_conversion, _sink_into_loop, _fill_at_once, _transpose_at_once, _first_operand_first):
        for op in list(module.walk()):
            changed |= move(op)
    return changed


def _place(op: Op, behind: Op) -> bool:
    """Put `op` right behind another op; False if it stands there."""
    if op.previous is behind:
        return False
    assert behind.block is not None, "an op of a function is in a block"
    op.unlink()
    behind.block.insert(op, behind.next)
    return True


def _sink_conversion(op: Op) -> bool:
    if op.name != "ttg.convert_layout":
        return False
    users = {ancestor_in(user, op.block) for user in op.results[0].uses}
    last, following = None, op.next
    while following is not None and following not in users:
        if following.name == "ttg.local_dealloc":
            last = following
        following = following.next
    return last is not None and _place(op, last)


def _sink_into_loop(op: Op) -> bool:
    if not _fills_registers(op) or len(op.results[0].uses) != 1:
        return False
    (user, count), *_ = op.results[0].uses.items()
    if count != 1 or _loop_around(user) is _loop_around(op):
        return False
    if op.name == "ttg.local_load" and not _keeps_its_contents(op.operands[0]):
        return False
    assert user.block is not None, "an op of a function is in a block"
    op.unlink()
    user.block.insert(op, user)
    return True


def _fills_registers(op: Op) -> bool:
    """Whether the result of `op` needs more registers than its operand."""
    if op.name == "ttg.local_load":
        return True
    return op.name == "ttg.convert_layout" and isinstance(layout_of(op.results[0]), DotOperand)


def _keeps_its_contents(buffer: Value) -> bool:
    """Whether `buffer`, as far as its name tells, holds the same from when it is made to the end of the program."""
    type = buffer.type
    given_back = any(user.name == "ttg.local_dealloc" for user in buffer.uses)
    return isinstance(type, MemDescType) and not type.mutable and not given_back


def _loop_around(op: Op) -> Op | None:
    around = op.parent
    while around is not None and around.name != "scf.for":
        around = around.parent
    return around


def _fill_at_once(op: Op) -> bool:
    if op.name != "ttg.local_alloc" or not op.operands:
        return False
    source = op.operands[0].op
    if source is None or source.name in SPREAD:
        return False
    if source.block is not op.block and not _keeps_its_contents(op.results[0]):
        return False  # each round of a loop needs a fresh one
    return _place(op, source)


def _transpose_at_once(op: Op) -> bool:
    source = op.operands[0].op if op.name in TRANSPOSITIONS else None
    return source is not None and _place(op, source)


def _first_operand_first(op: Op) -> bool:
    if op.name != "ttg.local_load" or len(op.results[0].uses) != 1:
        return False
    layout, (dot, count) = layout_of(op.results[0]), next(iter(op.results[0].uses.items()))
    if not isinstance(layout, DotOperand) or layout.op_index != 1 or dot.name != "tt.dot" or count != 1:
        return False
    first = dot.operands[0].op
    if first is None or first.name != "ttg.local_load" or not _only_reads_between(op, first):
        return False
    return _place(op, first)


def _only_reads_between(op: Op, other: Op) -> bool:
    """Whether `other` comes after `op` in its block, with nothing between them that writes memory."""
    following = op.next
    while following is not None and following is not other:
        if writes_memory(following):
            return False
        following = following.next
    return following is other
