"""Programs that share tiles by turns run side by side, where nothing could tell."""

from __future__ import annotations

import numpy as np
import pytest
from guarded_memory import between_guards

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.cpu.interchange_programs import MAX_PROGRAMS

TAKES = '"cpu.take"'


@tw.jit
def tiles(x_ptr, out_ptr, M, N, x0: int, out0: int, BM: tl.constexpr, BN: tl.constexpr):
    blocks = tl.cdiv(N, BN)
    for tile in range(tl.program_id(0), tl.cdiv(M, BM) * blocks, tl.num_programs(0)):
        m = tile // blocks * BM + tl.arange(0, BM)[:, None]
        n = tile % blocks * BN + tl.arange(0, BN)[None, :]
        inside = (m < M) & (n < N)
        tl.store(out_ptr + m * out0 + n, 2 * tl.load(x_ptr + m * x0 + n, inside) + tile // blocks, inside)


@pytest.mark.parametrize("tile", [(16, 16), (4, 32), (1, 64), (8, 8)])
@pytest.mark.parametrize(("m", "n"), [(64, 128), (50, 203), (3, 5), (17, 16), (0, 40)])
@pytest.mark.parametrize("programs", [1, 2, 5, 8, 200])
@pytest.mark.parametrize("num_threads", [1, 2])
def test_tiles_of_a_matrix(tile, m, n, programs, num_threads):
    x = np.random.default_rng(m).integers(-9, 9, (m, n)).astype(np.float32)
    out = np.full((m + 1, n + 3), 77, np.float32)
    kernel = tiles[(programs,)](x, out, m, n, n, n + 3, BM=tile[0], BN=tile[1], num_threads=num_threads)
    assert TAKES in kernel.asm["ttcir"]
    assert ("iter_args" in kernel.asm["loops"]) == (tile[0] > 1), "only tiles of several rows go on in the next one"
    np.testing.assert_array_equal(out[:m, :n], 2 * x + np.arange(m)[:, None] // tile[0])
    assert (out[m:] == 77).all()
    assert (out[:, n:] == 77).all()


def test_lanes_that_are_masked_off_touch_nothing():
    for x, out in zip(between_guards(60 * 100, np.float32), between_guards(6000, np.float32), strict=True):
        tiles[(5,)](x, out, 60, 100, 100, 100, BM=64, BN=16, num_threads=1)
        np.testing.assert_array_equal(out, 2 * x)


@tw.jit
def latest(out_ptr, turns_ptr, N, B: tl.constexpr):
    """Each program leaves its last tile, and how the one before it looked."""
    for tile in range(tl.program_id(0), N, tl.num_programs(0)):
        at = tile % tl.num_programs(0) * B + tl.arange(0, B)
        tl.store(turns_ptr + at, tl.load(turns_ptr + at) * 3 + tile)
        tl.store(out_ptr + at, tile)


@pytest.mark.parametrize(("programs", "n"), [(4, 11), (7, 7), (9, 3), (1, 6)])
@pytest.mark.parametrize("num_threads", [1, 2])
def test_turns_of_a_program_keep_their_order(programs, n, num_threads):
    out, turns = np.full((programs, 16), -1, np.int32), np.zeros((programs, 16), np.int64)
    kernel = latest[(programs,)](out, turns, n, 16, num_threads=num_threads)
    assert TAKES in kernel.asm["ttcir"]
    for program in range(programs):
        wanted = 0
        for tile in range(program, n, programs):
            wanted = wanted * 3 + tile
        assert (turns[program] == wanted).all()
        assert (out[program] == max(range(program, n, programs), default=-1)).all()


@tw.jit
def in_rows_of_programs(out_ptr, N, B: tl.constexpr):
    for tile in range(tl.program_id(0), N, tl.num_programs(0)):
        tl.store(out_ptr + tl.program_id(1) * N * B + tile * B + tl.arange(0, B), tile + tl.num_programs(0))


def test_more_programs_than_run_side_by_side():
    programs, n = MAX_PROGRAMS + 900, 3 * MAX_PROGRAMS
    out = np.zeros((2, n, 4), np.int32)
    in_rows_of_programs[(programs, 2)](out, n, 4, num_threads=1)
    assert (out == np.arange(n)[:, None] + programs).all()


@tw.jit
def overlapping(x_ptr, N, B: tl.constexpr):
    """A tile is stored one row further than it is loaded: programs are one tile each, side by side."""
    for tile in range(tl.program_id(0), N, tl.num_programs(0)):
        m, n = tl.arange(0, 4)[:, None], tile * B + tl.arange(0, B)[None, :]
        tl.store(x_ptr + (m + 1) * N * B + n, 1 + tl.load(x_ptr + m * N * B + n))


def test_memory_that_a_tile_shares_with_itself():
    x = np.arange(5 * 64).reshape(5, 64)
    wanted = x.copy()
    wanted[1:] = 1 + x[:4]
    overlapping[(3,)](x, 4, 16, num_threads=1)
    np.testing.assert_array_equal(x, wanted)


@tw.jit
def who(x_ptr, out_ptr, N, B: tl.constexpr):
    for tile in range(tl.program_id(0), N, tl.num_programs(0)):
        tl.store(out_ptr + tile * B + tl.arange(0, B), tl.program_id(0))


@tw.jit
def further(x_ptr, out_ptr, N, B: tl.constexpr):
    for tile in range(tl.program_id(0), N, tl.num_programs(0) + 1):
        tl.store(out_ptr + tile * B + tl.arange(0, B), tile)


@tw.jit
def along_y(x_ptr, out_ptr, N, B: tl.constexpr):
    for tile in range(tl.program_id(1), N, tl.num_programs(1)):
        tl.store(out_ptr + tile * B + tl.arange(0, B), tile)


@tw.jit
def counted(x_ptr, out_ptr, N, B: tl.constexpr):
    count = 0
    for tile in range(tl.program_id(0), N, tl.num_programs(0)):
        count = count * 2 + 1
        tl.store(out_ptr + tile * B + tl.arange(0, B), count)


@tw.jit
def atomic(x_ptr, out_ptr, N, B: tl.constexpr):
    for tile in range(tl.program_id(0), N, tl.num_programs(0)):
        tl.store(out_ptr + tile * B + tl.arange(0, B), tl.atomic_add(x_ptr, 1))


@tw.jit
def watching(x_ptr, out_ptr, N, B: tl.constexpr):
    for tile in range(tl.program_id(0), N, tl.num_programs(0)):
        tl.store(out_ptr + tile * B + tl.arange(0, B), tl.load(x_ptr, volatile=True))


@tw.jit
def behind(x_ptr, out_ptr, N, B: tl.constexpr):
    for tile in range(tl.program_id(0), N, tl.num_programs(0)):
        tl.store(out_ptr + tile * B + tl.arange(0, B), tile)
    tl.store(x_ptr, 3)


@tw.jit
def as_far(x_ptr, out_ptr, N, B: tl.constexpr):
    for tile in range(tl.program_id(0), tl.program_id(0) + 5, tl.num_programs(0)):
        tl.store(out_ptr + tile * B + tl.arange(0, B), tile)


def expected(kernel, n, programs):
    """The results of the tiles of `kernel`, with programs in order."""
    found = np.zeros(n, np.int32)
    count, step = 0, programs + (kernel is further)
    for program in range(programs if kernel is not along_y else 1):
        step = 1 if kernel is along_y else step
        turns = range(program, program + 5 if kernel is as_far else n, step)
        for turn, tile in enumerate(turns):
            count += 1
            values = {who: program, counted: 2 ** (turn + 1) - 1, atomic: count - 1, watching: 0}
            found[tile] = values.get(kernel, tile)
    return found


@pytest.mark.parametrize("kernel", [who, further, along_y, counted, atomic, watching, behind, as_far])
def test_what_stays_as_it_is(kernel):
    """Programs that others differ from by more than their tiles, or might be seen by."""
    n, programs = 16, 3
    x, out = np.zeros(16, np.int32), np.zeros((n, 16), np.int32)
    compiled = kernel[(programs,)](x, out, n, 16, num_threads=1)
    assert TAKES not in compiled.asm["ttcir"]
    np.testing.assert_array_equal(out, np.repeat(expected(kernel, n, programs), 16).reshape(n, 16))
