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
from tilewright.transforms.gpu.pipelining import lower_loops, lower_products

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
    """The innermost loop with a product, from its head to its end; in front of it stands the first step's product."""
    lines = str(kernel.asm["ttgir"]).split("\n")
    *_, product = (number for number, line in enumerate(lines) if "ttng.tc_gen5_mma " in line)
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


@pytest.mark.spared
@pytest.mark.parametrize("kernel", [by_descriptor, by_pointers])
def test_every_missing_barrier_is_reported(kernel: Any) -> None:
    arguments, _ = factors(128, 64, 640)
    assert unnoticed_mutants(compiled(kernel, arguments, capability=100, **BLOCK), [arguments]) == []


@pytest.mark.parametrize("kernel", [by_descriptor, by_pointers])
def test_a_copy_to_what_a_product_still_reads_is_reported(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rings without the further place."""
    stages_ahead = lower_loops.stages_ahead
    monkeypatch.setattr(lower_loops, "stages_ahead", lambda *load: max(stages_ahead(*load) - 1, 0))
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
    largest = tl.full([BM], float("-inf"), tl.float32)
    weight, total = tl.zeros([BM], tl.float32), tl.zeros([BM, D], tl.float32)
    for n in range(0, N, BN):
        scores = tl.dot(query, keys.load([n, 0]).T)
        new = tl.maximum(largest, tl.max(scores, 1))
        shares = tl.exp2(scores - new[:, None])
        smaller = tl.exp2(largest - new)
        weight = weight * smaller + tl.sum(shares, 1)
        total = tl.dot(shares.to(tl.float16), values.load([n, 0]), total * smaller[:, None])
        largest = new
    out.store([start, 0], (total / weight[:, None]).to(tl.float16))


def attended_rows(n: int) -> list[Any]:
    q, k, v = (0.25 * RANDOM.standard_normal((n, 64)).astype(np.float16) for _ in range(3))
    return [q, k, v, np.zeros((n, 64), np.float16), n]


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize(
    "n", [128, pytest.param(256, marks=pytest.mark.slow), pytest.param(384, marks=pytest.mark.slow)]
)
def test_both_products_of_attention_run_on(stages: int, n: int) -> None:
    """The next scores are under way during a softmax, and so are the sums of the step before."""
    arguments = attended_rows(n)
    kernel = compiled(attention, arguments, capability=100, num_stages=stages, BM=128, BN=128, D=64)
    q, k, v = arguments[:3]
    np.testing.assert_allclose(launch(kernel, (1,), arguments)[3][:128], attended(q, k, v)[:128], atol=2e-3)
    text = str(kernel.asm["ttgir"])
    loop = text[text.index("scf.for") : text.index("scf.yield")]
    ops = re.findall(r"ttng\.\w+|math\.exp2", loop)
    assert ops.index("math.exp2") < ops.index("ttng.tc_gen5_mma"), "the scores come from the step before"
    last = len(ops) - 1 - ops[::-1].index("ttng.tc_gen5_mma")
    assert "ttng.wait_barrier" not in ops[last:], "none is waited for behind the last product"
    assert "memdesc<128x128xf16, #tmem" in text, "the shares go to tensor memory"


@pytest.mark.spared
def test_every_missing_barrier_of_attention_is_reported() -> None:
    arguments = attended_rows(512)
    kernel = compiled(attention, arguments, capability=100, BM=128, BN=64, D=64)
    # Behind a load or store comes another one of the same kind, which is waited for before a product uses both tiles.
    assert all("tcgen05.wait::" in line for line in unnoticed_mutants(kernel, [arguments]))


@tw.jit
def flat(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    left = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    out = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    rows = tl.cdiv(M, BM)
    for tile in tl.range(tl.program_id(0), rows * tl.cdiv(N, BN), tl.num_programs(0), flatten=True):
        i, j = tile % rows * BM, tile // rows * BN
        total = tl.zeros((BM, BN), tl.float32)
        for k in range(0, K, BK):
            total = tl.dot(left.load([i, k]), right.load([j, k]).T, total)
        out.store([i, j], total.to(tl.float16))


@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("k", [0, 64, pytest.param(192, marks=pytest.mark.slow)])
@pytest.mark.parametrize("programs", [1, 3])
def test_the_next_tile_begins_while_a_branch_stores_the_sums_of_one(programs: int, k: int, stages: int) -> None:
    """Sums have two places: the branch runs behind the product of the next step."""
    arguments, expected = factors(256, 256, k)
    kernel = compiled(flat, arguments, capability=100, num_stages=stages, **BLOCK)
    np.testing.assert_array_equal(launch(kernel, (programs,), arguments)[2], expected)
    assert "memdesc<2x128x64xf32" in kernel.asm["ttgir"]
    assert waits_for_the_step_before(kernel)


@pytest.mark.spared
def test_every_missing_barrier_of_tiles_in_a_row_is_reported() -> None:
    cases = [factors(256, 128, k)[0] for k in (192, 0)]
    assert unnoticed_mutants(compiled(flat, cases[0], capability=100, **BLOCK), cases) == []


def test_sums_in_one_place_that_begin_anew_too_early_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lower_products, "_keeps_order", lambda *_, **__: True)
    arguments, expected = factors(256, 128, 32)
    kernel = compiled(flat, arguments, capability=100, **{**BLOCK, "BK": 32})  # nobody has compiled it
    assert "memdesc<2x128x64xf32" not in kernel.asm["ttgir"]
    try:
        result = launch(kernel, (1,), arguments)[2]
    except SimulationError:
        return
    assert not np.array_equal(result, expected)


@tw.jit
def partial_sums(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    left = tl.make_tensor_descriptor(a, [BM, K], [K, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b, [BN, K], [K, 1], [BN, BK])
    at = tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        total = tl.dot(left.load([0, k]), right.load([0, k]).T, total)
        if k % (2 * BK) == 0:
            tl.store(c + k // BK * BM * BN + at, total)


@pytest.mark.parametrize("stages", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_branches_read_sums_that_go_on(stages: int) -> None:
    (a, b, *_), _ = factors(128, 64, 320)
    parts = [a[:, i : i + 64].astype(np.float32) @ b[:, i : i + 64].astype(np.float32).T for i in range(0, 320, 64)]
    expected = np.cumsum(parts, axis=0)
    expected[1::2] = 0
    arguments = [a, b, np.zeros((5, 128, 64), np.float32), 320]
    kernel = compiled(partial_sums, arguments, capability=100, num_stages=stages, **BLOCK)
    np.testing.assert_array_equal(launch(kernel, (1,), arguments)[2], expected)


@pytest.mark.parametrize(("stages", "runs_on"), [(4, True), (5, False)])
def test_products_run_on_where_shared_memory_has_room_for_a_further_place(stages: int, runs_on: bool) -> None:
    arguments, _ = factors(128, 256, 320)
    kernel = compiled(by_pointers, arguments, capability=100, num_stages=stages, **{**BLOCK, "BN": 256})
    assert "memdesc<4x128x64xf16" in kernel.asm["ttgir"]
    assert kernel.metadata.shared <= 232448
    assert waits_for_the_step_before(kernel) == runs_on
