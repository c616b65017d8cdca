"""Products that start before those of the step before, in a partition of their own on a simulated sm_100."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from simulated import compiled, launch
from test_specialized_loops import partitions_of

import tilewright as tw
import tilewright.language as tl

RANDOM = np.random.default_rng(7)


@tw.jit
def chain(a, b, c, o, N, HOW: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """Sums of products of products, of which each step uses what the first one gives."""
    left = tl.make_tensor_descriptor(a, [BM, D], [D, 1], [BM, D])
    right = tl.make_tensor_descriptor(b, [N, D], [D, 1], [BN, D])
    last = tl.make_tensor_descriptor(c, [N, D], [D, 1], [BN, D])
    out = tl.make_tensor_descriptor(o, [BM, D], [D, 1], [BM, D])
    query = left.load([0, 0])
    total = tl.zeros([BM, D], tl.float32)
    weight = tl.zeros([BM], tl.float32)
    for n in tl.range(0, N, BN, warp_specialize=True):
        if HOW == "changed":
            weight += tl.sum(total, 1)
        if HOW == "last first":
            value = last.load([n, 0])
        key = right.load([n, 0])
        if HOW == "changed":
            key *= 2
        scores = tl.dot(query, key.T)
        if HOW != "last first":
            value = last.load([n, 0])
        total = tl.dot((scores * 0.5).to(tl.float16), value, total)
    out.store([0, 0], (total + weight[:, None]).to(tl.float16))


@pytest.mark.parametrize(
    ("how", "stages", "ahead"),
    [("", 1, True), ("", 3, True), ("last first", 2, True), ("last first", 1, False), ("changed", 2, False)],
)
@pytest.mark.parametrize("steps", [0, 1, 2, 5])
def test_a_product_of_a_product(how: str, stages: int, ahead: bool, steps: int) -> None:
    """One place for the last operand is free when the step is over, in which the next keys would have to be there.

    Keys that threads change are there when they have done all of the step before, and here read its sums.
    """
    a = RANDOM.integers(-1, 2, (128, 64)).astype(np.float16)
    b, c = (RANDOM.integers(-1, 2, (64 * steps, 64)).astype(np.float16) for _ in range(2))
    arguments: list[Any] = [a, b, c, np.zeros((128, 64), np.float16), 64 * steps]
    options = {"HOW": how, "BM": 128, "BN": 64, "D": 64, "num_stages": stages}
    kernel = compiled(chain, arguments, capability=100, **options)
    multiplied = next(code for code in partitions_of(kernel) if "tc_gen5_mma" in code)
    loop = ["scf.for", "tc_gen5_mma", "tc_gen5_mma"]
    assert re.findall("tc_gen5_mma|scf.for", multiplied) == (["tc_gen5_mma", *loop] if ahead else loop)
    scores = a.astype(np.float32) @ b.astype(np.float32).T * (1.0 if how == "changed" else 0.5)
    parts = [scores[:, n : n + 64] @ c[n : n + 64].astype(np.float32) for n in range(0, 64 * steps, 64)]
    total, weight = np.zeros((128, 64), np.float32), np.zeros((128, 1), np.float32)
    for part in parts:
        weight += total.sum(1, keepdims=True) if how == "changed" else 0
        total += part
    np.testing.assert_array_equal(launch(kernel, (1,), arguments)[3], (total + weight).astype(np.float16))
