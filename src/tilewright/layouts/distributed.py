"""The layouts of tiles in registers: blocked, slices, operands and results of matrix instructions, linear.

#ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#ttg.dot_op<{opIdx = 0, parent = #ttg.nvidia_mma<{…}>, kWidth = 2}>
"""

from __future__ import annotations

from typing import ClassVar

from tilewright.layouts.attribute_text import Written
from tilewright.layouts.encoding import Distributed, Encoding, layout
from tilewright.layouts.errors import LayoutError, demand
from tilewright.layouts.keys import (
    CGA,
    Bases,
    Key,
    bases,
    boolean,
    demand_cga,
    demand_onto,
    demand_order,
    demand_permutation,
    demand_powers,
    integer,
    integers,
    power_of_two,
    read_keys,
)


class Open(Distributed):
    """A layout that a pass is to fill in; the text is the name alone."""

    def spell(self) -> str:
        return f"#{self.name}"


class Auto(Open):
    """The layout of a tile of Gluon that follows from its uses."""

    name: ClassVar[str] = "gluon.auto_encoding"


class Coalesced(Open):
    """The layout of a tile of Gluon that suits the access of memory which it takes part in."""

    name: ClassVar[str] = "gluon.coalesced_encoding"


class Blocked(Distributed):
    """Each thread holds a block, each warp a grid of those, each CTA a grid of those; repeated to fill the tile."""

    name: ClassVar[str] = "ttg.blocked"
    keys: ClassVar[tuple[Key, ...]] = (
        Key("sizePerThread", "size_per_thread", integers),
        Key("threadsPerWarp", "threads_per_warp", integers),
        Key("warpsPerCTA", "warps_per_cta", integers),
        Key("order", "order", integers),
        CGA,
    )
    size_per_thread: tuple[int, ...]
    threads_per_warp: tuple[int, ...]
    warps_per_cta: tuple[int, ...]
    order: tuple[int, ...]
    cga: Bases = ()

    @property
    def rank(self) -> int:
        return len(self.order)

    def check(self) -> None:
        sizes = self.size_per_thread, self.threads_per_warp, self.warps_per_cta
        demand(
            all(len(size) == self.rank for size in sizes),
            "sizePerThread, threadsPerWarp, warpsPerCTA and order must have one length",
        )
        for size, key in zip(sizes, ("sizePerThread", "threadsPerWarp", "warpsPerCTA"), strict=True):
            demand_powers(size, key)
        demand_order(self.order)
        demand_cga(self.cga, self.rank)


class Slice(Distributed):
    """The layout of a tile with layout `parent` after dimension `dim` is removed."""

    name: ClassVar[str] = "ttg.slice"
    keys: ClassVar[tuple[Key, ...]] = (Key("dim", "dim", integer), Key("parent", "parent", layout))
    dim: int
    parent: Distributed

    @property
    def rank(self) -> int:
        return self.parent.rank - 1

    def check(self) -> None:
        demand(
            isinstance(self.parent, Distributed), f"the parent of a slice must be in registers, not #{self.parent.name}"
        )
        demand(self.parent.rank > 1, "the parent of a slice must have two dimensions or more")
        demand(self.dim < self.parent.rank, f"dim = {self.dim}, but the parent has {self.parent.rank} dimensions")


class DotOperand(Distributed):
    """The layout of operand `op_index` of a dot whose result has layout `parent`."""

    name: ClassVar[str] = "ttg.dot_op"
    keys: ClassVar[tuple[Key, ...]] = (
        Key("opIdx", "op_index", integer),
        Key("parent", "parent", layout),
        Key("kWidth", "k_width", integer, 0),
    )
    op_index: int
    parent: Distributed
    k_width: int = 0

    @property
    def rank(self) -> int:
        return self.parent.rank

    def check(self) -> None:
        demand(self.op_index in (0, 1), f"opIdx must be 0 or 1, not {self.op_index}")
        demand(not self.k_width or power_of_two(self.k_width), f"kWidth must be a power of two, not {self.k_width}")
        match self.parent:
            case NvidiaMma():
                self._check_nvidia(self.parent)
            case AmdMfma():
                demand(self.k_width, "kWidth must be given for a parent of kind amd_mfma")
            case AmdWmma(version=version):
                widths = {1: (8, 16), 2: (4, 8, 16)}.get(version)
                shown = " or ".join(map(str, widths or ()))
                demand(
                    widths is None or self.k_width in widths, f"kWidth must be {shown} for amd_wmma version {version}"
                )
                demand(self.k_width, f"kWidth must be given for amd_wmma version {version}")
            case Blocked():
                demand(not self.k_width, "kWidth must not be given for a parent of kind blocked")
            case _:
                raise LayoutError(
                    f"the parent of a dot operand must be blocked or an mma layout, not #{self.parent.name}"
                )

    def _check_nvidia(self, parent: NvidiaMma) -> None:
        if parent.version_major in (2, 3):
            demand(self.k_width, f"kWidth must be given for nvidia_mma version {parent.version_major}")
        else:
            demand(not self.k_width, f"kWidth must not be given for nvidia_mma version {parent.version_major}")
        demand(
            self.op_index == 0 or parent.version_major != 3,
            "only operand 0 of nvidia_mma version 3 can be in registers",
        )


class NvidiaMma(Distributed):
    """The layout of what NVIDIA's matrix instructions give: version 2 is `mma.sync`, 3 is `wgmma`."""

    name: ClassVar[str] = "ttg.nvidia_mma"
    keys: ClassVar[tuple[Key, ...]] = (
        Key("versionMajor", "version_major", integer),
        Key("versionMinor", "version_minor", integer, 0, printed=True),
        Key("warpsPerCTA", "warps_per_cta", integers),
        CGA,
        Key("instrShape", "instr_shape", integers),
    )
    version_major: int
    version_minor: int
    warps_per_cta: tuple[int, ...]
    instr_shape: tuple[int, ...]
    cga: Bases = ()

    @property
    def rank(self) -> int:
        return len(self.warps_per_cta)

    def check(self) -> None:
        demand(self.rank >= 2, "warpsPerCTA must have two dimensions or more")
        demand(len(self.instr_shape) >= 2, "instrShape must have two numbers or more")
        demand_powers(self.warps_per_cta, "warpsPerCTA")
        demand_cga(self.cga, self.rank)


class AmdMfma(Distributed):
    """The layout of what AMD's `mfma` instructions give."""

    name: ClassVar[str] = "ttg.amd_mfma"
    keys: ClassVar[tuple[Key, ...]] = (
        Key("version", "version", integer),
        Key("warpsPerCTA", "warps_per_cta", integers),
        Key("instrShape", "instr_shape", integers),
        Key("isTransposed", "is_transposed", boolean),
        CGA,
        Key("tilesPerWarp", "tiles_per_warp", integers, ()),
        Key("elementBitWidth", "element_bit_width", integer, 32),
    )
    version: int
    warps_per_cta: tuple[int, ...]
    instr_shape: tuple[int, ...]
    is_transposed: bool
    tiles_per_warp: tuple[int, ...] = ()
    """The number of tiles that a warp computes one after the other, per dimension; () is one."""
    element_bit_width: int = 32
    cga: Bases = ()

    @property
    def rank(self) -> int:
        return len(self.warps_per_cta)

    def check(self) -> None:
        shapes = (32, 32), (16, 16), (64, 4), (4, 64)
        demand(self.version <= 4, f"version must be between 0 and 4, not {self.version}")
        demand(self.rank >= 2, "warpsPerCTA must have two dimensions or more")
        demand(self.instr_shape[:2] in shapes, f"amd_mfma has no instruction for the shape {list(self.instr_shape)}")
        demand(self.element_bit_width in (32, 64), f"elementBitWidth must be 32 or 64, not {self.element_bit_width}")
        demand_powers(self.warps_per_cta, "warpsPerCTA")
        demand_powers(self.tiles_per_warp, "tilesPerWarp")
        assert set(self.tiles_per_warp) != {1}, "one tile per warp is written ()"
        demand_cga(self.cga, self.rank)


class AmdWmma(Distributed):
    """The layout of what AMD's `wmma` instructions give. `registers` and `warps` deal out tiles of one instruction."""

    name: ClassVar[str] = "ttg.amd_wmma"
    keys: ClassVar[tuple[Key, ...]] = (
        Key("version", "version", integer),
        Key("isTranspose", "is_transposed", boolean, False, printed=True),
        Key("ctaLayout", "cta_layout", lambda value, key: value),
        CGA,
        Key("instrShape", "instr_shape", integers, (16, 16, 16)),
        Key("rank", "tile_rank", integer, 2),
    )
    shapes: ClassVar[dict[int, tuple[tuple[int, int, int], ...]]] = {
        1: ((16, 16, 16),),
        2: ((16, 16, 16), (16, 16, 32)),
        3: ((16, 16, 4), (16, 16, 32), (16, 16, 64), (16, 16, 128), (32, 16, 64), (32, 16, 128)),
    }
    version: int
    is_transposed: bool
    registers: Bases
    warps: Bases
    instr_shape: tuple[int, ...] = (16, 16, 16)
    tile_rank: int = 2
    cga: Bases = ()

    @property
    def rank(self) -> int:
        return self.tile_rank

    @property
    def cta_layout(self) -> dict[str, Bases]:
        """The value of the key `ctaLayout`."""
        return {key: rows for key, rows in (("register", self.registers), ("warp", self.warps)) if rows}

    def check(self) -> None:
        demand(self.version in self.shapes, f"version must be 1, 2 or 3, not {self.version}")
        demand(
            self.instr_shape in self.shapes[self.version],
            f"amd_wmma version {self.version} has no instruction for the shape {list(self.instr_shape)}",
        )
        for row in (*self.registers, *self.warps):
            demand(len(row) == self.rank, f"every element of ctaLayout must have {self.rank} numbers")
        demand_onto((*self.registers, *self.warps), "ctaLayout")
        demand_cga(self.cga, self.rank)

    def body(self) -> str:
        shown = super().body()
        return shown.removesuffix(f", rank = {self.rank}") if self.registers or self.warps else shown

    @classmethod
    def from_written(cls, written: Written) -> Encoding:
        fields = read_keys(written.keys, cls.keys, cls.name)
        layout_keys = Key("register", "registers", bases, ()), Key("warp", "warps", bases, ())
        given = fields.pop("cta_layout")
        rank = fields["tile_rank"] if "rank" in written.keys else 0
        if not isinstance(given, dict):
            raise LayoutError("ctaLayout must be a dictionary {register = […], warp = […]}")
        fields |= read_keys(given, layout_keys, "ctaLayout")
        first = next((row for row in (*fields["registers"], *fields["warps"])), None)
        if first is not None:
            demand(rank in (0, len(first)), "rank is not the length of the rows of ctaLayout")
            fields["tile_rank"] = len(first)
        return cls(**fields)


class Linear(Distributed):
    """Any layout in which each bit of register, lane, warp and block is one step along one dimension."""

    name: ClassVar[str] = "ttg.linear"
    keys: ClassVar[tuple[Key, ...]] = (
        Key("register", "register", bases),
        Key("lane", "lane", bases),
        Key("warp", "warp", bases),
        Key("block", "block", bases),
    )
    register: Bases
    lane: Bases
    warp: Bases
    block: Bases = ()

    @property
    def rank(self) -> int:
        return len(next(row for rows in self.all_bases for row in rows))

    @property
    def all_bases(self) -> tuple[Bases, ...]:
        """The rows of register, lane, warp and block."""
        return self.register, self.lane, self.warp, self.block

    def check(self) -> None:
        rows = tuple(row for rows in self.all_bases for row in rows)
        demand(rows, f"#{self.name} without any rows has no dimensions")
        demand(len(set(map(len, rows))) == 1, f"all rows of #{self.name} must have one length")
        demand(rows[0], f"the rows of #{self.name} must not be empty")
        self.check_rows(rows)

    def check_rows(self, rows: Bases) -> None:
        """Check what this kind demands of its rows."""
        demand_permutation(rows, f"#{self.name}")


class GenericLinear(Linear):
    """Any linear layout: a bit may be a step along several dimensions."""

    name: ClassVar[str] = "ttg.generic_linear"

    def check_rows(self, rows: Bases) -> None:
        demand_onto(rows, f"#{self.name}")
