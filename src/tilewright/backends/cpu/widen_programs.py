"""Neighbouring programs that add up columns run as one, whose tiles are several times as wide.

    %column = %pid * 32 + range(32)             scf.if 4 <= the programs that come next, and nothing overlaps {
    scf.for … { tt.load 32x32 … }                 %column = %pid * 32 + range(128)
    tt.reduce axis 0 : 32x32              →       scf.for … { tt.load 32x128 … }
    tt.store 32                                   tt.reduce axis 0 : 32x128 ; tt.store 128
                                                  cpu.take 4
                                                } else { … }

A tile of 32 columns reads two cache lines of each row before it goes to the next row, which is on another page. The
tiles of the next programs lie beside it: each value in lane i of program p + 1 is what it is in lane 32 + i of program
p, or the same in all of them, as the bounds of loops have to be. `function_motion.py` decides that.

Programs that may see one another's work by atomics, by calls, or since one stores what another one loads, run by
themselves: the addresses that all of them load and store are compared.
"""

from __future__ import annotations

from tilewright.analysis.integer_forms import FARTHEST
from tilewright.backends.cpu.costs import is_tile
from tilewright.backends.cpu.function_motion import FunctionMotion
from tilewright.backends.cpu.guard_ops import GuardOps
from tilewright.backends.cpu.interchange_loops import keeps_rows_in_registers, reads_own_rows
from tilewright.backends.cpu.order_programs import order_of
from tilewright.backends.cpu.program_reach import are_apart
from tilewright.backends.cpu.wide_copy import WideCopy, wanted_by
from tilewright.backends.llvm.machine import Target
from tilewright.dialects.scf import For
from tilewright.dialects.tt_function import Func
from tilewright.dialects.tt_memory import Load, Store
from tilewright.dialects.tt_reduce import Reduce
from tilewright.ir.attributes import Keyword
from tilewright.ir.core import Block, Op, Region, Value, tile_type
from tilewright.ir.declare import Effect
from tilewright.ir.types import i1, i64
from tilewright.transforms.functions import functions_of, is_public
from tilewright.transforms.op_builder import OpBuilder


def widen_programs(module: Op, target: Target) -> bool:
    """Give kernels that add up columns a version for several programs at once; returns whether there were any."""
    found = [_widen(function, target) for function in functions_of(module) if is_public(function)]
    return any(found)


def _widen(function: Func, target: Target) -> bool:
    times = _times(function, target)
    if times < 2:
        return False
    axis = order_of(function)[0]
    wanted = wanted_by(function, FunctionMotion(axis))
    if wanted is None:
        return False
    inside = _tile_ops(function)
    wide = Block()
    WideCopy(wanted, times).fill(wide, inside)
    apart = are_apart(function, wide)
    if apart is None:
        for op in reversed(list(wide.ops())):
            op.erase()
        return False
    first = OpBuilder(inside[0])
    for op in list(function.body.ops()):
        if op not in inside and not op.definition.terminator:
            op.unlink()
            first.insert(op)
    ahead = first.emit("cpu.programs_ahead", (), i64, {"axis": Keyword(axis)})
    count = first.constant(times, i64)
    enough, overlap = first.compare("sge", ahead, count), GuardOps(inside[0], {}).fails(apart)
    condition = first.compute("arith.andi", enough, first.compute("arith.xori", overlap, first.constant(1, i1)))
    _put_version(inside, wide, condition)
    wide.insert(Op.create("cpu.take", (count,), (), {"axis": Keyword(axis)}), wide.terminator)
    return True


def _put_version(ops: list[Op], wide: Block, condition: Value) -> None:
    """Let `wide` run in place of `ops` where the condition holds."""
    at, otherwise = OpBuilder(ops[0]), Block()
    at.op("scf.if", (condition,), (), {}, [Region([wide]), Region([otherwise])])
    for op in ops:
        op.unlink()
        otherwise.append(op)
    for block in (wide, otherwise):
        block.append(Op.create("scf.yield", location=at.location))


def _tile_ops(function: Func) -> list[Op]:
    """The ops that a program needs a version of: all but its scalars and the return."""
    outside = set(function.body.args)
    inside = list[Op]()
    for op in function.body.ops():
        is_scalar = not op.regions and op.definition.effect is Effect.NONE and not any(map(is_tile, op.results))
        if is_scalar and outside.issuperset(op.operands):
            outside.update(op.results)
        elif not op.definition.terminator:
            inside.append(op)
    return inside


def _times(function: Func, target: Target) -> int:
    """By how many programs rows become long enough, while what loops carry stays in registers; 0: by none."""
    loops = function.ops_of(For)
    if not target.costs.merged_row or not loops or any(loop.parent is not function for loop in loops):
        return 0
    if not all(map(_is_plain, function.walk())) or not all(map(reads_own_rows, loops)):
        return 0
    rows = [tile_type(load.result) for loop in loops for load in loop.body.ops_of(Load) if is_tile(load.result)]
    times = 8 * target.costs.merged_row // max((row.shape[-1] * row.bits for row in rows), default=FARTHEST)
    while times > 1 and not all(keeps_rows_in_registers(loop, target, times) for loop in loops):
        times //= 2
    return times


def _is_plain(op: Op) -> bool:
    """Whether no other program can tell when `op` runs, but for what it stores."""
    if isinstance(op, Load):
        return not op.is_volatile
    return isinstance(op, (Func, For, Reduce, Store)) or (
        not op.regions and (op.definition.effect is Effect.NONE or op.definition.terminator)
    )
