"""The function of a map as ops on whole tiles, loops and branches included.

while x != 1:  x = step(x)      while any(active): x = step(x)      with  active &= x != 1  and results that stay
                                                                    where an element is no longer active

if c: a else: b                 select(c, a, b)                     both sides are computed

A loop whose bounds are the same for all elements is kept. Elements that a branch excludes are inactive in the loops
inside of it, so such a loop ends when it ends for the active elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tilewright.backends.llvm.elementwise import is_elementwise
from tilewright.dialects.scf import For
from tilewright.dialects.tt_reduce import MapElementwise
from tilewright.ir.attributes import Attribute, Keyword, Number, span_of
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Op, Region, Value
from tilewright.ir.types import TensorType, Type, i1, i32
from tilewright.support.diagnostics import NotSupported, located
from tilewright.transforms.lane_writer import LaneWriter, uniform_values
from tilewright.transforms.op_builder import OpBuilder, combine_region

_LESS: dict[str, Attribute] = {"predicate": Keyword("slt")}


def tiles_of_map(op: MapElementwise, shape: tuple[int, ...], arguments: Sequence[Value]) -> list[Value]:
    """The results of the function of `op` for `arguments`, tiles of `shape`; ops go before it."""
    block, outside = op.function.block, _outside(op)
    uniform = uniform_values(block, outside)
    for loop in [inner for inner in op.function.walk() if isinstance(inner, For)]:
        if not uniform.issuperset((loop.low, loop.high, loop.step)):
            _carry_counter(loop)
    writer = _TileWriter(Builder(Block()), uniform_values(block, outside), shape)
    writer.builder.location = op.location
    for argument, tile in zip(block.args, arguments, strict=True):
        writer.bind(argument, tile)
    results = [writer.all(value) for value in writer.run(block)]
    assert op.block is not None, "the map stands in a function"
    op.block.splice(writer.builder.block, op)
    return results


def _outside(op: MapElementwise) -> set[Value]:
    """The values from around the map that its function uses."""
    ops = [inner for inner in op.walk() if inner is not op]
    blocks = [block for around in op.walk() for region in around.regions for block in region.blocks]
    inside = {value for block in blocks for value in block.args}.union(*(inner.results for inner in ops))
    return {value for inner in ops for value in inner.operands} - inside


def _carry_counter(loop: For) -> None:
    """Make a `while` of a loop whose elements count to different numbers; a counter that wraps around is at its end."""
    types = [argument.type for argument in loop.body.args]
    before, after = Block(types), Block(types)
    tested, *_ = before.args
    counter, *_ = after.args
    b = Builder(before)
    b.location = loop.location
    b.emit("scf.condition", (*b.emit("arith.cmpi", (tested, loop.high), [i1], _LESS), *before.args))
    for argument, carried in zip(loop.body.args, after.args, strict=True):
        argument.replace_by(carried)
    after.splice(loop.body)
    end = after.terminator
    with b.recording(after):
        (following,) = b.emit("arith.addi", (counter, loop.step), [counter.type])
        (went_on,) = b.emit("arith.cmpi", (counter, following), [i1], _LESS)
        b.emit("scf.yield", (*b.emit("arith.select", (went_on, following, loop.high), [counter.type]), *end.operands))
    end.erase()
    regions = [Region([before]), Region([after])]
    loop.replace(OpBuilder(loop).op("scf.while", (loop.low, *loop.inits), types, None, regions).results[1:])


class _TileWriter(LaneWriter):
    """Writes for the elements of tiles of `shape`."""

    def __init__(self, builder: Builder, uniform: set[Value], shape: tuple[int, ...]) -> None:
        super().__init__(builder, uniform)
        self.shape = shape

    def wide_type(self, type: Type) -> Type:
        return TensorType(self.shape, type.scalar)

    def spread(self, number: Value) -> Value:
        return self.emit("tt.splat", (number,), self.wide_type(number.type))

    def any(self, flags: Value) -> Value:
        flat = self.emit("tt.reshape", (flags,), TensorType((prod(self.shape),), i1)) if len(self.shape) > 1 else flags
        regions = [combine_region("arith.ori", i1)]
        return self.builder.emit("tt.reduce", (flat,), [i1], {"axis": Number(0, i32)}, regions)[0]

    def holds(self, condition: Value) -> Value:
        """For each element, whether the condition holds or does not matter."""
        holds = self.all(condition)
        return holds if self.active is None else self.emit("arith.ori", (holds, self.negated(self.active)), holds.type)

    def elementwise(self, op: Op) -> None:
        if not is_elementwise(op):
            reason = "the CPU computes all elements at once"
            raise located(NotSupported(f"{op.name} in a function of elements", reason), span_of(op.location))
        super().elementwise(op)
