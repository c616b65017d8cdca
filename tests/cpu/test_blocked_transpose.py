"""Tiles that are stored along another axis than they are loaded go through registers in squares."""

from itertools import product

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from long_runs import LONG
from lowered_code import code_on
from tilewright.backends.cpu.blocked_transpose import blocked_transpose
from tilewright.backends.llvm.machine import host_target
from tilewright.dialects.cpu import GuardedStore, Nest
from tilewright.dialects.tt_memory import Load, Store
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.parser import parse_module
from tilewright.ir.verifier import verify


@tw.jit
def store_across(x_ptr, bias_ptr, out_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    """out[n, m] = 2 x[m, n] + bias[n] + m, or less above the diagonal."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    inside = (m[:, None] < M) & (n[None, :] < N)
    x = tl.load(x_ptr + m[:, None] * N + n[None, :], mask=inside, other=0)
    bias = tl.load(bias_ptr + n, mask=n < N, other=0)
    value = tl.where(m[:, None] < n[None, :], x, 2 * x) + bias[None, :] + m[:, None].to(x.dtype)
    tl.store(out_ptr + n[None, :] * M + m[:, None], value, mask=inside)


@tw.jit
def load_across(x_ptr, bias_ptr, out_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    """The same by tl.trans, stored along the inner axis."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    x = tl.load(x_ptr + m[:, None] * N + n[None, :], mask=(m[:, None] < M) & (n[None, :] < N), other=0)
    bias = tl.load(bias_ptr + n, mask=n < N, other=0)
    value = tl.trans(tl.where(m[:, None] < n[None, :], x, 2 * x)) + bias[:, None] + m[None, :].to(x.dtype)
    tl.store(out_ptr + n[:, None] * M + m[None, :], value, mask=(n[:, None] < N) & (m[None, :] < M))


@tw.jit
def both_across(x_ptr, bias_ptr, out_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    """Everything lies along the outer axis of the tile; out is not transposed."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    inside = (m[None, :] < M) & (n[:, None] < N)
    x = tl.load(x_ptr + m[None, :] * N + n[:, None], mask=inside, other=0)
    bias = tl.load(bias_ptr + n, mask=n < N, other=0)
    value = tl.where(m[None, :] < n[:, None], x, 2 * x) + bias[:, None] + m[None, :].to(x.dtype)
    tl.store(out_ptr + m[None, :] * N + n[:, None], value, mask=inside)


KERNELS = {"store": store_across, "load": load_across, "both": both_across}


def sums():
    """Kernels, shapes and types: `make test` takes every two of them together."""
    shapes = (64, 96, (32, 32)), (50, 70, (32, 16)), (33, 130, (16, 64))
    lists = KERNELS, shapes, (np.float32, np.float64, np.int16, np.int8)
    for (i, name), (j, shape), (k, dtype) in product(*map(enumerate, lists)):
        yield pytest.param(name, *shape, dtype, marks=LONG if (i + j + k) % 3 else ())


@pytest.mark.parametrize(("name", "m", "n", "tile", "dtype"), [*sums()])
def test_transposed_sums(name, m, n, tile, dtype):
    rng = np.random.default_rng(m)
    x = rng.integers(-20, 20, (m, n)).astype(dtype)
    bias = rng.integers(-20, 20, n).astype(dtype)
    rows, columns = np.mgrid[:m, :n]
    expected = np.where(rows < columns, x, 2 * x) + bias + rows.astype(dtype)
    out = np.zeros((m, n) if name == "both" else (n, m), dtype)
    KERNELS[name][(tw.cdiv(m, tile[0]), tw.cdiv(n, tile[1]))](x, bias, out, m, n, BM=tile[0], BN=tile[1])
    np.testing.assert_array_equal(out if name == "both" else out.T, expected)


def test_whole_squares_are_stored_as_vectors():
    x = np.zeros((64, 64), np.float32)
    kernel = store_across.warmup(x, x, x, 64, 64, BM=32, BN=32, grid=(1, 1))
    assert kernel.asm["llir"].count("shufflevector") > 20


@tw.jit
def store_if(x_ptr, out_ptr, go, M, N: tl.constexpr, EVERY: tl.constexpr, OUTER: tl.constexpr):
    """out[n, m] = x[m, n] where masks that are no ranges of the inner axis let it."""
    m, n = tl.arange(0, N), tl.arange(0, N)
    x = tl.load(x_ptr + m[:, None] * N + n[None, :])
    mask = (m[:, None] < M) & (go > 0)
    if EVERY:
        mask = mask & (n[None, :] % 2 == 0)
    if OUTER:
        mask = mask & (m[:, None] + n[None, :] < M)
    tl.store(out_ptr + n[None, :] * N + m[:, None], x, mask=mask)


@pytest.mark.parametrize(("every", "outer"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("rows", [0, 7, 31, 32, 40])
def test_masks_of_other_kinds(rows, every, outer):
    x = np.arange(32 * 32, dtype=np.float32).reshape(32, 32)
    m, n = np.mgrid[:32, :32]
    wanted = (m < rows) & ((n % 2 == 0) | (not every)) & ((m + n < rows) | (not outer))
    for go in (0, 1):
        out = np.full((32, 32), -1, np.float32)
        store_if[(1,)](x, out, go, rows, N=32, EVERY=every, OUTER=outer)
        np.testing.assert_array_equal(out.T, np.where(wanted & (go > 0), x, -1))


@tw.jit
def in_place(x_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i[:, None] * N + i[None, :])
    tl.store(x_ptr + i[None, :] * N + i[:, None], x)


@pytest.mark.parametrize("n", [8, 16, 64])
def test_a_matrix_is_transposed_in_place(n):
    x = np.arange(n * n, dtype=np.float32).reshape(n, n)
    expected = x.T.copy()
    in_place[(1,)](x, N=n)
    np.testing.assert_array_equal(x, expected)


@tw.jit
def permute(x_ptr, out_ptr, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    a, b, c = tl.arange(0, A)[:, None, None], tl.arange(0, B)[None, :, None], tl.arange(0, C)[None, None, :]
    x = tl.load(x_ptr + (a * B + b) * C + c)
    tl.store(out_ptr + (a * C + c) * B + b, x)


@code_on("znver5")
def test_matrices_of_a_batch_are_transposed():
    x = np.arange(4 * 16 * 32, dtype=np.float32).reshape(4, 16, 32)
    out = np.zeros((4, 32, 16), np.float32)
    permute[(1,)](x, out, A=4, B=16, C=32)
    np.testing.assert_array_equal(out, x.transpose(0, 2, 1))


@tw.jit
def chosen_at_a_distance(x_ptr, flags_ptr, out_ptr, n, distance, SIZE: tl.constexpr):
    rows, columns = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)[None, :]
    x = tl.load(x_ptr + columns * 3 + rows * distance)
    flag = tl.load(flags_ptr + rows)
    tl.store(out_ptr + rows + columns * SIZE, tl.where(flag > 0, x, 3), columns < n)


@pytest.mark.parametrize("distance", [0, 2, 7])
@pytest.mark.parametrize("n", [5, 16])
def test_rows_at_a_distance_that_only_shows_at_run_time(n, distance):
    """Each row of a block asks for the distance; what one asks on its way is no answer for another."""
    size = 16
    x, flags = np.arange(200, dtype=np.float32), (np.arange(size, dtype=np.float32) % 3) - 1
    out = np.full((size, size), -1, np.float32)
    chosen_at_a_distance[(1,)](x, flags, out, n, distance, SIZE=size)
    columns, rows = np.indices((size, size))
    expected = np.where(flags[rows] > 0, x[columns * 3 + rows * distance], 3)
    expected[n:] = -1
    np.testing.assert_array_equal(out, expected)


def nests_of(kernel, *arguments, **constants):
    """A kernel as ttcir, before and after its nests get versions by squares."""
    text = kernel.warmup(*arguments, grid=(1, 1), **constants).asm["ttcir"]
    before, after = parse_module(text), parse_module(text)
    changed = blocked_transpose(after, host_target("x86-64-v3"))
    verify(after)
    return before, after, changed


@pytest.mark.parametrize("name", ["store", "load"])
@pytest.mark.parametrize(("m", "n"), [(16, 16), (16, 9), (3, 16)])
def test_a_nest_in_two_versions_computes_the_same(name, m, n):
    """A version without masks that ran where one is off would store outside of the matrix."""
    kernel, x, bias = KERNELS[name], np.arange(1.0, 257, dtype=np.float32)[: m * n], np.ones(n, np.float32)
    *modules, changed = nests_of(kernel, x, bias, x, 16, 16, BM=16, BN=16)
    assert changed
    found = []
    for module in modules:
        out = np.zeros(m * n, np.float32)
        run_ir(module, [x, bias, out, m, n], (1, 1))
        found.append(out)
    np.testing.assert_array_equal(*found)
    assert found[0].all()


@pytest.mark.parametrize("shift", [0, 4])
def test_stores_that_overlap_loads_go_row_by_row(shift):
    """The squares have no buffer to fall back to."""
    kernel, memory = store_across, np.arange(300, dtype=np.float32)
    *modules, _ = nests_of(kernel, memory, memory, memory, 17, 17, BM=16, BN=16)
    found = []
    for module in modules:
        own = memory.copy()
        run_ir(module, [own[4:], np.ones(16, np.float32), own[4 - shift :], 16, 16], (1, 1))
        found.append(own)
    np.testing.assert_array_equal(*found)


def test_the_version_by_squares_has_no_masks_and_no_buffers():
    x = np.zeros(256, np.float32)
    _, module, _ = nests_of(store_across, x, x, x, 17, 17, BM=16, BN=16)
    (squares,) = (op for op in module.walk() if isinstance(op, Nest) and op.square)
    accesses = [op for op in squares.body if isinstance(op, (Load, Store))]
    assert len(accesses) == 3
    assert all(op.mask is None for op in accesses)
    assert not any(isinstance(op, GuardedStore) for op in squares.body)


@tw.jit
def plain(x_ptr, out_ptr, N, BM: tl.constexpr, BN: tl.constexpr):
    at = tl.arange(0, BM)[:, None] * N + tl.arange(0, BN)[None, :]
    tl.store(out_ptr + at, tl.load(x_ptr + at))


@pytest.mark.parametrize(("bm", "bn"), [(16, 16), (2, 64)])
def test_nests_that_gain_nothing_are_left_alone(bm, bn):
    x = np.zeros(256, np.float32)
    kernel, arguments = (plain, (x, x, 64)) if bm == bn else (store_across, (x, x, x, 17, 17))
    *_, changed = nests_of(kernel, *arguments, BM=bm, BN=bn)
    assert not changed
