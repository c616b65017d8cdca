"""Products of 128 rows and more, with `warp_specialize=True` on a simulated sm_90: two groups of warps share them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from simulated import compiled, launch
from test_specialized_loops import (
    RANDOM,
    attended,
    attention,
    factors,
    partitions_of,
    product,
    products,
    unnoticed_mutants,
)

import tilewright as tw
import tilewright.language as tl
from tilewright import SimulationError

BLOCK = {"BM": 128, "BN": 64, "BK": 64}


def check_groups(kernel: Any) -> None:
    """Eight warps have the rows, four each 64 of 128; in a step no group waits for the other."""
    text, ptx = str(kernel.asm["ttgir"]), str(kernel.asm["ptx"])
    assert '"ttg.num-warps" = 8' in text
    assert "versionMajor = 3, versionMinor = 0, warpsPerCTA = [8, 1]" in text
    default, copies = partitions_of(kernel)
    assert "ttng.warp_group_dot " in default
    assert copies.count("async_tma_copy_global_to_local") == 2
    assert ".reqntid 384" in ptx
    assert "setmaxnreg.inc.sync.aligned.u32 \t240;" in ptx
    first = ptx.index("wgmma.fence")
    last = max(ptx.rindex("wgmma.mma_async"), ptx.index("mbarrier.arrive", first))
    assert "bar.sync" not in ptx[first:last]


def attention_arguments(n: int) -> tuple[list[Any], Any]:
    q, k, v = (RANDOM.standard_normal((n, 64)).astype(np.float16) for _ in range(3))
    return [q, k, v, np.zeros((n, 64), np.float16), n], attended(q, k, v)


def attending(arguments: list[Any], **options: int) -> Any:
    return compiled(attention, arguments, capability=90, SCALED=False, BM=128, BN=64, D=64, **options)


@pytest.mark.parametrize("rows", [128, 256])
@pytest.mark.parametrize("k", [0, 64, 320])
def test_product(k: int, rows: int) -> None:
    arguments, expected = factors(256, 64, k)
    kernel = compiled(product, arguments, capability=90, **{**BLOCK, "BM": rows})
    np.testing.assert_array_equal(launch(kernel, (256 // rows, 1), arguments)[2], expected)
    check_groups(kernel)


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("k", [0, 64, pytest.param(320, marks=pytest.mark.slow)])
def test_products_of_a_persistent_program(flat: bool, k: int) -> None:
    arguments, expected = factors(256, 128, k)
    kernel = compiled(products, arguments, capability=90, FLAT=flat, **BLOCK)
    np.testing.assert_array_equal(launch(kernel, (3,), arguments)[2], expected)
    check_groups(kernel)


@pytest.mark.parametrize("n", [128, pytest.param(384, marks=pytest.mark.slow)])
def test_attention(n: int) -> None:
    arguments, expected = attention_arguments(n)
    kernel = attending(arguments)
    np.testing.assert_allclose(launch(kernel, (n // 128,), arguments)[3], expected, atol=2e-3)
    check_groups(kernel)


@pytest.mark.spared
@pytest.mark.parametrize("flat", [False, True])
def test_every_missing_barrier_of_products_is_reported(flat: bool) -> None:
    cases = [factors(256, 64, k)[0] for k in (320, 0)]
    kernel = compiled(products, cases[0], capability=90, FLAT=flat, **BLOCK)
    # The last step of a flat loop waits before it stores a tile: nothing is under way behind it.
    assert unnoticed_mutants(kernel, cases) == ["\twgmma.wait_group.sync.aligned 0;"] * flat


@pytest.mark.spared
def test_every_missing_barrier_of_attention_is_reported() -> None:
    arguments, _ = attention_arguments(384)
    assert unnoticed_mutants(attending(arguments), [arguments]) == []


def test_a_place_that_is_free_when_one_group_has_read_it_is_reported() -> None:
    arguments, _ = factors(128, 64, 640)
    kernel = compiled(product, arguments, capability=90, **BLOCK)
    text = str(kernel.asm["ptx"])
    assert text.count("], 8;") == 3
    with pytest.raises(SimulationError):
        launch(SimpleNamespace(metadata=kernel.metadata, asm={"ptx": text.replace("], 8;", "], 4;")}), (1,), arguments)


@pytest.mark.parametrize("options", [{"BM": 64}, {"maxnreg": 168}])
def test_one_group_has_all_rows(options: dict[str, int]) -> None:
    """There are rows for one group alone, or the program says how many registers a thread has."""
    arguments, expected = factors(128, 64, 192)
    kernel = compiled(product, arguments, capability=90, **{**BLOCK, **options})
    np.testing.assert_array_equal(launch(kernel, (128 // options.get("BM", 128), 1), arguments)[2], expected)
    assert "ttg.warp_specialize(" in kernel.asm["ttgir"]
    assert '"ttg.num-warps" = 4' in kernel.asm["ttgir"]


@tw.jit
def summed_product(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    left = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    out = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    total, offset = tl.zeros((BM, BN), tl.float32), 0.0
    for k in tl.range(0, K, BK, warp_specialize=True):
        y = right.load([0, k]).T
        total = tl.dot(left.load([0, k]), y, total)
        offset += tl.sum(y.to(tl.float32))
    out.store([0, 0], (total + offset).to(tl.float16))


@pytest.mark.parametrize("rows", [16, 32, 64])
def test_a_tile_that_is_too_small_for_all_warps_is_summed(rows: int) -> None:
    arguments, expected = factors(128, rows, 192)
    offset = arguments[1].astype(np.float32).sum()
    kernel = compiled(summed_product, arguments, capability=90, BM=128, BN=rows, BK=32)
    found = launch(kernel, (1,), arguments)[2]
    np.testing.assert_array_equal(found, (expected.astype(np.float32) + offset).astype(np.float16))
