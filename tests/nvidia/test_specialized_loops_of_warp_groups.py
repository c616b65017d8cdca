"""Loops with `warp_specialize=True` on a simulated sm_90: results, and what the simulator says of missing barriers."""

from __future__ import annotations

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


def is_divided(kernel: Any) -> bool:
    return "ttg.warp_specialize(" in kernel.asm["ttgir"]


def check_partitions(kernel: Any) -> None:
    """The default partition multiplies, another one copies."""
    default, copies = partitions_of(kernel)
    assert "ttng.warp_group_dot " in default
    assert "global_to_local" not in default
    assert "ttng.warp_group_dot " not in copies
    assert copies.count("async_tma_copy_global_to_local") == 2


@pytest.mark.parametrize("k", [0, 64, 192, 320])
def test_product(k: int) -> None:
    arguments, expected = factors(128, 128, k)
    kernel = compiled(product, arguments, capability=90, **BLOCK)
    np.testing.assert_array_equal(launch(kernel, (2, 2), arguments)[2], expected)
    check_partitions(kernel)
    assert "memdesc<3x64x64xf16" in kernel.asm["ttgir"]


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("k", [0, 64, 320])
def test_products_of_a_persistent_program(flat: bool, k: int) -> None:
    arguments, expected = factors(256, 128, k)
    kernel = compiled(products, arguments, capability=90, FLAT=flat, **BLOCK)
    np.testing.assert_array_equal(launch(kernel, (3,), arguments)[2], expected)
    check_partitions(kernel)


@pytest.mark.parametrize("n", [128, 320])
def test_attention(n: int) -> None:
    q, k, v = (RANDOM.standard_normal((n, 64)).astype(np.float16) for _ in range(3))
    arguments = [q, k, v, np.zeros((n, 64), np.float16), n]
    kernel = compiled(attention, arguments, capability=90, SCALED=False, BM=64, BN=64, D=64)
    out = launch(kernel, (n // 64,), arguments)[3]
    np.testing.assert_allclose(out, attended(q, k, v), atol=2e-3)
    check_partitions(kernel)


@pytest.mark.parametrize("flat", [False, True])
def test_every_missing_barrier_of_products_is_reported(flat: bool) -> None:
    cases = [factors(128, 128, k)[0] for k in (320, 0)]
    kernel = compiled(products, cases[0], capability=90, FLAT=flat, **BLOCK)
    assert unnoticed_mutants(kernel, cases) == []


def test_every_missing_barrier_of_a_product_is_reported() -> None:
    arguments = factors(64, 64, 320)[0]
    kernel = compiled(product, arguments, capability=90, **BLOCK)
    assert unnoticed_mutants(kernel, [arguments]) == []


@pytest.mark.parametrize("options", [{"num_warps": 8}, {"num_stages": 1}])
def test_loops_that_stay_whole(options: dict[str, int]) -> None:
    """As in Triton 3.9: one group of warps multiplies, and copies are to run ahead."""
    arguments, expected = factors(128, 128, 192)
    kernel = compiled(product, arguments, capability=90, **BLOCK, **options)
    np.testing.assert_array_equal(launch(kernel, (2, 2), arguments)[2], expected)
    assert not is_divided(kernel)


def test_operands_by_pointers_keep_a_loop_whole() -> None:
    arguments, expected = mixed_factors(192, "masked")
    kernel = compiled(mixed, arguments, capability=90, WAY="masked", **BLOCK)
    np.testing.assert_array_equal(launch(kernel, (1,), arguments)[2], expected)
    assert not is_divided(kernel)
