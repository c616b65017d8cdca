"""Programs that add up columns run several at once, where nothing could tell."""

from __future__ import annotations

import numpy as np
import pytest
from changed_costs import change_costs
from guarded_memory import between_guards

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.cpu.pipeline import cpu_passes
from tilewright.backends.cpu.widen_programs import widen_programs
from tilewright.backends.llvm.machine import host_target
from tilewright.dialects.cpu import Take
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.parser import parse_module
from tilewright.ir.pass_manager import run_passes
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify

TARGET = host_target("icelake-server")
ROW = 512


@pytest.fixture(autouse=True)
def _on_any_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Registers of 128 bits hold as many sums as those of 512."""
    change_costs(monkeypatch, merged_row=ROW, registers=256, chains=64)


@tw.jit
def sums(x_ptr, out_ptr, M, N, stride, BM: tl.constexpr, BN: tl.constexpr):
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, M, BM):
        m = start + tl.arange(0, BM)
        inside = (m < M)[:, None] & (n < N)[None, :]
        total += tl.load(x_ptr + m[:, None] * stride + n[None, :], inside, 0.0)
    tl.store(out_ptr + n, tl.sum(total, 0), n < N)


@tw.jit
def moments(x_ptr, weight_ptr, out_ptr, M, N, low, BM: tl.constexpr, BN: tl.constexpr):
    """Two carried tiles, a tile that programs share, and rows of tiles of the grid's second axis."""
    n = tl.program_id(0) * BN + tl.arange(0, BN)[None, :]
    total = tl.full((BM, BN), 1, tl.float32)
    most = tl.full((BM, BN), float("-inf"), tl.float32)
    weight = tl.load(weight_ptr + tl.arange(0, BM))[:, None]
    first = tl.program_id(1) * M
    for start in range(low, M, BM):
        m = start + tl.arange(0, BM)[:, None]
        x = tl.load(x_ptr + (first + m) * N + n, (m < M) & (n < N), 0.0)
        total += x * weight
        most = tl.maximum(most, x)
    out = out_ptr + 2 * tl.program_id(1) * N + n
    tl.store(out, tl.sum(total, 0)[None, :], n < N)
    tl.store(out + N, tl.max(most, 0)[None, :], n < N)


def numbers(*shape):
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("tile", [(32, 32), (8, 16), (4, 64)])
@pytest.mark.parametrize(("m", "n"), [(64, 256), (50, 203), (3, 5), (100, 128), (0, 128), (2, 500)])
@pytest.mark.parametrize("num_threads", [1, 2])
def test_sums_are_those_of_programs_by_themselves(tile, m, n, num_threads):
    """Bit for bit: a grid of one program has none to run with."""
    x, out, single = numbers(m + 1, n + 3), np.full(n + 8, 77, np.float32), np.full(n + 8, 77, np.float32)
    options = dict(zip(("BM", "BN"), tile, strict=True))
    compiled = sums[(tw.cdiv(n, tile[1]),)](x, out, m, n, n + 3, **options, num_threads=num_threads)
    assert '"cpu.take"' in compiled.asm["ttcir"]
    for left in range(0, n, tile[1]):
        sums[(1,)](x[:, left:], single[left:], m, n - left, n + 3, **options, num_threads=1)
    np.testing.assert_array_equal(out, single)
    np.testing.assert_allclose(out[:n], x[:m, :n].sum(0), atol=1e-3)
    assert (out[n:] == 77).all()


@pytest.mark.parametrize("low", [0, 5])
@pytest.mark.parametrize(("m", "n"), [(64, 256), (50, 203)])
def test_several_tiles_and_stores(m, n, low):
    x = np.random.default_rng(0).integers(-9, 9, (3, m, n)).astype(np.float32)
    weight, out = np.arange(8, dtype=np.float32), np.empty((3, 2, n), np.float32)
    compiled = moments[(tw.cdiv(n, 16), 3)](x, weight, out, m, n, low, BM=8, BN=16, num_threads=1)
    assert '"cpu.take"' in compiled.asm["ttcir"]
    shares = np.resize(weight, m - low)[:, None]
    np.testing.assert_array_equal(out[:, 0], 8 + (x[:, low:] * shares).sum(1))
    has_zeros = (m - low) % 8 > 0
    np.testing.assert_array_equal(out[:, 1], np.maximum(x[:, low:].max(1), 0 if has_zeros else -9))


def test_lanes_that_are_masked_off_touch_nothing():
    for x, out in zip(between_guards(60 * 200, np.float32), between_guards(200, np.float32), strict=True):
        x[:] = 1
        sums[(7,)](x, out, 60, 200, 200, BM=32, BN=32, num_threads=1)
        np.testing.assert_array_equal(out, 60)


def one_by_one(memory, out_at, m, n, tile):
    """The sums of programs that run one after the other."""
    for left in range(0, n, tile):
        memory[out_at + left : out_at + left + tile] = memory[: m * n].reshape(m, n)[:, left : left + tile].sum(0)


@pytest.mark.parametrize("out_at", [0, 16, 32, 64, 256 * 31, 256 * 31 + 32, 256 * 32 - 32, 256 * 32, 256 * 40])
def test_memory_that_is_shared(out_at):
    """Programs of one thread come one after the other, so each sees what those before it stored."""
    m, n, tile = 32, 256, 32
    memory = np.random.default_rng(0).integers(-9, 9, 1 << 14).astype(np.float32)
    wanted = memory.copy()
    one_by_one(wanted, out_at, m, n, tile)
    compiled = sums[(8,)](memory, memory[out_at:], m, n, n, BM=32, BN=tile, num_threads=1)
    assert '"cpu.take"' in compiled.asm["ttcir"]
    np.testing.assert_array_equal(memory, wanted)


def test_rows_that_are_stored_backwards(monkeypatch):
    """A negative stride, so that what is loaded lies in front of the pointer."""
    memory = np.random.default_rng(0).integers(-9, 9, (32, 256)).astype(np.float32)
    for stored in (memory[0], memory[30]):
        wanted = memory.copy()
        at = (stored.ctypes.data - memory.ctypes.data) // 4
        for left in range(0, 224, 32):
            total = wanted[:, left : left + 32].sum(0)
            wanted.reshape(-1)[at + 32 + left : at + 64 + left] = total
        sums[(7,)](memory[31:], stored[32:], 32, 224, -256, BM=32, BN=32, num_threads=1)
        np.testing.assert_array_equal(memory, wanted)


@tw.jit
def moving(x_ptr, out_ptr, M, N, stride, BM: tl.constexpr, BN: tl.constexpr):
    """The same by pointers that each iteration moves down, for whole tiles of rows."""
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    places = x_ptr + tl.arange(0, BM)[:, None] * stride + n[None, :]
    for _ in range(M // BM):
        total += tl.load(places, (n < N)[None, :], 0.0)
        places += BM * stride
    tl.store(out_ptr + n, tl.sum(total, 0), n < N)


@pytest.mark.parametrize("out_at", [0, 32, 64, 256 * 31, 256 * 31 + 32, 256 * 32])
@pytest.mark.parametrize("rows", [4, 32])
def test_pointers_that_move(out_at, rows):
    m, n, tile = 32, 256, 32
    memory = np.random.default_rng(0).integers(-9, 9, 1 << 14).astype(np.float32)
    wanted = memory.copy()
    one_by_one(wanted, out_at, m, n, tile)
    compiled = moving[(8,)](memory, memory[out_at:], m, n, n, BM=rows, BN=tile, num_threads=1)
    assert '"cpu.take"' in compiled.asm["ttcir"]
    np.testing.assert_array_equal(memory, wanted)


@tw.jit
def row_by_row(x_ptr, out_ptr, M, N, B: tl.constexpr):
    n = tl.program_id(0) * B + tl.arange(0, B)
    total = tl.zeros((B,), tl.float32)
    for row in range(M):
        total += tl.load(x_ptr + row * N + n, n < N, 0.0)
    tl.store(out_ptr + n, total, n < N)


@pytest.mark.parametrize("n", [256, 203, 20])
def test_rows_one_by_one(n):
    x, out = np.random.default_rng(0).integers(-9, 9, (37, n)).astype(np.float32), np.empty(n, np.float32)
    compiled = row_by_row[(tw.cdiv(n, 32),)](x, out, 37, n, B=32, num_threads=1)
    assert '"cpu.take"' in compiled.asm["ttcir"]
    np.testing.assert_array_equal(out, x.sum(0))


# ------------------------------------------------------------------ programs that stay apart


@tw.jit
def plain(x_ptr, out_ptr, M, N, B: tl.constexpr):
    n, total = tl.program_id(0) * B + tl.arange(0, B), tl.zeros((B, B), tl.float32)
    for start in range(0, M, B):
        total += tl.load(x_ptr + (start + tl.arange(0, B))[:, None] * N + n[None, :])
    tl.store(out_ptr + n, tl.sum(total, 0))


@tw.jit
def as_often_as_its_number(x_ptr, out_ptr, M, N, B: tl.constexpr):
    n, total = tl.program_id(0) * B + tl.arange(0, B), tl.zeros((B, B), tl.float32)
    for start in range(0, tl.program_id(0) * B, B):
        total += tl.load(x_ptr + (start + tl.arange(0, B))[:, None] * N + n[None, :])
    tl.store(out_ptr + n, tl.sum(total, 0))


@tw.jit
def moving_as_often_as_its_number(x_ptr, out_ptr, M, N, B: tl.constexpr):
    n, total = tl.program_id(0) * B + tl.arange(0, B), tl.zeros((B, B), tl.float32)
    places = x_ptr + tl.arange(0, B)[:, None] * N + n[None, :]
    for _ in range(tl.program_id(0)):
        total += tl.load(places)
        places += B * N
    tl.store(out_ptr + n, tl.sum(total, 0))


@tw.jit
def from_its_number_on(x_ptr, out_ptr, M, N, B: tl.constexpr):
    n, total = tl.program_id(0) * B + tl.arange(0, B), tl.zeros((B, B), tl.float32)
    for start in range(tl.program_id(0), M - B, B):
        total += tl.load(x_ptr + (start + tl.arange(0, B))[:, None] * N + n[None, :])
    tl.store(out_ptr + n, tl.sum(total, 0))


@tw.jit
def as_often_as_memory_says(x_ptr, out_ptr, M, N, B: tl.constexpr):
    n, total = tl.program_id(0) * B + tl.arange(0, B), tl.zeros((B, B), tl.float32)
    for start in range(0, tl.load(x_ptr + tl.program_id(0)).to(tl.int32) + 10, B):
        total += tl.load(x_ptr + (start + tl.arange(0, B))[:, None] * N + n[None, :])
    tl.store(out_ptr + n, tl.sum(total, 0))


@tw.jit
def adding_its_number(x_ptr, out_ptr, M, N, B: tl.constexpr):
    n, total = tl.program_id(0) * B + tl.arange(0, B), tl.zeros((B, B), tl.float32)
    for start in range(0, M, B):
        total += tl.load(x_ptr + (start + tl.arange(0, B))[:, None] * N + n[None, :]) + tl.program_id(0)
    tl.store(out_ptr + n, tl.sum(total, 0))


@tw.jit
def counting_by_its_number(x_ptr, out_ptr, M, N, B: tl.constexpr):
    n, total, place = tl.program_id(0) * B + tl.arange(0, B), tl.zeros((B, B), tl.float32), 0
    for _ in range(0, M // 2, B):
        total += tl.load(x_ptr + (place + tl.arange(0, B))[:, None] * N + n[None, :])
        place += tl.program_id(0)
    tl.store(out_ptr + n, tl.sum(total, 0))


@tw.jit
def naming_lanes(x_ptr, out_ptr, M, N, B: tl.constexpr):
    n, total = tl.program_id(0) * B + tl.arange(0, B), tl.zeros((B, B), tl.float32)
    for start in range(0, M, B):
        x = tl.load(x_ptr + (start + tl.arange(0, B))[:, None] * N + n[None, :])
        total += tl.where(tl.arange(0, B)[None, :] < 3, x, 0)
    tl.store(out_ptr + n, tl.sum(total, 0))


@tw.jit
def beginning_with_lanes(x_ptr, out_ptr, M, N, B: tl.constexpr):
    n = tl.program_id(0) * B + tl.arange(0, B)
    total = tl.zeros((B, B), tl.float32) + tl.arange(0, B)[None, :]
    for start in range(0, M, B):
        total += tl.load(x_ptr + (start + tl.arange(0, B))[:, None] * N + n[None, :])
    tl.store(out_ptr + n, tl.sum(total, 0))


@tw.jit
def with_gaps(x_ptr, out_ptr, M, N, B: tl.constexpr):
    n, total = tl.program_id(0) * 20 + tl.arange(0, B), tl.zeros((B, B), tl.float32)
    for start in range(0, M, B):
        total += tl.load(x_ptr + (start + tl.arange(0, B))[:, None] * N + n[None, :])
    tl.store(out_ptr + n, tl.sum(total, 0))


@tw.jit
def every_other(x_ptr, out_ptr, M, N, B: tl.constexpr):
    n, total = tl.program_id(0) * B + tl.arange(0, B), tl.zeros((B, B), tl.float32)
    for start in range(0, M, B):
        total += tl.load(x_ptr + (start + tl.arange(0, B))[:, None] * N + n[None, :])
    tl.store(out_ptr + 2 * n, tl.sum(total, 0))


@tw.jit
def with_a_total(x_ptr, out_ptr, M, N, B: tl.constexpr):
    n, total = tl.program_id(0) * B + tl.arange(0, B), tl.zeros((B, B), tl.float32)
    for start in range(0, M, B):
        total += tl.load(x_ptr + (start + tl.arange(0, B))[:, None] * N + n[None, :])
    column = tl.sum(total, 0)
    tl.store(out_ptr + n, column / tl.sum(column, 0))


@tw.jit
def counted(x_ptr, out_ptr, M, N, B: tl.constexpr):
    n, total = tl.program_id(0) * B + tl.arange(0, B), tl.zeros((B, B), tl.float32)
    for start in range(0, M, B):
        total += tl.load(x_ptr + (start + tl.arange(0, B))[:, None] * N + n[None, :])
    tl.store(out_ptr + n, tl.sum(total, 0))
    tl.atomic_add(out_ptr + 500, 1.0)


@tw.jit
def watching(x_ptr, out_ptr, M, N, B: tl.constexpr):
    n, total = tl.program_id(0) * B + tl.arange(0, B), tl.zeros((B, B), tl.float32)
    for start in range(0, M, B):
        total += tl.load(x_ptr + (start + tl.arange(0, B))[:, None] * N + n[None, :], volatile=True)
    tl.store(out_ptr + n, tl.sum(total, 0))


@tw.jit
def storing_in_turns(x_ptr, out_ptr, M, N, B: tl.constexpr):
    n, total = tl.program_id(0) * B + tl.arange(0, B), tl.zeros((B, B), tl.float32)
    for start in range(0, M, B):
        total += tl.load(x_ptr + (start + tl.arange(0, B))[:, None] * N + n[None, :])
        tl.store(out_ptr + n, tl.sum(total, 0))


@tw.jit
def in_one_place(x_ptr, out_ptr, M, N, B: tl.constexpr):
    n, total = tl.program_id(0) * B + tl.arange(0, B), tl.zeros((B, B), tl.float32)
    for start in range(0, M, B):
        total += tl.load(x_ptr + (start + tl.arange(0, B))[:, None] * N + n[None, :])
    tl.store(out_ptr + n, tl.sum(total, 0))
    tl.store(out_ptr + 500, tl.program_id(0).to(tl.float32))


def widened(kernel):
    """The kernel's module behind `widen_programs`, and whether that found anything."""
    x = np.zeros(16, np.float32)
    module = parse_module(kernel.warmup(x, x, 64, 128, B=16, grid=(8,)).asm["ttir"])
    names = [step.name for step in cpu_passes(TARGET)]
    run_passes(module, cpu_passes(TARGET)[: names.index("widen_programs")])
    found = widen_programs(module, TARGET)
    verify(module)
    return module, found


APART = [
    *(as_often_as_its_number, moving_as_often_as_its_number, from_its_number_on, adding_its_number),
    *(counting_by_its_number, naming_lanes, beginning_with_lanes, with_gaps, every_other, with_a_total, counted),
    *(storing_in_turns, in_one_place),
]


@pytest.mark.parametrize("kernel", [*APART, as_often_as_memory_says, watching])
def test_programs_that_stay_apart(kernel):
    assert not widened(kernel)[1]
    assert widened(plain)[1], "the others differ from this one"


@pytest.mark.parametrize("kernel", [*APART, plain])
def test_what_they_compute(kernel):
    x = np.random.default_rng(1).integers(-9, 9, (256, 128)).astype(np.float32)
    out, wanted = np.zeros(512, np.float32), np.zeros(512, np.float32)
    kernel[(7,)](x, out, 64, 128, B=16, num_threads=1)
    run_ir(parse_module(kernel.warmup(x, out, 64, 128, B=16, grid=(7,)).asm["ttir"]), [x, wanted, 64, 128], (7,))
    np.testing.assert_allclose(out, wanted, rtol=1e-5)


@pytest.mark.parametrize("programs", [7, 8, 16])
def test_the_interpreter_runs_programs_together(programs):
    module, found = widened(plain)
    assert found
    (take,) = module.ops_of(Take)
    assert take.parent is not None
    x, out = np.arange(64.0 * 256, dtype=np.float32).reshape(64, 256) % 13, np.zeros(256, np.float32)
    run_ir(module, [x, out, 64, 256], (programs,))
    np.testing.assert_array_equal(out[: 16 * programs], x.sum(0)[: 16 * programs])


def test_only_processors_that_gain_have_the_version(monkeypatch):
    change_costs(monkeypatch, merged_row=0)
    assert not widened(plain)[1]


def test_rows_stay_in_registers(monkeypatch):
    """Programs of 16 columns run two at a time, not eight, if four registers may hold sums."""
    change_costs(monkeypatch, registers=4)
    module, found = widened(plain)
    assert found
    assert "tensor<16x32xf32>" in print_op(module)
    assert "tensor<16x64xf32>" not in print_op(module)
