"""Packed panels are kept for the next program only while B is what it was, and programs ask for the same of it."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from changed_costs import change_costs
from dot_native import make_spec

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.cpu.dot.lower import kept_bytes
from tilewright.backends.cpu.keep_panels import MAX_SLOTS, keep_panels
from tilewright.backends.cpu.pipeline import loop_passes
from tilewright.backends.llvm.machine import host_target
from tilewright.dialects.cpu import Matmul
from tilewright.dialects.scf import For
from tilewright.interpreter.machine import EXECUTORS
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.core import Op
from tilewright.ir.errors import VerificationError
from tilewright.ir.parser import parse_module
from tilewright.ir.pass_manager import run_passes
from tilewright.ir.types import i8, i32
from tilewright.ir.verifier import verify
from tilewright.transforms.functions import functions_of
from tilewright.transforms.op_builder import OpBuilder

TARGET = host_target()
RNG = np.random.default_rng(7)


@pytest.fixture(autouse=True)
def _small_panels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Panels of small tiles are kept; rows that do not collide are read where they lie on every machine."""
    change_costs(monkeypatch, kept_rows=4096, packs_far_rows=False)


@tw.jit
def tile_product(a, b, m, n, limit, K, b_row, b_column, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The sums of a tile of the product of A and B, both of which end at `limit` along K."""
    k = tl.arange(0, BK)
    a_places, b_places = a + m[:, None] * K + k[None, :], b + k[:, None] * b_row + n[None, :] * b_column
    total = tl.zeros((BM, BN), tl.float32)
    for first in range(0, K, BK):
        left = tl.load(a_places, mask=k[None, :] < limit - first, other=0)
        total = tl.dot(left, tl.load(b_places, mask=k[:, None] < limit - first, other=0), total, "ieee")
        a_places += BK
        b_places += BK * b_row
    return total


@tw.jit
def product(
    a, b, c, M, N, K, b_row, b_column, c_row, shorter, WAY: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr
):
    """`WAY`: which tiles follow one another, those of a column ("down" or "up") or those of a row.

    Along K the product ends `shorter` numbers earlier for each tile of rows behind.
    """
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    program = tl.program_id(0)
    tile_m, tile_n = program % tiles_m, program // tiles_m
    if WAY == "up":
        tile_m = tiles_m - 1 - tile_m
    if WAY == "row":
        tile_m, tile_n = program // tiles_n, program % tiles_n
    m, n = tile_m * BM + tl.arange(0, BM), tile_n * BN + tl.arange(0, BN)
    limit = K - shorter * (tiles_m - 1 - tile_m)
    total = tile_product(a, b, m, n, limit, K, b_row, b_column, BM, BN, 32)
    tl.store(c + m[:, None] * c_row + n[None, :], total, mask=(m < M)[:, None] & (n < N)[None, :])


@tw.jit
def counting(a, b, c, K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, HOW: tl.constexpr):
    """Before it multiplies, each program adds 1 to B, which lies by columns."""
    m, n, k = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, K)
    places = b + n[:, None] * K + k[None, :]
    if HOW == "store":
        tl.store(places, tl.load(places) + 1)
    if HOW == "atomic":
        tl.atomic_add(places, 1.0)
    if HOW == "anywhere":
        tl.store(b + tl.load(places).to(tl.int32), 1.0)
    total = tile_product(a, b, m, n, K, K, 1, K, BM, BN, 32)
    if HOW == "volatile":
        total += tl.load(a, volatile=True)
    tl.store(c + m[:, None] * BN + n[None, :], total)


def lowered(kernel: Any) -> Op:
    """The loops of a compiled kernel in front of the pass."""
    module = parse_module(kernel.asm["ttcir"])
    names = [step.name for step in loop_passes(TARGET)]
    run_passes(module, loop_passes(TARGET)[: names.index("keep_panels")])
    return module


def launch(a: Any, b: Any, c: Any, *, shorter: int = 0, way: str = "down", tile: tuple[int, int] = (64, 64)) -> Any:
    """Launch `product` on one thread; the arrays are matrices with any strides."""
    (m, k), n = a.shape, b.shape[1]
    strides = [step // 4 for step in (*b.strides, c.strides[0])]
    programs = -(-m // tile[0]) * -(-n // tile[1])
    return product[(programs,)](a, b, c, m, n, k, *strides, shorter, way, *tile, num_threads=1)


def matrix(rows: int, columns: int) -> np.ndarray:
    return RNG.integers(-9, 9, (rows, columns)).astype(np.float32)


def choosing(rows: int, columns: int) -> np.ndarray:
    """A matrix by which a product takes rows of the other one: numbers do not grow when products are multiplied."""
    return np.eye(columns, dtype=np.float32)[RNG.integers(0, columns, rows)]


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    """For each product that `run_ir` executes, the address of its panels, and whether they are there."""
    found, execute = list[tuple[int, bool]](), EXECUTORS["cpu.matmul"]

    def note(machine: Any, op: Any, *operands: Any) -> Any:
        found.append((int(operands[11]), bool(operands[12])))
        return execute(machine, op, *operands)

    monkeypatch.setitem(EXECUTORS, "cpu.matmul", note)
    return found


def run(a: Any, b: Any, way: str, *, tile: tuple[int, int] = (64, 64)) -> None:
    """Execute the products of all programs by `run_ir`."""
    (m, k), n = a.shape, b.shape[1]
    out, programs = np.zeros((m, n), np.float32), (m // tile[0]) * (n // tile[1])
    module = lowered(launch(a, b, np.zeros_like(out), way=way, tile=tile))
    assert keep_panels(module, TARGET)
    row, column = (step // 4 for step in b.strides)
    by_rows = b.T if row == 1 else b
    given = {"a": a, "b": by_rows, "c": out, "M": m, "N": n, "K": k, "b_row": row, "b_column": column, "c_row": n}
    given["shorter"] = 0
    parameters = functions_of(module)[0].body.args
    run_ir(module, [given[parameter.name or ""] for parameter in parameters], (programs,))
    assert (out == a @ b).all()


def test_programs_that_share_b_find_its_panels(found: list[tuple[int, bool]]) -> None:
    run(matrix(192, 64), matrix(128, 64).T, "down")
    assert [kept for _, kept in found] == 2 * ([False] * 2 + [True] * 4)


@pytest.mark.parametrize(
    ("pitch", "collide"),
    [(1024, True), (1026, True), (1032, True), (2040, True), (1016, True), (1034, False), (1014, False), (1088, False)],
)
def test_rows_that_are_read_where_they_lie_have_no_panels(
    pitch: int, collide: bool, found: list[tuple[int, bool]]
) -> None:
    """Only rows that collide in the cache are packed: eight of 256 bytes, up to 32 bytes from whole pages each."""
    run(matrix(256, 64), matrix(64, pitch)[:, :960], "down", tile=(128, 64))
    assert [kept for _, kept in found] == 15 * ([False] * 2 + [collide] * 2)


@pytest.mark.spared
def test_programs_that_share_nothing_use_one_slot_in_the_end(
    found: list[tuple[int, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    change_costs(monkeypatch, kept_panels=1 << 20)
    run(matrix(64, 64), matrix(64 * (MAX_SLOTS + 8), 64).T, "row")
    places, searched = [place for place, _ in found], 2 * MAX_SLOTS + 1
    assert len(set(places[:searched])) == 2
    assert len(set(places[searched:])) == 1
    assert places[-1] > max(places[:searched])


@pytest.mark.parametrize("programs", [1, 2])
def test_a_launch_of_one_program_has_one_slot(found: list[tuple[int, bool]], programs: int) -> None:
    run(matrix(64 * programs, 128), matrix(64, 128).T, "down")
    turns = len(found) // programs
    assert [kept for _, kept in found] == [number >= turns for number in range(len(found))]
    assert len({place for place, _ in found}) == (1 if programs == 1 else turns)


@pytest.mark.parametrize("way", ["down", "up", "row"])
def test_every_order_of_programs(way: str) -> None:
    """By rows no program finds panels, until it is not worth to look for them. The last tiles read beyond A and B."""
    a, b = matrix(256, 32 * 12)[:200], matrix(64 * 12, 32 * 12)[:-3].T
    c = np.zeros((200, b.shape[1]), np.float32)
    launch(a, b, c, way=way)
    assert (c == a @ b).all()


def test_more_turns_than_slots() -> None:
    a, b = matrix(192, 32 * (MAX_SLOTS + 5)), matrix(64, 32 * (MAX_SLOTS + 5)).T
    c = np.zeros((192, 64), np.float32)
    launch(a, b, c)
    assert (c == a @ b).all()


@pytest.mark.parametrize("forwards", [True, False])
@pytest.mark.parametrize("start", [0, 100, 64 * 64, 64 * 64 + 60, 2 * 64 * 64 - 10])
def test_a_product_that_is_stored_over_b(start: int, forwards: bool) -> None:
    """Each program sees what the programs before it left of B, be its columns in ascending or descending order."""
    memory = RNG.integers(-9, 9, 5 * 64 * 64).astype(np.float32)
    expected, a = memory.copy(), choosing(256, 64)

    def arrays(of: Any) -> tuple[Any, Any]:
        columns = of[start : start + 64 * 64].reshape(64, 64)
        return columns[:: 1 if forwards else -1].T, of[: 256 * 64].reshape(256, 64)

    kernel = launch(a, *arrays(memory))
    b, c = arrays(expected)
    for first in range(0, 256, 64):
        c[first : first + 64] = a[first : first + 64] @ b.copy()
    assert (memory == expected).all()
    assert keep_panels(lowered(kernel), TARGET), "the comparison of ranges is what protects it"


@pytest.mark.parametrize("start", [0, 64, 1024 * 60, 1024 * 64])
def test_a_product_that_is_stored_over_colliding_rows_of_b(start: int) -> None:
    """Rows of B that are only copied are kept, too, until one of them is written."""
    memory = RNG.integers(-9, 9, 2 * 64 * 1024 + start).astype(np.float32)
    expected, a = memory.copy(), choosing(384, 64)

    def arrays(of: Any) -> tuple[Any, Any]:
        return of[: 64 * 1024].reshape(64, 1024)[:, :64], of[start : start + 384 * 160].reshape(384, 160)[:, :64]

    kernel = launch(a, *arrays(memory), tile=(128, 64))
    b, c = arrays(expected)
    for first in range(0, 384, 128):
        c[first : first + 128] = a[first : first + 128] @ b.copy()
    assert (memory == expected).all()
    assert keep_panels(lowered(kernel), TARGET), "the comparison of ranges is what protects it"


def test_programs_that_change_b_before_they_read_it() -> None:
    a, b, c = matrix(192, 64), matrix(64, 64), np.zeros((192, 64), np.float32)
    expected = [a[64 * p : 64 * p + 64] @ (b.T + p + 1) for p in range(3)]
    kernel = counting[(3,)](a, b, c, 64, 64, 64, "store", num_threads=1)
    assert (c == np.concatenate(expected)).all()
    assert keep_panels(lowered(kernel), TARGET), "the comparison of ranges is what protects it"


def test_turns_are_counted_in_steps_upwards() -> None:
    a, b, c = matrix(192, 64), matrix(64, 64), np.zeros((192, 64), np.float32)
    kernel = counting.warmup(a, b, c, 64, 64, 64, "store", grid=(3,), num_threads=1)
    for step, is_kept in ((1, True), (32, True), (0, False), (-32, False)):
        module = lowered(kernel)
        loop = next(op.parent for op in module.ops_of(Matmul))
        assert isinstance(loop, For)
        other = OpBuilder(loop).constant(step, loop.step.type)
        loop.set_operands([other if value is loop.step else value for value in loop.operands])
        assert keep_panels(module, TARGET) is is_kept, step


@pytest.mark.parametrize("how", ["atomic", "anywhere", "volatile"])
def test_what_others_may_write_is_read_anew(how: str) -> None:
    a, b, c = matrix(64, 64), abs(matrix(64, 64)), np.zeros((64, 64), np.float32)
    module = lowered(counting.warmup(a, b, c, 64, 64, 64, how, grid=(1,)))
    assert not keep_panels(module, TARGET)
    assert not any(op.keeps for op in module.ops_of(Matmul))


def test_products_that_wait_keep_their_panels() -> None:
    a, b, c = matrix(192, 64), matrix(64, 64), np.zeros((192, 64), np.float32)
    module = lowered(counting.warmup(a, b, c, 64, 64, 64, "store", grid=(3,), num_threads=1))
    product = next(iter(module.ops_of(Matmul)))
    product.attributes = {**product.attributes, "waits": True}
    with pytest.raises(VerificationError, match="waits with its B packed"):
        verify(module)


def test_the_next_launch_reads_b_anew() -> None:
    a, b, c = matrix(128, 64), matrix(64, 64).T, np.zeros((128, 64), np.float32)
    for _ in range(3):
        launch(a, b, c)
        assert (c == a @ b).all()
        b += 1


def test_programs_with_few_rows_leave_nothing() -> None:
    """Where only three rows count B is not packed, even if its rows collide in the cache."""
    a, b = matrix(128 * 2 + 3, 64), matrix(64, 1024)
    c = np.zeros((len(a), 1024), np.float32)
    launch(a, b, c, way="up", tile=(128, 64))
    assert (c == a @ b).all()


@pytest.mark.parametrize("way", ["down", "up"])
@pytest.mark.parametrize("transposed", [False, True])
def test_programs_that_end_elsewhere_along_k(way: str, transposed: bool) -> None:
    a, b = matrix(128 * 3, 64), matrix(128, 64).T if transposed else matrix(64, 1024)[:, :128]
    c = np.zeros((len(a), 128), np.float32)
    launch(a, b, c, way=way, shorter=12, tile=(128, 64))
    for tile in range(3):
        rows, end = slice(128 * tile, 128 * tile + 128), 64 - 12 * (2 - tile)
        assert (c[rows] == a[rows, :end] @ b[:end]).all(), tile


@tw.jit
def twice(a, b, c, K, b_row, b_column, BM: tl.constexpr, BN: tl.constexpr, SEVERAL: tl.constexpr):
    """Sums of products by B, and of others by its square."""
    rows, columns = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for first in range(0, K, 64):
        k = first + tl.arange(0, 64)
        tile = tl.load(b + columns[None, :] * b_column + k[:, None] * b_row)
        total = tl.dot(tl.load(a + rows[:, None] * K + k[None, :]), tile, total, "ieee")
        if SEVERAL:
            total = tl.dot(total, tile, total, "ieee")
    tl.store(c + rows[:, None] * BN + columns[None, :], total)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("across", [False, True])
def test_products_that_share_a_loop(several: bool, across: bool) -> None:
    """Two products keep what they transpose, and copy their rows anew."""
    a, b, c = matrix(64, 128), matrix(64, 128), np.zeros((64, 64), np.float32)
    module = lowered(twice.warmup(a, b, c, 128, *((1, 128) if across else (1024, 1)), 64, 64, several, grid=(1,)))
    assert keep_panels(module, TARGET) == (across or not several)
    assert all(op.keeps for op in module.ops_of(Matmul)) == (across or not several)


@pytest.mark.parametrize("several", [False, True])
def test_sums_of_products_that_share_a_loop(several: bool) -> None:
    a, b, c = matrix(192, 128), choosing(64, 128), np.zeros((192, 64), np.float32)
    twice[(3,)](a, b, c, 128, 1, 128, 64, 64, several, num_threads=1)
    expected = np.zeros_like(c)
    for k in (slice(0, 64), slice(64, 128)):
        expected += a[:, k] @ b[:, k].T
        if several:
            expected += expected @ b[:, k].T
    assert (c == expected).all()


@tw.jit
def words(a, b, c, K, N, ACC: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Tiles of one column of the product follow one another."""
    m, n = tl.program_id(0) * BM + tl.arange(0, BM)[:, None], tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    k, total = tl.arange(0, BK), tl.zeros((BM, BN), ACC)
    for first in range(0, K, BK):
        left, right = tl.load(a + m * K + first + k[None, :]), tl.load(b + (first + k[:, None]) * N + n)
        total = tl.dot(left, right, total, out_dtype=ACC)
    tl.store(c + m * N + n, total)


@pytest.mark.parametrize(("dtype", "accumulator"), [(np.int8, tl.int32), (ml_dtypes.bfloat16, tl.float32)])
@pytest.mark.parametrize("programs", [1, 3])
def test_rows_that_are_interleaved(
    dtype: Any, accumulator: Any, programs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums of columns are kept with the panels, and both are those of this B."""
    change_costs(monkeypatch, kept_groups=4096)
    a, b = matrix(64 * programs, 128).astype(dtype), matrix(128, 192).astype(dtype)
    c = np.zeros((len(a), 192), np.int32 if dtype is np.int8 else np.float32)
    for _ in range(2):
        words[(programs, 3)](a, b, c, 128, 192, accumulator, 64, 64, 64, num_threads=1)
        np.testing.assert_array_equal(c, a.astype(np.float64) @ b.astype(np.float64))
        b = -b


def test_rows_are_interleaved_again_where_that_is_fast() -> None:
    spec = make_spec((128, 128, 64), i8, i32)
    assert kept_bytes(spec, host_target("znver5")) > 0
    assert kept_bytes(make_spec((64, 64, 64), i8, i32), host_target("znver5")) == 0
    assert kept_bytes(spec, host_target("znver4")) == 0
