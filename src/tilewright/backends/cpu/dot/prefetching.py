"""Prefetching the next tiles, a few cache lines at a time, spread over the blocks of C.

64 rows of 512 bytes over 64 blocks: each block fetches one row.
64 rows of 512 bytes over 128 blocks: each block fetches half a row.

512 bytes that do not start at a cache line touch 9 lines, so one more line is prefetched; without it, NumPy's arrays
(16 bytes after a line) cost 5 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from tilewright.backends.cpu.dot.spec import DotSpec, Offset, Prefetch, advance, each, plus, times
from tilewright.backends.cpu.loop_builder import LoopBuilder
from tilewright.backends.llvm.cpu_costs import CACHE_LINE, SECOND_LEVEL
from tilewright.ir.core import Value

UNROLLED = 8
"""Max fetches in one share; more become a loop over rows."""
Result: TypeAlias = tuple[Value, Prefetch]
"""An i1, whether no next tiles are read, and the memory of C, which is fetched then."""


def prefetch_shares(
    ops: LoopBuilder, soon: Sequence[Prefetch], number: Offset, blocks: int, result: Result | None = None
) -> None:
    """Prefetch the shares of block `number` out of `blocks` blocks, of all tiles in `soon`, or of the result.

    With two tiles the first half of the blocks fetches the last one, B, which is packed before anything else; A is read
    row by row, the last rows late. Where a share of the result looks like one of B, the same lines fetch either.
    """
    is_spread = len(soon) == 2 and blocks >= 4 and not isinstance(number, int)
    if result is not None and not (is_spread and _is_twice(result[1], soon[1])):
        with ops.branch(result[0]) as branch:
            with branch.then():
                _prefetch_share(ops, result[1], number, blocks)
            with branch.otherwise():
                prefetch_shares(ops, soon, number, blocks)
        return
    if not is_spread:
        for tile in soon:
            _prefetch_share(ops, tile, number, blocks)
        return
    (a, b), half = soon, 1 << (blocks.bit_length() - 2)
    shares, is_first = half, ops.compare("slt", number, half)
    if result is not None:
        shares, is_first, b = blocks, ops.or_(result[0], is_first), _either(ops, *result, b)
    with ops.branch(is_first) as branch:
        with branch.then():
            _prefetch_share(ops, b, number, shares)
        with branch.otherwise():
            _prefetch_share(ops, a, plus(ops, number, -half), half)


def _is_twice(result: Prefetch, b: Prefetch) -> bool:
    """Whether all blocks fetch of the result what half of them fetch of B."""
    return not b.instead and (result.rows, result.row_bytes) == (2 * b.rows, b.row_bytes)


def _either(ops: LoopBuilder, ends: Value, result: Prefetch, b: Prefetch) -> Prefetch:
    """The memory of the result where `ends` holds, and else B."""
    pointer = ops.select(ends, result.pointer, b.pointer)
    stride = ops.select(ends, ops.number(result.row_stride), b.row_stride)
    return replace(result, pointer=pointer, row_stride=stride)


def at_any_step(ops: LoopBuilder, spec: DotSpec, soon: Sequence[Prefetch], is_kept: Value | None) -> Sequence[Prefetch]:
    """The next A and B, where distances known at launch may spread the rows, or make the columns of B rows.

    Args:
        ops: where ops go.
        spec: the product.
        soon: the next tiles.
        is_kept: whether a packed B is read next instead.
    """
    if not asks_both(soon):
        return soon
    (a, b, *result), size = soon, spec.b_type.bits // 8
    if isinstance(spec.a_step, Value):
        a = replace(a, instead=(_spread(ops, a, spec.a_step),))
    if isinstance(spec.b_step, Value):
        along = spec.k if spec.b_transposed else spec.n
        across = ops.compare("eq", ops.number(spec.b_stride), 1)
        columns = Prefetch(b.pointer, times(ops, spec.b_step, size), along, b.rows * size, b.operand)
        others = (across, columns), _spread(ops, b, spec.b_step)
        if is_kept is None:
            b = replace(b, instead=others)
        else:
            is_read = ops.xor(is_kept, 1)
            b = replace(b, instead=tuple((ops.and_(condition, is_read), other) for condition, other in others))
    return a, b, *result


def asks_both(soon: Sequence[Prefetch]) -> bool:
    """Whether `soon` begins with the next A and the next B."""
    return [tile.operand for tile in soon[:2]] == [0, 1]


def until_the_result(
    ops: LoopBuilder, soon: Sequence[Prefetch], goes_on: Value | None
) -> tuple[Sequence[Prefetch], Result | None]:
    """The next A and B, or one of them, and the memory that C goes to, which is fetched where there are no next ones.

    Rows of C are often pages apart, so no processor guesses where the next one is.

    Args:
        ops: where ops go.
        soon: the next A, the next B, and the memory of C; or some of these.
        goes_on: whether A and B are read again.
    """
    factors, results = ([t for t in soon if (t.operand == 2) == is_result] for is_result in (False, True))
    return factors, (ops.xor(goes_on, 1), results[0]) if results and goes_on is not None else None


def _spread(ops: LoopBuilder, tile: Prefetch, step: Value) -> tuple[Value, Prefetch]:
    """The rows of `tile` where `step`, the distance of neighbours, is a small one: every second element."""
    return ops.compare("ne", step, 1), replace(tile, row_bytes=2 * tile.row_bytes)


def _prefetch_share(ops: LoopBuilder, soon: Prefetch, number: Offset, blocks: int) -> None:
    """Prefetch the share of block `number` out of `blocks` blocks.

    With a number of blocks that is no power of two, the last ones fetch lines that others fetch too.
    """
    if soon.instead:
        (condition, other), *others = soon.instead
        with ops.branch(condition) as branch:
            with branch.then():
                _prefetch_share(ops, other, number, blocks)
            with branch.otherwise():
                _prefetch_share(ops, replace(soon, instead=tuple(others)), number, blocks)
        return
    shares = 1 << (blocks.bit_length() - 1)
    if not isinstance(number, int):
        number = ops.and_(number, shares - 1)
    lines = max(1, soon.row_bytes // CACHE_LINE)
    each = max(1, soon.rows * lines // shares)
    if each >= lines:
        _fetch(ops, soon, number, each // lines, 0, lines)
        return
    per_row = lines // each
    if isinstance(number, int):
        _fetch(ops, soon, number // per_row, 1, number % per_row * each * CACHE_LINE, each)
        return
    row = ops.lshr(number, per_row.bit_length() - 1)
    part = ops.and_(number, per_row - 1)
    _fetch(ops, soon, row, 1, ops.mul(part, each * CACHE_LINE), each)


def _fetch(ops: LoopBuilder, soon: Prefetch, share: Offset, rows: int, start: Offset, lines: int) -> None:
    """Fetch what `lines` lines from byte `start` on may touch, in each of the rows `share`·`rows` and following."""
    first = advance(ops, advance(ops, soon.pointer, share, times(ops, rows, soon.row_stride)), start)

    def row(r: Offset) -> None:
        here = advance(ops, first, r, soon.row_stride)
        for line in range(lines + 1):
            ops.prefetch(here, line * CACHE_LINE, locality=SECOND_LEVEL)

    if rows * lines > UNROLLED:
        with each(ops, rows) as r:
            row(r)
        return
    for r in range(rows):
        row(r)
