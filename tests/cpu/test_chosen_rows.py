"""Rows that an index chooses are asked for a little ahead as they are copied past the caches, up to their ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from changed_costs import change_costs
from pass_kernels import loops_of

import tilewright as tw
import tilewright.language as tl
from lowered_code import code_on
from tilewright.dialects.vector import Prefetch
from tilewright.interpreter import machine
from tilewright.interpreter.run_ir import run_ir

AHEAD, BLOCK, ROWS = 2048, 256, 5
"""Bytes; lanes of a program; rows of the matrix."""
FAR = 2
"""The locality of what goes to L2."""


@tw.jit
def choose(x, index, out, columns, B: tl.constexpr, HOW: tl.constexpr = ""):
    """Row after row of x, as `index` says: piece by piece, of programs that lie side by side; or pieces two apart."""
    row, part = tl.program_id(0), tl.program_id(1)
    column = (part * 2 if HOW == "apart" else part) * B + tl.arange(0, B)
    chosen = row if HOW == "in order" else tl.load(index + row)
    x = tl.load(x + chosen * columns + column, column < columns)
    tl.store(out + row * columns + column, x, column < columns)


X, INDEX = np.zeros(4096, np.float32), np.zeros(16, np.int32)


@pytest.mark.parametrize(("cpu", "how", "asks"), [
    ("znver5", "", True), ("znver5", "apart", True), ("znver5", "in order", False),
    ("znver4", "", False), ("x86-64-v3", "", False),
])
def test_only_rows_that_memory_chooses_are_asked_for(cpu: str, how: str, asks: bool) -> None:
    """Processors guess where others go on; nothing was measured on other ones than Zen 5."""
    module = loops_of(choose, (X, INDEX, X, 1024), cpu, B=1024, HOW=how)
    assert any(op.locality == FAR for op in module.ops_of(Prefetch)) == asks


def fetched(columns: int, how: str, monkeypatch: pytest.MonkeyPatch) -> dict[tuple[int, int], set[int]]:
    """The bytes behind the start of x that each program asks for."""
    change_costs(monkeypatch, streams_from=1)
    module = loops_of(choose, (X, INDEX, X, 16), "znver5", B=BLOCK, HOW=how)
    x, index = np.arange(ROWS * columns, dtype=np.float32), np.array([3, 0, 3], np.int32)
    space = np.zeros(len(index) * columns + 16, np.float32)
    out = space[-space.ctypes.data % 64 // 4 :][: len(index) * columns]
    found: dict[tuple[int, int], set[int]] = {}

    def note(interpreter: Any, _: Any, base: Any, offset: Any) -> None:
        row, part, _ = interpreter.program
        found.setdefault((row, part), set()).add(int(base) + int(offset) - x.ctypes.data)

    monkeypatch.setitem(machine.EXECUTORS, "vector.prefetch", lambda machine, op, *place: note(machine, op, *place))
    parts = tw.cdiv(columns, BLOCK)
    run_ir(module, {"x": x, "index": index, "out": out, "columns": columns}, (len(index), parts))
    if how != "apart":
        np.testing.assert_array_equal(out, x.reshape(ROWS, columns)[index].ravel())
    return found


@pytest.mark.parametrize("columns", [256, 512, 1024, 2048])
def test_what_the_next_program_has_of_a_row_is_asked_for(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found = fetched(columns, "", monkeypatch)
    assert found.keys() == {(row, part) for row in range(3) for part in range(columns // BLOCK)}
    for (row, part), places in found.items():
        start, end = (3, 0, 3)[row] * columns * 4, ((3, 0, 3)[row] + 1) * columns * 4
        first = start + part * BLOCK * 4
        last = min(first + BLOCK * 4 + AHEAD, end) - 64
        assert places == {min(place + AHEAD, last) for place in range(first, first + BLOCK * 4, 64)}


def test_pieces_that_lie_apart_ask_for_nothing_behind_them(monkeypatch: pytest.MonkeyPatch) -> None:
    found = fetched(1024, "apart", monkeypatch)
    assert found
    for (row, part), places in found.items():
        assert max(places) < (3, 0, 3)[row] * 4096 + (2 * part + 1) * BLOCK * 4


@tw.jit
def choose_flat(x, index, out, n, columns, B: tl.constexpr, HOW: tl.constexpr = ""):
    """Whole rows of x, as `index` says, by places in the output: they go through a buffer, as nothing bounds them."""
    at = tl.program_id(0) * B + tl.arange(0, B)
    row, column = at // columns, at % columns
    chosen = tl.load(index + row, at < n) if HOW != "in order" else row + 1
    x = tl.load(x + chosen * columns + column, at < n)
    tl.store(out + at, x * x if HOW == "computed" else x, at < n)


@pytest.mark.parametrize(("cpu", "how", "asks"), [
    ("znver5", "", True), ("znver5", "in order", False), ("znver5", "computed", False),
    ("znver4", "", False), ("x86-64-v3", "", False),
])
def test_rows_on_their_way_into_a_buffer_are_asked_for(cpu: str, how: str, asks: bool) -> None:
    """Where only copies wait for memory: what else a loop computes hides a part of that."""
    module = loops_of(choose_flat, (X, INDEX, X, 4096, 1024), cpu, B=1024, HOW=how)
    assert any(op.locality == FAR for op in module.ops_of(Prefetch)) == asks


@pytest.mark.parametrize("is_far", [False, True])
@code_on("znver5")
def test_a_copy_asks_within_its_row_if_the_launch_is_large(monkeypatch: pytest.MonkeyPatch, is_far: bool) -> None:
    change_costs(monkeypatch, max_prefetched_grid=0 if is_far else 1 << 20)
    columns, index = 512, np.array([3, 0, 3], np.int32)
    module = loops_of(choose_flat, (X, INDEX, X, 16, 16), "znver5", B=BLOCK)
    x, out = np.arange(ROWS * columns, dtype=np.float32), np.zeros(len(index) * columns, np.float32)
    found = list[tuple[int, int]]()

    def note(interpreter: Any, _: Any, base: Any, offset: Any) -> None:
        found.append((int(interpreter.program[0]), int(base) + int(offset) - x.ctypes.data))

    monkeypatch.setitem(machine.EXECUTORS, "vector.prefetch", lambda machine, op, *place: note(machine, op, *place))
    numbers = {"n": out.size, "columns": columns}
    run_ir(module, {"x": x, "index": index, "out": out, **numbers}, (out.size // BLOCK,))
    np.testing.assert_array_equal(out, x.reshape(ROWS, columns)[index].ravel())
    assert bool(found) == is_far
    for program, place in found:
        row = int(index[program * BLOCK // columns])
        assert row * columns * 4 <= place < (row + 1) * columns * 4
