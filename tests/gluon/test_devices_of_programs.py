"""Kernels of Gluon on all generations of GPUs: each compiles there, or its error names the devices that have its op."""

from __future__ import annotations

from collections.abc import Callable

import gluon_programs as programs
import pytest
from gluon_arguments import arguments_of
from gluon_assembly import assembled_text

import tilewright as tw
from tilewright.backends.nvidia.lower.legality import INSTRUCTIONS, Instruction
from tilewright.backends.nvidia.options import OptionError
from tilewright.backends.nvidia.ptxas import PTXASError, assemble
from tilewright.backends.nvidia.targets import DEVICES, find
from tilewright.backends.nvidia.tools import find_ptxas

GOLDEN = "gluon/devices_of_programs.txt"
CAPABILITIES = (75, 80, 90, 100, 120)
PROBES = {
    "cp.async": "cp.async.commit_group;",
    "mbarrier": "mbarrier.init.shared.b64 [buffer], 1;",
    "mbarrier.expect_tx": "mbarrier.arrive.expect_tx.shared.b64 _, [buffer], 16;",
    "fence.proxy.async": "fence.proxy.async.shared::cta;",
    "st.async": "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [r], r, [r];",
    "cp.async.bulk.tensor": "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [d, {r}], [r];",
    "cp.async.bulk.tensor.tile::gather4": "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4"
    ".mbarrier::complete_tx::bytes [r], [d, {r, r, r, r, r}], [r];",
    "cp.async.bulk.tensor.tile::scatter4": "cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group"
    " [d, {r, r, r, r, r}], [r];",
    "tensormap": "fence.proxy.tensormap::generic.acquire.gpu [d], 128;",
    "barrier.cluster": "barrier.cluster.arrive.aligned;",
    "wgmma": "wgmma.fence.sync.aligned;",
    "tcgen05": "tcgen05.wait::ld.sync.aligned;",
    "clusterlaunchcontrol": "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128"
    " [r], [r];",
}
"""By instruction of the table: a statement that has it."""
KERNEL = """.version {version}
.target {device}
.address_size 64
.visible .entry kernel() .reqntid 128
{{
    .reg .b32 r; .reg .b64 d; .shared .align 16 .b8 buffer[1024];
    mov.u32 r, 0; mov.u64 d, 0;
    {statement}
    ret;
}}
"""


def outcome(name: str, capability: int) -> str:
    """`compiles` if the kernel does, and ptxas takes its PTX; else the first line of the error and its reason."""
    options = {**arguments_of(name), "grid": (1,)}
    try:
        with tw.simulate(f"cuda:{capability}"):
            assembled_text(getattr(programs, name).warmup(**options), capability)
    except OptionError as error:
        return str(error)
    except tw.CompilationError as error:
        lines = str(error).splitlines()
        return f"{lines[0].removeprefix('error: ')}: {lines[-1].rpartition('^ ')[2]}"
    return "compiles"


def test_kernels_compile_or_name_the_devices_that_have_their_ops(golden: Callable[[str, str], None]) -> None:
    rows = [(name, capability) for name in programs.CASES for capability in CAPABILITIES]
    golden("".join(f"{name} {capability}: {outcome(name, capability)}\n" for name, capability in rows), GOLDEN)


def refusal(instruction: Instruction, capability: int, ptxas: str) -> str:
    """The assembler's error for a kernel with that instruction; empty where it takes it."""
    device = find(capability)
    version = f"{device.ptx // 10}.{device.ptx % 10}"
    text = KERNEL.format(version=version, device=device.llvm_cpu, statement=PROBES[instruction.name])
    try:
        assemble(text, device.llvm_cpu, ptxas=ptxas)
    except PTXASError as error:
        return str(error)
    return ""


@pytest.mark.needs_ptxas
@pytest.mark.parametrize("instruction", dict.fromkeys(INSTRUCTIONS.values()), ids=lambda one: one.name)
def test_the_assembler_knows_each_instruction_on_the_devices_that_the_table_says(instruction: Instruction) -> None:
    assemblers = {capability: find_ptxas(capability) for capability in DEVICES}
    refused = {capability: refusal(instruction, capability, path) for capability, path in assemblers.items() if path}
    assert {capability: not text for capability, text in refused.items()} == {
        capability: instruction.is_on(capability) for capability in refused
    }
    assert all("not supported" in text or "requires" in text for text in refused.values() if text)
    assert 90 in refused
