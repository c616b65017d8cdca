"""Layouts of memory as values of Gluon: shared memory, and the tensor memory of sm_100."""

from __future__ import annotations

from math import prod
from typing import Any, ClassVar

from tilewright.layouts.encodings import (
    Encoding,
    NvmmaShared,
    PaddedShared,
    SharedLinear,
    SwizzledShared,
    TensorMemory,
    TensorMemoryScales,
)
from tilewright.layouts.shared import rows_of
from tilewright.layouts.shared_choice import SWIZZLES
from tilewright.semantics.layout_values import Layout, Numbers, Rows, ViewedLayout, fixed, joined, plain, rows_text

MIN_SWIZZLED_ROWS = 8


class SharedLayout(ViewedLayout):
    """Base of layouts of buffers in shared memory."""


def shape_per_cta(shape: Any, cga_layout: Any) -> list[int]:
    """The part of a tile of `shape` that each CTA has.

    Args:
        shape: extents.
        cga_layout: one step per bit of the CTA's number.
    """
    found, rows = list(plain(shape)), plain(cga_layout) or []
    for axis, extent in enumerate(found):
        parts = 2 * max((row[axis] for row in rows), default=0) or 1
        assert extent % parts == 0, f"Shape {shape} is not divisible by CGA layout {rows}"
        found[axis] = extent // parts
    return found


class NVMMASharedLayout(SharedLayout):
    """The layout of `wgmma`, `tcgen05` and TMA: rows whose 16-byte chunks are swizzled.

    Attributes:
        swizzle_byte_width: 0, 32, 64 or 128.
        element_bitwidth: 8, 16, 32 or 64.
        rank: axes of the tile.
        transposed: the first axis is the fastest.
        fp4_padded: 16 elements of 4 bits take 16 bytes.
        cga_layout: one step per bit of the CTA's number in its cluster, or [].

    Example:
        >>> NVMMASharedLayout(128, 16).rank
        2
    """

    swizzle_byte_width: int
    element_bitwidth: int
    rank: int = 2
    transposed: bool = False
    fp4_padded: bool = False
    cga_layout: Rows = ()

    def check(self) -> None:
        vars(self)["cga_layout"] = self.cga_layout or []
        assert not self.cga_layout or len(self.cga_layout[0]) == self.rank, "cga_layout has another rank"
        assert self.element_bitwidth in (8, 16, 32, 64), f"no elements have {self.element_bitwidth} bits"
        assert self.swizzle_byte_width in (0, *SWIZZLES), f"no rows have {self.swizzle_byte_width} bytes"
        if self.fp4_padded:
            assert self.swizzle_byte_width == 128, "fp4_padded only supports 128 byte swizzling"
            assert self.element_bitwidth == 8, "fp4_padded is only supported for element_bitwidth=8"

    def encode(self) -> Encoding:
        flags = self.transposed, self.element_bitwidth, self.fp4_padded, self.rank
        return NvmmaShared(self.swizzle_byte_width, *flags, fixed(self.cga_layout))

    @staticmethod
    def get_default_for(
        block_shape: Any, dtype: Any, transposed: Any = False, fp4_padded: Any = False, cga_layout: Any = None
    ) -> NVMMASharedLayout:
        """The layout with the widest swizzle that blocks of this shape fill.

        Args:
            block_shape: extents of the block.
            dtype: its elements.
            transposed, fp4_padded, cga_layout: as in the layout.
        """
        block, rows = plain(block_shape), plain(cga_layout)
        shape = shape_per_cta(block, rows) if rows else block
        if plain(transposed):
            shape = shape[1:] + shape[:1]
        width = plain(dtype).primitive_bitwidth
        size = shape[-1] * (2 if plain(fp4_padded) else 1) * width // 8
        swizzle = next((width for width in SWIZZLES if size >= width and size % width == 0), 0)
        if len(block) < 2 or prod(shape[:-1]) < MIN_SWIZZLED_ROWS:
            swizzle = 0
        return NVMMASharedLayout(swizzle, width, len(block), transposed, fp4_padded, rows)

    def mangle(self) -> str:
        flags = f"{self.rank}_{self.transposed}_{self.fp4_padded}"
        return f"NVMMA_{self.swizzle_byte_width}_{self.element_bitwidth}_{flags}_{rows_text(self.cga_layout)}_NVMMA"


class SwizzledSharedLayout(SharedLayout):
    """Rows one after the other; groups of `vec` elements trade places within a row, differently in each row.

    Attributes:
        vec: elements that stay together.
        per_phase: rows that trade alike.
        max_phase: how many ways there are.
        order: the axes, fastest first.
        cga_layout: one step per bit of the CTA's number in its cluster, or [].
    """

    vec: int
    per_phase: int
    max_phase: int
    order: Numbers
    cga_layout: Rows = ()

    def encode(self) -> Encoding:
        swizzle = self.vec, self.per_phase, self.max_phase
        return SwizzledShared(*swizzle, tuple(self.order), fixed(self.cga_layout))

    def mangle(self) -> str:
        swizzle = f"{self.vec}_{self.per_phase}_{self.max_phase}_{joined(self.order)}"
        return f"SSS_{swizzle}_{rows_text(self.cga_layout)}_SSS"


class PaddedSharedLayout(SharedLayout):
    """Elements in the order of `offset_bases`, with holes: after each interval of elements unused some.

    Attributes:
        interval_padding_pairs: intervals and holes, in elements; both are powers of two.
        offset_bases: the step in the tile of each bit of the place.
        cga_layout: that of each bit of the CTA's number in its cluster.
        shape: of the tile.
    """

    no_view: ClassVar[str] = ": its places have holes"
    interval_padding_pairs: Rows
    offset_bases: Rows
    cga_layout: Rows
    shape: Numbers

    def check(self) -> None:
        pairs = self.interval_padding_pairs
        assert pairs, "PaddedSharedLayout interval_padding_pairs must have at least one interval-padding pair"
        assert all(len(pair) == 2 for pair in pairs), "each pair is an interval and a padding"
        assert len({pair[0] for pair in pairs}) == len(pairs), "an interval is given twice"
        for position, what in enumerate(("interval", "padding")):
            powers = all(pair[position] > 0 and pair[position] & (pair[position] - 1) == 0 for pair in pairs)
            assert powers, f"PaddedSharedLayout {what} values must all be power of two"
        assert self.shape, "PaddedSharedLayout order must not be empty"
        for row in (*self.offset_bases, *self.cga_layout):
            assert len(row) == len(self.shape), f"{row} has another rank than the shape {self.shape}"

    def encode(self) -> Encoding:
        pairs = tuple(sorted((interval, padding) for interval, padding in self.interval_padding_pairs))
        return PaddedShared(pairs, fixed(self.offset_bases), fixed(self.cga_layout))

    @staticmethod
    def with_identity_for(
        interval_padding_pairs: Any, shape: Any, order: Any, cga_layout: Any = ()
    ) -> PaddedSharedLayout:
        """The layout with `order[0]` fastest, and these holes.

        Args:
            interval_padding_pairs, shape, cga_layout: as in the layout.
            order: the axes, fastest first.
        """
        extents, axes, rows = plain(shape), plain(order), plain(cga_layout)
        assert len(extents) == len(axes), "shape and order have different lengths"
        own = tuple(shape_per_cta(extents, rows))
        return PaddedSharedLayout(interval_padding_pairs, rows_of(own, tuple(axes)), rows, extents)

    def mangle(self) -> str:
        fields = self.interval_padding_pairs, self.offset_bases, self.cga_layout, self.shape
        return f"PaddedShared_{'_'.join(map(str, fields))}_PaddedShared"


class SharedLinearLayout(SharedLayout):
    """Any linear layout: the step in the tile of each bit of the place and of the CTA's number.

    Attributes:
        offset_bases, block_bases: one row per bit, with one number per axis.
        alignment: of the buffer, in bytes.
    """

    offset_bases: Rows
    block_bases: Rows = ()
    alignment: int = 16

    def check(self) -> None:
        assert self.offset_bases, "SharedLinearLayout offset_bases must not be empty"
        rank = len(self.offset_bases[0])
        assert rank, "SharedLinearLayout offset_bases must not be empty"
        for row in (*self.offset_bases, *self.block_bases):
            assert len(row) == rank, f"{row} has another rank than the others"
        power = self.alignment > 0 and self.alignment & (self.alignment - 1) == 0
        assert power, "SharedLinearLayout alignment must be a positive power of two"

    @property
    def shape(self) -> list[int]:
        """The extents of the tile."""
        rows = (*self.offset_bases, *self.block_bases)
        return [1 << max(steps).bit_length() for steps in zip(*rows, strict=True)]

    def encode(self) -> Encoding:
        return SharedLinear(fixed(self.offset_bases), fixed(self.block_bases), self.alignment)

    def mangle(self) -> str:
        return f"SharedLinear_{self.offset_bases}_{self.block_bases}_{self.alignment}_SharedLinear"


class TensorMemoryLayout(Layout):
    """Blocks in the tensor memory of sm_100.

    Attributes:
        block: rows and columns of a block.
        col_stride: columns of 32 bits from one element to the next: 1 where they are packed.
        cga_layout: one step per bit of the CTA's number in its cluster, or [].
        two_ctas: pairs of CTAs compute together.
        fp4_padded: elements of 4 bits take a byte each.
    """

    block: Numbers
    col_stride: int
    cga_layout: Rows = ()
    two_ctas: bool = False
    fp4_padded: bool = False

    def check(self) -> None:
        assert len(self.block) == 2, "a block has rows and columns"
        assert all(len(row) == 2 for row in self.cga_layout), "cga_layout has another rank than 2"
        power = self.col_stride >= 1 and self.col_stride & (self.col_stride - 1) == 0
        assert power, "tensor memory col_stride must be a power of two"

    def encode(self) -> Encoding:
        if self.fp4_padded:
            raise NotImplementedError("TensorMemoryLayout(fp4_padded=True)")
        rows, columns = self.block
        return TensorMemory(
            rows, columns, column_stride=self.col_stride, two_ctas=self.two_ctas, cga=fixed(self.cga_layout)
        )

    def mangle(self) -> str:
        marks = f"{'2CT' if self.two_ctas else ''}{'FP4P' if self.fp4_padded else ''}"
        return f"TL{self.block[0]}x{self.block[1]}C{self.col_stride}{rows_text(self.cga_layout)}{marks}TL"


class TensorMemoryScalesLayout(Layout):
    """The scales of a scaled product in tensor memory; `cga_layout` as in other layouts."""

    cga_layout: Rows = ()

    def check(self) -> None:
        assert all(len(row) == 2 for row in self.cga_layout), "cga_layout has another rank than 2"

    def encode(self) -> Encoding:
        return TensorMemoryScales(fixed(self.cga_layout))

    def mangle(self) -> str:
        return f"TLS{rows_text(self.cga_layout)}TLS"


def memory_layout_of(encoding: Encoding, shape: tuple[int, ...]) -> SharedLayout:
    """The value that stands for the layout of a buffer of `shape`."""
    match encoding:
        case NvmmaShared():
            flags = encoding.tile_rank, encoding.transposed, encoding.fp4_padded
            return NVMMASharedLayout(encoding.swizzling_byte_width, encoding.element_bit_width, *flags, encoding.cga)
        case SwizzledShared():
            swizzle = encoding.vec, encoding.per_phase, encoding.max_phase
            return SwizzledSharedLayout(*swizzle, encoding.order, encoding.cga)
        case PaddedShared():
            return PaddedSharedLayout(encoding.pads, encoding.offset, encoding.block, shape)
        case SharedLinear():
            return SharedLinearLayout(encoding.offset, encoding.block, encoding.byte_alignment)
    raise NotImplementedError(f"#{encoding.name} has no name in Gluon")
