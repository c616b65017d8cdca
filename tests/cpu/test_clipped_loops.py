"""How far loops along a row go: to the end of a mask where nothing beyond it counts, through all lanes elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pass_kernels
import pytest

import tilewright as tw
import tilewright.language as tl
from lowered_code import code_on
from tilewright.backends.cpu.nest import inner
from tilewright.dialects.scf import For
from tilewright.interpreter.machine import Interpreter
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.core import Block, Op
from tilewright.ir.errors import VerificationError
from tilewright.ir.parser import parse_module
from tilewright.ir.verifier import verify
from tilewright.transforms.matching import integer_of

TILE, W = 1024, 16
CHUNKS = TILE // W
Array = np.ndarray[Any, Any]


@tw.jit
def softmax(x, out, n, TILE: tl.constexpr):
    column = tl.arange(0, TILE)
    values = tl.load(x + column, mask=column < n, other=-float("inf"))
    parts = tl.exp(values - tl.max(values, 0))
    tl.store(out + column, parts / tl.sum(parts, 0), mask=column < n)


@tw.jit
def layer_norm(x, out, n, TILE: tl.constexpr):
    column = tl.arange(0, TILE)
    values = tl.load(x + column, mask=column < n, other=0.0)
    centred = tl.where(column < n, values - tl.sum(values, 0) / n, 0.0)
    tl.store(out + column, centred * tl.rsqrt(tl.sum(centred * centred, 0) / n), mask=column < n)


@tw.jit
def normed_activation(x, out, n, TILE: tl.constexpr):
    column = tl.arange(0, TILE)
    values = tl.load(x + column, mask=column < n, other=0.0)
    values = values * tl.sigmoid(values)
    centred = tl.where(column < n, values - tl.sum(values, 0) / n, 0.0)
    tl.store(out + column, values * tl.sum(centred * centred, 0), mask=column < n)


@tw.jit
def cross_entropy(x, out, n, TILE: tl.constexpr):
    column = tl.arange(0, TILE)
    values = tl.load(x + column, mask=column < n, other=-float("inf"))
    top = tl.max(values, 0)
    tl.store(out, tl.log(tl.sum(tl.exp2((values - top) * 1.44269504), 0)) + top)


@tw.jit
def sum_of(x, out, n, OTHER: tl.constexpr, TILE: tl.constexpr):
    column = tl.arange(0, TILE)
    tl.store(out, tl.sum(tl.load(x + column, mask=column < n, other=OTHER), 0))


@tw.jit
def largest(x, out, n, OTHER: tl.constexpr, TILE: tl.constexpr):
    column = tl.arange(0, TILE)
    tl.store(out, tl.max(tl.load(x + column, mask=column < n, other=OTHER), 0))


@tw.jit
def kept_whole(x, out, n, TILE: tl.constexpr):
    """Values that a later loop reads in each lane are written for each lane."""
    column = tl.arange(0, TILE)
    parts = tl.exp(tl.load(x + column, mask=column < n, other=0.0))
    tl.store(out + column, parts / tl.max(parts, 0))


@tw.jit
def kept_turned(x, out, n, TILE: tl.constexpr):
    """The lanes in front of the end read those behind it."""
    column = tl.arange(0, TILE)
    parts = tl.exp(tl.load(x + column, mask=column < n, other=0.0))
    turned = tl.reshape(tl.trans(tl.reshape(parts, (32, TILE // 32))), (TILE,))
    tl.store(out + column, turned / tl.max(parts, 0), mask=column < n)


@tw.jit
def kept_further(x, out, n, TILE: tl.constexpr):
    """A maximum ends early, what is stored later ends late."""
    column = tl.arange(0, TILE)
    parts = tl.exp(tl.load(x + column, mask=column < n, other=0.0))
    tl.store(out + column, parts / tl.max(parts, 0), mask=column < 2 * n)


@tw.jit
def bounds_from_sums(x, out, n, TILE: tl.constexpr):
    """How far a later loop goes is not known yet when the first one of the row begins."""
    row, column = tl.arange(0, 2)[:, None], tl.arange(0, TILE // 2)[None, :]
    parts = tl.exp(tl.load(x + row * (TILE // 2) + column, mask=column < n, other=-float("inf")))
    chosen = tl.where(column < tl.sum(parts, 1).to(tl.int32)[:, None], parts, 0.0)
    tl.store(out + tl.arange(0, 2), tl.sum(chosen, 1))


@tw.jit
def two_bounds(x, out, n, TILE: tl.constexpr):
    column = tl.arange(0, TILE)
    left = tl.load(x + column, mask=column < n, other=0.0)
    tl.store(out, tl.sum(tl.load(x + column, mask=column < 2 * n, other=left) + left, 0))


@tw.jit
def positions(x, out, n, TILE: tl.constexpr):
    column = tl.arange(0, TILE)
    tl.store(out, tl.max(tl.load(x + column, mask=column < n, other=0.0) + column, 0))


@tw.jit
def loaded_mask(x, out, n, TILE: tl.constexpr):
    column = tl.arange(0, TILE)
    tl.store(out, tl.sum(tl.load(x + column, mask=tl.load(out + column) > 0, other=0.0), 0))


@tw.jit
def largest_place(x, out, n, TILE: tl.constexpr):
    column = tl.arange(0, TILE)
    tl.store(out, tl.argmax(tl.load(x + column, mask=column < n, other=-float("inf")), 0).to(tl.float32))


@tw.jit
def stored_whole(x, out, n, TILE: tl.constexpr):
    column = tl.arange(0, TILE)
    values = tl.load(x + column, mask=column < n, other=0.0)
    tl.store(out + column, values)
    tl.store(out, tl.sum(values, 0))


@tw.jit
def fused_or_not(x, out, n, TILE: tl.constexpr):
    """0.1 · 0.1 less its rounded value is zero only where the product is rounded."""
    column = tl.arange(0, TILE)
    values = tl.load(x + column, mask=column < n, other=0.1)
    tl.store(out, tl.sum(values * values - 0.1 * 0.1, 0))


@tw.jit
def shown_later(x, out, n, TILE: tl.constexpr):
    """The store of one number may change `x`, so the row is kept for the nest behind it."""
    column = tl.arange(0, TILE)
    values = tl.load(x + column, mask=column < n, other=0.0)
    tl.store(out, tl.sum(values, 0))
    tl.store(out + column, values * 0.5, mask=column < n)


@tw.jit
def shown_further(x, out, n, TILE: tl.constexpr):
    column, end = tl.arange(0, TILE), 2 * n
    values = tl.load(x + column, mask=column < n, other=1.0)
    tl.store(out, tl.max(values, 0))
    tl.store(out + column, values * 0.5, mask=column < end)


@tw.jit
def shown_as_far_as_is_known_later(x, out, n, TILE: tl.constexpr):
    column = tl.arange(0, TILE)
    values = tl.load(x + column, mask=column < n, other=1.0)
    tl.store(out, tl.max(values, 0))
    tl.store(out + column, values * 0.5, mask=column < 2 * n)


@tw.jit
def shown_whole(x, out, n, TILE: tl.constexpr):
    column = tl.arange(0, TILE)
    values = tl.load(x + column, mask=column < n, other=1.0)
    tl.store(out, tl.max(values, 0))
    tl.store(out + column, values)
    tl.store(out + column, values * 0.5, mask=column < n)


@tw.jit
def shown_by_a_sum(x, out, n, TILE: tl.constexpr):
    column = tl.arange(0, TILE)
    values = tl.load(x + column, mask=column < n, other=1.0)
    tl.store(out, tl.max(values, 0))
    tl.store(out + column, values * 0.5, mask=column < n)
    tl.store(out + 1, tl.sum(values, 0))


@tw.jit
def shown_turned(x, out, n, TILE: tl.constexpr):
    column = tl.arange(0, TILE)
    values = tl.load(x + column, mask=column < n, other=1.0)
    tl.store(out, tl.max(values, 0))
    turned = tl.reshape(tl.trans(tl.reshape(values, (32, TILE // 32))), (TILE,))
    tl.store(out + column, turned * 0.5, mask=column < n)


@tw.jit
def shown_by_turns(x, out, n, TILE: tl.constexpr):
    """Each turn of the loop shows more of the row."""
    column = tl.arange(0, TILE)
    values = tl.load(x + column, mask=column < n, other=1.0)
    tl.store(out, tl.max(values, 0))
    for turn in range(1, 3):
        tl.store(out + column, values * turn, mask=column < n * turn)


@tw.jit
def shown_where_it_is_loaded(x, out, n, TILE: tl.constexpr):
    """Whether a lane is shown is known when it is."""
    column = tl.arange(0, TILE)
    values = tl.load(x + column, mask=column < n, other=1.0)
    tl.store(out, tl.max(values, 0))
    tl.store(out + column, values * 0.5, mask=column < tl.load(out + 1).to(tl.int32))


@tw.jit
def shown_as_sums_of_rows(x, out, n, TILE: tl.constexpr):
    """Columns stay apart."""
    row, column = tl.arange(0, 4)[:, None], tl.arange(0, TILE)[None, :]
    total = tl.zeros((4, TILE), tl.float32)
    for turn in range(tl.minimum(n // 20, 2)):
        total += tl.load(x + row * 0 + column, mask=column < n - turn, other=1.0)
    tl.store(out + column, tl.sum(total, 0)[None, :], mask=column < n)


@tw.jit
def shown_as_sums_of_columns(x, out, n, TILE: tl.constexpr):
    """Every number of a row is in its sum, whichever sums are shown."""
    row, column = tl.arange(0, 4), tl.arange(0, TILE)[None, :]
    total = tl.zeros((4, TILE), tl.float32)
    for turn in range(n // 20):
        total += tl.load(x + row[:, None] * 0 + column, mask=column < n - turn, other=1.0)
    tl.store(out + row, tl.sum(total, 1), mask=row < n)


@tw.jit
def shown_as_sums_of_both(x, out, n, TILE: tl.constexpr):
    row, column = tl.arange(0, 4), tl.arange(0, TILE)[None, :]
    total = tl.zeros((4, TILE), tl.float32)
    for turn in range(n // 20):
        total += tl.load(x + row[:, None] * 0 + column, mask=column < n - turn, other=1.0)
    tl.store(out + column, tl.sum(total, 0)[None, :], mask=column < n)
    tl.store(out + row, tl.sum(total, 1))


def loops_of(kernel: Any, tile: int = TILE, **constants: Any) -> Op:
    """The vector loops of a kernel for W lanes."""
    x = np.zeros(tile, np.float32)
    return pass_kernels.loops_of(kernel, (x, x, 40), "x86-64-v4", TILE=tile, **constants)


def chunks_run(module: Op, n: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of vectors of W lanes that each loop over lanes goes through for rows of `n`."""
    turns: Counter[For] = Counter()
    run_block = Interpreter.run_block

    def counting(machine: Interpreter, block: Block, arguments: Sequence[Any]) -> Any:
        loop = block.region.op if block.region is not None else None
        if isinstance(loop, For):
            turns[loop] += 1
        return run_block(machine, block, arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Interpreter, "run_block", counting)
        run_ir(module, [np.ones(TILE, np.float32), np.ones(TILE, np.float32), n])
    counts = {loop: count * (integer_of(loop.step) or 0) // W for loop, count in turns.items()}
    behind = {loop.high: loop for loop in turns if integer_of(loop.high) is None}
    for loop in list(counts):  # whole chunks come first, in a loop of their own
        if (first := behind.get(loop.low)) is not None:
            counts[first] += counts.pop(loop)
    return [count for count in counts.values() if count]


@pytest.mark.parametrize("kernel", [softmax, layer_norm, normed_activation, cross_entropy])
@pytest.mark.parametrize(("n", "chunks"), [(-5, 1), (0, 1), (1, 1), (W - 1, 1), (W, 2), (40, 3), (TILE - 1, CHUNKS)])
@code_on("neoverse-v1")
def test_reductions_end_with_the_mask(kernel: Any, n: int, chunks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lane beyond the mask is taken in, for all others; stores that follow need none."""
    stores = [-(-n // W)] if kernel is not cross_entropy and n > 0 else []
    assert chunks_run(loops_of(kernel), n, monkeypatch) == [chunks] * 2 + stores


def test_no_loop_leaves_the_tile(monkeypatch: pytest.MonkeyPatch) -> None:
    """One mask ends in the tile, the other one far behind it."""
    for n in (TILE - 1, TILE // 2):
        assert chunks_run(loops_of(two_bounds), n, monkeypatch) == [CHUNKS]


@pytest.mark.parametrize("other", [0.0, -0.0, float("inf"), float("nan")])
def test_a_sum_of_what_adds_up_to_itself_ends(other: float, monkeypatch: pytest.MonkeyPatch) -> None:
    assert chunks_run(loops_of(sum_of, OTHER=other), 40, monkeypatch) == [3]


def test_a_sum_of_ones_counts_all_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    for other in (1.0, -1.0, 1e-30):
        assert chunks_run(loops_of(sum_of, OTHER=other), 40, monkeypatch) == [CHUNKS]


def test_a_maximum_ends_whatever_lies_beyond(monkeypatch: pytest.MonkeyPatch) -> None:
    for other in (1.0, 3.5, -float("inf"), float("inf"), float("nan")):
        assert chunks_run(loops_of(largest, OTHER=other), 40, monkeypatch) == [3]


@pytest.mark.parametrize(
    ("kernel", "chunks"),
    [
        (kept_whole, [CHUNKS, CHUNKS]),
        (kept_turned, [CHUNKS, 3]),
        (kept_further, [6, 5]),
        (bounds_from_sums, [CHUNKS, 14]),  # 40 e of 512 lanes in each of two rows
        (two_bounds, [6]),
        (positions, [CHUNKS]),
        (loaded_mask, [CHUNKS]),
        (largest_place, [CHUNKS - 1]),  # the first one stands in front of the loop
        (stored_whole, [CHUNKS]),
        (fused_or_not, [CHUNKS]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_is_needed_further_on_is_computed(kernel: Any, chunks: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    assert chunks_run(loops_of(kernel), 40, monkeypatch) == chunks


@pytest.mark.parametrize(
    ("kernel", "chunks"),
    [
        (shown_later, [3, 3]),
        (shown_further, [6, 5]),
        (shown_as_far_as_is_known_later, [CHUNKS, 5]),
        (shown_whole, [CHUNKS, CHUNKS]),
        (shown_by_a_sum, [CHUNKS, CHUNKS]),
        (shown_turned, [CHUNKS, 3]),
        (shown_by_turns, [CHUNKS, 8]),
        (shown_where_it_is_loaded, [CHUNKS, 1]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_row_is_kept_as_far_as_it_is_shown(kernel: Any, chunks: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    assert chunks_run(loops_of(kernel), 40, monkeypatch) == chunks


@pytest.mark.parametrize(
    ("kernel", "chunks"),
    [(shown_as_sums_of_rows, 3), (shown_as_sums_of_columns, CHUNKS), (shown_as_sums_of_both, CHUNKS)],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_sums_along_rows_keep_columns_apart(kernel: Any, chunks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two turns of four rows."""
    assert 2 * 4 * chunks in chunks_run(loops_of(kernel), 40, monkeypatch)


def test_only_a_mask_that_is_a_prefix_ends_a_loop() -> None:
    """The interpreter of tiles says so; `on` is on where a bit of the lane's number is zero."""
    module = parse_module("""
    tt.func public @kernel(%x: !tt.ptr<f32>, %n: i32) {
      "cpu.nest"() <{mode = rows, outer = array<i64>}> ({
        %i = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
        %number = tt.splat %n : i32 -> tensor<8xi32>
        %bit = arith.andi %i, %number : tensor<8xi32>
        %zero = arith.constant dense<0> : tensor<8xi32>
        %on = arith.cmpi eq, %bit, %zero : tensor<8xi32>
        "cpu.clip"(%on) <{axes = array<i64: 0>, extent = 8 : i64, phase = 0 : i64}> : (tensor<8xi1>) -> ()
        "cpu.yield"() : () -> ()
      }) : () -> ()
      tt.return
    }""")
    verify(module)
    run_ir(module, [np.zeros(8, np.float32), 4])
    with pytest.raises(VerificationError, match=r"cpu\.clip: the mask that ends a loop is on again"):
        run_ir(module, [np.zeros(8, np.float32), 1])


SHORT = TILE // 4
"""The lanes of tiles whose loops are compared: 16 vectors, two turns of eight sums side by side."""


@cache
def clipped_and_whole(kernel: Any, other: str) -> tuple[Op, Op]:
    """The loops of a kernel, and those that go through all lanes."""
    constants = {"OTHER": float(other)} if other else {}
    clipped = loops_of(kernel, SHORT, **constants)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inner, "end_of_loop", lambda c, nest, sinks, extent, outer, width: extent)
        return clipped, loops_of(kernel, SHORT, **constants)


LENGTHS = (-1, 0, 1, W - 1, W, W + 1, 40, SHORT - 1, SHORT)
SPECIAL = (1.0, -0.0, np.inf, -np.inf, np.nan)


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize(
    ("kernel", "other"),
    [
        *((kernel, "") for kernel in (shown_later, shown_further, shown_whole, shown_by_a_sum, shown_by_turns)),
        (shown_as_sums_of_rows, ""),
        (softmax, ""),
        (layer_norm, ""),
        (normed_activation, ""),
        (cross_entropy, ""),
        *((kernel, other) for kernel in (sum_of, largest) for other in ("0.0", "-0.0", "nan", "2.5")),
    ],
)
def test_results_have_the_bits_of_whole_loops(kernel: Any, other: str, n: int) -> None:
    """NaN, infinities and both zeros in the row, two of them for each length, in turn.

    Each lane adds up the same numbers in the same order.
    """
    clipped, whole = clipped_and_whole(kernel, other)
    ordinary = np.random.default_rng(5).standard_normal(SHORT).astype(np.float32)
    place = 2 * LENGTHS.index(n)
    for special in (SPECIAL[place % len(SPECIAL)], SPECIAL[(place + 1) % len(SPECIAL)]):
        x = np.where(ordinary > 0.5, ordinary, np.float32(special)).astype(np.float32)
        x = np.full(SHORT, special, np.float32) if special == 0 else x
        found, expected = np.full((2, SHORT), -8, np.float32)
        run_ir(clipped, [x, found, n])
        run_ir(whole, [x, expected, n])
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))
