"""The elements of a matrix operand that each lane and register of a warp holds.

    rows, columns = first_operand(rows=16, depth=16, bits=16)   # of f16: (lane, register, element) -> row, depth
    matrices = spread(values, rows, columns, (16, 16))          # (warp, lane, register, element) -> (warp, row, depth)
    gather(matrices, rows, columns)                             # and back

One rule covers all shapes of `mma.sync` but the f16 m8n8k4 of sm_70. Lane 4g + t has, in the first operand, row g of
each eight rows and the elements of word t of each four words of the depth; a word is 32 bits, or one f64. Registers
count rows first. The second operand has column g in place of row g. In the accumulator lane 4g + t has row g and two
neighbouring columns from 2t.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int64]
GROUP = 8
LANES = 32


def _per_word(bits: int) -> int:
    return max(1, 32 // bits)


@cache
def first_operand(rows: int, depth: int, bits: int) -> tuple[Places, Places]:
    """Row and place in the depth, by lane, register and element of the register."""
    per_word, repeats = _per_word(bits), rows // GROUP
    registers = rows * depth // LANES // per_word
    lane, register, element = np.ogrid[:LANES, :registers, :per_word]
    row = lane // 4 + GROUP * (register % repeats) + 0 * element
    place = (register // repeats) * 4 * per_word + lane % 4 * per_word + element
    return row, place


@cache
def second_operand(columns: int, depth: int, bits: int) -> tuple[Places, Places]:
    """Place in the depth and column, by lane, register and element of the register."""
    column, place = first_operand(columns, depth, bits)
    return place, column


@cache
def accumulator(rows: int, columns: int) -> tuple[Places, Places]:
    """Row and column, by lane and element: two columns, then eight rows further, then eight columns further."""
    repeats = rows // GROUP
    lane, element = np.ogrid[:LANES, : rows * columns // LANES]
    row = lane // 4 + GROUP * (element // 2 % repeats)
    column = lane % 4 * 2 + element % 2 + GROUP * (element // (2 * repeats))
    return row, column


def spread(values: NDArray[Any], first: Places, second: Places, shape: tuple[int, int]) -> NDArray[Any]:
    """Matrices from the elements of warps: `values` has the warp and the shape of `first`."""
    matrices = np.empty((len(values), *shape), values.dtype)
    matrices[:, first, second] = values
    return matrices


def gather(matrices: NDArray[Any], first: Places, second: Places) -> NDArray[Any]:
    """The elements of warps from their matrices."""
    found: NDArray[Any] = matrices[:, first, second]
    return found


@cache
def scale_lanes(rows: int, chosen: int) -> Places:
    """The lane that holds the scales of each row of the first operand (16 rows), or column of the second (8).

    `chosen` is the instruction's thread selector: which pair of the four lanes of a group, or which lane.
    """
    index = np.arange(rows)
    return index % GROUP * 4 + (2 * chosen + index // GROUP if rows > GROUP else chosen)
