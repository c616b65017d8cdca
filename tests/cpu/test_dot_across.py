"""Right matrices of which the launch tells that they lie transposed, as the weights of a linear layer do."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from changed_costs import change_costs
from guarded_memory import between_guards

import tilewright as tw
import tilewright.language as tl
from lowered_code import code_on
from tilewright.dialects.scf import If
from tilewright.dialects.vector import Prefetch
from tilewright.ir.parser import parse_module


@tw.jit
def product(
    a, b, c, M, N, K, b_row: int, b_step: int,
    ACC: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):
    m, n, k = tl.arange(0, BM)[:, None], tl.program_id(0) * BN + tl.arange(0, BN)[None, :], tl.arange(0, BK)
    total = tl.zeros((BM, BN), ACC)
    for start in range(0, K, BK):
        step = start + k
        left = tl.load(a + m * K + step[None, :], (m < M) & (step < K)[None, :], 0)
        right = tl.load(b + step[:, None] * b_row + n * b_step, (step < K)[:, None] & (n < N), 0)
        total = tl.dot(left, right, total, input_precision="ieee", out_dtype=ACC)
    tl.store(c + m * N + n, total, (m < M) & (n < N))


def right_matrix(depth: int, columns: int, row: int, step: int, dtype: Any, end: int) -> np.ndarray:
    """Small integers `row` elements apart along the depth; they begin or end at a page that must not be touched."""
    reach = (depth - 1) * row + (columns - 1) * abs(step) + 1
    flat = between_guards(reach, dtype)[end]
    flat[:] = np.random.default_rng(reach).integers(-4, 5, reach)
    start = flat[-step * (columns - 1) :] if step < 0 else flat
    return np.lib.stride_tricks.as_strided(start, (depth, columns), (row * flat.itemsize, step * flat.itemsize))


def check(b: np.ndarray, rows: int, block: tuple[int, int, int], accumulator: Any = tl.float32) -> None:
    depth, columns = b.shape
    a = np.random.default_rng(rows).integers(-4, 5, (rows, depth)).astype(b.dtype)
    c = np.zeros((rows, columns), str(accumulator).replace("fp", "float"))
    steps, blocks = (stride // b.itemsize for stride in b.strides), dict(zip(("BM", "BN", "BK"), block, strict=True))
    product[(-(-columns // block[1]),)](a, b, c, rows, columns, depth, *steps, ACC=accumulator, **blocks)
    np.testing.assert_array_equal(c, a.astype(np.float64) @ b.astype(np.float64))


@pytest.mark.parametrize("cpu", ["", "x86-64-v3"])
@pytest.mark.parametrize("end", [0, 1])
@pytest.mark.parametrize("depth", [32, 64, 45, 3])
@pytest.mark.parametrize("columns", [64, 96, 70, 16, 5])
@code_on("neoverse-v1")
def test_rows_that_are_neighbours(columns: int, depth: int, end: int, cpu: str) -> None:
    """Nothing is read behind the last of the depth and of the columns, in tiles that both end in."""
    with tw.knobs.tilewright.scope():
        tw.knobs.tilewright.cpu = cpu
        for rows, block in ((64, (64, 64, 32)), (3, (16, 64, 16)), (20, (32, 32, 4))):
            check(right_matrix(depth, columns, 1, depth, np.float32, end), rows, block)


@pytest.mark.parametrize("row", [1, 2, 64])
@pytest.mark.parametrize("step", [1, 2, 3, 64, 67, 130, -64])
def test_rows_and_columns_at_other_distances(step: int, row: int) -> None:
    for depth in (64, 50):
        check(right_matrix(depth, 64, row, step, np.float32, 1), 64, (64, 64, 32))


@pytest.mark.parametrize("dtype", [np.float64, np.float16, ml_dtypes.bfloat16, np.int8])
@pytest.mark.parametrize("depth", [32, 40])
def test_all_types(dtype: Any, depth: int) -> None:
    accumulator = {np.float64: tl.float64, np.int8: tl.int32}.get(dtype, tl.float32)
    check(right_matrix(depth, 48, 1, depth, dtype, 1), 64, (64, 32, 16), accumulator)


@pytest.mark.parametrize(("cpu", "squares"), [("znver4", 4), ("x86-64-v3", 2), ("neoverse-n1", 1)])
def test_squares_are_transposed_in_registers(cpu: str, squares: int) -> None:
    """One square of 4 x 4 for each quad of lanes, at one place: all kernels of unknown strides have this body."""
    types = dict.fromkeys("abc", "*fp32") | dict.fromkeys(("M", "N", "K", "b_row", "b_step"), "i32")
    chosen = {"ACC": tl.float32, "BM": 64, "BN": 64, "BK": 32}
    source = tw.ASTSource(product, types | dict.fromkeys(chosen, "constexpr"), chosen)
    text = tw.compile(source, target=tw.GPUTarget("cpu", cpu, 0)).asm["loops"]
    assert len(re.findall(r"vector\.load .* -> vector<4xi32>", text)) == 4 * squares


def test_strides_that_are_known_ask_nothing() -> None:
    types = dict.fromkeys("abc", "*fp32") | dict.fromkeys(("M", "N", "K"), "i32")
    chosen = {"b_row": 64, "b_step": 1, "ACC": tl.float32, "BM": 64, "BN": 64, "BK": 32}
    source = tw.ASTSource(product, types | dict.fromkeys(chosen, "constexpr"), chosen)
    text = tw.compile(source, target=tw.GPUTarget("cpu", "znver4", 0)).asm["loops"]
    assert "vector<4xi32>" not in text


def lines_asked_for(**known: int) -> list[int]:
    """The cache lines that are asked for in each row of a tile, where tests choose between several."""
    types = dict.fromkeys("abc", "*fp32") | dict.fromkeys(("M", "N", "K", "b_row", "b_step"), "i32")
    chosen = {"ACC": tl.float32, "BM": 64, "BN": 64, "BK": 32} | known
    source = tw.ASTSource(product, types | dict.fromkeys(chosen, "constexpr"), chosen)
    module = parse_module(tw.compile(source, target=tw.GPUTarget("cpu", "znver4", 0)).asm["loops"])
    found = []
    for op in module.ops_of(If):
        first, *others = [list(region.walk()) for region in op.regions]
        asked = [sum(isinstance(inner, Prefetch) for inner in side) for side in (first, *others)]
        if all(asked) and not any(isinstance(inner, If) for inner in first):
            found.append(asked[0])
    return sorted(found)


def test_the_next_columns_are_asked_for() -> None:
    """64 columns of 128 bytes where rows are neighbours, else 32 rows of 512 bytes, or of 256 (not in the list)."""
    assert lines_asked_for() == [2 + 1, 8 + 1]
    assert lines_asked_for(b_step=1) == [4 + 1], "B, before A"


def test_the_result_is_asked_for_where_that_pays_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the last turn each block asks for rows of 256 bytes, by the lines of B where its rows are as long."""
    change_costs(monkeypatch, prefetched_results=True)
    assert lines_asked_for() == [2 + 1, 4 + 1, 8 + 1]
    assert lines_asked_for(b_step=1) == [4 + 1], "of the result or of B, before A"
