"""Operands in shared memory: the 64-bit descriptors by which `wgmma` and `tcgen05.mma` find them.

    found = describe(places, Tile(axis=0, rows=64, depth=16), bits=16)
    found.swizzle, found.leading, found.strided       # 128, 0, 1024
    found.fixed                                       # the 64 bits without the address
    found.offset(64, 0)                               # in bytes: where row 64 begins

    operand = OperandInMemory(lowerer, op, value, Tile(0, 64, 16), groups=(0, 0, 64))
    operand.at(64, 16)          # an i64: the descriptor of the part at row 64, depth 16

In memory an operand consists of blocks of eight rows, each `swizzle` bytes long (16 without a swizzle), one row after
the other; a row runs along the operand's contiguous axis. Within a block the 16-byte chunks are permuted: bits 4 to 6
of an address are XORed with bits 7 to 9. Two strides give the distances to the next blocks.

    63-62    swizzle: 0 none, 1 of 128 bytes, 2 of 64, 3 of 32
    46       1 for tcgen05
    45-32    from one group of eight rows to the next, in units of 16 bytes
    29-16    from one piece of a row to the next, in units of 16 bytes
    13-0     the address, in units of 16 bytes
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from tilewright.backends.nvidia.lower.buffers import buffer_layout
from tilewright.backends.nvidia.lower.cross_lane import mapped, shuffled_word
from tilewright.backends.nvidia.lower.legality import refused
from tilewright.backends.nvidia.lower.lowerer import SHARED_POINTER, Lowerer
from tilewright.backends.nvidia.lower.shared_tiles import BYTE
from tilewright.dialects.ttg_attributes import SHARED_MEMORY
from tilewright.ir.core import Op, Value, buffer_type
from tilewright.ir.types import MemDescType
from tilewright.layouts.encodings import NvmmaShared, encoding
from tilewright.layouts.keys import Bases
from tilewright.layouts.linear_layout import LinearLayout, log2
from tilewright.layouts.queries import cga_layout

CHUNK = 16
"""Bytes of the unit of addresses and distances."""
ROWS = 8
"""Rows of a piece."""
SWIZZLES = {0: 0, 32: 3, 64: 2, 128: 1}
"""Lengths of the rows of pieces in bytes, and their numbers in descriptors."""
SWIZZLED_BITS = 3
"""The shift of the swizzle in bits: an address is XORed with itself, moved down by that."""
OF_TCGEN05 = 1 << 46
ADDRESS_MASK = 0x3FFF


class Tile(NamedTuple):
    """The part of an operand that one instruction takes.

    Attributes:
        axis: the dimension that is not summed over: 0 for the left operand, 1 for the right one.
        rows: the extent along `axis`.
        depth: the extent along the other dimension.
    """

    axis: int
    rows: int
    depth: int

    @property
    def extents(self) -> tuple[int, int]:
        """Per dimension of the operand."""
        return (self.rows, self.depth) if self.axis == 0 else (self.depth, self.rows)


@dataclass(frozen=True)
class MatrixDescriptor:
    """The descriptor by which an instruction finds its part of an operand.

    Attributes:
        places: from the coordinates of the operand to offset (in elements) and block.
        bits: bits of an element.
        swizzle: bytes of a row of a piece; 0 for 16 bytes that stay where they are.
        across: elements follow each other along M or N.
        leading: bytes from one piece to the next along rows of pieces.
        strided: bytes from one piece to the next below.
    """

    places: LinearLayout
    bits: int
    swizzle: int
    across: bool
    leading: int
    strided: int

    @property
    def fixed(self) -> int:
        """The descriptor but for its address."""
        return SWIZZLES[self.swizzle] << 62 | self.strided // CHUNK << 32 | self.leading // CHUNK << 16

    def offset(self, *coordinates: int) -> int:
        """The offset in the buffer of the part that begins at these coordinates, in bytes."""
        offset, *_ = self.places.apply(**dict(zip(self.places.ins, coordinates, strict=False)))
        return offset * self.bits // BYTE


@cache
def describe(places: LinearLayout, tile: Tile, bits: int, *, padded: bool = False) -> MatrixDescriptor | None:
    """The descriptor of an operand's parts; None if the instruction cannot read it.

    Args:
        places: from the coordinates of the operand to offset and block.
        tile: the part that one instruction takes.
        bits: of an element, 8 or more: two of 4 bits count as one.
        padded: of each 16 bytes the operand has only 8.
    """
    steps = _byte_steps(places, bits)
    if any(1 << len(own) < extent for own, extent in zip(steps, tile.extents, strict=True)):
        return None
    along = 0 if steps[0][:1] == (bits // BYTE,) else 1
    for swizzle in SWIZZLES:
        plain = [tuple(_unswizzled(step, swizzle) for step in own) for own in steps]
        distances = _distances(plain, tile, along, max(swizzle, CHUNK), bits, padded=padded)
        if distances is None:
            continue
        across = along == tile.axis
        leading, strided = distances if swizzle or not across else reversed(distances)
        return MatrixDescriptor(places, bits, swizzle, across, leading, strided)
    return None


def _byte_steps(places: LinearLayout, bits: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Per dimension how far each bit of the coordinate moves in memory."""
    first, second, *_ = (tuple(row[0] * bits // BYTE for row in rows) for rows in places.bases.values())
    return first, second


def _unswizzled(address: int, swizzle: int) -> int:
    chunks = max(swizzle, CHUNK) - CHUNK
    return address ^ (address >> SWIZZLED_BITS & chunks)


def _distances(
    steps: list[tuple[int, ...]], tile: Tile, along: int, width: int, bits: int, *, padded: bool
) -> tuple[int, int] | None:
    """The distances between pieces, along rows and below; None if the operand is not made of such pieces."""
    inside = [step for step in _powers(bits // BYTE, width) if not padded or step != CHUNK // 2]
    below = [*_powers(width, width * ROWS)]
    row, column = steps[along], steps[1 - along]
    extents = tile.extents[along], tile.extents[1 - along]
    leading = _repeated(row, inside, extents[0])
    strided = _repeated(column, below, extents[1])
    return None if leading is None or strided is None else (leading, strided)


def _repeated(steps: tuple[int, ...], inside: list[int], extent: int) -> int | None:
    """The distance of the first two pieces, 0 for one piece; None if pieces are not alike or evenly spaced."""
    used = steps[: log2(extent)]
    size = len(inside)
    if list(used[:size]) != inside[: len(used)]:
        return None
    rest = used[size:]
    if any(step != rest[0] << index for index, step in enumerate(rest)):
        return None
    return rest[0] if rest else 0


def _powers(start: int, end: int) -> list[int]:
    """Powers of two from `start` to below `end`."""
    return [1 << bit for bit in range(log2(start), log2(end))]


def demand_own_operands(op: Op, operands: Sequence[Value], parts: Bases, *, pairs: bool = False) -> None:
    """Demand that each block has the operands of its part of the product.

    Args:
        operands: its operands, of which those in shared memory matter.
        parts: how the result is divided among blocks.
        pairs: two blocks compute together; each has half of the rows, and half of the right operand's columns.

    Raises:
        Unsupported: a block would need an operand that another one has.
    """
    for index, operand in enumerate(operands):
        if isinstance(operand.type, MemDescType) and operand.type.space == SHARED_MEMORY:
            wanted = tuple(tuple(step if axis == index else 0 for axis, step in enumerate(row)) for row in parts)
            if pairs and index == 1:
                wanted = ((0, 1), *(tuple(2 * step for step in row) for row in wanted[1:]))
            if cga_layout(encoding(operand.type.encoding)) != wanted:
                raise refused(op, "a product of operands that other blocks have", "launch the kernel with num_ctas=1")


class OperandInMemory:
    """An operand of a product in shared memory.

    Attributes:
        descriptor: all of the descriptor except the address.
        tile: the part that one instruction takes.
    """

    def __init__(
        self,
        lowerer: Lowerer,
        op: Op,
        value: Value,
        tile: Tile,
        *,
        groups: Sequence[int] = (),
        fixed: int = 0,
        places: LinearLayout | None = None,
    ) -> None:
        """See the class.

        Args:
            op: what reads it.
            value: the buffer.
            tile: the part that one instruction takes.
            groups: how many rows further each bit of the warp begins; 0 for warps that work together.
            fixed: bits that all descriptors of this kind of instruction have.
            places: from other coordinates than those of the tile to the buffer.

        Raises:
            Unsupported: no instruction reads what lies there like this.
        """
        type = buffer_type(value)
        self.lowerer, self.tile = lowerer, tile
        self.descriptor = descriptor_of(op, type, tile, places)
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


def descriptor_of(op: Op, type: MemDescType, tile: Tile, places: LinearLayout | None) -> MatrixDescriptor:
    """The descriptor for parts of a buffer of this type that `op` reads; its places may have other coordinates."""
    padded = _is_padded(type)
    places = places or buffer_layout(type).pseudo_invert()
    found = describe(places, tile, max(type.element.bits, BYTE), padded=padded)
    if found is None:
        name, part = ("left", "right")[tile.axis], "x".join(map(str, tile.extents))
        reason = (
            f"no instruction reads parts of {part} from {type}: take an NVMMASharedLayout whose swizzle fits the rows"
        )
        raise refused(op, f"such a {name} operand in shared memory", reason)
    return found


def _is_padded(type: MemDescType) -> bool:
    """Whether 8 bytes with 16 elements of four bits are followed by unused 8."""
    layout = encoding(type.encoding)
    if isinstance(layout, NvmmaShared):
        return layout.fp4_padded
    offsets = buffer_layout(type).bases["offset"]
    return type.element.bits == BYTE and len(offsets) > GAP and not any(offsets[GAP])


GAP = 3
"""The bit of an offset that distinguishes elements from the gap behind them."""


def contiguous_axis(type: MemDescType) -> int:
    """The dimension along which elements follow each other in memory."""
    first = buffer_layout(type).bases["offset"][0]
    return next(axis for axis, step in enumerate(first) if step)


def uniform_warp(lowerer: Lowerer) -> str:
    """The number of this warp, of which the assembler knows that all lanes agree."""
    if lowerer.target.num_warps == 1:
        return "0"
    own = lowerer.warp()
    return lowerer.once("uniform warp", lambda: shuffled_word(lowerer, "idx", own, 0))


def uniform_bits(lowerer: Lowerer, columns: Sequence[int]) -> str:
    """The XOR of the columns whose bit of the warp is set, known to be the same in all lanes."""
    return mapped(lowerer, uniform_warp(lowerer), columns) if any(columns) else "0"
