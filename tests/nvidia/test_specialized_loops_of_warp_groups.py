"""Loops with `warp_specialize=True` on a simulated sm_90: results, and what the simulator says of missing barriers."""

from __future__ import annotations

import numpy as np
import pytest
from simulated import compiled, launch
from test_specialized_loops import BLOCK, factors, product, products


@pytest.mark.parametrize("k", [0, 64, 192, 320])
def test_product(k: int) -> None:
    arguments, expected = factors(128, 128, k)
    kernel = compiled(product, arguments, capability=90, **BLOCK)
    text = kernel.asm["ttgir"]
    print(text)
    np.testing.assert_array_equal(launch(kernel, (2, 2), arguments)[2], expected)
    assert "ttg.warp_specialize(" in text


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("k", [0, 64, 320])
def test_products_of_a_persistent_program(flat: bool, k: int) -> None:
    arguments, expected = factors(256, 128, k)
    kernel = compiled(products, arguments, capability=90, FLAT=flat, **BLOCK)
    np.testing.assert_array_equal(launch(kernel, (3,), arguments)[2], expected)
    assert "ttg.warp_specialize(" in kernel.asm["ttgir"]
