"""Byte addresses whose parts may be known now or at run time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.backends.cpu.dot.spec import Offset
from tilewright.backends.cpu.loop_builder import LoopBuilder
from tilewright.ir.core import Value


def times(ops: LoopBuilder, first: Offset, second: Offset) -> Offset:
    """The product; an op only when it is not known now."""
    if isinstance(first, int) and isinstance(second, int):
        return first * second
    return 0 if first == 0 or second == 0 else ops.mul(first, second)


def plus(ops: LoopBuilder, first: Offset, second: Offset) -> Offset:
    """The sum; an op only when it is not known now."""
    if isinstance(first, int) and isinstance(second, int):
        return first + second
    return ops.add(first, second)


def behind(ops: LoopBuilder, pointer: Value, index: Offset, stride: Offset = 1) -> Value:
    """The address `index` times `stride` bytes behind `pointer`."""
    return ops.offset(pointer, times(ops, index, stride))


def repeat(
    ops: LoopBuilder,
    trips: Offset,
    body: Callable[[Offset, list[Value]], Sequence[Value]],
    carried: Sequence[Value] = (),
    *,
    nonempty: bool = True,
) -> list[Value]:
    """Run `body(index, carried values) -> next values` for index 0 … trips-1; one trip needs no loop.

    There is one trip at least, if `nonempty` does not deny it. Returns the carried values after the last trip.
    """
    if trips == 1:
        return list(body(0, list(carried)))
    with ops.loop(0, trips, carried=carried, nonempty=nonempty) as loop:
        loop.next = body(loop.index, loop.carried)
    return loop.results
