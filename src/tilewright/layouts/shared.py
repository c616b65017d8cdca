"""The layouts of buffers: in shared memory, and in the tensor memory of sm_100.

#ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}>
#ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
#ttg.padded_shared<[128:+8] {order = [1, 0], shape = [64, 32]}>
#ttg.shared_linear<{offset = [[0, 1], [1, 0]]}, alignment = 16>
"""

from __future__ import annotations

from typing import ClassVar

from tilewright.layouts.attribute_text import Written
from tilewright.layouts.encoding import Encoding, Shared, layout
from tilewright.layouts.errors import demand
from tilewright.layouts.keys import (
    CGA,
    Bases,
    Key,
    bases,
    boolean,
    demand_cga,
    demand_onto,
    demand_order,
    demand_powers,
    integer,
    integers,
    power_of_two,
    print_keys,
    read_keys,
    spelled,
)


class SwizzledShared(Shared):
    """Rows one after the other; groups of `vec` elements trade places within a row, differently in each row."""

    name: ClassVar[str] = "ttg.swizzled_shared"
    keys: ClassVar[tuple[Key, ...]] = (
        Key("vec", "vec", integer),
        Key("perPhase", "per_phase", integer),
        Key("maxPhase", "max_phase", integer),
        Key("order", "order", integers),
        CGA,
    )
    vec: int
    per_phase: int
    max_phase: int
    order: tuple[int, ...]
    cga: Bases = ()

    @property
    def rank(self) -> int:
        return len(self.order)

    def check(self) -> None:
        demand_powers((self.vec, self.per_phase, self.max_phase), "vec, perPhase, maxPhase")
        demand_order(self.order)
        demand_cga(self.cga, self.rank)


class AmdRotatingShared(SwizzledShared):
    """A swizzled layout whose pattern itself moves on with each block of rows."""

    name: ClassVar[str] = "ttg.amd_rotating_shared"


class NvmmaShared(Shared):
    """The layout of `wgmma`, `tcgen05` and TMA: rows of `swizzling_byte_width` bytes, 16-byte chunks swizzled."""

    name: ClassVar[str] = "ttg.nvmma_shared"
    keys: ClassVar[tuple[Key, ...]] = (
        Key("swizzlingByteWidth", "swizzling_byte_width", integer),
        Key("transposed", "transposed", boolean, False, printed=True),
        # Triton 3.5.1 reads texts without this key, and its tests have some.
        Key("elementBitWidth", "element_bit_width", integer, 16, printed=True),
        Key("fp4Padded", "fp4_padded", boolean, False),
        CGA,
        Key("rank", "tile_rank", integer, 2),
    )
    swizzling_byte_width: int
    transposed: bool
    element_bit_width: int
    fp4_padded: bool = False
    tile_rank: int = 2
    cga: Bases = ()

    @property
    def rank(self) -> int:
        return self.tile_rank

    @property
    def vec(self) -> int:
        """The number of elements that move together."""
        return 128 // self.element_bit_width if self.swizzling_byte_width else 1

    @property
    def per_phase(self) -> int:
        """The number of consecutive rows that are swizzled alike."""
        return 128 // self.swizzling_byte_width if self.swizzling_byte_width else 1

    @property
    def max_phase(self) -> int:
        """The number of ways to swizzle a row."""
        return self.swizzling_byte_width // 16 or 1

    @property
    def alignment(self) -> int:
        return 128 * self.max_phase

    def check(self) -> None:
        demand(
            self.swizzling_byte_width in (0, 32, 64, 128),
            f"swizzlingByteWidth must be 0, 32, 64 or 128, not {self.swizzling_byte_width}",
        )
        bits = self.element_bit_width
        demand(power_of_two(bits) and bits <= 128, f"elementBitWidth must be a power of two up to 128, not {bits}")
        demand(self.rank, "rank must not be 0")
        demand_cga(self.cga, self.rank)

    def body(self) -> str:
        shown = super().body()
        return shown.removesuffix(f", rank = {self.rank}") if self.cga else shown

    @classmethod
    def from_written(cls, written: Written) -> Encoding:
        rows = written.keys.get("CGALayout")
        if isinstance(rows, list) and rows and isinstance(rows[0], list) and "rank" not in written.keys:
            written.keys["rank"] = len(rows[0])
        return super().from_written(written)


class PaddedShared(Shared):
    """Elements in the order of `offset` (or `order`), with holes: after every `interval` elements, `padding` unused.

    Attributes:
        pads: pairs of interval and padding, in elements.
        offset: the step of each bit of the offset before padding; () in the form with `order`.
        block: the step of each bit of the block.
        order: in the form of 3.5.1, which does not know its shape; () otherwise.
    """

    name: ClassVar[str] = "ttg.padded_shared"
    pads: tuple[tuple[int, int], ...]
    offset: Bases
    block: Bases = ()
    order: tuple[int, ...] = ()

    @property
    def rank(self) -> int:
        return len(self.order) or len(next(row for row in (*self.offset, *self.block)))

    def check(self) -> None:
        demand(self.pads, "there must be one pair of interval and padding or more")
        for interval, padding in self.pads:
            demand(power_of_two(interval) and power_of_two(padding), f"{interval}:+{padding} are no two powers of two")
        demand(len(dict(self.pads)) == len(self.pads), "an interval is given twice")
        demand(self.order or self.offset, "a padded layout needs offset or order")
        demand_order(self.order)
        rows = (*self.offset, *self.block)
        demand(len(set(map(len, rows))) <= 1, "all rows of offset and block must have one length")
        demand(all(any(row) for row in self.offset), "a row of offset is zero")
        if self.order:
            demand_cga(self.block, self.rank)
        else:
            demand(len(set(self.offset)) == len(self.offset), "a row of offset stands there twice")
            demand_cga(tuple(dict.fromkeys(rows)), self.rank)  # a block may have what another has

    def body(self) -> str:
        if self.order:
            return print_keys((("order", self.order), *((("CGALayout", self.block),) if self.block else ())))
        order, shape = self._identity()
        if not self.block and order:
            return print_keys((("order", order), ("shape", shape)))
        return print_keys((("offset", self.offset), ("block", self.block)))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape that the rows cover; () in the form of 3.5.1."""
        rows = (*self.offset, *self.block)
        return tuple(max(column) * 2 or 1 for column in zip(*rows, strict=True))

    @property
    def dimensions(self) -> tuple[int, ...]:
        """The dimensions, the one that changes fastest first; those that do not change in the usual order."""
        if self.order:
            return self.order
        moving = dict.fromkeys(next(dim for dim, step in enumerate(row) if step) for row in self.offset)
        return (*moving, *(dim for dim in reversed(range(self.rank)) if dim not in moving))

    def _identity(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Order and shape for which plain rows are `offset`; two () if there are none."""
        order, shape = self.dimensions, self.shape
        return (order, shape) if rows_of(shape, order) == self.offset else ((), ())

    def spell(self) -> str:
        pads = ", ".join(f"{interval}:+{padding}" for interval, padding in self.pads)
        return f"#{self.name}<[{pads}] {{{self.body()}}}>"

    @classmethod
    def from_written(cls, written: Written) -> Encoding:
        demand(written.pads, "padded_shared starts with its pads: <[128:+4] {…}>")
        demand(not written.trailing, f"#{cls.name} takes nothing behind the braces")
        if "offset" in written.keys or "block" in written.keys:
            rows = Key("offset", "offset", bases), Key("block", "block", bases)
            return cls(pads=written.pads, **read_keys(written.keys, rows, cls.name))
        plain = Key("order", "order", integers), Key("shape", "shape", integers, ()), CGA
        fields = read_keys(written.keys, plain, cls.name)
        order, shape, block = fields["order"], fields["shape"], fields["cga"]
        if "shape" not in written.keys:
            return cls(written.pads, (), block, order)
        demand(len(order) == len(shape), "order and shape must have one length")
        demand(not block, "CGALayout cannot be given with shape: write offset and block")
        demand_order(order)
        demand_powers(shape, "shape")
        return cls(written.pads, rows_of(shape, order))


def rows_of(shape: tuple[int, ...], order: tuple[int, ...]) -> Bases:
    """The steps of the bits of an offset that walks `shape`, `order[0]` fastest."""
    rank = len(shape)
    return tuple(
        tuple(1 << bit if d == dim else 0 for d in range(rank))
        for dim in order
        for bit in range(shape[dim].bit_length() - 1)
    )


class PartitionedShared(Shared):
    """A buffer in several allocations, each laid out as `partition_layout`."""

    name: ClassVar[str] = "ttg.partitioned_shared"
    keys: ClassVar[tuple[Key, ...]] = (
        Key("numPartitions", "num_partitions", integer),
        Key("numGroups", "num_groups", integer),
        Key("partitionDim", "partition_dim", integer),
        Key("partitionLayout", "partition_layout", layout),
    )
    num_partitions: int
    num_groups: int
    partition_dim: int
    partition_layout: Shared

    @property
    def rank(self) -> int:
        return self.partition_layout.rank

    def check(self) -> None:
        many, groups = self.num_partitions, self.num_groups
        demand(many >= 2 and power_of_two(many), f"numPartitions must be a power of two and at least 2, not {many}")
        demand(power_of_two(groups), f"numGroups must be a power of two, not {groups}")
        demand(isinstance(self.partition_layout, Shared), "partitionLayout must be a layout in shared memory")
        demand(
            self.partition_dim < self.rank,
            f"partitionDim = {self.partition_dim}, but partitionLayout has {self.rank} dimensions",
        )


class SharedLinear(Shared):
    """Any linear layout of shared memory: the step in the tile of each bit of the offset and of the block."""

    name: ClassVar[str] = "ttg.shared_linear"
    keys: ClassVar[tuple[Key, ...]] = (Key("offset", "offset", bases), Key("block", "block", bases, ()))
    offset: Bases
    block: Bases = ()
    byte_alignment: int = 16

    @property
    def rank(self) -> int:
        return len((*self.offset, *self.block)[0])

    @property
    def alignment(self) -> int:
        return self.byte_alignment

    def spell(self) -> str:
        return f"#{self.name}<{{{self.body()}}}, alignment = {self.byte_alignment}>"

    def check(self) -> None:
        rows = (*self.offset, *self.block)
        demand(rows, f"#{self.name} without any rows has no dimensions")
        demand(len(set(map(len, rows))) == 1, "all rows of offset and block must have one length")
        demand_onto(rows, f"#{self.name}", once=True)
        demand(power_of_two(self.byte_alignment), f"alignment must be a power of two, not {self.byte_alignment}")

    @classmethod
    def from_written(cls, written: Written) -> Encoding:
        demand(not written.pads, f"#{cls.name} has no pads")
        demand("alignment" in written.trailing, "alignment must stand behind the braces: <{…}, alignment = 16>")
        demand(len(written.trailing) == 1, f"#{cls.name} takes nothing behind the braces but alignment")
        fields = read_keys(written.keys, cls.keys, cls.name)
        return cls(**fields, byte_alignment=integer(written.trailing["alignment"], "alignment"))


class TensorMemory(Encoding):
    """Blocks in the tensor memory of sm_100. The text of both versions is kept.

    3.9 has `colStride`, `CGALayout` and `twoCTAs` where 3.5.1 has `unpacked`, `CTASplitM` and `CTASplitN`.
    """

    name: ClassVar[str] = "ttng.tensor_memory_encoding"
    keys: ClassVar[tuple[Key, ...]] = (
        Key("blockM", "block_m", integer),
        Key("blockN", "block_n", integer),
        Key("colStride", "column_stride", integer, 0),
        Key("unpacked", "unpacked", boolean, None),
        Key("CTASplitM", "split_m", integer, 1),
        Key("CTASplitN", "split_n", integer, 1),
        CGA,
        Key("twoCTAs", "two_ctas", boolean, False),
    )
    block_m: int
    block_n: int
    column_stride: int = 0
    """Elements between neighbours of a row; 0 in the form of 3.5.1."""
    unpacked: bool | None = None
    split_m: int = 1
    split_n: int = 1
    two_ctas: bool = False
    cga: Bases = ()

    @property
    def rank(self) -> int:
        return 2

    def spell(self) -> str:
        return f"#{self.name}<{self.body()}>"

    def check(self) -> None:
        demand(self.block_m in (64, 128), f"blockM must be 64 or 128, not {self.block_m}")
        demand(power_of_two(self.block_n), f"blockN must be a power of two, not {self.block_n}")
        demand(self.column_stride or self.unpacked is not None, f"#{self.name} needs the key colStride")
        demand(
            self.column_stride in (0, 1, 2, 4) and not (self.column_stride and self.unpacked is not None),
            f"colStride must be 1, 2 or 4, without unpacked, not {spelled(self.column_stride)}",
        )
        demand(self.split_m and self.split_n, "CTASplitM and CTASplitN must be greater than 0")
        demand_cga(self.cga, 2)
        demand(not self.two_ctas or self.cga[:1] == ((1, 0),), "twoCTAs needs a CGALayout that starts with [1, 0]")


class TensorMemoryScales(Encoding):
    """The scales of a scaled product in tensor memory."""

    name: ClassVar[str] = "ttng.tensor_memory_scales_encoding"
    keys: ClassVar[tuple[Key, ...]] = (
        CGA,
        Key("CTASplitM", "split_m", integer, 1),
        Key("CTASplitN", "split_n", integer, 1),
    )
    cga: Bases = ()
    split_m: int = 1
    split_n: int = 1

    @property
    def rank(self) -> int:
        return 2

    def spell(self) -> str:
        return f"#{self.name}<{self.body()}>"

    def check(self) -> None:
        demand(self.split_m and self.split_n, "CTASplitM and CTASplitN must be greater than 0")
        demand_cga(self.cga, 2)
