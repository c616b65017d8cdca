"""Kernels compiled for AArch64, which is not executed here: vectors, fused multiply-add, nothing left to link."""

from __future__ import annotations

import re

import pytest
from pass_kernels import CALLS, ttir_of

from tilewright.backends.base import GPUTarget
from tilewright.backends.cpu.backend import CpuBackend
from tilewright.compiler.compile import compile_kernel

FUSED = {"vector_add": False, "softmax": True, "matmul": True, "flash_attention": True}
"""Whether the kernel multiplies and adds."""


@pytest.mark.parametrize("name", CALLS)
def test_assembly(name: str) -> None:
    backend = CpuBackend(GPUTarget("cpu", "neoverse-v1", 0))
    origin, options = ("ttir", ttir_of(name)), backend.parse_options({})
    artifact = compile_kernel(origin, name=name, signature=(), digest="", backend=backend, options=options)
    assert artifact.binary[:4] == b"\x7fELF"
    assert artifact.binary[18:20] == (183).to_bytes(2, "little"), "not an object for AArch64"
    text = str(artifact.asm["asm"])
    assert re.search(r"\bv\d+\.4s\b", text), "no vectors"
    assert bool(re.search(r"\bfml[as]\b", text)) == FUSED[name]
    defined = set(re.findall(r"^([\w.$]+):", text, re.MULTILINE))
    called = set(re.findall(r"^\s+bl\s+([\w.$]+)", text, re.MULTILINE))
    addressed = set(re.findall(r":(?:lo12|got|got_lo12):([\w.$]+)", text))
    assert called | addressed <= defined, "symbols that nothing defines"
