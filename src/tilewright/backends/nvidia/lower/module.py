"""TTGIR → the text of an LLVM module for NVIDIA's GPUs.

    lowered = lower_module(module, LowerOptions(Target(90, 80)))
    lowered.text             # define ptx_kernel void @add(ptr addrspace(1) %x, …) "nvvm.reqntid"="128" …
    lowered.facts["name"]    # "add"

The module is TTGIR after `allocate_shared_memory` and `membar`. A kernel's parameters are Triton's: the arguments in
order, a tensor descriptor as 128 bytes, then two pointers to scratch memory in global memory, of the kernel and of the
profiler. Shared memory is one array of unknown size, `@global_smem`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilewright.analysis.axis_info import analyze_axis_info
from tilewright.backends.llvm import machine
from tilewright.backends.llvm.debug_writer import DebugWriter
from tilewright.backends.llvm.writer import LlvmWriter
from tilewright.backends.nvidia.lower.calls import write_function
from tilewright.backends.nvidia.lower.lowerer import SHARED, WARP, Lowerer, Module, Target
from tilewright.backends.nvidia.lower.register_reallocation import registers_at_entry
from tilewright.backends.nvidia.lower.tables import LOWERINGS
from tilewright.backends.nvidia.lower.warp_groups import warps_of_block
from tilewright.dialects.tt_function import Func
from tilewright.dialects.ttg_attributes import SHARED_BYTES
from tilewright.ir.attributes import Number, span_of
from tilewright.ir.core import Op, integer_in
from tilewright.transforms.functions import functions_of, is_public
from tilewright.transforms.gpu.allocate_memory import SCRATCH_ALIGNMENT, SCRATCH_SIZE

TRIPLE = "nvptx64-nvidia-cuda"


@dataclass(frozen=True)
class LowerOptions:
    """Options of the lowering.

    Attributes:
        target: the device that the code is for.
        line_info: instructions say from which line of the program they come.
        max_registers: of a thread; 0: as many as the hardware has.
    """

    target: Target
    line_info: bool = True
    max_registers: int = 0


@dataclass(frozen=True)
class Lowered:
    """A module in LLVM IR.

    Attributes:
        text: the module.
        facts: `name` of the kernel; `shared`, bytes of shared memory that it needs; `global_scratch_size` and
            `global_scratch_align` of each program, if it has scratch memory in global memory.
    """

    text: str
    facts: dict[str, Any]


def lower_module(module: Op, options: LowerOptions) -> Lowered:
    """Write every function of a module of TTGIR.

    Args:
        module: TTGIR whose shared memory has its places; stays as it is.

    Raises:
        Unsupported: an op has no lowering yet; `legality.py` lists them.
    """
    functions = functions_of(module)
    w = _writer(options, has_lines=all(span_of(function.location).file for function in functions))
    bytes_of_shared = integer_in(module, SHARED_BYTES) or 0
    state = Module(w, options.target, LOWERINGS, analyze_axis_info(module), {f.symbol: llvm_name(f) for f in functions})
    warps = warps_of_block(functions, options.target.num_warps, options.target.capability)
    at_entry = registers_at_entry(functions, options.target, warps, options.max_registers)
    attributes = _kernel_attributes(options, warps, at_entry)
    w.define(SHARED[1:], "external addrspace(3) global [0 x i8], align 16")
    for function in functions:
        write_function(Lowerer(state, function), attributes, at_entry)
    kernel = next((f.symbol for f in functions if is_public(f)), "")
    facts = {"name": kernel, "shared": bytes_of_shared, "num_warps": warps, **_global_scratch(module)}
    header = f'target triple = "{TRIPLE}"\n'
    return Lowered(header + w.render(), facts)


def _global_scratch(module: Op) -> dict[str, int]:
    """The facts that a launch needs about the scratch memory of programs; none where they have none."""
    size, alignment = (module.attributes.get(name) for name in (SCRATCH_SIZE, SCRATCH_ALIGNMENT))
    if not isinstance(size, Number) or not isinstance(alignment, Number) or not size.value:
        return {}
    return {"global_scratch_size": int(size.value), "global_scratch_align": int(alignment.value)}


def _writer(options: LowerOptions, *, has_lines: bool) -> LlvmWriter:
    new: Callable[..., LlvmWriter] = DebugWriter if options.line_info and has_lines else LlvmWriter
    w = new(_machine(options.target), fuse=options.target.fuse)
    w.attributes = "nounwind"
    return w


def _machine(target: Target) -> machine.Target:
    """The device, for code shared with CPUs."""
    return machine.Target(
        triple=TRIPLE,
        cpu=f"sm_{target.capability}",
        tune="",
        features=(),
        vector_bits=32,
        has_fma=True,
        has_f16c=True,
        has_avx2=False,
        has_avx512f=False,
        has_avx512bf16=False,
        has_vnni=False,
        neon=False,
    )


def _kernel_attributes(options: LowerOptions, warps: int, at_entry: int) -> str:
    target, registers = options.target, at_entry or options.max_registers
    found = [f'"nvvm.reqntid"="{warps * WARP}"']
    if target.num_ctas > 1:
        found.append(f'"nvvm.cluster_dim"="{target.num_ctas},1,1"')
    if registers:
        found.append(f'"nvvm.maxnreg"="{registers}"')
    return " ".join(found)


def llvm_name(function: Func) -> str:
    """The symbol of a function; a kernel keeps its name, if PTX has all of its letters: `größe` is `gr_f6__df_e`."""
    return re.sub(r"[^A-Za-z0-9_$]", _substitute, function.symbol)


def _substitute(letter: re.Match[str]) -> str:
    return "_" if letter[0].isascii() else f"_{ord(letter[0]):x}_"
