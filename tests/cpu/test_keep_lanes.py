"""Lanes that all rows of a nest share are computed once, where that saves more than it costs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from guarded_memory import between_guards

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.cpu.keep_lanes import keep_lanes
from tilewright.backends.cpu.pipeline import loop_passes
from tilewright.backends.llvm.machine import host_target
from tilewright.dialects.scf import For, Parallel
from tilewright.dialects.vector import Alloca
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.pass_manager import run_passes
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify

UNTOUCHED = 5
"""The content of memory that must not be written."""


@tw.jit
def shifted(
    x, out, places, width: int, height: int, channels: int, features: int, N: int, ky: int, taps: int,
    B: tl.constexpr, C: tl.constexpr, HOW: tl.constexpr = "",
):
    """out[tap, feature, pixel] = the pixel (ky, tap - 1) further of channel `feature` of an image, 0 outside."""
    pixel, channel = tl.program_id(0) * B + tl.arange(0, B), tl.arange(0, C)
    row, column = pixel // width, pixel % width
    for tap in range(taps):
        y, right = row + ky, column + (tap - 1)
        inside = (pixel < N) & (y >= 0) & (y < height) & (right >= 0) & (right < width)
        where = (y * width + right)[None, :] + channel[:, None] * N
        if HOW == "loaded":
            where = tl.load(places + pixel, pixel < N, 0)[None, :] + channel[:, None] * N
        if HOW == "rows":
            where = (pixel[None, :] + channel[:, None]) % width
        value = tl.load(x + where, inside[None, :] & (channel < channels)[:, None], 0)
        at = out + tap * features * N + pixel[None, :] + channel[:, None] * N
        tl.store(at, value, (pixel < N)[None, :] & (channel < features)[:, None])


def expected_of(x: np.ndarray, width: int, height: int, channels: int, features: int, ky: int, taps: int) -> np.ndarray:
    padded = np.zeros((features, height + 8, width + 8), x.dtype)
    images = x.reshape(channels, height, width)[:features]
    padded[:channels, 4 : 4 + height, 4 : 4 + width] = images
    parts = [padded[:, 4 + ky : 4 + ky + height, 3 + tap : 3 + tap + width] for tap in range(taps)]
    return np.stack(parts).reshape(-1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int8])
@pytest.mark.parametrize(("width", "height"), [(16, 4), (7, 9), (1, 40), (33, 2), (64, 1)])
@pytest.mark.parametrize(("channels", "features"), [(1, 1), (3, 3), (8, 5), (7, 8)])
@pytest.mark.parametrize("end", [0, 1])
def test_images_of_every_width(dtype: Any, width: int, height: int, channels: int, features: int, end: int) -> None:
    """Memory begins or ends at a page that nobody may touch."""
    n, ky = width * height, (height + features) % 3 - 1
    x = between_guards(channels * n, dtype)[end]
    x[::3] = np.nan if np.dtype(dtype).kind == "f" else -1
    out = between_guards(3 * features * n, dtype)[end]
    out[:] = UNTOUCHED
    shifted[(-(-n // 32),)](x, out, out, width, height, channels, features, n, ky, 3, B=32, C=8)
    np.testing.assert_array_equal(out, expected_of(x, width, height, channels, features, ky, 3))


@pytest.mark.parametrize("features", [0, -3])
def test_without_rows_nothing_is_read_or_written(features: int) -> None:
    x, out = np.ones(64, np.float32), np.full(64, UNTOUCHED, np.float32)
    shifted[(1,)](x, out, out, 8, 4, features, features, 32, 0, 2, B=32, C=8)
    assert (out == UNTOUCHED).all()


def test_a_result_in_the_place_of_the_operand() -> None:
    """All of a tile is read before any of it is written."""
    x = np.random.default_rng(0).standard_normal(8 * 40).astype(np.float32)
    expected = expected_of(x, 8, 5, 8, 8, 0, 1)
    shifted[(2,)](x, x, x, 8, 5, 8, 8, 40, 0, 1, B=32, C=8)
    np.testing.assert_array_equal(x[:32], expected[:32])


def loops(how: str = "", pixels: int = 32) -> Op:
    """The module in front of the pass."""
    x, places = np.zeros(64, np.float32), np.zeros(64, np.int32)
    given = (x, x, places, 7, 7, 3, 3, 49, 1, 3)
    module = parse_module(shifted.warmup(*given, grid=(1,), B=pixels, C=8, HOW=how).asm["ttcir"])
    steps = loop_passes(host_target())
    run_passes(module, steps[: [step.name for step in steps].index("keep_lanes")])
    return module


def stacks(module: Op) -> int:
    return sum(isinstance(op, Alloca) and "unread" not in op.attributes for op in module.walk())


def test_both_ways_compute_the_same() -> None:
    x = np.random.default_rng(1).standard_normal(512).astype(np.float32)
    found = []
    for is_kept in (False, True):
        module = loops()
        if is_kept:
            assert keep_lanes(module)
            verify(module)
            assert stacks(module) > 0
        out = np.full(512, UNTOUCHED, np.float32)
        run_ir(module, [x, out, np.zeros(64, np.int32), 7, 4, 5, 6, 28, 1, 2])
        found.append(out)
    np.testing.assert_array_equal(found[1], found[0])
    assert (found[0] != UNTOUCHED).any()


def test_rows_do_no_division_and_ask_nothing() -> None:
    module = loops()
    keep_lanes(module)
    rows = [op for op in module.walk() if isinstance(op, For) and any(isinstance(o, Parallel) for o in op.body)]
    names = [op.name for row in rows for op in row.walk()]
    assert "vector.gather" in names
    assert not {"vector.reduction", "arith.divsi", "arith.remsi", "arith.extui"} & set(names)


@pytest.mark.parametrize("how", ["loaded", "rows"])
def test_lanes_that_differ_or_are_loaded_are_not_kept(how: str) -> None:
    module = loops(how)
    before = print_op(module).count("vector.gather")
    keep_lanes(module)
    assert print_op(module).count("vector.gather") == before
    assert stacks(module) == 0


def test_rows_that_are_too_long_for_the_stack_are_not_kept() -> None:
    assert stacks_of(256) > 0
    assert stacks_of(2048) == 0


def stacks_of(pixels: int) -> int:
    module = loops(pixels=pixels)
    keep_lanes(module)
    return stacks(module)


def text_of(
    row: str = "",
    turn: str = "",
    mark: str = "{cpu.rows = 64 : i64}",
    work: int = 12,
    end: str = "%c64",
    ends: str = "",
) -> Op:
    """Rows whose lanes do `work` multiplications, up to the lane `end`, which `ends` may compute."""
    chain = "\n".join(f"%v{n + 1} = arith.muli %v{n}, %v{n} : vector<8xi32>" for n in range(work))
    module = parse_module(f"""
    tt.func public @kernel(%x: !tt.ptr<i32>, %out: !tt.ptr<i32>, %rows: i64) {{
      %c0 = arith.constant 0 : i64
      %c1 = arith.constant 1 : i64
      %c8 = arith.constant 8 : i64
      %c64 = arith.constant 64 : i64
      {ends}
      scf.for %r = %c0 to %rows step %c1 : i64 {{
        %shift = arith.muli %r, %c64 : i64
        %to = tt.addptr %out, %shift : !tt.ptr<i32>, i64
        {row}
        scf.parallel %i = %c0 to {end} step %c8 : i64 {{
          %p = tt.addptr %x, %i : !tt.ptr<i32>, i64
          %v0 = vector.load %p[%c0] : !tt.ptr<i32> -> vector<8xi32>
          {chain}
          {turn}
          %q = tt.addptr %to, %i : !tt.ptr<i32>, i64
          vector.store %v{work}, %q[%c0] : !tt.ptr<i32>, vector<8xi32>
        }}
      }} {mark}
      tt.return
    }}""")
    verify(module)
    return module


@pytest.mark.parametrize(("changes", "is_kept"), [
    ({}, True),
    ({"mark": ""}, False),  # a loop of the program's own, whose turns have an order
    ({"work": 3}, False),
    ({"row": "vector.store %shift, %to[%c0] : !tt.ptr<i32>, i64"}, False),
    ({"turn": "vector.store %v1, %p[%c0] : !tt.ptr<i32>, vector<8xi32>"}, True),
    ({"end": "%last", "ends": "%last = arith.minsi %rows, %c64 : i64"}, True),  # the mask of all rows ends there
    ({"end": "%last", "row": "%last = arith.minsi %r, %c64 : i64"}, False),
])
def test_only_marked_rows_of_one_loop_that_compute_much_are_changed(changes: dict[str, Any], is_kept: bool) -> None:
    module = text_of(**changes)
    keep_lanes(module)
    verify(module)
    assert (stacks(module) > 0) == is_kept
    assert "cpu.rows" not in print_op(module)


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_rows_of_any_number(rows: int) -> None:
    x = np.arange(64, dtype=np.int32)
    found = []
    for is_kept in (False, True):
        module, out = text_of(), np.full(256, UNTOUCHED, np.int32)
        if is_kept:
            keep_lanes(module)
        run_ir(module, [x, out, rows])
        found.append(out)
    np.testing.assert_array_equal(found[1], found[0])
    assert (found[1][: 64 * rows] == np.tile(x ** (1 << 12), rows)).all() or rows == 0
    assert (found[1][64 * rows :] == UNTOUCHED).all()


def test_without_rows_what_they_share_is_not_read() -> None:
    """The interpreter refuses what lies outside of an array."""
    module, nothing = text_of(), np.zeros(0, np.int32)
    keep_lanes(module)
    run_ir(module, [nothing, nothing, 0])
    with pytest.raises(Exception, match="out"):
        run_ir(module, [nothing, nothing, 1])


@tw.jit
def widened(x, out, start, n, HOW: tl.constexpr, B: tl.constexpr):
    """Places of 32 bits in a tile of rows, which may wrap if they are stored, too."""
    row, lane = tl.arange(0, 2), tl.arange(0, B)
    number = (row * start)[:, None] + (lane % n)[None, :]
    if HOW == "stored":
        tl.store(out + row[:, None] * B + lane[None, :], number.to(tl.int64))
    else:
        tl.store(out + row[:, None] * B + lane[None, :], tl.load(x + number))


def test_a_sum_that_is_stored_wraps() -> None:
    out = np.zeros((2, 16), np.int64)
    start = 2**31 - 3
    widened[(1,)](out, out, start, 7, HOW="stored", B=16)
    number = (np.arange(2, dtype=np.int32) * np.int32(start))[:, None] + (np.arange(16, dtype=np.int32) % 7)[None, :]
    np.testing.assert_array_equal(out, number)


def test_a_sum_that_is_a_place() -> None:
    x = np.random.default_rng(3).integers(0, 99, 64)
    out = np.zeros((2, 16), np.int64)
    widened[(1,)](x, out, 40, 7, HOW="", B=16)
    np.testing.assert_array_equal(out, x[np.arange(2)[:, None] * 40 + np.arange(16) % 7])
