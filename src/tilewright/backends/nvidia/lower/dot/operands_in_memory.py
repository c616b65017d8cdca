"""Operands in shared memory while code is written: the 64 bits that tell an instruction where its part of one begins.

operand = OperandInMemory(lowerer, value, Tile(0, 64, 16), groups=(0, 0, 64))
operand.at(64, 16)          # an i64: the address of the part at row 64, depth 16, with what else it says
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.backends.nvidia.lower.address import diagonals
from tilewright.backends.nvidia.lower.buffers import buffer_layout
from tilewright.backends.nvidia.lower.dot.matrix_descriptors import (
    ADDRESS_MASK,
    BYTE,
    CHUNK,
    MatrixDescriptor,
    Tile,
    describe,
)
from tilewright.backends.nvidia.lower.lowerer import SHARED_POINTER, Lowerer
from tilewright.ir.core import Value, buffer_type
from tilewright.ir.types import MemDescType
from tilewright.layouts.encodings import NvmmaShared, encoding
from tilewright.layouts.linear_layout import LinearLayout, log2

ALL_LANES = "-1"
WHOLE_WARP = "31"


class OperandInMemory:
    """An operand of a product in shared memory.

    Attributes:
        descriptor: what the instruction is told but for the address.
        tile: the part that one instruction takes.
    """

    def __init__(
        self,
        lowerer: Lowerer,
        value: Value,
        tile: Tile,
        *,
        groups: Sequence[int] = (),
        fixed: int = 0,
        places: LinearLayout | None = None,
    ) -> None:
        """See the class.

        Args:
            lowerer: the lowerer that code goes to.
            value: the buffer.
            tile: the part that one instruction takes.
            groups: how many rows further each bit of the warp begins; 0 for warps that work together.
            fixed: bits that all descriptors of this kind of instruction have.
            places: from other coordinates than those of the tile to the buffer.
        """
        type = buffer_type(value)
        self.lowerer, self.tile = lowerer, tile
        self.descriptor = descriptor_of(type, tile, places)
        where = lowerer.buffer(value).bytes(type)
        self._within, self._span, self._fixed = where.within, where.span, fixed | self.descriptor.fixed
        self._base = self._start(where.base, [self._row_offset(rows) for rows in groups])
        self._found: dict[int, str] = {}

    def _row_offset(self, rows: int) -> int:
        return self.descriptor.offset(*((rows, 0) if self.tile.axis == 0 else (0, rows)))

    def _start(self, base: str, groups: Sequence[int]) -> str:
        """The address of the first part of this warp's group, an i32 in bytes."""
        w = self.lowerer.w
        memory = self.lowerer.once(
            "shared address", lambda: w.emit(f"ptrtoint {SHARED_POINTER} {self.lowerer.shared_base} to i32")
        )
        address = memory if base == "0" else w.emit(f"add i32 {memory}, {base}")
        if not any(groups):
            return address
        return w.emit(f"add i32 {address}, {uniform_bits(self.lowerer, groups)}")

    def at(self, row: int, depth: int) -> str:
        """The descriptor of the part that begins there, an i64."""
        offset = self.descriptor.offset(*((row, depth) if self.tile.axis == 0 else (depth, row)))
        if offset not in self._found:
            self._found[offset] = self._descriptor(offset)
        return self._found[offset]

    def _descriptor(self, offset: int) -> str:
        w = self.lowerer.w
        address, added = self._base, offset
        if not self._within.startswith("%"):
            added ^= int(self._within)
        else:
            part = w.emit(f"xor i32 {self._within}, {offset & self._span}") if offset & self._span else self._within
            address, added = w.emit(f"add i32 {address}, {part}"), offset & ~self._span
        units = w.emit(f"and i32 {w.emit(f'lshr i32 {address}, {log2(CHUNK)}')}, {ADDRESS_MASK}")
        fixed = self._fixed + added // CHUNK
        signed = fixed - (1 << 64) if fixed >> 63 else fixed
        return w.emit(f"add i64 {w.emit(f'zext i32 {units} to i64')}, {signed}")


def descriptor_of(type: MemDescType, tile: Tile, places: LinearLayout | None) -> MatrixDescriptor:
    """The descriptor for parts of a buffer of this type, whose places may have other coordinates."""
    layout = encoding(type.encoding)
    padded = isinstance(layout, NvmmaShared) and layout.fp4_padded
    places = places or buffer_layout(type).pseudo_invert()
    found = describe(places, tile, max(type.element.bits, BYTE), padded=padded)
    assert found is not None, f"{type} is laid out for matrix instructions"
    return found


def contiguous_axis(type: MemDescType) -> int:
    """The dimension along which elements follow each other in memory."""
    first = buffer_layout(type).bases["offset"][0]
    return next(axis for axis, step in enumerate(first) if step)


def uniform_warp(lowerer: Lowerer) -> str:
    """The number of this warp, of which the assembler knows that all lanes agree."""
    if lowerer.target.num_warps == 1:
        return "0"
    operands = [("i32", ALL_LANES), ("i32", lowerer.warp()), ("i32", "0"), ("i32", WHOLE_WARP)]
    return lowerer.once("uniform warp", lambda: lowerer.w.call("i32", "llvm.nvvm.shfl.sync.idx.i32", operands))


def uniform_bits(lowerer: Lowerer, columns: Sequence[int]) -> str:
    """The XOR of the columns whose bit of the warp is set, known to be the same in all lanes."""
    w, found = lowerer.w, ""
    for shift, mask in diagonals(columns):
        part = w.emit(f"and i32 {uniform_warp(lowerer)}, {mask}")
        if shift:
            part = w.emit(f"{'shl' if shift > 0 else 'lshr'} i32 {part}, {abs(shift)}")
        found = w.emit(f"xor i32 {found}, {part}") if found else part
    return found or "0"
