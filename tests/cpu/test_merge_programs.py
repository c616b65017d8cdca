"""Programs whose tiles continue each other's rows run as one, where nothing could tell."""

from __future__ import annotations

import numpy as np
import pytest
from guarded_memory import between_guards

import tilewright as tw
import tilewright.language as tl
from lowered_code import code_on
from tilewright.backends.cpu.merge_programs import merge_programs
from tilewright.backends.cpu.pipeline import cpu_passes, loop_passes
from tilewright.backends.llvm.machine import host_target
from tilewright.dialects.cpu import Nest, Take
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.parser import parse_module
from tilewright.ir.pass_manager import run_passes
from tilewright.ir.verifier import verify

TARGET = host_target()


@tw.jit
def tiles(x_ptr, bias_ptr, out_ptr, M, N, x0: int, x1: int, out0: int, BM: tl.constexpr, BN: tl.constexpr):
    """out[m, n] = 2 x[m, n] + bias[n] + bias[m] + n."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    inside = (m < M)[:, None] & (n < N)[None, :]
    x = tl.load(x_ptr + m[:, None] * x0 + n[None, :] * x1, inside)
    added = tl.load(bias_ptr + n, n < N)[None, :] + tl.load(bias_ptr + m, m < M)[:, None]
    tl.store(out_ptr + m[:, None] * out0 + n[None, :], 2 * x + added + n[None, :].to(tl.float32), inside)


@tw.jit
def numbered(x_ptr, bias_ptr, out_ptr, M, N, x0: int, x1: int, out0: int, BM: tl.constexpr, BN: tl.constexpr):
    """The same, tiles being numbered row by row."""
    blocks = tl.cdiv(N, BN)
    m = tl.program_id(0) // blocks * BM + tl.arange(0, BM)
    n = tl.program_id(0) % blocks * BN + tl.arange(0, BN)
    inside = (m < M)[:, None] & (n < N)[None, :]
    x = tl.load(x_ptr + m[:, None] * x0 + n[None, :] * x1, inside)
    added = tl.load(bias_ptr + n, n < N)[None, :] + tl.load(bias_ptr + m, m < M)[:, None]
    tl.store(out_ptr + m[:, None] * out0 + n[None, :], 2 * x + added + n[None, :].to(tl.float32), inside)


def grid_of(kernel, m, n, tile):
    rows, columns = tw.cdiv(m, tile[0]), tw.cdiv(n, tile[1])
    return (rows, columns) if kernel is tiles else (rows * columns,)


def expected(x, bias):
    m, n = x.shape
    return 2 * x + (bias[:n] + bias[:m, None]) + np.arange(n, dtype=np.float32)


def numbers(*shape):
    return np.random.default_rng(len(shape)).integers(-9, 9, shape).astype(np.float32)


@pytest.mark.parametrize("kernel", [tiles, numbered])
@pytest.mark.parametrize("tile", [(16, 16), (4, 32), (8, 8)])
@pytest.mark.parametrize(("m", "n"), [(64, 128), (50, 203), (3, 5), (17, 16), (0, 40), (40, 0)])
@pytest.mark.parametrize("num_threads", [1, 2])
def test_tiles_of_a_matrix(kernel, tile, m, n, num_threads):
    x, bias, out = numbers(m, n), numbers(256), np.full((m + 1, n + 3), 77, np.float32)
    grid = grid_of(kernel, m, n, tile)
    if 0 not in grid:
        places = (n, 1, n + 3)
        kernel[grid](x, bias, out, m, n, *places, BM=tile[0], BN=tile[1], num_threads=num_threads)
    np.testing.assert_array_equal(out[:m, :n], expected(x, bias))
    assert (out[m:] == 77).all()
    assert (out[:, n:] == 77).all()


@pytest.mark.parametrize("kernel", [tiles, numbered])
def test_rows_of_other_strides(kernel):
    """Backwards rows, rows that all lie in one place, and columns that are no neighbours."""
    memory, bias, out = numbers(64, 256), numbers(256), np.empty((64, 128), np.float32)
    for x, place in ((memory[::-1, :128], 63), (np.broadcast_to(memory[3, :128], (64, 128)), 3), (memory[:, ::2], 0)):
        x0, x1 = (step // 4 for step in x.strides)
        kernel[grid_of(kernel, 64, 128, (16, 16))](
            memory[place:], bias, out, 64, 128, x0, x1, 128, BM=16, BN=16, num_threads=1
        )
        np.testing.assert_array_equal(out, expected(x, bias))


@tw.jit
def doubled(x_ptr, out_ptr, M, N, x0: int, out0: int, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    n = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    inside = (m < M) & (n < N)
    tl.store(out_ptr + m * out0 + n, 2 * tl.load(x_ptr + m * x0 + n, inside), inside)


def one_by_one(memory, x_at, out_at, m, n, x0, out0, tile):
    """The results of programs that run one after the other, along rows of the grid."""
    for top in range(0, m, tile):
        for left in range(0, n, tile):
            r, c = np.mgrid[top : min(m, top + tile), left : min(n, left + tile)]
            memory[out_at + r * out0 + c] = 2 * memory[x_at + r * x0 + c]


@pytest.mark.parametrize(
    ("x_at", "out_at", "x0", "out0"),
    [
        (0, 0, 64, 64),  # in place
        (0, 16, 64, 64),  # a program stores what the next one loads
        (16, 0, 64, 64),
        (0, 1, 64, 64),
        (0, 64, 64, 64),  # a row further
        (0, 64 * 16, 64, 64),  # a row of tiles further
        (0, 64, 128, 128),  # columns side by side
        (0, 0, 64, 80),  # the same start, other rows
        (0, 2048, 64, 0),  # rows in one place
        (0, 0, 0, 0),
    ],
)
def test_memory_that_is_shared(x_at, out_at, x0, out0):
    """Programs of one thread come one after the other, so each sees what those before it stored."""
    m, n, tile = 32, 64, 16
    memory = numbers(1 << 13)
    wanted = memory.copy()
    one_by_one(wanted, x_at, out_at, m, n, x0, out0, tile)
    doubled[(2, 4)](memory[x_at:], memory[out_at:], m, n, x0, out0, BM=tile, BN=tile, num_threads=1)
    np.testing.assert_array_equal(memory, wanted)


@tw.jit
def one_column_of_tiles(x_ptr, out_ptr, N, out0: int, BM: tl.constexpr, BN: tl.constexpr):
    m, n = tl.arange(0, BM), tl.program_id(0) * BN + tl.arange(0, BN)
    x = tl.load(x_ptr + m[:, None] * 256 + n[None, :], (n < N)[None, :])
    tl.store(out_ptr + m[:, None] * out0 + n[None, :], x, (n < N)[None, :])


@pytest.mark.parametrize("row", [0, 1, 8, 16, 40, 255, 256])
@pytest.mark.parametrize("n", [64, 250])
def test_rows_that_meet_are_stored_program_by_program(row, n):
    x = np.arange(8 * 256, dtype=np.int32).reshape(8, 256)
    out, wanted = np.zeros(4096, np.int32), np.zeros(4096, np.int32)
    for first in range(0, n, 16):
        for m in range(8):
            wanted[m * row + first : m * row + min(first + 16, n)] = x[m, first : min(first + 16, n)]
    one_column_of_tiles[(tw.cdiv(n, 16),)](x, out, n, row, 8, 16, num_threads=1)
    assert np.array_equal(out, wanted)


def test_lanes_that_are_masked_off_touch_nothing():
    for x, out in zip(between_guards(60 * 100, np.float32), between_guards(6000, np.float32), strict=True):
        doubled[(4, 7)](x, out, 60, 100, 100, 100, BM=16, BN=16, num_threads=1)
        np.testing.assert_array_equal(out, 2 * x)


@tw.jit
def four_axes(x_ptr, out_ptr, s0, s1, s2, s3, x0: int, x1: int, x2: int, x3: int, B: tl.constexpr):
    tiles1, tiles2, tiles3 = tl.cdiv(s1, 2), tl.cdiv(s2, 4), tl.cdiv(s3, B)
    tile = tl.program_id(0)
    i = tile // (tiles1 * tiles2 * tiles3) * 2 + tl.arange(0, 2)[:, None, None, None]
    j = tile // (tiles2 * tiles3) % tiles1 * 2 + tl.arange(0, 2)[None, :, None, None]
    k = tile // tiles3 % tiles2 * 4 + tl.arange(0, 4)[None, None, :, None]
    m = tile % tiles3 * B + tl.arange(0, B)[None, None, None, :]
    inside = (i < s0) & (j < s1) & (k < s2) & (m < s3)
    x = tl.load(x_ptr + i * x0 + j * x1 + k * x2 + m * x3, inside)
    tl.store(out_ptr + ((i * s1 + j) * s2 + k) * s3 + m, x + 1, inside)


@pytest.mark.parametrize("shape", [(4, 4, 8, 64), (3, 5, 7, 50), (1, 1, 1, 128)])
@code_on("neoverse-v1")
def test_tiles_of_four_axes(shape):
    x, out = numbers(*shape), np.zeros(shape, np.float32)
    steps = [step // 4 for step in x.strides]
    count = np.prod([tw.cdiv(extent, step) for extent, step in zip(shape, (2, 2, 4, 16), strict=True)])
    four_axes[(int(count),)](x, out, *shape, *steps, B=16, num_threads=1)
    np.testing.assert_array_equal(out, x + 1)


# ------------------------------------------------------------------ where it must not apply


@tw.jit
def repeating(x_ptr, out_ptr, N, B: tl.constexpr):
    """Each tile loads the same row, from its own lanes."""
    m, n = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
    at = m * N + tl.program_id(0) * B + n
    tl.store(out_ptr + at, tl.load(x_ptr + n) + tl.zeros((B, B), tl.float32))


@tw.jit
def wrapping(x_ptr, out_ptr, N, B: tl.constexpr):
    """Columns begin anew after some tiles."""
    m, n = tl.arange(0, B)[:, None], tl.program_id(0) * B + tl.arange(0, B)[None, :]
    tl.store(out_ptr + m * N + n, tl.load(x_ptr + m * N + n % 24))


@tw.jit
def naming_programs(x_ptr, out_ptr, N, B: tl.constexpr):
    m, n = tl.arange(0, B)[:, None], tl.program_id(0) * B + tl.arange(0, B)[None, :]
    tl.store(out_ptr + m * N + n, tl.load(x_ptr + m * N + n) + tl.program_id(0).to(tl.float32))


@tw.jit
def apart(x_ptr, out_ptr, N, B: tl.constexpr):
    """A gap is left between tiles."""
    m, n = tl.arange(0, B)[:, None], tl.program_id(0) * 2 * B + tl.arange(0, B)[None, :]
    tl.store(out_ptr + m * N + n, tl.load(x_ptr + m * N + n))


@tw.jit
def downwards(x_ptr, out_ptr, N, B: tl.constexpr):
    """The next program has the rows below."""
    m, n = tl.program_id(0) * B + tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
    tl.store(out_ptr + m * N + n, tl.load(x_ptr + m * N + n))


@tw.jit
def watching(x_ptr, out_ptr, N, B: tl.constexpr):
    m, n = tl.arange(0, B)[:, None], tl.program_id(0) * B + tl.arange(0, B)[None, :]
    tl.store(out_ptr + m * N + n, tl.load(x_ptr + m * N + n, volatile=True))


@tw.jit
def counting(x_ptr, out_ptr, N, B: tl.constexpr):
    m, n = tl.arange(0, B)[:, None], tl.program_id(0) * B + tl.arange(0, B)[None, :]
    tl.store(out_ptr + m * N + n, tl.load(x_ptr + m * N + n))
    tl.atomic_add(out_ptr + N * B, 1.0)


@tw.jit
def waiting(x_ptr, out_ptr, N, B: tl.constexpr):
    m, n = tl.arange(0, B)[:, None], tl.program_id(0) * B + tl.arange(0, B)[None, :]
    while tl.atomic_add(out_ptr + N * B, 0.0) < 0:
        pass
    tl.store(out_ptr + m * N + n, tl.load(x_ptr + m * N + n))


@tw.jit
def summing(x_ptr, out_ptr, N, B: tl.constexpr):
    m, n = tl.arange(0, B), tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + m[:, None] * N + n[None, :])
    tl.store(out_ptr + m[:, None] * N + n[None, :], x - tl.sum(x, 1)[:, None])


@tw.jit
def branching(x_ptr, out_ptr, N, B: tl.constexpr):
    """The next program may take the other branch."""
    m, n = tl.arange(0, B)[:, None], tl.program_id(0) * B + tl.arange(0, B)[None, :]
    if tl.program_id(0) < 3:
        tl.store(out_ptr + m * N + n, tl.load(x_ptr + m * N + n))
    else:
        tl.store(out_ptr + m * N + n, -tl.load(x_ptr + m * N + n))


@tw.jit
def leaving(x_ptr, out_ptr, N, B: tl.constexpr):
    """Some programs do nothing."""
    m, n = tl.arange(0, B)[:, None], tl.program_id(0) * B + tl.arange(0, B)[None, :]
    if tl.program_id(0) < 3:
        tl.store(out_ptr + m * N + n, tl.load(x_ptr + m * N + n))


@tw.jit
def plain(x_ptr, out_ptr, N, B: tl.constexpr):
    m, n = tl.arange(0, B)[:, None], tl.program_id(0) * B + tl.arange(0, B)[None, :]
    tl.store(out_ptr + m * N + n, tl.load(x_ptr + m * N + n))


@tw.jit
def by_branches(x_ptr, out_ptr, N, B: tl.constexpr):
    """All programs of four take the same branch, where there is one for them."""
    m, n = tl.arange(0, B)[:, None], tl.program_id(0) * B + tl.arange(0, B)[None, :]
    if tl.program_id(0) // 4 == 0:
        tl.store(out_ptr + m * N + n, tl.load(x_ptr + m * N + n))


@tw.jit
def remainders(x_ptr, out_ptr, N, B: tl.constexpr):
    """Values that are a range in one program go on differently in the next."""
    m, n = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
    first = tl.program_id(0) * B
    tl.store(out_ptr + m * N + first + n, tl.load(x_ptr + m * N + first + (n & (B - 1))))


@tw.jit
def squares(x_ptr, out_ptr, N, B: tl.constexpr):
    """0 and 1 are their squares."""
    m, n = tl.arange(0, B)[:, None], tl.arange(0, 2)[None, :]
    first = tl.program_id(0) * 2
    tl.store(out_ptr + m * N + first + n, tl.load(x_ptr + m * N + first + n * n))


@tw.jit
def narrow(x_ptr, out_ptr, N, B: tl.constexpr):
    """60 fits into eight bits, 4 times the lane of a later program does not."""
    m, n = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
    at = m * N + tl.program_id(0) * B + n
    tl.store(out_ptr + at, (tl.program_id(0) * B * 4 + (n.to(tl.int8) << 2).to(tl.int32)).to(tl.float32))


@tw.jit
def in_rows(x_ptr, out_ptr, N, B: tl.constexpr):
    """A row of lanes as two rows."""
    m, n = tl.arange(0, 2)[:, None], (tl.program_id(0) * B + tl.arange(0, B)).reshape(2, B // 2)
    tl.store(out_ptr + m * N + n, tl.load(x_ptr + m * N + n))


@tw.jit
def cancelling(x_ptr, out_ptr, N, B: tl.constexpr):
    """Nothing depends on the load of `a`."""
    m, n = tl.arange(0, B)[:, None], tl.program_id(0) * B + tl.arange(0, B)[None, :]
    a = tl.load(x_ptr + m * N + n).to(tl.int32, bitcast=True)
    b = tl.load(x_ptr + m * N + n + 1).to(tl.int32, bitcast=True)
    tl.store(out_ptr + m * N + n, (b + (a * 3 - (a + a + a))).to(tl.float32, bitcast=True))


@tw.jit
def comparing(x_ptr, out_ptr, N, B: tl.constexpr):
    """Lanes are told apart in the rows of all programs."""
    m, n = tl.arange(0, B)[:, None], tl.program_id(0) * B + tl.arange(0, B)[None, :]
    x = tl.load(x_ptr + m * N + n)
    tl.store(out_ptr + m * N + n, tl.where(n < 75, x, 1) + (n <= m + 40).to(tl.float32))


def with_versions(kernel, **options):
    """The kernel's module behind `merge_programs`, and whether that found anything."""
    x = np.zeros(16, np.float32)
    compiled = kernel.warmup(x, x, *options.pop("numbers", (256,)), **options, grid=(1,))
    module = parse_module(compiled.asm["ttir"])
    run_passes(module, cpu_passes(TARGET))
    names = [step.name for step in loop_passes(TARGET)]
    run_passes(module, loop_passes(TARGET)[: names.index("merge_programs")])
    found = merge_programs(module)
    verify(module)
    return module, found


SIMPLE = [
    *(repeating, wrapping, naming_programs, apart, downwards, branching, leaving),
    *(remainders, squares, narrow, in_rows, cancelling),
]
OTHERS = [*SIMPLE, watching, counting, waiting, summing]


@pytest.mark.parametrize("kernel", OTHERS)
def test_programs_that_stay_apart(kernel):
    _, found = with_versions(kernel, B=16)
    assert not found
    assert with_versions(plain, B=16)[1], "the others differ from this one"


@pytest.mark.parametrize("kernel", [*SIMPLE, by_branches, comparing, plain])
def test_what_they_compute(kernel):
    x, out, wanted = numbers(256, 256), np.zeros((256, 256), np.float32), np.zeros((256, 256), np.float32)
    kernel[(8,)](x, out, 256, B=16, num_threads=1)
    run_ir(parse_module(kernel.warmup(x, out, 256, B=16, grid=(8,)).asm["ttir"]), [x, wanted, 256], (8,))
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("kernel", [by_branches, comparing])
def test_programs_that_run_together(kernel):
    assert with_versions(kernel, B=16)[1]


@tw.jit
def selecting(x_ptr, out_ptr, N, bound, B: tl.constexpr):
    m, n = tl.arange(0, B)[:, None], tl.program_id(0) * B + tl.arange(0, B)[None, :]
    tl.store(out_ptr + m * N + n, tl.where(n < bound, tl.load(x_ptr + m * N + n), 1))


@pytest.mark.parametrize("bound", [-1, 15, 16, 75, 127, 128, 300])
def test_lanes_of_all_programs_are_selected(bound):
    """That the first tile is selected as a whole does not say so of those behind it."""
    x, out = numbers(16, 256), np.zeros((16, 256), np.float32)
    selecting[(8,)](x, out, 256, bound, B=16, num_threads=1)
    wanted = np.where(np.arange(128) < bound, x[:, :128], 1)
    np.testing.assert_array_equal(out, np.pad(wanted, ((0, 0), (0, 128))))
    assert with_versions(selecting, B=16, numbers=(256, bound))[1]


# ------------------------------------------------------------------ meaning


@pytest.mark.parametrize(("m", "n"), [(32, 64), (20, 75)])
def test_the_interpreter_runs_programs_together(m, n):
    """Loops over memory do the work of several programs; the tiles of a nest are those of one."""
    x = numbers(m, n)
    module, found = with_versions(doubled, numbers=(m, n, n, n), BM=16, BN=16)
    assert found
    assert any(isinstance(op, Take) for op in module.walk())
    names = [step.name for step in loop_passes(TARGET)]
    for passes in ((), loop_passes(TARGET)[names.index("merge_programs") + 1 :]):
        run_passes(module, passes)
        out = np.zeros((m, n), np.float32)
        run_ir(module, [x, out, m, n, n, n], (tw.cdiv(m, 16), tw.cdiv(n, 16)))
        np.testing.assert_array_equal(out, 2 * x)
    assert not any(isinstance(op, Nest) for op in module.walk())
