"""Layouts that go together in a product of warp groups (`wgmma`).

    a          b          acc
    memory     memory     NVMMADistributedLayout([3, 0], [4, 1], [16, n, k])      k elements are 32 bytes
    registers  memory     …, and `a` has the DotOperandLayout(0, layout of acc, 32 bits / bits of an element)

The instruction decides which thread has which element of the sum, so the layouts of everything in registers follow
from that of the sum. Layouts that are still to be found (`AutoLayout`) are not looked at.
"""

from __future__ import annotations

from typing import Any

from tilewright.layouts.queries import equivalent, shape_per_cta
from tilewright.semantics.active import context
from tilewright.semantics.buffers import Buffer, require
from tilewright.semantics.distributed import OPEN, checked, distributed_type
from tilewright.semantics.errors import DotShapesDiffer, WrongLayout
from tilewright.semantics.layout_values import DotOperandLayout, NVMMADistributedLayout
from tilewright.semantics.shared_layouts import NVMMASharedLayout, SharedLinearLayout
from tilewright.semantics.tile import Tile
from tilewright.semantics.types import AnyType
from tilewright.support.diagnostics import SemanticError

DEPTH_BITS = 256
"""Bits of an operand along what one instruction sums up."""
WORD_BITS = 32
"""Bits of the register that holds neighbours of the left operand."""
ROWS = 16
"""Rows of one instruction per warp."""
WARPS = 4
"""Warps of a group, one below the other."""
COLUMNS = 8
"""Columns of which one instruction has a multiple."""
MAX_COLUMNS = 256
"""Columns of the largest instruction."""
READABLE = (NVMMASharedLayout, SharedLinearLayout)
"""Layouts of operands in shared memory."""


def check_warp_group_product(a: Any, b: Any, sums: AnyType) -> None:
    """Refuse a product `a @ b` into a sum of the type `sums` that no instruction computes.

    Raises:
        SemanticError: names the layout that does not fit and the one that would.
    """
    require(isinstance(b, Buffer), f"a product of warp groups reads b from shared memory, and b is {_kind(b)}")
    for name, operand in (("a", a), ("b", b)):
        if isinstance(operand, Buffer) and not isinstance(operand.layout, READABLE):
            raise _refused(f"{name} has the layout {operand.layout}", "an NVMMASharedLayout")
    if not isinstance(sums, distributed_type):
        raise SemanticError(WrongLayout(f"acc is no tile with a layout but {sums}"))
    _check_shapes(tuple(a.type.shape), tuple(b.type.shape), sums.shape)
    if isinstance(sums.layout, OPEN):
        return
    bits = a.dtype.primitive_bitwidth
    _check_sums(sums, bits)
    if isinstance(a, Tile):
        _check_registers(a, sums, WORD_BITS // bits)


def _kind(value: Any) -> str:
    return str(value.type) if isinstance(value, Tile) else type(value).__name__


def _check_shapes(left: tuple[int, ...], right: tuple[int, ...], sums: tuple[int, ...]) -> None:
    if len(left) != 2 or len(right) != 2 or left[1] != right[0]:
        raise SemanticError(DotShapesDiffer(left, right))
    product = [left[0], right[1]]
    require([*sums] == product, f"acc is of the shape {[*sums]}, and a @ b of {product}")


def _check_sums(sums: distributed_type, bits: int) -> None:
    """Check that an instruction gives sums in this layout."""
    layout = sums.layout
    if not isinstance(layout, NVMMADistributedLayout) or layout.version[0] != 3:
        raise _refused(f"acc has the layout {layout}", str(_fitting(sums, bits)))
    shape = checked(lambda: shape_per_cta(layout.encoding, sums.shape))
    rows, columns, depth = layout.instr_shape
    fits = rows == ROWS and not columns % COLUMNS and columns <= MAX_COLUMNS and not shape[1] % columns
    if shape[0] % (ROWS * WARPS) or layout.warps_per_cta[0] % WARPS or not fits or depth * bits != DEPTH_BITS:
        problem = f"acc has the layout {layout} and in each CTA the shape {[*shape]}, and operands have {bits} bits"
        raise _refused(problem, f"{ROWS * WARPS} rows or more and {_fitting(sums, bits)}")


def _fitting(sums: distributed_type, bits: int) -> NVMMADistributedLayout:
    """A layout that fits, of one CTA."""
    shape = [ROWS, min(max(sums.shape[1], COLUMNS), MAX_COLUMNS), DEPTH_BITS // bits]
    return NVMMADistributedLayout([3, 0], [context().warps, 1], shape)


def _check_registers(a: Tile, sums: distributed_type, width: int) -> None:
    """Check that each thread has the elements of the left operand that the instruction asks it for."""
    wanted = DotOperandLayout(0, sums.layout, width)
    layout = a.type.layout
    if not checked(lambda: equivalent(layout.encoding, wanted.encoding, a.type.shape)):
        raise _refused(f"a has the layout {layout}", f"{wanted}, as acc has {sums.layout}")


def _refused(found: str, wanted: str) -> SemanticError:
    return SemanticError(WrongLayout(f"{found}; a product of warp groups asks for {wanted}"))
