"""Reordering of ops, so that few registers are in use and buffers are filled as early as possible.

conversions move after the last buffer that is freed before their first use
loads of a dot's operand from shared memory move into the loop that uses them
a tile is stored to its buffer, and transposed, right after its computation
of a dot's operands in shared memory, the first one is loaded first
"""

from __future__ import annotations

from itertools import takewhile

from tilewright.analysis.live_ranges import ancestor_in
from tilewright.dialects.arith import Constant
from tilewright.dialects.scf import For
from tilewright.dialects.tt_dot import Dot
from tilewright.dialects.tt_shape import Splat, Trans
from tilewright.dialects.ttg_memory import LocalAlloc, LocalDealloc, LocalLoad, MemDescTrans
from tilewright.dialects.ttg_program import ConvertLayout
from tilewright.ir.core import Op, Value, defining
from tilewright.ir.effects import writes_memory
from tilewright.ir.types import MemDescType
from tilewright.layouts.encodings import DotOperand
from tilewright.transforms.gpu.tile_ops import layout_of
from tilewright.transforms.matching import following
from tilewright.transforms.op_builder import OpBuilder

SPREAD = (Constant, Splat)
"""Ops that make a tile of one number: an early buffer would only be in use for longer."""


def reorder_instructions(module: Op) -> bool:
    """Reorder ops of `module` as far as their operands, users and effects allow."""
    changed = False
    for move in (_sink_conversion, _sink_into_loop, _fill_at_once, _transpose_at_once, _first_operand_first):
        for op in list(module.walk()):
            changed |= move(op)
    return changed


def _place(op: Op, after: Op) -> bool:
    """Put `op` right behind another op; False if it stands there."""
    if op.previous is after:
        return False
    op.unlink()
    OpBuilder.after(after).insert(op)
    return True


def _sink_conversion(op: Op) -> bool:
    if not isinstance(op, ConvertLayout):
        return False
    users = {ancestor_in(user, op.block) for user in op.result.uses}
    between = takewhile(lambda later: later not in users, following(op))
    last = next((later for later in reversed(list(between)) if isinstance(later, LocalDealloc)), None)
    return last is not None and _place(op, last)


def _sink_into_loop(op: Op) -> bool:
    if not _fills_registers(op) or len(op.result.uses) != 1:
        return False
    (user, count), *_ = op.result.uses.items()
    if count != 1 or _loop_around(user) is _loop_around(op):
        return False
    if isinstance(op, LocalLoad) and not _keeps_its_contents(op.buffer):
        return False
    op.unlink()
    OpBuilder(user).insert(op)
    return True


def _fills_registers(op: Op) -> bool:
    """Whether the result of `op` needs more registers than its operand."""
    if isinstance(op, LocalLoad):
        return True
    return isinstance(op, ConvertLayout) and isinstance(layout_of(op.result), DotOperand)


def _keeps_its_contents(buffer: Value) -> bool:
    """Whether the name of `buffer` implies that its contents do not change after its allocation."""
    type = buffer.type
    given_back = any(isinstance(user, LocalDealloc) for user in buffer.uses)
    return isinstance(type, MemDescType) and not type.mutable and not given_back


def _loop_around(op: Op) -> Op | None:
    around = op.parent
    while around is not None and not isinstance(around, For):
        around = around.parent
    return around


def _fill_at_once(op: Op) -> bool:
    if not isinstance(op, LocalAlloc) or op.source is None:
        return False
    source = op.source.op
    if source is None or isinstance(source, SPREAD):
        return False
    if source.block is not op.block and not _keeps_its_contents(op.result):
        return False  # each round of a loop needs a fresh one
    return _place(op, source)


def _transpose_at_once(op: Op) -> bool:
    source = op.source.op if isinstance(op, (Trans, MemDescTrans)) else None
    return source is not None and _place(op, source)


def _first_operand_first(op: Op) -> bool:
    if not isinstance(op, LocalLoad) or len(op.result.uses) != 1:
        return False
    layout, (dot, count) = layout_of(op.result), next(iter(op.result.uses.items()))
    if not isinstance(layout, DotOperand) or layout.op_index != 1 or not isinstance(dot, Dot) or count != 1:
        return False
    first = defining(dot.a, LocalLoad)
    if first is None or not _only_reads_between(op, first):
        return False
    return _place(op, first)


def _only_reads_between(op: Op, other: Op) -> bool:
    """Whether `other` comes after `op` in its block, with nothing between them that writes memory."""
    for later in following(op):
        if later is other or writes_memory(later):
            return later is other
    return False
