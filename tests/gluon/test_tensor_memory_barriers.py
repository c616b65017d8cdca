"""Barriers between what threads store to tensor memory and the products that read it."""

from __future__ import annotations

import gluon_programs as programs
import numpy as np
import pytest
from descriptors import aligned, described

import tilewright
from tilewright import gluon
from tilewright.ir.core import Op
from tilewright.transforms.gpu import pipeline


def launch() -> None:
    """Run `product_onto_stored_sums` and check what it computes."""
    random = np.random.default_rng(3)
    a, b = aligned((128, 64), np.float16), aligned((64, 128), np.float16)
    c, before = aligned((128, 128), np.float32), random.integers(-4, 5, (128, 128)).astype(np.float32)
    a[...], b[...], c[...] = random.integers(-4, 5, a.shape), random.integers(-4, 5, b.shape), before
    with tilewright.simulate("cuda:100"):
        operands = [described(x, list(x.shape), programs.ROWS) for x in (a, b)]
        gluon.jit(programs.product_onto_stored_sums.fn)[(1,)](*operands, c)
    product = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_array_equal(c, 2 * (before + product) + product)


def test_a_barrier_stands_between_stores_of_threads_and_the_product() -> None:
    launch()


def test_without_it_the_simulator_reports_a_race(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(module: Op, scratch: object) -> bool:
        return False

    monkeypatch.setattr(pipeline, "tensor_memory_barriers", nothing)
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    with pytest.raises(tilewright.SimulationError, match="tensor memory"):
        launch()
