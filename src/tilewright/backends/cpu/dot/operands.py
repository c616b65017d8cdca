"""Lowering of tt.dot to cpu.dot: operands and accumulator in buffers of the types that the micro-kernels use.

    %d = tt.dot %a, %b, %c    →    cpu.write %a, %A ; cpu.write %b, %B ; cpu.write %c, %C
                                   cpu.dot %A, %B, %C ; %d = cpu.read %C

Copying an operand is its packing, so it costs nothing extra. A plain load is copied by a nest of its own, marked
`elide_copy`: the tile is read in place if it is a matrix there. A tile whose columns are contiguous in memory, or are
computed from such, is stored transposed. An accumulator that a loop carries in a buffer is updated there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Protocol

from tilewright.backends.cpu.group_programs import SHARES_COLUMNS
from tilewright.backends.cpu.strides import lies_across
from tilewright.dialects.cpu import Read, Write
from tilewright.dialects.tt_dot import Dot
from tilewright.dialects.tt_memory import Load
from tilewright.dialects.tt_shape import Splat, Trans
from tilewright.ir.attributes import Attribute, DenseArray
from tilewright.ir.core import Op, Value, defining
from tilewright.ir.types import FloatType, TensorType, Type, f16, f32, i32, with_element
from tilewright.transforms import matching


class Buffers(Protocol):
    """The part of the block's planner that the lowering uses."""

    fixed: set[Value]
    asking: tuple[Op, int] | None

    def materialise(self, value: Value, before: Op, *, elide_copy: bool = False) -> Value: ...
    def allocate(self, value: Value, before: Op) -> Value: ...
    def write(self, value: Value, buffer: Value, before: Op) -> None: ...
    def insert(self, op: Op, before: Op) -> Op: ...
    def close(self, before: Op | None) -> None: ...
    def live_values(self, values: Iterable[Value], finished: Collection[Op]) -> list[Value]: ...


class DotLowering:
    """Lowers dots for one target.

    Args:
        operand_element: the element type in which operands of a given element type are stored.
    """

    def __init__(self, operand_element: Callable[[Type], Type]) -> None:
        self.operand_element = operand_element

    def lower(self, op: Dot, planner: Buffers) -> None:
        """Replace the tt.dot `op` in the planner's block."""
        # asked for one by one: what is written for an operand may put a buffer in the place of another
        planner.asking = (op, 1)
        a_buffer, a_transposed = self.operand(op.a, op, planner)
        planner.asking = (op, 2)
        b_buffer, b_transposed = self.operand(op.b, op, planner)
        planner.asking = None
        c = op.accumulator
        narrow = c.type.scalar is f16
        if narrow:
            c = self.cast("arith.extf", c, f32, op, planner)
        accumulator, zero = self.accumulator(op, c, (a_buffer, b_buffer), planner, narrow=narrow)
        planner.close(before=op)
        attributes: dict[str, Attribute] = {
            "a_transposed": a_transposed,
            "b_transposed": b_transposed,
            "zero_init": zero,
            **({SHARES_COLUMNS: True} if SHARES_COLUMNS in op.attributes else {}),
        }
        planner.insert(
            Op.create("cpu.dot", (a_buffer, b_buffer, accumulator), (), attributes, location=op.location), op
        )
        read = planner.insert(Op.create("cpu.read", (accumulator,), (c.type,), location=op.location), op)
        read.result.name = op.result.name
        result = self.cast("arith.truncf", read.result, f16, op, planner) if narrow else read.result
        op.replace([result])

    def operand(self, value: Value, op: Op, planner: Buffers) -> tuple[Value, bool]:
        """The buffer of an operand, and whether its last two axes are swapped there."""
        transposed = False
        trans = defining(value, Trans)
        if trans is not None and _swaps_last_two(trans):
            value, transposed = trans.source, True
        element = self.operand_element(value.type.scalar)
        if element is not value.type.scalar:
            value = self.cast(_widening(value.type.scalar), value, element, op, planner)
        is_matrix = len(value.type.shape or ()) == 2
        is_load = is_matrix and defining(value, Load) is not None
        if is_matrix and lies_across(value):
            value, transposed = self.swapped(value, op, planner), not transposed
        if not is_load:
            return planner.materialise(value, op), transposed
        planner.close(before=op)
        buffer = planner.materialise(value, op, elide_copy=True)
        planner.close(before=op)
        return buffer, transposed

    def swapped(self, value: Value, op: Op, planner: Buffers) -> Value:
        """The transpose of a 2-D tile."""
        rows, columns = value.type.shape or (1, 1)
        order: dict[str, Attribute] = {"order": DenseArray(i32, (1, 0))}
        type = TensorType((columns, rows), value.type.scalar)
        return planner.insert(Op.create("tt.trans", (value,), (type,), order, location=op.location), op).result

    def cast(self, name: str, value: Value, element: Type, op: Op, planner: Buffers) -> Value:
        cast = Op.create(name, (value,), (with_element(value.type, element),), location=op.location)
        cast.result.name = value.name
        return planner.insert(cast, op).result

    def accumulator(
        self, op: Op, c: Value, operands: tuple[Value, Value], planner: Buffers, *, narrow: bool
    ) -> tuple[Value, bool]:
        """The buffer that holds C before and after, and whether it counts as zero.

        Args:
            op: the product.
            c: the tile that it adds to.
            operands: the buffers of A and B.
            planner: allocates and fills buffers.
            narrow: the result's elements are narrower than those of `c`.
        """
        home = None if narrow else self.home(op, planner)
        zero = is_zero(c)
        read = defining(c, Read)
        if read is not None:
            buffer = read.buffer
            reusable = buffer is home or (buffer not in operands and _is_last_use(buffer, op, planner))
            if reusable and buffer not in _open_writes(planner):
                return buffer, False
        buffer = home if home is not None else planner.allocate(c, op)
        if not zero:
            planner.write(c, buffer, op)
        return buffer, zero

    def home(self, op: Op, planner: Buffers) -> Value | None:
        """The carried buffer that the result ends in, if what it holds now is not needed any more."""
        homes = [u.buffer for u in op.result.uses if isinstance(u, Write) and u.block is op.block]
        if len(homes) != 1 or (len(op.result.uses) > 1 and _is_local(homes[0], op)):
            return None
        if planner.live_values([u.result for u in homes[0].uses if isinstance(u, Read)], {op}):
            return None
        if _is_local(homes[0], op):
            alloc = homes[0].op
            assert alloc is not None
            alloc.unlink()
            planner.insert(alloc, op)
        return homes[0]


def _is_last_use(buffer: Value, op: Op, planner: Buffers) -> bool:
    """Whether nothing behind `op`, in this iteration or a later one, reads `buffer`, which is written once."""
    if buffer not in planner.fixed or not _is_local(buffer, op):
        return False
    return not planner.live_values([u.result for u in buffer.uses if isinstance(u, Read)], {op})


def _is_local(buffer: Value, op: Op) -> bool:
    """Whether `buffer` belongs to one run of the block of `op`."""
    return buffer.op is not None and buffer.op.block is op.block


def _open_writes(planner: Buffers) -> set[Value]:
    nest = getattr(planner, "open", None)
    return nest.written if nest is not None else set()


def is_zero(value: Value) -> bool:
    """Whether every element of the constant `value` is zero."""
    splat = defining(value, Splat)
    return matching.is_zero(value if splat is None else splat.source)


def _swaps_last_two(trans: Trans) -> bool:
    order, rank = trans.order, len(trans.order)
    return order == (*range(rank - 2), rank - 1, rank - 2)


def _widening(element: Type) -> str:
    is_fp8 = isinstance(element, FloatType) and element.bits == 8
    return "tt.fp_to_fp" if is_fp8 else "arith.extf" if isinstance(element, FloatType) else "arith.extsi"
