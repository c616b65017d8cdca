"""Rows of values that change their layout through an op's scratch memory, between the rounds of a reduction.

    cross_warp_plan(before, after, bits=32).load.moves       # one load of four neighbours: the parts of four warps

All operands are written before the one barrier, each to a place of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial

from tilewright.analysis.reduction_plan import cross_warp_buffer, cross_warp_bytes
from tilewright.backends.nvidia.lower.combine import Row
from tilewright.backends.nvidia.lower.convert_layout import Conversion, plan_through
from tilewright.backends.nvidia.lower.lowerer import Lowerer
from tilewright.backends.nvidia.lower.shared_tiles import (
    Bytes,
    cluster_barrier,
    load_tile,
    memory_bits,
    store_tile,
)
from tilewright.layouts.linear_layout import LinearLayout
from tilewright.layouts.swizzle import in_one_dimension


@cache
def cross_warp_plan(before: LinearLayout, after: LinearLayout, bits: int) -> Conversion:
    """The plan by which a tile goes from one layout to another.

    Args:
        before: the layout that the tile has.
        after: the layout that it gets.
        bits: bits of one element in memory.
    """
    return plan_through(in_one_dimension(before), in_one_dimension(after), cross_warp_buffer(before, after, bits), bits)


def exchange_across_warps(
    lowerer: Lowerer, rows: Sequence[Row], before: LinearLayout, after: LinearLayout, elements: Sequence[str], base: int
) -> list[Row]:
    """The rows in the registers of `after`.

    Args:
        lowerer: the lowerer that code goes to.
        rows: per register of `before` its element of each operand.
        before: the layout that the rows have.
        after: the layout that they get.
        elements: the LLVM types of a row.
        base: where the scratch memory begins, in bytes.
    """
    plans = [cross_warp_plan(before, after, memory_bits(element)) for element in elements]
    places = _places(before, after, elements, base)
    columns = list(zip(*rows, strict=True))
    found: list[dict[int, str]] = [{} for _ in elements]
    turns = max(len(plan.parts) for plan in plans)
    between_blocks = any(plan.load.block is not None for plan in plans)
    wait = partial(cluster_barrier, lowerer) if between_blocks else lowerer.barrier
    for turn in range(turns):
        if turn:
            wait()
        active = [index for index, plan in enumerate(plans) if turn < len(plan.parts)]
        for index in active:
            values = [columns[index][register] for register in plans[index].parts[turn].stored]
            store_tile(lowerer, values, elements[index], plans[index].store, places[index])
        wait()
        for index in active:
            values = load_tile(lowerer, elements[index], plans[index].load, places[index])
            found[index].update(zip(plans[index].parts[turn].loaded, values, strict=True))
    if between_blocks:
        wait()  # what follows may write, or end the block
    if any(plan.load.block is not None for plan in plans):
        wait()  # what follows may write, or end the block
    return [[column[register] for column in found] for register in range(after.in_size("register"))]


def _wait_for(lowerer: Lowerer, plans: Sequence[Conversion]) -> Callable[[], None]:
    """A function that writes the wait until the others, of the block or of the cluster, have written, or read."""
    if any(plan.load.block is not None for plan in plans):
        return lambda: cluster_barrier(lowerer)
    return lowerer.barrier


def _places(before: LinearLayout, after: LinearLayout, elements: Sequence[str], base: int) -> list[Bytes]:
    """The start of each operand's buffer: the widest elements first, so that each is aligned."""
    places = [Bytes("0")] * len(elements)
    for index in sorted(range(len(elements)), key=lambda index: -memory_bits(elements[index])):
        places[index] = Bytes(str(base))
        base += cross_warp_bytes(before, after, (memory_bits(elements[index]),))
    return places
