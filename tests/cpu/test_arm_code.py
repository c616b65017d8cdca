"""Kernels compiled for AArch64, which is not executed here: vectors, fused multiply-add, nothing left to link."""

from __future__ import annotations

import re

import pytest
from pass_kernels import CALLS, ttir_of

from tilewright.backends.cpu.options import parse_options
from tilewright.backends.cpu.pipeline import CpuBackend
from tilewright.backends.llvm.machine import host_target
from tilewright.ir.parser import parse_module

FUSED = {"vector_add": False, "softmax": True, "matmul": True, "flash_attention": True}
"""Whether the kernel multiplies and adds."""


@pytest.mark.parametrize("name", CALLS)
def test_assembly(name: str) -> None:
    target, backend = host_target("neoverse-v1"), CpuBackend()
    lowered = backend.lower(parse_module(ttir_of(name)), target, parse_options({}))
    assert lowered.object[:4] == b"\x7fELF"
    assert lowered.object[18:20] == (183).to_bytes(2, "little"), "not an object for AArch64"
    text = backend.assembly(lowered.texts, target)
    assert re.search(r"\bv\d+\.4s\b", text), "no vectors"
    assert bool(re.search(r"\bfml[as]\b", text)) == FUSED[name]
    defined = set(re.findall(r"^([\w.$]+):", text, re.MULTILINE))
    called = set(re.findall(r"^\s+bl\s+([\w.$]+)", text, re.MULTILINE))
    addressed = set(re.findall(r":(?:lo12|got|got_lo12):([\w.$]+)", text))
    assert called | addressed <= defined, "symbols that nothing defines"
