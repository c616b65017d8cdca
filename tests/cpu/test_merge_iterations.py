"""Turns of a loop along k are multiplied at once only while what they read is there a turn later."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from changed_costs import change_costs

import tilewright as tw
import tilewright.language as tl
from lowered_code import code_on
from tilewright.backends.cpu.merge_iterations import MAX_MERGED
from tilewright.backends.cpu.pipeline import loop_passes
from tilewright.backends.llvm.machine import host_target
from tilewright.dialects.cpu import Matmul
from tilewright.interpreter.machine import EXECUTORS
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.pass_manager import run_passes
from tilewright.transforms.functions import functions_of

TILED = "sapphirerapids"
has_tiles = pytest.mark.skipif(
    "amx-tile" not in host_target(TILED).features, reason="kernels ask Linux on x86-64 for tile registers"
)
RNG = np.random.default_rng(5)
M, N, DEPTH = 64, 128, 64


@tw.jit
def product(
    a, b, c, K, rows, WAY: tl.constexpr, ACC: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    """`WAY`: what the loop does beside its product.

    store: the A of this turn becomes zero behind the product.
    read: the sums so far are stored.
    loaded: how much of A counts stands in memory.
    moved: rows of A are further apart in each turn.
    twice: there are two products, one of which begins with 1.
    """
    m, n, k = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    total = tl.zeros((BM, BN), ACC)
    more = tl.full((BM, BN), 1 if WAY == "twice" else 0, ACC)
    for first in range(0, K, BK):
        row = K
        if WAY == "moved":
            row = K + first
        places, end = a + (m % rows)[:, None] * row + first + k[None, :], K - first
        if WAY == "loaded":
            end = tl.load(c + BM * BN + first // BK)
        left = tl.load(places, mask=k[None, :] < end, other=0)
        right = tl.load(b + (first + k)[:, None] * BN + n[None, :], mask=k[:, None] < K - first, other=0)
        total = tl.dot(left, right, total, out_dtype=ACC)
        if WAY == "store":
            tl.store(places, tl.zeros((BM, BK), tl.int8), mask=k[None, :] < end)
        if WAY == "read":
            tl.store(c + m[:, None] * BN + n[None, :], total)
        if WAY == "twice":
            more = tl.dot(left, right, more, out_dtype=ACC)
    tl.store(c + m[:, None] * BN + n[None, :], total + more)


def matrices(m: int, k: int, dtype: Any = np.int8) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A, B and the product."""
    a, b = (RNG.integers(-128, 128, shape).astype(dtype) for shape in ((m, k), (k, N)))
    return a, b, a.astype(np.float64) @ b.astype(np.float64)


def lowered(way: str, element: str = "i8", tile: tuple[int, int, int] = (M, N, DEPTH), cpu: str = "znver5") -> Op:
    """The loops behind the pass, for `cpu`."""
    accumulator = tl.int32 if element == "i8" else tl.float32
    result = "*i32" if element == "i8" else "*fp32"
    types = {"a": f"*{element}", "b": f"*{element}", "c": result, "K": "i32", "rows": "i32"}
    chosen = {"WAY": way, "ACC": accumulator, "BM": tile[0], "BN": tile[1], "BK": tile[2]}
    source = tw.ASTSource(product, types | dict.fromkeys(chosen, "constexpr"), chosen)
    module = parse_module(tw.compile(source, target=tw.GPUTarget("cpu", cpu, 0)).asm["ttcir"])
    passes = loop_passes(host_target(cpu))
    names = [step.name for step in passes]
    run_passes(module, passes[: names.index("merge_iterations") + 1])
    return module


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bool, int]]:
    """For each turn that `run_ir` executes, whether it waits, and how many are multiplied up to it."""
    found, execute = list[tuple[bool, int]](), EXECUTORS["cpu.matmul"]

    def note(machine: Any, op: Matmul, *operands: Any) -> Any:
        assert op.waits
        found.append((bool(operands[13]), int(operands[14])))
        return execute(machine, op, *operands)

    monkeypatch.setitem(EXECUTORS, "cpu.matmul", note)
    return found


@pytest.mark.parametrize(
    ("depth", "expected"),
    [
        (64, [(False, 1)]),
        (128, [(True, 1), (False, 2)]),
        (6 * 64, [(True, 1), (True, 2), (True, 3), (False, MAX_MERGED), (True, 1), (False, 2)]),
        (6 * 64 - 4, [(True, 1), (True, 2), (True, 3), (False, MAX_MERGED), (False, 1), (False, 1)]),
        (3 * 64 - 4, [(True, 1), (False, 2), (False, 1)]),
    ],
)
@code_on("znver5")
def test_turns_wait_for_those_that_read_in_place(
    depth: int, expected: list[tuple[bool, int]], found: list[tuple[bool, int]]
) -> None:
    """The last turn of a loop that does not divide copies its operands, so none waits for it."""
    a, b, wanted = matrices(M, depth)
    c = np.zeros((M, N), np.int32)
    module = lowered("")
    given = {"a": a, "b": b, "c": c, "K": depth, "rows": M}
    run_ir(module, [given[parameter.name or ""] for parameter in functions_of(module)[0].body.args], (1,))
    assert found == expected
    assert (c == wanted).all()


@has_tiles
@pytest.mark.parametrize(("depth", "most"), [(32, 8), (64, 4), (128, 2)])
def test_tiles_wait_until_rows_of_a_have_512_bytes(depth: int, most: int, found: list[tuple[bool, int]]) -> None:
    """However few the sums are."""
    rows, iterations = 32, 11
    a, b, wanted = matrices(rows, iterations * depth, ml_dtypes.bfloat16)
    c = np.zeros((rows, N), np.float32)
    module = lowered("", "bf16", (rows, N, depth), TILED)
    given = {"a": a, "b": b, "c": c, "K": iterations * depth, "rows": rows}
    run_ir(module, [given[parameter.name or ""] for parameter in functions_of(module)[0].body.args], (1,))
    assert [count for waits, count in found if not waits] == [most] * (iterations // most) + [iterations % most]
    assert (c == wanted).all()


@has_tiles
def test_long_rows_of_tiles_do_not_wait() -> None:
    assert [op.waits for op in lowered("", "bf16", (32, N, 256), TILED).ops_of(Matmul)] == [False]


@pytest.mark.parametrize("way", ["store", "read", "loaded", "moved", "twice"])
def test_loops_that_do_more_are_left_alone(way: str) -> None:
    assert not any(op.waits for op in lowered(way).ops_of(Matmul))


@pytest.mark.parametrize(
    ("element", "tile"),
    [("fp32", (M, N, DEPTH)), ("bf16", (M, N, DEPTH)), ("i8", (M, N, 128)), ("i8", (32, N, DEPTH))],
)
def test_products_that_gain_nothing_are_left_alone(element: str, tile: tuple[int, int, int]) -> None:
    """Those of one number, of long turns, and of few sums."""
    assert not any(op.waits for op in lowered("", element, tile).ops_of(Matmul))


@code_on("znver5")
def test_without_other_work_they_wait() -> None:
    assert [op.waits for op in lowered("").ops_of(Matmul)] == [True]


@pytest.mark.parametrize(
    ("way", "rows"),
    [(way, rows) for way in ("", "store", "twice") for rows in (M, 3 * M, 3 * M - 5) if way != "store" or not rows % M],
)  # with `store`, programs would store to rows of others where the last one has fewer
@pytest.mark.parametrize("depth", [16, 64, 100, 192, 256, 320, 600, 64 * 70])
def test_results_on_this_machine(way: str, depth: int, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs find the B of others, or not; behind the last slot turns have spare ones."""
    change_costs(monkeypatch, merged_groups=16, kept_groups=1)
    a, b, wanted = matrices(rows, depth)
    programs = -(-rows // M)
    c = np.zeros((programs * M, N), np.int32)
    product[(programs,)](a.copy(), b, c, depth, rows, way, tl.int32, M, N, DEPTH, num_threads=1)
    assert (c[:rows] == (2 * wanted + 1 if way == "twice" else wanted)).all()


def test_pairs_of_bfloat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two numbers of a word, without corrections: small integers are exact."""
    change_costs(monkeypatch, merged_groups=32, kept_groups=1)
    a, b = (RNG.integers(-8, 9, shape).astype(ml_dtypes.bfloat16) for shape in ((M, 7 * DEPTH), (7 * DEPTH, N)))
    c = np.zeros((M, N), np.float32)
    product[(1,)](a, b, c, 7 * DEPTH, M, "", tl.float32, M, N, DEPTH, num_threads=1)
    assert (c == a.astype(np.float32) @ b.astype(np.float32)).all()
