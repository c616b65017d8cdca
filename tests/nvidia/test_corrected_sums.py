"""A partition that corrects sums in tensor memory, on a simulated sm_100, by factors of several kinds."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from simulated import compiled, launch
from test_specialized_loops import attended, partitions_of, unnoticed_mutants

import tilewright as tw
import tilewright.language as tl

RANDOM = np.random.default_rng(5)


@tw.jit
def weighted(a, b, factors, c, N, HOW: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """Sums of products, changed in each step by what the step computes, in one of several ways."""
    left = tl.make_tensor_descriptor(a, [BM, N], [N, 1], [BM, BN])
    right = tl.make_tensor_descriptor(b, [N, D], [D, 1], [BN, D])
    out = tl.make_tensor_descriptor(c, [BM, D], [D, 1], [BM, D])
    rows = tl.arange(0, BM)
    total = tl.full([BM, D], 1.0, tl.float32)
    other = tl.zeros([BM, D], tl.float32)
    seen = tl.zeros([BM], tl.float32)
    last = tl.full([BM], 0.5, tl.float32)
    for n in tl.range(0, N, BN, warp_specialize=True):
        factor = tl.load(factors + n // BN * BM + rows)
        seen += factor
        if HOW == "rows":
            changed = total * factor[:, None] + seen[:, None]
        elif HOW == "number":
            changed = total * 0.5 + tl.load(factors + n)
        elif HOW == "tile":
            changed = total * (factor[:, None] + tl.arange(0, D)[None, :] / 64)
        elif HOW == "used twice":
            changed = total * factor[:, None]
            other += total
        elif HOW == "of the last step":
            changed = total * last[:, None]
            last = factor
        total = tl.dot(left.load([0, n]), right.load([n, 0]), changed)
    out.store([0, 0], total + other + seen[:, None])


def expected_of(a: Any, b: Any, factors: Any, how: str, block: int) -> Any:
    total, other = np.ones((len(a), b.shape[1]), np.float32), np.zeros((len(a), b.shape[1]), np.float32)
    seen, last = np.zeros(len(a), np.float32), np.full(len(a), 0.5, np.float32)
    for step in range(a.shape[1] // block):
        factor = factors[step]
        seen = seen + factor
        if how == "rows":
            changed = total * factor[:, None] + seen[:, None]
        elif how == "number":
            changed = total * 0.5 + factors.reshape(-1)[step * block]
        elif how == "tile":
            changed = total * (factor[:, None] + np.arange(b.shape[1])[None, :] / 64)
        else:
            changed = total * (last if how == "of the last step" else factor)[:, None]
            other, last = other + total if how == "used twice" else other, factor
        part = slice(step * block, (step + 1) * block)
        total = changed.astype(np.float32) + a[:, part].astype(np.float32) @ b[part].astype(np.float32)
    return total + other + seen[:, None]


@pytest.mark.parametrize(
    ("how", "partitions"), [("rows", 4), ("number", 4), ("tile", 4), ("used twice", 3), ("of the last step", 4)]
)
@pytest.mark.parametrize("steps", [0, 1, 5])
def test_sums_that_a_step_changes(how: str, partitions: int, steps: int) -> None:
    a, b = (RANDOM.integers(-2, 3, shape).astype(np.float16) for shape in ((128, 64 * steps), (64 * steps, 64)))
    factors = RANDOM.integers(0, 3, (max(1, steps) * 64, 128)).astype(np.float32) / 2
    arguments = [a, b, factors, np.zeros((128, 64), np.float32), 64 * steps]
    kernel = compiled(weighted, arguments, capability=100, HOW=how, BM=128, BN=64, D=64)
    assert len(partitions_of(kernel)) == partitions
    out = launch(kernel, (1,), arguments)[3]
    np.testing.assert_allclose(out, expected_of(a, b, factors, how, 64), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("columns", "warps", "partitions"), [(64, 8, 4), (128, 4, 4), (256, 4, 4), (256, 8, 3)])
def test_sums_of_many_registers(columns: int, warps: int, partitions: int) -> None:
    """Eight warps have 12 others with them, so that no thread may need more than 96 registers where the loop ends."""
    a, b = np.zeros((128, 64), np.float16), np.zeros((64, columns), np.float16)
    arguments = [a, b, np.zeros((64, 128), np.float32), np.zeros((128, columns), np.float32), 64]
    options = {"HOW": "rows", "BM": 128, "BN": 64, "D": columns, "num_warps": warps, "num_stages": 2}
    assert len(partitions_of(compiled(weighted, arguments, capability=100, **options))) == partitions


@tw.jit
def attentions(q, k, v, o, M, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """Attention of several blocks of rows, one after the other."""
    queries = tl.make_tensor_descriptor(q, [M, D], [D, 1], [BM, D])
    keys = tl.make_tensor_descriptor(k, [N, D], [D, 1], [BN, D])
    values = tl.make_tensor_descriptor(v, [N, D], [D, 1], [BN, D])
    out = tl.make_tensor_descriptor(o, [M, D], [D, 1], [BM, D])
    for tile in tl.range(tl.program_id(0), M // BM, tl.num_programs(0), warp_specialize=True):
        query = queries.load([tile * BM, 0])
        largest = tl.full([BM], float("-inf"), tl.float32)
        weight = tl.full([BM], 1.0, tl.float32)
        total = tl.full([BM, D], 0.5, tl.float32)
        for n in range(0, N, BN):
            scores = tl.dot(query, keys.load([n, 0]).T)
            new = tl.maximum(largest, tl.max(scores, 1))
            shares = tl.exp2(scores - new[:, None])
            smaller = tl.exp2(largest - new)
            weight = weight * smaller + tl.sum(shares, 1)
            total = tl.dot(shares.to(tl.float16), values.load([n, 0]), total * smaller[:, None])
            largest = new
        out.store([tile * BM, 0], (total / weight[:, None]).to(tl.float16))


def attention_of_blocks(tiles: int, n: int, rows: int = 128) -> tuple[list[Any], Any]:
    q, k, v = (RANDOM.standard_normal((size, 64)).astype(np.float16) for size in (rows * tiles, n, n))
    arguments = [q, k, v, np.zeros_like(q), len(q), n]
    return arguments, attended(q, k, v) if n else np.full(q.shape, 0.5, np.float16)


@pytest.mark.parametrize(
    ("tiles", "n"), [pytest.param(1, 0, marks=pytest.mark.slow), (3, 0), (2, 192), (5, 128), (3, 64)]
)
def test_attention_of_several_blocks(tiles: int, n: int) -> None:
    arguments, expected = attention_of_blocks(tiles, n)
    kernel = compiled(attentions, arguments, capability=100, BM=128, BN=64, D=64)
    default, correction, multiplied, _ = partitions_of(kernel)
    assert re.findall("tmem_[a-z]+|math.exp2", default) == ["tmem_store", "tmem_load", *["math.exp2"] * 2, "tmem_load"]
    assert re.findall("tmem_[a-z]+|math.exp2|scf.for", correction) == ["scf.for", "scf.for", "tmem_load", "tmem_store"]
    assert re.findall("tc_gen5_mma|scf.for", multiplied) == ["scf.for", "tc_gen5_mma", "scf.for", *["tc_gen5_mma"] * 2]
    np.testing.assert_allclose(launch(kernel, (2,), arguments)[3], expected, atol=2e-3)


@pytest.mark.slow
def test_every_missing_barrier_of_several_blocks_is_reported() -> None:
    cases = [attention_of_blocks(2, n, 64)[0] for n in (320, 0)]
    kernel = compiled(attentions, cases[0], capability=100, BM=64, BN=64, D=64)
    unnoticed = unnoticed_mutants(kernel, cases)  # a fence for the queries, a wait of the first step: as of one block
    assert ["fence" in line for line in unnoticed] == [True, False]
