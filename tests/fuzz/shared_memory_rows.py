"""Tiles whose rows have different lengths in one kernel: numbers of rows and of columns, reduced, and beside tiles.

    v2 = tl.sum(v1, 1, keep_dims=True)     # (8, 1) of (8, 16)
    v3 = v1 + v2

Each production gives what the kind asks for; `ROW_VALUES` takes them in.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from kinds import Kind
from shared_memory_draft import ROW_VALUES, Draft, Habits, Shape, load, mask, small, unsigned_zeros, value

ROWS = (4, 8, 8, 16, 32)
"""How many rows all tiles of a kernel have."""
LENGTHS = (2, 4, 8, 16, 32, 64)
"""The lengths of rows."""
LARGEST = 256
"""The size of the largest tile, in elements."""


def row_shapes(rng: Random) -> tuple[Shape, ...]:
    """Shapes of one number of rows: one or two lengths, then numbers of rows, perhaps numbers of columns."""
    rows = rng.choice(ROWS)
    lengths = rng.sample([n for n in LENGTHS if rows * n <= LARGEST and n != rows], rng.choice((1, 2)))
    numbers = rng.choice((((rows, 1),), ((rows, 1),), ((rows,),), ((rows, 1), (rows,))))
    columns = ((1, max(lengths)),) if max(lengths) > 2 and rng.random() < 0.3 else ()
    return (*((rows, n) for n in lengths), *numbers, *columns)


def _reduced(draft: Draft, kind: Kind, depth: int) -> str:
    """A tile's rows or columns reduced to what the kind asks for."""
    rng = draft.rng
    tiles = [shape for shape in draft.shapes if _axis(shape, kind.shape) is not None]
    if not tiles:
        return _beside(draft, kind, depth)
    shape = rng.choice(tiles)
    its = Kind(kind.dtype, shape)
    which = rng.choice(("sum", "sum", "max", "min"))
    operand = value(draft, its, depth)
    operand = small(draft, its, operand) if which == "sum" else unsigned_zeros(its, operand)
    keep = ", keep_dims=True" if len(kind.shape) > 1 else ""
    return f"tl.{which}({operand}, {_axis(shape, kind.shape)}{keep}).to(tl.{kind.dtype})"


def _axis(shape: Shape, result: Shape) -> int | None:
    """The axis whose reduction makes `result` of a tile."""
    if len(shape) == 1 or 1 in shape:
        return None
    return {(shape[0], 1): 1, shape[:1]: 1, (1, shape[1]): 0}.get(result)


def _beside(draft: Draft, kind: Kind, depth: int) -> str:
    """A tile and a number of each row or column, which may decide what its lanes get."""
    rng = draft.rng
    numbers = [shape for shape in draft.shapes if _axis(kind.shape, shape) is not None]
    if not numbers:
        return value(draft, kind, depth)
    shape = rng.choice(numbers)
    number = value(draft, Kind(kind.dtype, shape), depth) + ("[:, None]" if len(shape) == 1 else "")
    tile = value(draft, kind, depth)
    if rng.random() < 0.2:
        return f"tl.where({number} > {rng.randint(0, 3)}, {tile}, {value(draft, kind, 0)})"
    return f"({tile} {rng.choice('+-')} {number})"


def _divided(draft: Draft, kind: Kind, depth: int) -> str:
    """A quotient or a remainder; of floats, which would be rounded, half."""
    operand = value(draft, kind, depth)
    return f"({operand} * 0.5)" if kind.is_float else f"({operand} {draft.rng.choice(('//', '%'))} 2)"


def _doubled(draft: Draft, kind: Kind, depth: int) -> str:
    """Twice the lanes of a tile, or some of them."""
    name = draft.some(kind) or draft.new(kind, value(draft, kind, depth))
    test = draft.rng.choice((f"i{draft.shapes.index(kind.shape)} % 2 == 0", mask(draft, kind.shape), "n > m"))
    return f"tl.where({test}, {name}, {name} + {name})"


def _with_load(draft: Draft, kind: Kind, depth: int) -> str:
    """Tiles loaded one after the other, added up."""
    return f"({value(draft, kind, depth)} + {load(draft, kind)})"


def of_rows(draft: Draft, kind: Kind) -> str:
    """A value that tiles of several shapes make, mostly of those in sight."""
    return draft.rng.choice(ROW_VALUES)(draft, kind, draft.rng.choice((0, 1, 1)))


def lane_by_lane(draft: Draft, kind: Kind) -> str:
    """A value of which a loop computes each lane by itself."""
    return draft.rng.choice((_beside, _doubled, _doubled, _with_load, _with_load, _divided))(draft, kind, 0)


def habits_of_rows(rng: Random) -> Habits:
    """Mostly what lies as the tiles do: only then do tiles of several shapes share a nest of loops."""
    masks = tuple(rng.randrange(1000) for _ in range(2))
    starts = rng.choice((("",), ("",), ("", " + 1"), ("", " + d")))
    habits = Habits(starts=starts, masks=masks, masked=rng.choice((0.0, 0.3, 0.6)))
    return replace(habits, loads=(0, 0, 3), stores=(0, 0, 3)) if rng.random() < 0.4 else habits


ROW_VALUES += [*[_reduced] * 4, *[_beside] * 6, _divided, _doubled, _doubled]
