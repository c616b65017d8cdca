"""Which group of warps executes an op: the attribute `ttg.partition`.

    %x = tt.descriptor_load %d[%i, %c0]     {ttg.partition = array<i32: 2>}
    %t = ttng.tc_gen5_mma %a, %b, %m, …     {ttg.partition = array<i32: 1>}
    tt.descriptor_store %e[%i, %c0], %y     {ttg.partition = array<i32: 0>}

Partition 0 is the warps that come to the loop. What several partitions compute, each for itself, has all their numbers.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.dialects.scf import For
from tilewright.ir.attributes import DenseArray
from tilewright.ir.core import Op
from tilewright.ir.types import i32

DEFAULT, MMA, LOAD = 0, 1, 2
"""The numbers of the partitions: all else, products in tensor memory, copies by descriptor."""
PARTITION = "ttg.partition"
WARP_SPECIALIZE = "tt.warp_specialize"


def partitions_of_op(op: Op) -> tuple[int, ...]:
    """The numbers of the partitions that execute `op`; none if it has no mark."""
    mark = op.attributes.get(PARTITION)
    return mark.values if isinstance(mark, DenseArray) else ()


def mark(op: Op, partitions: Iterable[int]) -> None:
    """Say that these partitions execute `op`."""
    op.attributes = {**op.attributes, PARTITION: DenseArray(i32, tuple(sorted(partitions)))}


def marked_loops(module: Op) -> list[For]:
    """The loops of `module` whose ops have partitions."""
    loops = [op for op in module.walk() if isinstance(op, For) and WARP_SPECIALIZE in op.attributes]
    return [loop for loop in loops if partitions_of_op(loop)]
