"""Kernels compiled for AArch64, which is not executed here: vectors, fused multiply-add, nothing left to link.

SVE (Neoverse V1, 256 bits; A64FX, 512): what a fixed length makes of scalable vectors stays in registers.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from pass_kernels import CALLS, ttir_of

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.base import GPUTarget
from tilewright.backends.cpu.backend import CpuBackend
from tilewright.compiler.compile import compile_kernel

FUSED = {"vector_add": False, "softmax": True, "matmul": True, "flash_attention": True}
"""Whether the kernel multiplies and adds."""


@pytest.mark.parametrize("name", CALLS)
def test_assembly(name: str) -> None:
    backend = CpuBackend(GPUTarget("cpu", "neoverse-v2", 0))
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


@pytest.mark.parametrize("cpu", ["neoverse-n1", "neoverse-v2", "apple-m1"])
def test_the_loop_of_a_product_keeps_its_sums_in_registers(cpu: str) -> None:
    """The loop with the most multiply-adds: enough sums for four pipes of four cycles, and nothing on the stack."""
    backend = CpuBackend(GPUTarget("cpu", cpu, 0))
    origin, options = ("ttir", ttir_of("matmul")), backend.parse_options({})
    artifact = compile_kernel(origin, name="matmul", signature=(), digest="", backend=backend, options=options)
    blocks = re.split(r"^\.?[\w$.]+:.*$", str(artifact.asm["asm"]), flags=re.MULTILINE)
    hottest = max(blocks, key=lambda block: len(re.findall(r"\bfml[as]\b", block)))
    assert len(set(re.findall(r"\bfmla\s+v(\d+)\.4s", hottest))) >= 16
    assert "[sp" not in hottest


@tw.jit
def halves(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, x * x + x)


@pytest.mark.parametrize(
    ("cpu", "lanes"), [("neoverse-n1", "v.8h"), ("apple-m1", "v.8h"), ("neoverse-v1", "z.h"), ("cortex-a72", "v.4s")]
)
def test_fp16_is_added_as_it_is_where_the_processor_can(cpu: str, lanes: str) -> None:
    """A product is rounded before it is added, as everywhere: nothing is fused."""
    x = np.zeros(1024, np.float16)
    origin = "ttir", str(halves.warmup(x, x, N=1024, grid=(1,)).asm["ttir"])
    backend = CpuBackend(GPUTarget("cpu", cpu, 0))
    options = backend.parse_options({})
    artifact = compile_kernel(origin, name="halves", signature=(), digest="", backend=backend, options=options)
    text = str(artifact.asm["asm"])
    found = re.findall(r"^\s+(f(?:add|mul|mla|cvt)\w*)\s+([vz])\d+(\.\w+)", text, re.MULTILINE)
    assert {file + kind for name, file, kind in found if not name.startswith("fcvt")} == {lanes}
    names = {name for name, *_ in found}
    assert names >= {"fadd", "fmul"}
    assert "fmla" not in names
    assert bool(names - {"fadd", "fmul"}) == (cpu == "cortex-a72"), "conversions"


SVE = ("neoverse-v1", "a64fx")


def assembly_for(name: str, cpu: str) -> str:
    backend = CpuBackend(GPUTarget("cpu", cpu, 0))
    origin, options = ("ttir", ttir_of(name)), backend.parse_options({})
    artifact = compile_kernel(origin, name=name, signature=(), digest="", backend=backend, options=options)
    return str(artifact.asm["asm"])


@pytest.mark.parametrize("cpu", SVE)
def test_the_loop_of_a_product_is_of_scalable_vectors(cpu: str) -> None:
    blocks = re.split(r"^\.?[\w$.]+:.*$", assembly_for("matmul", cpu), flags=re.MULTILINE)
    hottest = max(blocks, key=lambda block: len(re.findall(r"\bfml[as]\b", block)))
    assert len(set(re.findall(r"\bfmla\s+z(\d+)\.s", hottest))) >= 16
    in_all_lanes = {"a64fx": r"\bld1rw\b", "neoverse-v1": r"\bmov\s+z\d+\.s, s\d+"}[cpu]  # V1 has slow ld1r of floats
    assert len(re.findall(in_all_lanes, hottest)) == 4, "a number of A in all lanes"
    assert "[sp" not in hottest


@pytest.mark.parametrize("cpu", SVE)
@pytest.mark.parametrize("name", CALLS)
def test_no_vector_is_put_together_on_the_stack(name: str, cpu: str) -> None:
    text = assembly_for(name, cpu)
    assert re.search(r"\bz\d+\.s", text) or "ldr\tz" in text
    body = text.partition("\n.LBB")[2]  # a function begins with keeping the caller's registers
    assert not re.search(r"\bst[r1]\s+(?:[sdh]\d+|\{ v\d+\.[sdh] \}\[\d+\]), \[sp", body), "lane by lane"
