"""Loop distribution: expensive values per row get a loop of their own, in which rows are the lanes of vectors.

    cpu.nest, rows of 64 {                           %b = cpu.alloc
      %s = math.exp2 %d : 64                         cpu.nest { cpu.write(math.exp2 %d : 64), %b }
      cpu.write %x * %s[:, None], %y           →     cpu.nest, rows of 64 {
    }                                                  cpu.write %x * "cpu.read"(%b)[:, None], %y
                                                     }

A value that exists once per row is computed once per row, as a scalar: 64 exponentials take as long as those of a tile
of 64 x 16 (loop distribution: D. J. Kuck et al., Dependence Graphs and Compiler Optimizations, POPL 1981), and each row
begins by waiting for the larger of two values. Values that depend on a reduction of the same nest, or on memory, are
not moved.

Before that, reductions of short rows whose results the nest uses along the same rows get a nest of their own, which
recomputes their operands:

    cpu.nest, rows of 64 {                           cpu.nest, rows of 64 { cpu.write(max(%x), %m) }
      %m = max(%x) : 64                        →     cpu.nest, rows of 64 {
      cpu.write exp2(%x - %m[:, None]), %y             cpu.write exp2(%x - "cpu.read"(%m)[:, None]), %y
    }                                                }

A reduction ends in a chain of a few lanes, for which the rest of a short row waits, and with it the next rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.analysis.value_flow import backward_slice
from tilewright.backends.cpu.costs import EXPENSIVE, cost
from tilewright.backends.cpu.reduction_splitting import TRANSCENDENTAL
from tilewright.backends.cpu.reduction_splitting import Nest as Phases
from tilewright.dialects.arith import Constant, NumberExtreme
from tilewright.dialects.cpu import Nest, Read, Write, buffer_type
from tilewright.dialects.tt_program import MakeRange
from tilewright.dialects.tt_reduce import Reduce
from tilewright.dialects.tt_shape import Broadcast, ExpandDims, Splat
from tilewright.ir.attributes import Attribute, DenseArray, Keyword
from tilewright.ir.core import Block, Op, Region, Value, tile_type
from tilewright.ir.types import i64

MIN_ROWS = 8
"""Min number of rows that get a loop of their own."""
LONGEST_ROW = 128
"""Max elements of a row whose reductions get a loop of their own: others have work left while one ends."""


def distribute_loops(module: Op) -> bool:
    """Distribute reductions and expensive values of rows of nests (ttcir) to nests before; returns whether any were."""
    found = False
    for nest in module.ops_of(Nest):
        while _reduce_first(nest):
            found = True
    for nest in module.ops_of(Nest):
        if nest.mode == "rows" and nest.outer and nest.outer[-1] >= MIN_ROWS:
            for op in [op for op in nest.body.ops() if _is_slow_alone(op) and len(op.results) == 1]:
                makers = _makers(nest, op)
                if makers:
                    _distribute(nest, makers, [op], nest.outer[:-1])
                    found = True
    return found


def _is_slow_alone(op: Op) -> bool:
    """Whether `op` takes many instructions for a single number.

    An extreme takes ten, as it moves the sign of a zero and NaNs between kinds of registers, and four for a vector.
    """
    return cost(op) >= TRANSCENDENTAL or isinstance(op, NumberExtreme)


def _reduce_first(nest: Nest) -> bool:
    """Let the first reductions that later loops of `nest` wait for be those of a nest in front; returns if any are."""
    if nest.mode != "rows" or nest.results or nest.given is not None or not nest.outer or nest.outer[-1] < MIN_ROWS:
        return False
    reduces = nest.body.ops_of(Reduce)
    phases = Phases(nest) if reduces else None
    first = [op for op in reduces if phases is not None and _is_waited_for(phases, op)]
    if phases is None or not first:
        return False
    makers = [op for op in nest.body.ops() if any(op is sink or op in phases.closures[sink] for sink in first)]
    if not all(map(_is_computed_again, makers)):
        return False
    _distribute(nest, makers, first, nest.outer)
    return True


def _is_waited_for(phases: Phases, op: Reduce) -> bool:
    """Whether a loop along short rows needs the only result of `op`, which itself needs none of the nest."""
    if phases.phases[op] != 0 or len(op.results) != 1 or op.result.type.shape != phases.outer:
        return False
    users = (sink for sink in phases.sinks if op in phases.closures[sink])
    return phases.inner_extent(op) <= LONGEST_ROW and any(phases.inner_extent(sink) > 1 for sink in users)


def _is_computed_again(op: Op) -> bool:
    """Whether `op` is cheap, and finds before its nest what it finds inside."""
    if isinstance(op, Read):
        return _is_read_first(op)
    if isinstance(op, Reduce):
        return not any(v.op is not None and v.op.block is op.block for inner in op.combine for v in inner.operands)
    is_cheap = op.definition.elementwise and cost(op) < EXPENSIVE
    return is_cheap or isinstance(op, (Constant, MakeRange, Splat, ExpandDims, Broadcast))


def _makers(nest: Nest, op: Op) -> Sequence[Op]:
    """`op` and what it is computed from in `nest`, in order; none unless all of it can be computed before, by rows."""
    found = backward_slice(op.results[0], lambda here: here.block is nest.body)
    may_come_first = all(_may_come_first(nest, here) for here in found)
    return [here for here in nest.body.ops() if here in found] if may_come_first else ()


def _may_come_first(nest: Nest, op: Op) -> bool:
    """Whether `op` makes a number for each row, or one for all, and finds before `nest` what it finds inside."""
    if op.results[0].type.shape not in (None, nest.outer):
        return False
    if isinstance(op, Read):
        return _is_read_first(op)
    return op.definition.elementwise or isinstance(op, (Constant, MakeRange, Splat))


def _is_read_first(op: Read) -> bool:
    """Whether the nest has not written the buffer before `op` reads it."""
    before = op.previous
    while before is not None and not (isinstance(before, Write) and before.buffer is op.buffer):
        before = before.previous
    return before is None and not op.row


def _distribute(nest: Nest, makers: Sequence[Op], ops: Sequence[Op], outer: Sequence[int]) -> None:
    """Put a nest that computes `ops`, by `makers`, before `nest`, which reads their results."""
    block, location = nest.block, nest.location
    assert block is not None, "it stands in a function"
    body, copies, buffers = Block(), dict[Value, Value](), [_buffer(nest, op.result) for op in ops]
    for maker in makers:
        body.append(maker.clone(copies))
    for op, buffer in zip(ops, buffers, strict=True):
        body.append(Op.create("cpu.write", (copies[op.result], buffer), location=op.location))
    body.append(Op.create("cpu.yield", location=location))
    attributes: dict[str, Attribute] = {"mode": Keyword("rows"), "outer": DenseArray(i64, tuple(outer))}
    block.insert(Op.create("cpu.nest", (), (), attributes, [Region([body])], location=location), nest)
    for op, buffer in zip(ops, buffers, strict=True):
        read = Op.create("cpu.read", (buffer,), (op.result.type,), location=op.location)
        op.replace([nest.body.insert(read, op).result])
    for maker in reversed(makers):
        if maker.block is not None and not any(result.uses for result in maker.results):
            maker.erase()


def _buffer(nest: Nest, value: Value) -> Value:
    """The buffer to which `nest` writes `value` anyway, and does not any more, or a new one."""
    for user in value.uses:
        if isinstance(user, Write) and len(user.operands) == 2 and not user.row:
            buffer = user.buffer
            if all(other is user or other.parent is not nest for other in buffer.uses):
                user.erase()
                return buffer
    assert nest.block is not None, "it stands in a function"
    alloc = Op.create("cpu.alloc", (), (buffer_type(tile_type(value)),), location=nest.location)
    return nest.block.insert(alloc, nest).result
