"""Rows with one active vector have a version without a loop along the row.

    scf.for %r = 0 to %count {                       %one = not %whole and 0 < %end <= 16
      %p = A(%r)                                     scf.if %one {
      scf.if %whole {                                  scf.for %r = 0 to %count { %p = A(%r) ; C(%p, 0) }
        B(%p)                                        }
      } else {                                 →     scf.for %r = (%one ? %count : 0) to 64 { … as before … }
        scf.for %i = 0 to %end step 16 { C(%p, %i) }
      }
    } {cpu.counted}
    scf.for %r = %count to 64 { … }

A tile may be wider than the active part of a row: 16 columns in a tile of 32, for each of 64 rows, in each iteration of
a loop. Then the masks of the one vector are the same for all active rows, and most of a row's time is spent on finding
its length. Active rows and others come as two loops (`parts_of_rows` in `nest/ends.py`). If more than one vector is
active, the second one processes all rows, so the version costs them nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from tilewright.backends.cpu.loop_builder import LoopBuilder, offset_of
from tilewright.backends.cpu.loop_facts import COUNTED
from tilewright.dialects.scf import For, If
from tilewright.dialects.traits import Loop
from tilewright.ir.core import Block, Op, Value
from tilewright.transforms.functions import functions_of
from tilewright.transforms.licm import hoist_out_of

MAX_OPS = 32
"""Max ops of a vector of a row: computing then outweighs the loop around it."""


class _Row(NamedTuple):
    """An iteration of a loop over rows: a choice of two things, the second of which is a loop along the row."""

    choice: If
    along: For


def version_single_vectors(module: Op) -> bool:
    """Version loops over rows of `module` for rows with one active vector; returns whether there are any."""
    found = False
    for function in functions_of(module):
        builder = LoopBuilder(Block(), entry=function.body)
        for rows in [op for op in function.ops_of(For) if COUNTED in op.attributes]:
            del rows.attributes[COUNTED]
            rest, row = rows.next, _row_of(rows)
            if row is not None and isinstance(rest, For) and rest.low is rows.high and rest.step is rows.step:
                _add_version(builder, rows, rest, row)
                found = True
    return found


def _row_of(rows: For) -> _Row | None:
    """The choice in each iteration of `rows`, if the iterations differ in nothing but where their row lies."""
    nested = [op for op in rows.body if op.regions and not rows.results]
    choice = nested[0] if len(nested) == 1 else None
    if not isinstance(choice, If) or choice.results or len(choice.arms) != 2 or _is_inside(choice.condition, rows):
        return None
    others = [op for op in choice.arms[1].block if not op.definition.terminator]
    along = others[0] if len(others) == 1 else None
    if not isinstance(along, For) or along.results or offset_of(along.low) != 0:
        return None
    whole = [inner for op in choice.arms[0].block for inner in op.walk()]
    has_loops = any(isinstance(op, Loop) for op in whole) or any(op.regions for op in along.body)
    is_short = len(list(along.body)) <= MAX_OPS and not has_loops
    return _Row(choice, along) if is_short and not _is_inside(along.high, rows) else None


def _is_inside(value: Value, loop: For) -> bool:
    """Whether `value` is computed in an iteration of `loop`, or is its counter."""
    block = value.block if value.op is None else value.op.block
    while block is not None:
        if block is loop.body:
            return True
        around = None if block.region is None else block.region.op
        block = None if around is None else around.block
    return False


def _add_version(b: LoopBuilder, rows: For, rest: For, row: _Row) -> None:
    along, version = row.along, rows.clone()
    copy = _row_of(version)
    assert copy is not None, "it is what it was"
    _without_loop(copy)
    with b.in_place_of(rows):
        fits = b.compare("ult", b.sub(along.high, 1), along.step)
        is_single = b.and_(fits, b.xor(row.choice.condition, 1))
        with b.branch(is_single) as branch, branch.then():
            b.append(version)
            hoist_out_of(version)
        rest.set_operand(0, b.select(is_single, rows.high, rows.low))


def _without_loop(row: _Row) -> None:
    """Leave of an iteration the first vector of its row."""
    choice, along = row
    assert choice.block is not None, "it stands in a loop"
    along.induction_variable.replace_by(along.low)
    for op in list(along.body):
        if not op.definition.terminator:
            op.unlink()
            choice.block.insert(op, choice)
    choice.erase()
