"""Expensive numbers of rows are computed by a loop of their own, in which rows are the lanes of vectors.

    cpu.nest, rows of 64 {                           %b = cpu.alloc
      %s = math.exp2 %d : 64                         cpu.nest { cpu.write(math.exp2 %d : 64), %b }
      cpu.write %x * %s[:, None], %y           →     cpu.nest, rows of 64 {
    }                                                  cpu.write %x * "cpu.read"(%b)[:, None], %y
                                                     }

A number that a nest has for each row is computed once per row, as a scalar: 64 exponentials take as long as those of a
tile of 64 x 16 (loop distribution: D. J. Kuck et al., Dependence Graphs and Compiler Optimizations, POPL 1981). Numbers
that hang on a reduction of the same nest, or on memory, stay where they are.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.backends.cpu.costs import cost
from tilewright.backends.cpu.reduction_splitting import TRANSCENDENTAL
from tilewright.dialects.arith import Constant
from tilewright.dialects.cpu import Nest, Read, Write, buffer_type
from tilewright.dialects.tt_program import MakeRange
from tilewright.dialects.tt_shape import Splat
from tilewright.ir.attributes import Attribute, DenseArray, Keyword
from tilewright.ir.core import Block, Op, Region, Value, tile_type
from tilewright.ir.types import i64

FEWEST_ROWS = 8
"""Min number of rows that get a loop of their own."""


def distribute_loops(module: Op) -> bool:
    """Let expensive numbers of rows of the nests of `module` (ttcir) be vectors; returns whether there are any."""
    found = False
    for nest in module.ops_of(Nest):
        if nest.mode == "rows" and nest.outer and nest.outer[-1] >= FEWEST_ROWS:
            for op in [op for op in nest.body if cost(op) >= TRANSCENDENTAL and len(op.results) == 1]:
                makers = _makers(nest, op)
                if makers:
                    _distribute(nest, op, makers)
                    found = True
    return found


def _makers(nest: Nest, op: Op) -> Sequence[Op]:
    """`op` and what it is computed from in `nest`, in order; none unless all of it can be computed before, by rows."""
    found, stack = set[Op](), [op]
    while stack:
        here = stack.pop()
        if here not in found:
            if not _may_come_first(nest, here):
                return ()
            found.add(here)
            stack += [v.op for v in here.operands if v.op is not None and v.op.block is nest.body]
    return [here for here in nest.body if here in found]


def _may_come_first(nest: Nest, op: Op) -> bool:
    """Whether `op` makes a number for each row, or one for all, and finds in front of `nest` what it finds inside."""
    if op.results[0].type.shape not in (None, nest.outer):
        return False
    if isinstance(op, Read):
        before = op.previous
        while before is not None and not (isinstance(before, Write) and before.buffer is op.buffer):
            before = before.previous
        return before is None and not op.row
    return op.definition.elementwise or isinstance(op, (Constant, MakeRange, Splat))


def _distribute(nest: Nest, op: Op, makers: Sequence[Op]) -> None:
    """Put a nest that computes `op` in front of `nest`, which reads its result."""
    block, value, location = nest.block, op.result, op.location
    assert block is not None, "it stands in a function"
    body, copies, buffer = Block(), dict[Value, Value](), _buffer(nest, value)
    for maker in makers:
        body.append(maker.clone(copies))
    body.append(Op.create("cpu.write", (copies[value], buffer), location=location))
    body.append(Op.create("cpu.yield", location=location))
    outer = DenseArray(i64, nest.outer[:-1])
    attributes: dict[str, Attribute] = {"mode": Keyword("rows"), "outer": outer}
    block.insert(Op.create("cpu.nest", (), (), attributes, [Region([body])], location=location), nest)
    read = Op.create("cpu.read", (buffer,), (value.type,), location=location)
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
