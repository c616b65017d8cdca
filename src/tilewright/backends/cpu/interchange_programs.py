"""Neighbouring programs that share tiles cyclically run side by side, so that a thread reads memory in order.

                                                     %k = the programs that come next, this one included
    scf.for %i = %pid to %n step %programs {         scf.for %first = %pid to %n step %programs {
      A(%i)                                   →        scf.for %i = %first to min(%first + %k, %n) step 1 {
    }                                                    A(%i)
                                                       }
                                                     }
                                                     cpu.take %k

Such a loop, `for tile in range(program_id(0), tiles, num_programs(0))`, keeps a fixed number of programs busy. Run one
after the other, each program would pass through all of memory in large steps. The inner loop is marked: its iterations
belong to different programs, whose tiles may be parts of the same rows (`merge_programs.py`).

A kernel cannot rely on an order of programs, and the iterations of each keep theirs. Programs that might observe one
another are left alone, as are loops with reductions, products and carried values, for which nothing was measured.
"""

from __future__ import annotations

from tilewright.backends.cpu.loop_facts import PROGRAMS
from tilewright.backends.cpu.merge_programs import MAX_PROGRAMS
from tilewright.backends.cpu.order_programs import order_of
from tilewright.dialects.scf import For, If
from tilewright.dialects.traits import DotLike
from tilewright.dialects.tt_function import Func
from tilewright.dialects.tt_memory import Load, Store
from tilewright.dialects.tt_program import ProgramId
from tilewright.ir.attributes import UNIT, Attribute, Keyword
from tilewright.ir.core import Block, Op, Region
from tilewright.ir.declare import Effect
from tilewright.ir.types import i64
from tilewright.transforms.functions import functions_of, is_public
from tilewright.transforms.op_builder import OpBuilder


def interchange_programs(module: Op) -> bool:
    """Interchange loops over cyclically shared tiles with the programs; returns whether there were any."""
    found = False
    for function in functions_of(module):
        loop = _shared_loop(function) if is_public(function) else None
        if loop is not None:
            _interchange(loop, order_of(function)[0])
            found = True
    return found


def _shared_loop(function: Func) -> For | None:
    """The loop that is all that a program does, if each of its iterations is one that any program could do."""
    loops = [op for op in function.body.ops() if op.regions]
    if len(loops) != 1 or not all(_computes(op) for op in function.body.ops() if not op.regions):
        return None
    (loop,) = loops
    if not isinstance(loop, For) or loop.results or not _counts_tiles(loop, order_of(function)[0]):
        return None
    return loop if all(_moves_elements(op) for op in loop.walk()) else None


def _counts_tiles(loop: For, axis: str) -> bool:
    """Whether the loop goes from the program's number, which nothing else uses, by the number of programs."""
    first, step = loop.low.op, loop.step.op
    if not isinstance(first, ProgramId) or not isinstance(step, ProgramId):
        return False
    function = loop.parent
    assert function is not None, "the loop is one of a function"
    numbers = [op for op in function.walk() if isinstance(op, ProgramId) and op.axis == axis]
    own = [op for op in numbers if op.name == "tt.get_program_id"]
    return (
        own == [first]
        and list(first.result.uses) == [loop]
        and loop.high is not first.result
        and step in numbers
        and step.name == "tt.get_num_programs"
    )


def _computes(op: Op) -> bool:
    return op.definition.effect is Effect.NONE or op.definition.terminator


def _moves_elements(op: Op) -> bool:
    """Whether `op` computes element by element, moves elements, or is a branch or a loop around such ops."""
    if isinstance(op, Load):
        return not op.is_volatile
    is_plain = not op.regions and not isinstance(op, DotLike)
    return isinstance(op, (Store, For, If)) or (is_plain and _computes(op))


def _interchange(loop: For, axis: str) -> None:
    """Put the loop over programs around the body of `loop`, and the iterations around both."""
    at, number = OpBuilder(loop), loop.low.type
    along: dict[str, Attribute] = {"axis": Keyword(axis)}
    ahead = at.emit("cpu.programs_ahead", (), i64, along)
    count = at.compute("arith.minsi", ahead, at.constant(MAX_PROGRAMS, i64))
    one, body = at.constant(1, number), Block([number])
    at.op("scf.for", loop.bounds, (), {}, [Region([body])])
    at.op("cpu.take", (count,), (), along)
    (first,) = body.args
    loop.unlink()
    body.append(loop)
    body.append(Op.create("scf.yield", location=loop.location))
    inside = OpBuilder(loop)
    rest = inside.compute("arith.subi", loop.high, first)
    few = inside.compute("arith.minsi", inside.cast("arith.extsi", rest, i64), count)
    last = inside.compute("arith.addi", first, inside.cast("arith.trunci", few, number))
    loop.set_operands((first, last, one))
    loop.attributes[PROGRAMS] = UNIT
