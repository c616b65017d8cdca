"""Elements of buffers in shared memory, each where a tile of indices says along one axis.

    %y = ttg.local_gather %b[%i] {axis = 0 : i32} : …          %y[r, c] = %b[%i[r, c], c]
    ttg.local_scatter %b[%i], %x {axis = 0 : i32} : …          %b[%i[r, c], c] = %x[r, c]

The layout of the buffer is linear, so an address is the XOR of two parts: that of an element's other coordinates, which
is known but for the thread, and that of its index.
"""

from __future__ import annotations

from tilewright.backends.llvm.spelling import bits_of
from tilewright.backends.nvidia.lower.access_plan import Move, Plan, Unit
from tilewright.backends.nvidia.lower.address import Place, diagonals
from tilewright.backends.nvidia.lower.buffers import buffer_layout, byte_size
from tilewright.backends.nvidia.lower.lowerer import Lowerer, Lowering
from tilewright.backends.nvidia.lower.shared_tiles import Bytes, load_tile, store_tile
from tilewright.dialects.ttg_memory import LocalGather, LocalScatter
from tilewright.ir.core import buffer_type
from tilewright.ir.spans import span_of
from tilewright.ir.types import MemDescType
from tilewright.layouts.linear_layout import LinearLayout
from tilewright.layouts.walk import dimension_names
from tilewright.support.diagnostics import NotSupported, located

NOWHERE = Place({})


def _gather(lowerer: Lowerer, op: LocalGather) -> None:
    element = lowerer.element(op.result.type)
    found = [load_tile(lowerer, element, ONE, where)[0] for where in _places(lowerer, op)]
    lowerer.bind(op.result, found)


def _scatter(lowerer: Lowerer, op: LocalScatter) -> None:
    places = _places(lowerer, op)
    for value, where in zip(lowerer.registers(op.value), places, strict=True):
        store_tile(lowerer, [value], lowerer.element(op.value.type), ONE, where)


ONE = Plan(Unit.VECTOR, NOWHERE, (Move((0,), 0),), (0,))
"""One element, at the beginning of what is given as the buffer."""


def _places(lowerer: Lowerer, op: LocalGather | LocalScatter) -> list[Bytes]:
    """Per register of the tile of indices the place of its element."""
    type, indices = buffer_type(op.buffer), op.indices
    if any(buffer_layout(type).columns["block"]):
        raise located(
            NotSupported(f"{op.name} of a buffer of several blocks", "launch the kernel with num_ctas=1"),
            span_of(op.location),
        )
    layout, element = lowerer.layout(indices), lowerer.element(indices.type)
    others, along = _parts(layout, type, op.axis)
    where = lowerer.buffer(op.buffer).bytes(type)
    found = []
    for register, index in enumerate(lowerer.registers(indices)):
        offset = _times(lowerer, along, _as_i32(lowerer, index, element))
        base, added = lowerer.placed(others, register)
        for part in (base, str(added), where.within):
            offset = _xor(lowerer, offset, part)
        found.append(Bytes(where.base, offset, -1, where.pads))
    return found


def _parts(layout: LinearLayout, type: MemDescType, axis: int) -> tuple[Place, list[int]]:
    """The offsets of a tile's coordinates beside `axis`, and of each bit of the index; both in bytes."""
    places, size = buffer_layout(type).pseudo_invert(), byte_size(type)
    names = dimension_names(len(type.shape))

    def offset(row: tuple[int, ...]) -> int:
        return places.apply(**dict(zip(names, row, strict=True)))[0] * size

    beside = {
        name: tuple(offset((*row[:axis], 0, *row[axis + 1 :])) for row in rows) for name, rows in layout.bases.items()
    }
    bits = range((type.shape[axis] - 1).bit_length())
    return Place(beside), [offset(tuple(1 << bit if dim == axis else 0 for dim in range(len(names)))) for bit in bits]


def _as_i32(lowerer: Lowerer, value: str, element: str) -> str:
    return lowerer.w.convert("trunc" if bits_of(element) > bits_of("i32") else "zext", value, element, "i32")


def _times(lowerer: Lowerer, columns: list[int], value: str) -> str:
    """The XOR of the columns whose bit of `value` is set."""
    w, found = lowerer.w, "0"
    for shift, mask in diagonals(columns):
        part = w.emit(f"and i32 {value}, {mask}")
        if shift:
            part = w.emit(f"{'shl' if shift > 0 else 'lshr'} i32 {part}, {abs(shift)}")
        found = _xor(lowerer, found, part)
    return found


def _xor(lowerer: Lowerer, first: str, second: str) -> str:
    if "0" in (first, second):
        return second if first == "0" else first
    return lowerer.w.emit(f"xor i32 {first}, {second}")


LOWERINGS: dict[str, Lowering] = {"ttg.local_gather": _gather, "ttg.local_scatter": _scatter}
