"""Byte addresses whose parts may be known now or at run time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.backends.cpu.dot.spec import Offset
from tilewright.backends.llvm.writer import LlvmWriter, Typed


def times(w: LlvmWriter, first: Offset, second: Offset) -> Offset:
    """The product; code only when it is not known now."""
    if isinstance(first, int) and isinstance(second, int):
        return first * second
    if first in (0, 1):
        return second if first else 0
    if second in (0, 1):
        return first if second else 0
    return w.emit(f"mul nsw i64 {first}, {second}")


def plus(w: LlvmWriter, first: Offset, second: Offset) -> Offset:
    """The sum; code only when it is not known now."""
    if isinstance(first, int) and isinstance(second, int):
        return first + second
    if first == 0 or second == 0:
        return second if first == 0 else first
    return w.emit(f"add i64 {first}, {second}")


def behind(w: LlvmWriter, pointer: str, index: Offset, stride: Offset = 1) -> str:
    """The address `index` times `stride` bytes behind `pointer`."""
    return w.offset(pointer, "i8", times(w, index, stride))


def repeat(
    w: LlvmWriter,
    trips: Offset,
    body: Callable[[Offset, list[str]], Sequence[str]],
    carried: Sequence[Typed] = (),
) -> list[str]:
    """Run `body(index, carried values) -> next values` for index 0 … trips-1; one trip needs no loop.

    Returns the carried values after the last trip.
    """
    if trips == 1:
        return list(body(0, [value for _, value in carried]))
    with w.loop(0, trips, carried=carried) as loop:
        loop.next = body(loop.index, loop.carried)
    return loop.results
