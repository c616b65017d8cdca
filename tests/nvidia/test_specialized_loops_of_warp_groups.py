"""Loops with `warp_specialize=True` on a simulated sm_90: results, and what the simulator says of missing barriers."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from simulated import compiled, launch
from test_specialized_loops import (
    BLOCK,
    RANDOM,
    attended,
    attention,
    factors,
    mixed,
    mixed_factors,
    partitions_of,
    product,
    products,
    unnoticed_mutants,
)

import tilewright as tw
import tilewright.language as tl
from tilewright import SimulationError
from tilewright.transforms.gpu.warp_specialization import run_products_on


def is_divided(kernel: Any) -> bool:
    return "ttg.warp_specialize(" in kernel.asm["ttgir"]


def check_partitions(kernel: Any) -> None:
    """The default partition multiplies, another one copies."""
    default, copies = partitions_of(kernel)
    assert "ttng.warp_group_dot " in default
    assert "global_to_local" not in default
    assert "ttng.warp_group_dot " not in copies
    assert copies.count("async_tma_copy_global_to_local") == 2


def attention_arguments(n: int) -> tuple[list[Any], Any]:
    """The arguments of attention over `n` keys, and its result."""
    q, k, v = (RANDOM.standard_normal((n, 64)).astype(np.float16) for _ in range(3))
    return [q, k, v, np.zeros((n, 64), np.float16), n], attended(q, k, v)


@pytest.mark.parametrize("k", [0, 64, 192, 320])
def test_product(k: int) -> None:
    arguments, expected = factors(128, 128, k)
    kernel = compiled(product, arguments, capability=90, **BLOCK)
    np.testing.assert_array_equal(launch(kernel, (2, 2), arguments)[2], expected)
    check_partitions(kernel)
    assert "memdesc<3x64x64xf16" in kernel.asm["ttgir"]


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("k", [0, 64, pytest.param(320, marks=pytest.mark.slow)])
def test_products_of_a_persistent_program(flat: bool, k: int) -> None:
    arguments, expected = factors(256, 128, k)
    kernel = compiled(products, arguments, capability=90, FLAT=flat, **BLOCK)
    np.testing.assert_array_equal(launch(kernel, (3,), arguments)[2], expected)
    check_partitions(kernel)


@pytest.mark.parametrize("n", [128, pytest.param(320, marks=pytest.mark.slow)])
def test_attention(n: int) -> None:
    arguments, expected = attention_arguments(n)
    kernel = compiled(attention, arguments, capability=90, SCALED=False, BM=64, BN=64, D=64)
    out = launch(kernel, (n // 64,), arguments)[3]
    np.testing.assert_allclose(out, expected, atol=2e-3)
    check_partitions(kernel)


@pytest.mark.spared
@pytest.mark.parametrize("flat", [False, True])
def test_every_missing_barrier_of_products_is_reported(flat: bool) -> None:
    cases = [factors(128, 128, k)[0] for k in (320, 0)]
    kernel = compiled(products, cases[0], capability=90, FLAT=flat, **BLOCK)
    # The last step of a flat loop waits before it stores a tile: nothing is under way behind it.
    assert unnoticed_mutants(kernel, cases) == ["\twgmma.wait_group.sync.aligned 0;"] * flat


def test_every_missing_barrier_of_a_product_is_reported() -> None:
    arguments = factors(64, 64, 320)[0]
    kernel = compiled(product, arguments, capability=90, **BLOCK)
    assert unnoticed_mutants(kernel, [arguments]) == []


@pytest.mark.spared
def test_every_missing_barrier_of_attention_is_reported() -> None:
    arguments, _ = attention_arguments(320)
    kernel = compiled(attention, arguments, capability=90, SCALED=False, BM=64, BN=64, D=64)
    assert unnoticed_mutants(kernel, [arguments]) == []


def waits_of(kernel: Any) -> list[int]:
    """How many products may be under way behind each wait of the default partition."""
    return [int(count) for count in re.findall(r"warp_group_dot_wait .*pendings = (\d)", partitions_of(kernel)[0])]


def test_products_are_under_way_while_the_next_step_begins() -> None:
    arguments, _ = factors(128, 128, 320)
    assert waits_of(compiled(product, arguments, capability=90, **BLOCK)) == [1, 0]
    assert waits_of(compiled(products, arguments, capability=90, FLAT=False, **BLOCK)) == [1, 0]
    arguments, _ = attention_arguments(320)
    kernel = compiled(attention, arguments, capability=90, SCALED=False, BM=64, BN=64, D=64)
    first, rest = partitions_of(kernel)[0].split("warp_group_dot_wait", 1)
    assert first.count("warp_group_dot ") == 1  # the scores; the sum of the step before is waited for with them
    assert waits_of(kernel) == [0, 0]
    assert rest.count("warp_group_dot ") == 1


def test_a_place_that_is_told_free_while_a_product_reads_it_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_products_on, "_arrive_later", lambda loop: None)
    arguments = factors(64, 64, 640)[0]
    kernel = compiled(product, arguments, capability=90, num_stages=2, **BLOCK)
    with pytest.raises(SimulationError, match="race"):
        launch(kernel, (1,), arguments)


@tw.jit
def twice(a, b, c, d, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    left = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    rows, columns = tl.arange(0, BM)[:, None], tl.arange(0, BN)[None, :]
    total, even = tl.zeros((BM, BN), tl.float32), tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, K, BK, warp_specialize=True):
        x, y = left.load([0, k]), right.load([0, k]).T
        total = tl.dot(x, y, total)
        if k % (2 * BK) == 0:
            even = tl.dot(x, y, even)
    tl.store(c + rows * N + columns, total)
    tl.store(d + rows * N + columns, even)


def compiled_twice() -> tuple[Any, list[Any]]:
    """The kernel with two products of the same buffers, and arguments."""
    (a, b, _, m, n, k), _ = factors(64, 64, 320)
    arguments = [a, b, *(np.zeros((m, n), np.float32) for _ in range(2)), m, n, k]
    return compiled(twice, arguments, capability=90, **BLOCK), arguments


def test_a_place_without_another_one_is_told_free_in_its_own_step() -> None:
    """The branch has the buffers last: they are one place, which the next step needs."""
    kernel, arguments = compiled_twice()
    a, b = arguments[:2]
    found = launch(kernel, (1,), arguments)
    left, right = (x.astype(np.float32).reshape(64, 5, 64) for x in (a, b))
    np.testing.assert_array_equal(found[2], np.einsum("isk,jsk->ij", left, right))
    np.testing.assert_array_equal(found[3], np.einsum("isk,jsk->ij", left[:, ::2], right[:, ::2]))
    assert "memdesc<3x64x64xf16" not in kernel.asm["ttgir"]
    assert is_divided(kernel)
    # The wait in front of the barrier that tells is for all products: it does for those in the loop and behind it, too.
    assert kernel.asm["ptx"].count("wgmma.wait_group") == 4


@pytest.mark.spared
def test_every_missing_barrier_of_two_products_of_one_place_is_reported() -> None:
    kernel, arguments = compiled_twice()
    assert sorted(unnoticed_mutants(kernel, [arguments])) == ["\twgmma.wait_group.sync.aligned 0;"] * 2 + [
        "\twgmma.wait_group.sync.aligned 1;"
    ]


@pytest.mark.parametrize("options", [{"num_warps": 8}, {"num_stages": 1}])
def test_loops_that_stay_whole(options: dict[str, int]) -> None:
    """As in Triton 3.9: the program asks for one group of warps, and copies are to run ahead."""
    arguments, expected = factors(128, 128, 192)
    kernel = compiled(product, arguments, capability=90, **BLOCK, **options)
    np.testing.assert_array_equal(launch(kernel, (2, 2), arguments)[2], expected)
    assert not is_divided(kernel)


def test_operands_by_pointers_keep_a_loop_whole() -> None:
    arguments, expected = mixed_factors(192, "masked")
    kernel = compiled(mixed, arguments, capability=90, WAY="masked", **BLOCK)
    np.testing.assert_array_equal(launch(kernel, (1,), arguments)[2], expected)
    assert not is_divided(kernel)
