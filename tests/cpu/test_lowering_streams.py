"""Large outputs bypass the caches: the same values arrive, whatever the alignment, and small grids do not pay."""

import numpy as np
import pytest
from pass_kernels import loops_of

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.llvm.machine import host_target
from tilewright.transforms.matching import integer_of

N = 4_200_001  # 16.8 MB of fp32: more than the bound from which stores bypass the caches


@tw.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    y = tl.load(y_ptr + offsets, mask=inside)
    tl.store(out_ptr + offsets, x + y, mask=inside)


@pytest.mark.parametrize("shift", [0, 1, 4])
@pytest.mark.parametrize("num_threads", [1, 2])
@pytest.mark.parametrize("in_place", [False, True])
def test_large_sums(shift, num_threads, in_place):
    x = np.arange(N + 8, dtype=np.float32)[shift : shift + N]
    y = np.full(N, 0.5, np.float32)
    expected = x + y
    out = x if in_place else np.zeros(N + 8, np.float32)[shift : shift + N]
    add[(tw.cdiv(N, 2048),)](x, y, out, N, BLOCK=2048, num_threads=num_threads)
    np.testing.assert_array_equal(out, expected)


def placed_at(remainder):
    """N zeros at an address of that remainder modulo 4096."""
    memory = np.zeros(4 * N + 4096, np.uint8)
    start = (remainder - memory.ctypes.data) % 4096
    return memory[start : start + 4 * N].view(np.float32)


@pytest.mark.parametrize("n", [N, 10_000])
@pytest.mark.parametrize("ahead", [(64, 64), (0, 320), (4032, 3840), (64, 4032)])
def test_outputs_near_inputs_modulo_a_page(ahead, n):
    """Chunks run forwards, backwards, or do not bypass the caches: by how far the output is ahead of each input."""
    out, x, y = placed_at(0), placed_at(-ahead[0]), placed_at(-ahead[1])
    x[:], y[:] = np.arange(N), np.arange(N)[::-1] * 0.5
    add[(tw.cdiv(n, 2048),)](x, y, out, n, BLOCK=2048, num_threads=1)
    np.testing.assert_array_equal(out[:n], x[:n] + y[:n])
    assert not out[n:].any()


@pytest.mark.skipif(not host_target().costs.streams_from, reason="code for x86")
def test_both_ways_of_storing_are_compiled():
    x = np.zeros(64, np.float32)
    for block in (32, 128, 256):
        kernel = add.warmup(x, x, x, 64, BLOCK=block, grid=(1,))
        llir = kernel.asm["llir"]
        assert "!nontemporal" in llir
        assert "llvm.x86.sse.sfence" in llir
    assert "!nontemporal" not in add.warmup(x, x, x, 64, BLOCK=8, grid=(1,)).asm["llir"], "less than a cache line"


@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize("block", [16, 128])
def test_large_sums_of_small_tiles(block, shift):
    x = np.arange(N + 8, dtype=np.float32)[shift : shift + N]
    out = np.zeros(N + 8, np.float32)[shift : shift + N]
    add[(tw.cdiv(N, block),)](x, x, out, N, BLOCK=block, num_threads=1)
    np.testing.assert_array_equal(out, x + x)


@tw.jit
def narrow(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets % 1024).to(tl.int8))


def test_vectors_shorter_than_the_alignment_of_arrays():
    """Eight bytes at a time: a chunk of 64-bit numbers, stored as bytes."""
    x = np.arange(1024)
    out = np.zeros(17 << 20, np.int8)
    narrow[(out.size // 512,)](x, out, BLOCK=512, num_threads=1)
    np.testing.assert_array_equal(out.reshape(-1, 1024), np.broadcast_to(x.astype(np.int8), (17 << 10, 1024)))


@tw.jit
def tiles(x_ptr, out_ptr, M, N, stride, B: tl.constexpr):
    r, c = tl.program_id(0) * B + tl.arange(0, B), tl.program_id(1) * B + tl.arange(0, B)
    inside = (r < M)[:, None] & (c < N)[None, :]
    x = tl.load(x_ptr + r[:, None] * stride + c[None, :], inside)
    tl.store(out_ptr + r[:, None] * stride + c[None, :], 2 * x + 1, inside)


def ops_of(block, name):
    """The ops of that name in the vector loops of tiles of `block` by `block`."""
    x = np.zeros((64, 64), np.float32)
    module = loops_of(tiles, (x, x, 64, 64, 64), "x86-64-v3", B=block)
    return [op for op in module.walk() if op.name == name]


@pytest.mark.parametrize(("stride", "shift"), [(2080, 0), (2080, 3), (2052, 0), (2051, 1)])
@pytest.mark.parametrize("block", [16, 32, 64])
@pytest.mark.parametrize("apart", [True, False])
def test_rows_of_tiles(block, stride, shift, apart):
    """Rows begin at cache lines, or elsewhere; where they overlap what is loaded, they go through a buffer."""
    rows, columns = 2100, 2050
    memory = np.zeros(rows * stride + 64, np.float32)
    start = -memory.ctypes.data % 64 // 4 + shift
    out = memory[start : start + rows * stride].reshape(rows, stride)
    x = np.arange(rows * stride, dtype=np.float32).reshape(rows, stride) if apart else out
    x[:] = np.arange(rows * stride).reshape(rows, stride) % 1001
    expected = 2 * x[:, :columns] + 1
    grid = tw.cdiv(rows, block), tw.cdiv(columns, block)
    tiles[grid](x, out, rows, columns, stride, B=block, num_threads=1)
    np.testing.assert_array_equal(out[:, :columns], expected)


def test_short_rows_of_tiles_are_stored_as_whole_cache_lines():
    """Each row asks whether it begins at a cache line; rows of half a line bypass the caches with others only."""
    assert any("nontemporal" in op.attributes for op in ops_of(16, "vector.store"))
    assert any(integer_of(op.rhs) == 63 for op in ops_of(16, "arith.andi"))
    assert not any(integer_of(op.rhs) == 63 for op in ops_of(8, "arith.andi"))


@tw.jit
def powers(x_ptr, out_ptr, ROWS: tl.constexpr, X: tl.constexpr):
    places = tl.arange(0, ROWS)[:, None] * X * 2 + tl.arange(0, X)[None, :]
    x = tl.load(x_ptr + places)
    for _ in tl.static_range(8):
        x = tl.exp(x) - 1
    tl.store(out_ptr + places, x)


@pytest.mark.skipif(not host_target().costs.streams_from, reason="code for x86")
@pytest.mark.parametrize(("width", "turns_back"), [(32, False), (1024, True)])
def test_rows_of_few_vectors_have_no_order(width, turns_back):
    """Comparing where a row lies takes longer than its vectors wait for one another."""
    x, out = np.zeros((8, 2 * width), np.float32), np.ones((8, 2 * width), np.float32)
    kernel = powers[(1,)](x, out, ROWS=8, X=width)
    assert ("arith.xori" in kernel.asm["loops"]) == turns_back
    np.testing.assert_array_equal(out[:, :width], 0)
    np.testing.assert_array_equal(out[:, width:], 1)


@tw.jit
def interleaved(x_ptr, out_ptr, n, MOVES: tl.constexpr, BLOCK: tl.constexpr):
    for tile in range(tl.program_id(0), tl.cdiv(n, BLOCK), tl.num_programs(0)):
        at = tile * BLOCK + tl.arange(0, BLOCK)
        to = at if MOVES else tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out_ptr + to, tl.load(x_ptr + at, at < n) + 1.0, at < n)


def test_tiles_of_a_loop():
    x, out = np.arange(N, dtype=np.float32), np.zeros(N + 16, np.float32)
    interleaved[(7,)](x, out, N, MOVES=True, BLOCK=512, num_threads=1)
    np.testing.assert_array_equal(out[:N], x + 1)
    assert not out[N:].any()


@pytest.mark.skipif(not host_target().costs.streams_from, reason="code for x86")
def test_tiles_of_a_loop_bypass_the_caches_where_each_turn_has_another_place():
    x = np.zeros(64, np.float32)
    moving, standing = (interleaved.warmup(x, x, 64, MOVES=moves, BLOCK=512, grid=(1,)) for moves in (True, False))
    assert "!nontemporal" in moving.asm["llir"]
    assert "vector.prefetch" in moving.asm["loops"], "the next turn's tile is asked for"
    assert "!nontemporal" not in standing.asm["llir"]
