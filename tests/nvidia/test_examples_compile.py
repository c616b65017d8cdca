"""Every kernel of `examples/` compiles for GPUs, and NVIDIA's assembler takes it."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from tilewright.backends.base import GPUTarget
from tilewright.runtime.compile import compile
from tilewright.support import knobs
from tilewright.support.diagnostics import OutOfResources

EXAMPLES = Path(__file__).parents[2] / "examples"
LARGE = {("attention_kernel", 80)}
"""Kernels of which some blocks, chosen for a CPU and in fp32, are larger than the shared memory of the GPU."""


@pytest.mark.slow
@pytest.mark.needs_ptxas
@pytest.mark.parametrize(
    "path", sorted(set(EXAMPLES.glob("*.py")) - {EXAMPLES / "demo.py"}), ids=lambda path: path.stem
)
def test_kernels(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources: list[Any] = []
    monkeypatch.syspath_prepend(EXAMPLES)
    with knobs.compilation.scope():
        knobs.compilation.listener = lambda *, src, **_: sources.append(src)
        runpy.run_path(str(path), run_name="__main__")
    assert sources or path.stem in ("arrays", "decorator_jits")
    for source in sources:
        for capability in (80, 90):
            target = GPUTarget("cuda", capability, 32)
            try:
                assert compile(source, target=target).kernel.startswith(b"\x7fELF")
            except OutOfResources:
                assert (source.name, capability) in LARGE
