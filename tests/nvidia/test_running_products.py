"""Products in tensor memory that run on into the next step of a pipelined loop, on a simulated sm_100."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from simulated import compiled, launch
from test_specialized_loops import RANDOM, attended, factors, unnoticed_mutants

import tilewright as tw
import tilewright.language as tl
from tilewright import SimulationError
from tilewright.transforms.gpu.pipelining import lower_loops

BLOCK = {"BM": 128, "BN": 64, "BK": 64}


@tw.jit
def by_descriptor(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    left = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    out = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    for tile in range(tl.program_id(0), tl.cdiv(M, BM) * tl.cdiv(N, BN), tl.num_programs(0)):
        i, j = tile % tl.cdiv(M, BM) * BM, tile // tl.cdiv(M, BM) * BN
        total = tl.zeros((BM, BN), tl.float32)
        for k in range(0, K, BK):
            total = tl.dot(left.load([i, k]), right.load([j, k]).T, total)
        out.store([i, j], total.to(tl.float16))


@tw.jit
def by_pointers(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i, j = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    left, right = a + i[:, None] * K + k[None, :], b + j[None, :] * K + k[:, None]
    total = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        total = tl.dot(tl.load(left), tl.load(right), total)
        left += BK
        right += BK
    tl.store(c + i[:, None] * N + j[None, :], total.to(tl.float16))


@tw.jit
def changed(a, b, c, M, N, K, WAY: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    left = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    out = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x, y = left.load([0, k]), right.load([0, k]).T
        if WAY == "operand":
            x = x + 1
        if WAY == "branch":
            if k % (2 * BK) == 0:
                total = tl.dot(x, y, total)
        else:
            total = tl.dot(x, y, total)
        if WAY == "sum":
            total = total * 0.5
    out.store([0, 0], total.to(tl.float16))


def steps_of(kernel: Any) -> str:
    """The innermost loop with a product, from its head to its end."""
    lines = str(kernel.asm["ttgir"]).split("\n")
    (product,) = (number for number, line in enumerate(lines) if "ttng.tc_gen5_mma " in line)
    head = next(number for number in range(product, 0, -1) if "scf.for" in lines[number])
    end = next(number for number in range(product, len(lines)) if "scf.yield" in lines[number])
    return "\n".join(lines[head:end])


def waits_for_the_step_before(kernel: Any) -> bool:
    """Whether the wait behind the product is for another barrier than the product tells."""
    steps = steps_of(kernel)
    told = re.search(r"ttng\.tc_gen5_mma .*?(%\w+)\[%true\]", steps)
    waited = re.search(r"ttng\.wait_barrier (%\w+)", steps[steps.index("ttng.tc_gen5_mma ") :])
    assert told is not None
    return waited is not None and waited[1] != told[1]


@pytest.mark.parametrize("k", [0, 64, 128, 320])
@pytest.mark.parametrize("programs", [1, 3])
def test_products_of_tiles_by_descriptor(programs: int, k: int) -> None:
    arguments, expected = factors(256, 128, k)
    kernel = compiled(by_descriptor, arguments, capability=100, **BLOCK)
    np.testing.assert_array_equal(launch(kernel, (programs,), arguments)[2], expected)
    assert waits_for_the_step_before(kernel)
    assert "memdesc<3x128x64xf16" in kernel.asm["ttgir"]


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("k", [0, 64, 320])
def test_products_of_tiles_by_pointers(stages: int, k: int) -> None:
    arguments, expected = factors(128, 128, k)
    kernel = compiled(by_pointers, arguments, capability=100, num_stages=stages, **BLOCK)
    np.testing.assert_array_equal(launch(kernel, (1, 2), arguments)[2], expected)
    assert waits_for_the_step_before(kernel)
    assert f"memdesc<{stages}x128x64xf16" in kernel.asm["ttgir"]


@pytest.mark.parametrize("kernel", [by_descriptor, pytest.param(by_pointers, marks=pytest.mark.spared)])
def test_every_missing_barrier_is_reported(kernel: Any) -> None:
    arguments, _ = factors(128, 64, 640)
    assert unnoticed_mutants(compiled(kernel, arguments, capability=100, **BLOCK), [arguments]) == []


@pytest.mark.parametrize("kernel", [by_descriptor, by_pointers])
def test_a_copy_to_what_a_product_still_reads_is_reported(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rings without the further place."""
    monkeypatch.setattr(lower_loops, "_is_read_by_next_step", lambda load: False)
    arguments, _ = factors(128, 64, 704)
    wrong = compiled(kernel, arguments, capability=100, **{**BLOCK, "BK": 32})
    assert "memdesc<2x128x32xf16" in wrong.asm["ttgir"]
    with pytest.raises(SimulationError, match="race"):
        launch(wrong, (1, 1), arguments)


@pytest.mark.parametrize("way", ["operand", "branch", "sum"])
def test_products_that_are_waited_for_in_their_own_step(way: str) -> None:
    """Each step stores an operand anew, or reads the sum, or not all steps have a product."""
    (a, b, c, m, n, k), _ = factors(128, 64, 256)
    arguments = [a, b, c, m, n, k]
    kernel = compiled(changed, arguments, capability=100, WAY=way, **BLOCK)
    parts = [(a[:, i : i + 64].astype(np.float32), b[:, i : i + 64].astype(np.float32)) for i in range(0, k, 64)]
    expected = np.zeros((m, n), np.float32)
    for number, (x, y) in enumerate(parts):
        expected += 0 if way == "branch" and number % 2 else (x + (way == "operand")) @ y.T
        expected *= 0.5 if way == "sum" else 1
    np.testing.assert_array_equal(launch(kernel, (1,), arguments)[2], expected.astype(np.float16))
    assert not waits_for_the_step_before(kernel)


def test_ctas_that_share_tiles_wait_for_each_product() -> None:
    arguments, expected = factors(128, 128, 192)
    kernel = compiled(by_pointers, arguments, capability=100, num_ctas=2, **BLOCK)
    np.testing.assert_array_equal(launch(kernel, (1, 2), arguments)[2], expected)
    assert not waits_for_the_step_before(kernel)


@tw.jit
def attention(q, k, v, o, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    queries = tl.make_tensor_descriptor(q, [N, D], [D, 1], [BM, D])
    keys = tl.make_tensor_descriptor(k, [N, D], [D, 1], [BN, D])
    values = tl.make_tensor_descriptor(v, [N, D], [D, 1], [BN, D])
    out = tl.make_tensor_descriptor(o, [N, D], [D, 1], [BM, D])
    start = tl.program_id(0) * BM
    query = queries.load([start, 0])
    weight, total = tl.zeros([BM], tl.float32), tl.zeros([BM, D], tl.float32)
    for n in range(0, N, BN):
        shares = tl.exp2(tl.dot(query, keys.load([n, 0]).T))
        weight += tl.sum(shares, 1)
        total = tl.dot(shares.to(tl.float16), values.load([n, 0]), total)
    out.store([start, 0], (total / weight[:, None]).to(tl.float16))


def test_a_product_that_the_step_itself_uses_keeps_all_waited_for() -> None:
    n = 256
    q, k, v = (0.25 * RANDOM.standard_normal((n, 64)).astype(np.float16) for _ in range(3))
    arguments = [q, k, v, np.zeros((n, 64), np.float16), n]
    kernel = compiled(attention, arguments, capability=100, BM=128, BN=64, D=64)
    np.testing.assert_allclose(launch(kernel, (2,), arguments)[3], attended(q, k, v), atol=2e-3)
    assert "tt.self_latency" not in kernel.asm["ttgir"]
    assert kernel.asm["ttgir"].count("ttng.wait_barrier") >= 2


@pytest.mark.parametrize(("stages", "runs_on"), [(4, True), (5, False)])
def test_products_run_on_where_shared_memory_has_room_for_a_further_place(stages: int, runs_on: bool) -> None:
    arguments, _ = factors(128, 256, 320)
    kernel = compiled(by_pointers, arguments, capability=100, num_stages=stages, **{**BLOCK, "BN": 256})
    assert "memdesc<4x128x64xf16" in kernel.asm["ttgir"]
    assert kernel.metadata.shared <= 232448
    assert waits_for_the_step_before(kernel) == runs_on
