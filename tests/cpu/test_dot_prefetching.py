"""The blocks of a product fetch their shares of the next tiles, or of the memory of the result."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.backends.cpu.dot.prefetching import prefetch_shares, until_the_result
from tilewright.backends.cpu.dot.spec import Prefetch
from tilewright.backends.cpu.loop_builder import BYTES, LoopBuilder
from tilewright.interpreter import machine, run_ir
from tilewright.interpreter.memory import Memory
from tilewright.ir.core import Block
from tilewright.ir.types import i1, i64

BLOCKS = 16
STARTS = {"a": 0x100000, "b": 0x200000, "c": 0x300000}
STRIDES = {"a": 2048, "b": 4096, "c": 8192}
Shape = tuple[int, int]
"""Rows, and bytes of each."""


def shares(a: Shape, b: Shape, c: Shape) -> Block:
    """The ops that fetch the shares of a block; its arguments: the addresses, i1 `goes_on`, i64 `number`."""
    block = Block((BYTES, BYTES, BYTES, i1, i64))
    first, second, result, goes_on, number = block.args
    ops = LoopBuilder(block)
    soon = [
        Prefetch(pointer, ops.add(STRIDES[name], ops.number(0)), *shape, operand="abc".index(name))
        for name, pointer, shape in zip("abc", (first, second, result), (a, b, c), strict=True)
    ]
    tiles, instead = until_the_result(ops, soon, goes_on)
    prefetch_shares(ops, tiles, number, BLOCKS, instead)
    ops.do("scf.yield", ())
    return block


def fetched(block: Block, monkeypatch: pytest.MonkeyPatch, *, goes_on: bool, number: int) -> set[int]:
    """The addresses that the ops fetch from."""
    found = set[int]()
    monkeypatch.setitem(
        machine.EXECUTORS, "vector.prefetch", lambda _, op, base, offset: found.add(int(base) + int(offset))
    )
    interpreter = machine.Interpreter(Memory([]), program=(0, 0, 0), grid=(1, 1, 1), functions={})
    interpreter.run_block(block, [*map(np.int64, STARTS.values()), np.bool_(goes_on), np.int64(number)])
    return found


def lines(name: str, shape: Shape, share: int, count: int) -> set[int]:
    """The places that share number `share` out of `count` fetches: whole rows, and a line behind each."""
    rows, row_bytes = shape
    each = rows // count
    return {
        STARTS[name] + row * STRIDES[name] + line * 64
        for row in range(share * each, share * each + each)
        for line in range(row_bytes // 64 + 1)
    }


def prefetches(block: Block) -> int:
    return sum(op.name == "vector.prefetch" for outer in block for op in outer.walk())


@pytest.mark.parametrize("b", [(32, 256), (32, 512), (64, 256)], ids=["like C", "longer rows", "more rows"])
def test_shares_of_the_next_tiles_or_of_the_result(b: Shape, monkeypatch: pytest.MonkeyPatch) -> None:
    a, c, half = (64, 128), (64, 256), BLOCKS // 2
    block = shares(a, b, c)
    assert run_ir, "importing it enters the executors"
    for number in range(BLOCKS):
        next_tiles = lines("b", b, number, half) if number < half else lines("a", a, number - half, half)
        assert fetched(block, monkeypatch, goes_on=True, number=number) == next_tiles
        assert fetched(block, monkeypatch, goes_on=False, number=number) == lines("c", c, number, BLOCKS)


def test_the_same_lines_fetch_b_or_the_result_where_their_shares_are_alike() -> None:
    a, c = (64, 128), (64, 256)
    assert prefetches(shares(a, (32, 256), c)) == 5 + 3, "four lines and one behind them, of B or C, and those of A"
    assert prefetches(shares(a, (64, 256), c)) == 5 + 5 + 3
