"""Building the linear layout of a tile: bits of registers, lanes and warps are assigned to dimensions in turn.

    walk = Walk(rank=2)
    walk.along("register", 1, 4)       # the two low bits of the register walk dimension 1,
    walk.along("lane", 1, 16)          # then lanes, beyond the four registers
    walk.along("lane", 0, 2)
    walk.along("warp", 0, 4)
    walk.fitted((16, 64), cga=(), repeat=(1, 0))

gives the layout of a 16x64 tile; the remaining elements are further registers, first along dimension 1, then 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

from tilewright.layouts.keys import Bases
from tilewright.layouts.linear_layout import LinearLayout, log2

REGISTERS = ("register", "lane", "warp")


@cache
def dimension_names(rank: int) -> tuple[str, ...]:
    """dim0, dim1, …"""
    return tuple(f"dim{axis}" for axis in range(rank))


class Walk:
    """Rows (one step in the tile for each bit) per input, and in `size` how far each dimension is covered."""

    __slots__ = ("rank", "rows", "size")

    def __init__(self, rank: int, ins: Iterable[str] = REGISTERS) -> None:
        self.rank = rank
        self.rows: dict[str, list[Sequence[int]]] = {name: [] for name in ins}
        self.size = [1] * rank

    def along(self, name: str, axis: int, count: int) -> None:
        """The next bits of input `name` walk `count` times as far along `axis` as what is covered."""
        rows, step = self.rows[name], self.size[axis]
        end = step * count
        while step < end:
            row = [0] * self.rank
            row[axis] = step
            rows.append(row)
            step *= 2
        self.size[axis] = end

    def along_all(self, name: str, counts: Sequence[int], order: Sequence[int], *, copies_along: int = -1) -> None:
        """The next bits walk all dimensions in `order`; along `copies_along` they hold copies."""
        for axis in order:
            if axis == copies_along:
                self.copies(name, counts[axis])
            else:
                self.along(name, axis, counts[axis])

    def copies(self, name: str, count: int) -> None:
        """The next bits of input `name` change nothing."""
        self.rows[name] += [[0] * self.rank] * log2(count)

    def steps(self, name: str, rows: Iterable[Sequence[int]]) -> None:
        """The next bits of input `name` make these steps, in units of what is covered now (see `covers`)."""
        self.rows[name] += [[value * size for value, size in zip(row, self.size, strict=True)] for row in rows]

    def covers(self, factors: Sequence[int]) -> None:
        """Note that steps have covered `factors` times what was covered."""
        self.size = [size * factor for size, factor in zip(self.size, factors, strict=True)]

    def fitted(
        self, shape: Sequence[int], cga: Bases, repeat: Sequence[int], *, drop_copies: bool = False
    ) -> LinearLayout:
        """The layout of a tile of `shape`.

        Args:
            shape: of the tile of all blocks together.
            cga: how blocks are dealt out.
            repeat: the order of the dimensions in which the first input walks what is not covered.
            drop_copies: registers that lie outside a small tile go away instead of holding copies.
        """
        blocks = [tuple(step if step < size else 0 for step, size in zip(row, shape, strict=True)) for row in cga]
        split = tuple(2 * max(column) or 1 for column in zip(*blocks, strict=True)) or (1,) * self.rank
        inside = [size // parts for size, parts in zip(shape, split, strict=True)]
        first = next(iter(self.rows))
        for axis in repeat:
            if self.size[axis] < inside[axis]:
                self.along(first, axis, inside[axis] // self.size[axis])
        shifts, total = [0] * self.rank, 0
        for axis in reversed(range(self.rank)):
            shifts[axis] = total
            total += log2(shape[axis])
        columns: dict[str, tuple[int, ...]] = {}
        for name, rows in self.rows.items():
            packed = [
                sum([value << shift for value, size, shift in zip(row, inside, shifts, strict=True) if value < size])
                for row in rows
            ]
            if drop_copies and name == "register":
                packed = [column for column, row in zip(packed, rows, strict=True) if column or not any(row)]
            columns[name] = tuple(packed)
        if "block" not in columns:
            columns["block"] = tuple(
                sum([step * part << shift for step, part, shift in zip(row, inside, shifts, strict=True)])
                for row in blocks
            )
        return LinearLayout(columns, tuple(zip(dimension_names(self.rank), shape, strict=True)))


def row_major(rank: int) -> tuple[int, ...]:
    """The dimensions, the last one first."""
    return tuple(reversed(range(rank)))


def column_major(rank: int) -> tuple[int, ...]:
    """The order of `row_major` with the two fastest dimensions exchanged."""
    order = row_major(rank)
    return (order[1], order[0], *order[2:])


def operand_order(op_index: int, rank: int) -> tuple[int, ...]:
    """The dimensions of an operand of a dot, the one that is summed over first."""
    return row_major(rank) if op_index == 0 else column_major(rank)


def without_steps_along(cga: Bases, axis: int) -> Bases:
    """The division in which blocks hold copies along `axis`: every operand has all of K."""
    return tuple(tuple(0 if dim == axis else step for dim, step in enumerate(row)) for row in cga)


def split_of(cga: Bases, rank: int) -> tuple[int, ...]:
    """The number of blocks among which each dimension is divided."""
    return tuple(2 * max(column) or 1 for column in zip(*cga, strict=True)) or (1,) * rank


def shape_of_block(shape: Sequence[int], cga: Bases) -> tuple[int, ...]:
    """The part of a tile that one block has."""
    return tuple(size // min(size, parts) for size, parts in zip(shape, split_of(cga, len(shape)), strict=True))


def shown(shape: Sequence[int]) -> str:
    """`128x64`."""
    return "x".join(map(str, shape))
