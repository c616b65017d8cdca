"""Scratch memory of the examples: what the planner states, and that it stays within a core's cache."""

from __future__ import annotations

import importlib

import pytest

import tilewright as tw

MODULES = [
    "batched_gemm",
    "conv2d",
    "dropout",
    "flash_attention",
    "histogram",
    "layer_norm",
    "matmul",
    "prefix_sum",
    "softmax",
    "vector_add",
]
LIMIT = (1 << 20) + (512 << 10)
"""The panels of products that a Zen 5 keeps for the next programs, and 512 KiB for all else, in bytes."""


@pytest.mark.slow
@pytest.mark.parametrize("name", MODULES)
def test_scratch_is_stated_and_small(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    module = importlib.import_module(name)
    module.main()
    functions = [value for value in vars(module).values() if isinstance(value, tw.JITFunction)]
    compiled = [kernel for function in functions for kernel in function._kernels.values()]
    assert compiled, "the example ran no kernel"
    for kernel in compiled:
        assert 0 <= kernel.metadata.scratch_bytes <= LIMIT, (name, kernel.metadata.name, kernel.metadata.scratch_bytes)
