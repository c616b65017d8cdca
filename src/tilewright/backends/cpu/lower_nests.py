"""ttcir → vector loops: every nest is replaced, in place, by loops over memory.

    "cpu.nest"() <{mode = rows, outer = array<i64>}> ({             %3 = vector.load %0[%2] … -> vector<8xf32>
      …tile ops…                                             →      %4 = vector.load %1[%2] … -> vector<8xf32>
      tt.store %p, %sum                                             vector.store %5, …
      "cpu.yield"()
    })

Scalars, control flow, calls, products and reports stay as they are.
"""

from __future__ import annotations

from tilewright.backends.cpu.loop_builder import LoopBuilder, operand_of
from tilewright.backends.cpu.nest.context import Context, Hoisted
from tilewright.backends.cpu.nest.loops import NestBuilder
from tilewright.backends.cpu.reduction_splitting import Nest
from tilewright.dialects.cpu import Nest as NestOp
from tilewright.dialects.cpu import Write
from tilewright.dialects.tt_memory import Load
from tilewright.dialects.vector import UNLIKELY
from tilewright.ir.core import Block, Op, Value
from tilewright.transforms.functions import functions_of


def lower_nests(module: Op) -> bool:
    """Replace the nests of a module (ttcir with placed buffers) by vector loops."""
    return sum(_lower(LoopBuilder(Block(), entry=f.body), f.body, {}) for f in functions_of(module)) > 0


def _lower(b: LoopBuilder, block: Block, around: Hoisted) -> int:
    """Replace the nests of `block`; returns their number."""
    count, hoisted = 0, {**around}
    for op in block.ops():
        if isinstance(op, NestOp):
            b.location = op.location
            with b.before(op):
                results = lower_nest(b, op, hoisted)
            op.replace(results)
            count += 1
        else:
            shared = hoisted if UNLIKELY in op.attributes else {}  # a copy back has the addresses of its nest
            count += sum(_lower(b, inner, shared) for region in op.regions for inner in region.blocks)
    return count


def lower_nest(b: LoopBuilder, op: NestOp, hoisted: Hoisted) -> list[Value]:
    """Build the loops of the cpu.nest `op`; returns its results.

    What stands before earlier nests of the block is `hoisted`; what stands before this one joins it.
    """
    nest = Nest(op)
    by_rows = nest.mode == "rows"
    c = Context(b, operand_of, len(nest.outer) + by_rows)
    c.runs, c.optimize_size, c.wraps, c.hoisted = op.runs, op.optimize_size, op.wraps, hoisted
    for sink in nest.sinks:
        if isinstance(sink, Write) and sink.seen:
            numbers = list(map(operand_of, sink.seen))
            c.ends = numbers if sink.elide_copy else None
            c.seen |= {(sink.buffer, axis): number for axis, number in enumerate(numbers)}
    c.programs = 1 if op.programs is None else operand_of(op.programs)
    c.mixes = len(op.ops_of(Load)) > 1
    return NestBuilder(c, nest).build()
