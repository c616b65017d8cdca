"""Loops with `warp_specialize=True` on a simulated sm_100: results, and what the simulator says of missing barriers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from simulated import compiled, launch

import tilewright as tw
import tilewright.language as tl
from tilewright import SimulationError
from tilewright.backends.ptxsim import Program
from tilewright.backends.ptxsim.families import HANDLERS

Array = np.ndarray[Any, Any]
BLOCK = {"BM": 64, "BN": 64, "BK": 64}
RANDOM = np.random.default_rng(3)
SYNCHRONISES = re.compile(
    r".*(bra\.uni waitLoop|tcgen05\.commit|mbarrier\.arrive|tcgen05\.wait::(ld|st)|wgmma\.wait_group"
    r"|fence\.proxy\.async).*"
)
"""Lines of PTX without which partitions do not wait for each other."""


@tw.jit
def product(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    left = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    out = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    i, j = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, K, BK, warp_specialize=True):
        total = tl.dot(left.load([i, k]), right.load([j, k]).T, total)
    out.store([i, j], total.to(tl.float16))


@tw.jit
def products(a, b, c, M, N, K, FLAT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    left = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    out = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    rows = tl.cdiv(M, BM)
    for tile in tl.range(
        tl.program_id(0), rows * tl.cdiv(N, BN), tl.num_programs(0), flatten=FLAT, warp_specialize=True
    ):
        i, j = tile % rows * BM, tile // rows * BN
        total = tl.zeros((BM, BN), tl.float32)
        for k in range(0, K, BK):
            total = tl.dot(left.load([i, k]), right.load([j, k]).T, total)
        out.store([i, j], total.to(tl.float16))


@tw.jit
def attention(q, k, v, o, N, SCALED: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    queries = tl.make_tensor_descriptor(q, [N, D], [D, 1], [BM, D])
    keys = tl.make_tensor_descriptor(k, [N, D], [D, 1], [BN, D])
    values = tl.make_tensor_descriptor(v, [N, D], [D, 1], [BN, D])
    out = tl.make_tensor_descriptor(o, [N, D], [D, 1], [BM, D])
    start = tl.program_id(0) * BM
    query = queries.load([start, 0])
    if SCALED:
        query *= 0.5
    largest = tl.full([BM], float("-inf"), tl.float32)
    weight = tl.zeros([BM], tl.float32)
    total = tl.zeros([BM, D], tl.float32)
    for n in tl.range(0, N, BN, warp_specialize=True):
        scores = tl.dot(query, keys.load([n, 0]).T)
        new = tl.maximum(largest, tl.max(scores, 1))
        shares = tl.exp2(scores - new[:, None])
        smaller = tl.exp2(largest - new)
        weight = weight * smaller + tl.sum(shares, 1)
        total = tl.dot(shares.to(tl.float16), values.load([n, 0]), total * smaller[:, None])
        largest = new
    out.store([start, 0], (total / weight[:, None]).to(tl.float16))


def integers(*shape: int) -> Array:
    return RANDOM.integers(-3, 4, shape).astype(np.float16)


def factors(m: int, n: int, k: int) -> tuple[list[Any], Array]:
    """The arguments of a product, and what it is."""
    a, b = integers(m, max(k, 16)), integers(n, max(k, 16))
    product = a[:, :k].astype(np.float32) @ b[:, :k].T.astype(np.float32)
    return [a, b, np.full((m, n), 7, np.float16), m, n, k], product.astype(np.float16)


def attended(q: Array, k: Array, v: Array) -> Array:
    scores = q.astype(np.float64) @ k.T.astype(np.float64)
    shares = np.exp2(scores - scores.max(1, keepdims=True))
    return (shares / shares.sum(1, keepdims=True)) @ v.astype(np.float64)


def partitions_of(kernel: Any) -> list[str]:
    """The code of the default partition and of the others."""
    text = str(kernel.asm["ttgir"])
    assert text.count("ttg.warp_specialize(") == 1
    inside = text[text.index("default {") :]
    return re.split(r"\n\s*partition\d", inside[: inside.index("\n    } :") if "\n    } :" in inside else None])


@pytest.mark.parametrize("k", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in (192, 320)), 64])
def test_product(k: int) -> None:
    arguments, expected = factors(128, 128, k)
    kernel = compiled(product, arguments, capability=100, **BLOCK)
    np.testing.assert_array_equal(launch(kernel, (2, 2), arguments)[2], expected)
    default, products, copies = partitions_of(kernel)
    assert "tc_gen5_mma" in products
    assert "tc_gen5_mma" not in default + copies
    assert copies.count("async_tma_copy_global_to_local") == 2
    assert "global_to_local" not in default + products


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("k", [0, 64, 320])
@pytest.mark.parametrize("programs", [1, 3, 20])
def test_products_of_a_persistent_program(flat: bool, k: int, programs: int) -> None:
    arguments, expected = factors(256, 128, k)
    kernel = compiled(products, arguments, capability=100, FLAT=flat, **BLOCK)
    np.testing.assert_array_equal(launch(kernel, (programs,), arguments)[2], expected)
    default, multiplied, copies = partitions_of(kernel)
    assert "tmem_load" in default
    assert "local_to_global" in default
    assert "tc_gen5_mma" in multiplied
    assert "global_to_local" in copies


@tw.jit
def begun_products(a, b, c, M, N, K, START: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    left = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    out = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    for tile in tl.range(0, M // BM * (N // BN), flatten=True, warp_specialize=True):
        i, j = tile % (M // BM) * BM, tile // (M // BM) * BN
        total = tl.full((BM, BN), START, tl.float32)
        for k in range(0, K, BK):
            total = tl.dot(left.load([i, k]), right.load([j, k]).T, total)
        out.store([i, j], total.to(tl.float16))


@pytest.mark.parametrize("start", [pytest.param(0, marks=pytest.mark.slow), 5])
@pytest.mark.parametrize("k", [64, pytest.param(192, marks=pytest.mark.slow)])
def test_a_flat_loop_keeps_sums_that_begin_with_zeros_in_tensor_memory(start: int, k: int) -> None:
    arguments, expected = factors(256, 128, k)
    kernel = compiled(begun_products, arguments, capability=100, START=start, **BLOCK)
    found = launch(kernel, (1,), arguments)[2]
    np.testing.assert_array_equal(found, (expected.astype(np.float32) + start).astype(np.float16))
    assert ("tmem_store" in partitions_of(kernel)[0]) == (start != 0)


@tw.jit
def watched_products(a, b, c, d, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    left = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    out = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    for tile in tl.range(0, M // BM * (N // BN), flatten=True, warp_specialize=True):
        i, j = tile % (M // BM) * BM, tile // (M // BM) * BN
        total = tl.zeros((BM, BN), tl.float32)
        for k in range(0, K, BK):
            total = tl.dot(left.load([i, k]), right.load([j, k]).T, total)
            tl.store(d + tile * (K // BK) + k // BK, tl.sum(total))
        out.store([i, j], total.to(tl.float16))


def test_a_sum_that_each_step_uses_is_taken_out() -> None:
    (a, b, c, m, n, k), expected = factors(128, 128, 192)
    arguments = [a, b, c, np.zeros((4, 3), np.float32), m, n, k]
    kernel = compiled(watched_products, arguments, capability=100, **BLOCK)
    _, _, found, sums = launch(kernel, (1,), arguments)
    np.testing.assert_array_equal(found, expected)
    tiles = [(a[i : i + 64].astype(np.float32), b[j : j + 64].astype(np.float32)) for j in (0, 64) for i in (0, 64)]
    parts = [[(x[:, :step] @ y[:, :step].T).sum() for step in (64, 128, 192)] for x, y in tiles]
    np.testing.assert_array_equal(sums, np.array(parts, np.float32))


def test_the_next_tile_is_summed_up_while_the_last_one_is_stored() -> None:
    arguments, _ = factors(256, 128, 64)
    text = compiled(products, arguments, capability=100, FLAT=False, **BLOCK).asm["ttgir"]
    assert "!ttg.memdesc<2x64x64xf32, #tmem" in text


@pytest.mark.spared
def test_one_place_where_two_do_not_fit() -> None:
    arguments, expected = factors(128, 512, 64)
    kernel = compiled(products, arguments, capability=100, FLAT=False, num_stages=2, BM=128, BN=512, BK=16)
    assert re.search(r"memdesc<2x\d+x512xf32", str(kernel.asm["ttgir"])) is None
    np.testing.assert_array_equal(launch(kernel, (1,), arguments)[2], expected)


@pytest.mark.parametrize("scaled", [pytest.param(False, marks=pytest.mark.slow), True])
@pytest.mark.parametrize("n", [128, pytest.param(384, marks=pytest.mark.slow)])
def test_attention(scaled: bool, n: int) -> None:
    q, k, v = (RANDOM.standard_normal((n, 64)).astype(np.float16) for _ in range(3))
    arguments = [q, k, v, np.zeros((n, 64), np.float16), n]
    kernel = compiled(attention, arguments, capability=100, SCALED=scaled, BM=128, BN=64, D=64)
    out = launch(kernel, (n // 128,), arguments)[3]
    np.testing.assert_allclose(out, attended(q * np.float16(0.5) if scaled else q, k, v), atol=2e-3)
    default, correction, multiplied, copies = partitions_of(kernel)
    assert default.count("math.exp2") == 2
    assert default.index("ttg.local_store") < default.rindex("math.exp2")  # the factor goes before the shares
    assert re.findall("tmem_[a-z]+|math.exp2", correction) == ["tmem_load", "tmem_store"]
    assert re.findall("tc_gen5_mma|scf.for", multiplied) == ["tc_gen5_mma", "scf.for", "tc_gen5_mma", "tc_gen5_mma"]
    assert copies.count("global_to_local") == 2


def unnoticed_mutants(kernel: Any, cases: list[list[Any]]) -> list[str]:
    """The lines of a kernel's PTX without which one program runs all cases, each a list of arguments, as ever."""
    lines, unnoticed = str(kernel.asm["ptx"]).split("\n"), []
    for number, line in enumerate(lines):
        if not SYNCHRONISES.fullmatch(line):
            continue
        first = number - ("waitLoop" in line)  # the test in front of the branch, too
        text = "\n".join([*lines[:first], *[""] * (number + 1 - first), *lines[number + 1 :]])
        try:
            program = Program(text, HANDLERS)  # not by `load`, which keeps hundreds: all are looked at for garbage
            for arguments in cases:
                launch(kernel, (1,), arguments, program=program)
        except SimulationError:
            continue
        unnoticed.append(line)
    return unnoticed


@pytest.mark.spared
@pytest.mark.parametrize("flat", [False, pytest.param(True, marks=pytest.mark.spared)])
def test_every_missing_barrier_of_products_is_reported(flat: bool) -> None:
    cases = [factors(128, 128, k)[0] for k in (320, 0)]  # a flat loop without steps has code of its own
    kernel = compiled(products, cases[0], capability=100, FLAT=flat, **BLOCK)
    assert unnoticed_mutants(kernel, cases) == []


@pytest.mark.spared
def test_every_missing_barrier_of_attention_is_reported() -> None:
    n = 320
    q, k, v = (RANDOM.standard_normal((n, 64)).astype(np.float16) for _ in range(3))
    arguments = [q, k, v, np.zeros((n, 64), np.float16), n]
    kernel = compiled(attention, arguments, capability=100, SCALED=False, BM=64, BN=64, D=64)
    unnoticed = unnoticed_mutants(kernel, [arguments])
    # The copy engine wrote the queries: no fence is needed, in front of the first product or in the loop. And the first
    # step need not wait until the last scores have been read.
    assert ["fence" in line for line in unnoticed] == [True, False, True]
    assert all("fence" in line or "waitLoop" in line for line in unnoticed)


def test_a_kernel_from_the_disk_cache_has_all_warps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    arguments, expected = factors(64, 64, 64)
    kernels = []
    for _ in range(2):
        arguments[2][...] = 0
        with tw.simulate("cuda:100"):
            kernels.append(tw.jit(product.fn)[(1, 1)](*arguments, **BLOCK))
        np.testing.assert_array_equal(arguments[2], expected)
    assert kernels[0].hash == kernels[1].hash
    assert [kernel.metadata.num_warps for kernel in kernels] == [8, 8]


@pytest.mark.parametrize("stages", [0, 1, 2, 4])
@pytest.mark.parametrize("warps", [4, 8])
def test_numbers_of_stages_and_warps(stages: int, warps: int) -> None:
    arguments, expected = factors(128, 64, 320)
    kernel = compiled(products, arguments, capability=100, FLAT=False, num_stages=stages, num_warps=warps, **BLOCK)
    np.testing.assert_array_equal(launch(kernel, (1,), arguments)[2], expected)
    assert "ttg.warp_specialize(" in kernel.asm["ttgir"]


@tw.jit
def mixed(a, b, c, bias, order, M, N, K, WAY: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    left = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    addend = tl.make_tensor_descriptor(bias, [M, N], [N, 1], [BM, BN])
    rows, columns = tl.arange(0, BM), tl.arange(0, BN)
    for tile in range(M // BM):
        i = tile * BM
        total = tl.zeros((BM, BN), tl.float32)
        pointers = b + columns[:, None] * K + tl.arange(0, BK)[None, :]
        for k in tl.range(0, K, BK, warp_specialize=True):
            if WAY == "carried":
                right = tl.load(pointers)
                pointers += BK
            elif WAY == "gathered":
                step = tl.load(order + k // BK + tl.arange(0, BK) * 0)
                right = tl.load(b + columns[:, None] * K + (step * BK + tl.arange(0, BK))[None, :])
            elif WAY == "other":
                right = tl.load(pointers + k, columns[:, None] < 32, 1.0)
            elif WAY == "volatile":
                right = tl.load(pointers + k, volatile=True)
            else:
                right = tl.load(pointers + k, (columns[:, None] < 32) & (k + tl.arange(0, BK)[None, :] < K), 0.0)
            total = tl.dot(left.load([i, k]), right.T, total)
            total += addend.load([i, 0])
        tl.store(c + (i + rows)[:, None] * N + columns[None, :], total.to(tl.float16))


def mixed_factors(k: int, way: str) -> tuple[list[Any], Array]:
    """The arguments of `mixed`, and what it leaves in `c`."""
    (a, b, c, m, n, k), _ = factors(128, 64, k)
    bias = integers(m, n).astype(np.float32)
    order = np.arange(k // 64)[::-1].astype(np.int32)
    right = b.copy()
    if way in ("masked", "other"):
        right[32:] = way == "other"
    if way == "gathered":
        right = right.reshape(n, -1, 64)[:, order].reshape(n, k)
    expected = a.astype(np.float32) @ right.T.astype(np.float32) + k // 64 * bias
    return [a, b, c, bias, order, m, n, k], expected.astype(np.float16)


def compiled_mixed(arguments: list[Any], way: str, **options: int) -> Any:
    return compiled(mixed, arguments, capability=100, WAY=way, **BLOCK, **options)


@pytest.mark.parametrize("way", ["masked", "carried"])
@pytest.mark.parametrize(
    ("warps", "stages"),
    [pytest.param(4, 3, marks=pytest.mark.slow), (8, 2), pytest.param(4, 1, marks=pytest.mark.slow)],
)
def test_threads_of_a_partition_copy_what_pointers_load(way: str, warps: int, stages: int) -> None:
    arguments, expected = mixed_factors(320, way)
    kernel = compiled_mixed(arguments, way, num_warps=warps, num_stages=stages)
    np.testing.assert_array_equal(launch(kernel, (1,), arguments)[2], expected)
    default, products, copies = partitions_of(kernel)
    assert "tt.load" not in default
    assert "local_store" not in default
    assert copies.count("ttg.async_copy_global_to_local") == copies.count("async_copy_mbarrier_arrive") == 1
    assert copies.count("async_tma_copy_global_to_local") == (1 if stages == 1 else 2), "threads use the addend"
    assert products.count("fence_async_shared") == 1
    assert f"num_warps({warps})" in copies
    assert f"requestedRegisters = array<i32: 24, {24 + 64 * 64 // 32 // warps}>" in kernel.asm["ttgir"]
    assert stages == 1 or f"memdesc<{stages}x64x64xf16" in copies


@pytest.mark.parametrize(
    "way", [pytest.param("gathered", marks=pytest.mark.slow), "other", pytest.param("volatile", marks=pytest.mark.slow)]
)
def test_the_default_partition_loads_what_threads_cannot_copy(way: str) -> None:
    """Addresses that are loaded, values of its own where the mask is false, and loads that must be done then."""
    arguments, expected = mixed_factors(192, way)
    kernel = compiled_mixed(arguments, way)
    np.testing.assert_array_equal(launch(kernel, (1,), arguments)[2], expected)
    default, _, copies = partitions_of(kernel)
    assert "tt.load" in default
    assert "ttg.async_copy" not in copies
    assert copies.count("global_to_local") == 2


WAIT, FENCE = "@!complete bra.uni waitLoop;", "fence.proxy.async.shared::cta;"


@pytest.mark.spared
def test_every_missing_barrier_of_copies_by_threads_is_reported() -> None:
    arguments, _ = mixed_factors(320, "masked")
    unnoticed = unnoticed_mutants(compiled_mixed(arguments, "masked"), [arguments])
    # Threads have read their tile when they arrive, whether or not a fence says so. One product reads both rings and
    # frees a place of each: who has waited for the one need not wait for the other.
    assert [line.strip() for line in unnoticed] == [WAIT, FENCE]


@pytest.mark.spared
def test_every_missing_barrier_of_loads_by_the_default_partition_is_reported() -> None:
    arguments, _ = mixed_factors(320, "gathered")
    unnoticed = unnoticed_mutants(compiled_mixed(arguments, "gathered"), [arguments])
    # Threads have read the addend when they arrive, and the partition that stores has a fence of its own, so the one in
    # front of the loop of products is not needed. The arrival of the sum follows that of the operand, and the default
    # partition, which has waited for the product of the step before, knows that the place of the operand is free.
    assert sorted(line.strip() for line in unnoticed) == [WAIT, WAIT, FENCE, FENCE]


def test_warps_without_registers_for_further_ones_keep_a_loop_whole() -> None:
    arguments, expected = factors(64, 64, 192)
    kernels = [compiled(product, arguments, capability=100, num_warps=8, maxnreg=most, **BLOCK) for most in (160, 224)]
    assert ["ttg.warp_specialize(" in kernel.asm["ttgir"] for kernel in kernels] == [True, False]
    for kernel in kernels:
        arguments[2][:] = 7
        np.testing.assert_array_equal(launch(kernel, (1, 1), arguments)[2], expected)


@tw.jit
def in_some_steps(a, b, c, flags, M, N, K, LOADED: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    left = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    out = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    i, j = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, K, BK, warp_specialize=True):
        if LOADED:
            taken = tl.load(flags + k // BK) != 0
        else:
            taken = k // BK % 2 == 0
        if taken:
            total = tl.dot(left.load([i, k]), right.load([j, k]).T, total)
    out.store([i, j], total.to(tl.float16))


@pytest.mark.parametrize("loaded", [False, True])
def test_products_in_a_branch(loaded: bool) -> None:
    """All partitions decide for themselves which branch to take, also by a number that each of them loads."""
    (a, b, c, m, n, k), _ = factors(64, 64, 448)
    flags = np.arange(1, 8, dtype=np.int32) % 2
    taken = np.repeat(flags != 0, 64)
    arguments = [a, b, c, flags, m, n, k]
    kernel = compiled(in_some_steps, arguments, capability=100, LOADED=loaded, **BLOCK)
    found = launch(kernel, (1, 1), arguments)[2]
    expected = a[:, taken].astype(np.float32) @ b[:, taken].T.astype(np.float32)
    np.testing.assert_array_equal(found, expected.astype(np.float16))
    assert "ttg.warp_specialize(" in kernel.asm["ttgir"]


@tw.jit
def scaled(a, b, s, t, c, M, N, K, WAY: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    left = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    total = tl.zeros((BM, BN), tl.float32)
    rows, columns, groups = tl.arange(0, BM)[:, None], tl.arange(0, BN)[:, None], tl.arange(0, BK // 32)[None, :]
    start: tl.int64 = 0
    for step in tl.range(start, (K // BK).to(tl.int64), warp_specialize=WAY):
        k = (step * BK).to(tl.int32)
        of_left = tl.load(s + rows * (K // 32) + k // 32 + groups)
        of_right = tl.load(t + columns * (K // 32) + k // 32 + groups)
        x, y = left.load([0, k]), right.load([0, k])
        total = tl.dot_scaled(x, of_left, "e4m3", y.T, of_right, "e4m3", total)
    tl.store(c + rows * N + tl.arange(0, BN)[None, :], total)


@pytest.mark.spared
def test_scaled_products_in_a_loop_of_64_bits() -> None:
    m, n, k = 128, 128, 512
    a, b = (RANDOM.standard_normal((size, k)).astype(ml_dtypes.float8_e4m3fn) for size in (m, n))
    s, t = (RANDOM.integers(125, 130, (size, k // 32)).astype(np.uint8) for size in (m, n))
    arguments = [a, b, s, t, np.zeros((m, n), np.float32), m, n, k]
    blocks = {"BM": m, "BN": n, "BK": 128}
    kernels = [compiled(scaled, arguments, capability=100, WAY=way, **blocks) for way in (False, True)]
    assert ["ttg.warp_specialize(" in kernel.asm["ttgir"] for kernel in kernels] == [False, True]
    whole, divided = (launch(kernel, (1,), arguments)[4] for kernel in kernels)
    assert whole.any()
    np.testing.assert_array_equal(divided, whole)
