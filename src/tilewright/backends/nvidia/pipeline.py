"""The pipeline from TTIR to a GPU's machine code.

ttir     the passes that Triton runs on TTIR for a GPU
ttgir    every tile has a layout, loops are pipelined
llir     shared memory is allocated and barriers are inserted; then the code of one thread, as LLVM IR
ptx      code generation by LLVM, in a process of its own
cubin    NVIDIA's assembler, where it is installed
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from tilewright.analysis.value_flow import stored_arguments
from tilewright.backends.llvm import nvptx
from tilewright.backends.nvidia import ptx_text
from tilewright.backends.nvidia.lower.lowerer import Target
from tilewright.backends.nvidia.lower.module import LowerOptions, lower_module
from tilewright.backends.nvidia.options import CudaOptions
from tilewright.backends.nvidia.ptxas import assemble_kernel
from tilewright.backends.nvidia.targets import Device
from tilewright.backends.nvidia.tools import find_libdevice
from tilewright.dialects.ttg_attributes import TENSOR_MEMORY_COLUMNS
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op, integer_in
from tilewright.ir.pass_manager import Pass, verify_after
from tilewright.ir.types import TensorDescType, i32
from tilewright.layouts.encodings import NvmmaShared, encoding
from tilewright.support import knobs
from tilewright.support.diagnostics import OutOfResources
from tilewright.transforms.functions import functions_of, is_public
from tilewright.transforms.gpu.gluon_pipeline import GLUON_PASSES
from tilewright.transforms.gpu.pipeline import TtgirOptions, memory_passes, ttgir_passes
from tilewright.transforms.gpu.tile_ops import target_of
from tilewright.transforms.gpu.tma_lowering import PADDED_FP4, SWIZZLE_MODES, box_of, element_type
from tilewright.transforms.pipeline import device_passes, run_stage
from tilewright.transforms.structure_control_flow import structure_control_flow

BYTES_PER_REGISTER = 4
LIBDEVICE_PREFIX = "@__nv_"
FLUSHES_DENORMALS = """
!llvm.module.flags = !{!9000000}
!9000000 = !{i32 4, !"nvvm-reflect-ftz", i32 1}
"""
"""The flag that functions of libdevice ask for; LLVM adds it to those that the module has."""


def make_ttir(module: Op, facts: dict[str, Any], device: Device) -> Op:
    """The stage `ttir`: what the front end evaluated → optimised TTIR, in place."""
    structured = Pass("structure_control_flow", structure_control_flow)
    _run(module, (structured, *device_passes(device.capability)), facts)
    return module


def make_ttgir(module: Op, facts: dict[str, Any], options: CudaOptions, device: Device) -> Op:
    """The stage `ttgir`: optimised TTIR with one public function → TTGIR, in place."""
    facts["stored"] = sorted(stored_arguments(module))
    _limit_registers(module, options)
    shape = TtgirOptions(device.capability, options.num_warps, options.num_ctas, options.num_stages)
    _run(module, ttgir_passes(shape), facts)
    facts["tensordesc_meta"] = tensor_map_facts(module)
    return module


def _limit_registers(module: Op, options: CudaOptions) -> None:
    if options.maxnreg is not None:
        module.attributes["ttg.maxnreg"] = Number(options.maxnreg, i32)


def make_ttgir_of_gluon(module: Op, facts: dict[str, Any], options: CudaOptions) -> Op:
    """The stage `ttgir` of Gluon: what the front end evaluated → TTGIR, in place."""
    _limit_registers(module, options)
    _run(module, GLUON_PASSES, facts)
    facts["stored"] = sorted(stored_arguments(module))
    facts["tensordesc_meta"] = tensor_map_facts(module)
    return module


def make_llir(module: Op, facts: dict[str, Any], options: CudaOptions, device: Device) -> str:
    """The stage `llir`: TTGIR → LLVM IR, which begins with what a launch has to know; the module is consumed.

    Raises:
        ValueError: the module, which was given as text, is for another device.
        Unsupported: an op has no lowering.
        OutOfResources: a program needs more shared memory than the device gives it.
    """
    _settle_target(module, device)
    _run(module, memory_passes(device.capability, fences=options.insert_fences), facts)
    target = Target(
        capability=device.capability,
        ptx=_ptx_version(options, device),
        num_warps=integer_in(module, "ttg.num-warps") or options.num_warps,
        num_ctas=options.num_ctas,
        fuse=options.enable_fp_fusion,
        flush=options.enable_reflect_ftz,
    )
    lowered = lower_module(module, LowerOptions(target, bool(options.debug_info), options.maxnreg or 0))
    facts.update(lowered.facts)
    facts["entry"] = facts["name"]
    facts["shared"] = max(facts["shared"], options.min_shared_mem or 0)
    facts["tmem_size"] = integer_in(module, TENSOR_MEMORY_COLUMNS) or 0
    facts["cluster_dims"] = [options.num_ctas, 1, 1]
    if facts["shared"] > device.shared_limit:
        raise OutOfResources(facts["shared"], device.shared_limit, "shared memory")
    return ptx_text.launch_line("llir", facts) + lowered.text


def _settle_target(module: Op, device: Device) -> None:
    """Check that a text is for this device; where it does not say, it is, and for one CTA."""
    given, wanted = target_of(module), f"cuda:{device.capability}"
    if given and given != wanted:
        raise ValueError(f"the module is for {given}, and the target is {wanted}")
    defaults = {"ttg.num-ctas": Number(1, i32), "ttg.threads-per-warp": Number(32, i32)}
    module.attributes = {**defaults, **module.attributes, "ttg.target": wanted}


def make_ptx(text: str, facts: dict[str, Any], options: CudaOptions, device: Device) -> str:
    """The stage `ptx`: LLVM IR → PTX.

    Raises:
        LlvmError: LLVM cannot compile the text.
        MissingToolError: a function of libdevice is called, and the library is not installed.
    """
    facts.update(ptx_text.launch_facts("llir", text))
    libraries = [path for name, path in options.extern_libs if name != "libdevice"]
    if LIBDEVICE_PREFIX in text:
        libraries.append(dict(options.extern_libs).get("libdevice") or find_libdevice(device.capability))
        text += FLUSHES_DENORMALS if options.enable_reflect_ftz else ""
    features = f"+ptx{_ptx_version(options, device)}"
    raw = nvptx.emit_ptx(text, device.llvm_cpu, features, libraries=libraries)
    ptx = ptx_text.finish(raw, keeps_debugging=options.debug_info == "variables")
    facts["name"] = facts["entry"] = ptx_text.kernel_name(ptx)
    ptx = ptx_text.launch_line("ptx", facts) + ptx
    if knobs.nvidia.dump_nvptx:
        sys.stdout.write(f"// -----// NVPTX Dump //----- //\n{ptx}\n")
    return ptx


def make_cubin(text: str, facts: dict[str, Any], options: CudaOptions, device: Device, *, ptxas: str) -> bytes:
    """The stage `cubin`: PTX → machine code.

    Args:
        text: the PTX.
        facts: the metadata of the kernel, which gets the numbers that the assembler reports.
        options: the options of the kernel.
        device: the GPU.
        ptxas: the path of the assembler.

    Raises:
        PTXASError: the assembler refuses the text.
    """
    facts.update(ptx_text.launch_facts("ptx", text))
    facts.setdefault("shared", options.min_shared_mem or 0)  # text from elsewhere does not say
    assembled = assemble_kernel(text, device.llvm_cpu, ptxas=ptxas, flags=_ptxas_flags(options))
    facts["n_regs"] = assembled.registers
    facts["n_spills"] = assembled.local_bytes // BYTES_PER_REGISTER
    return assembled.cubin


def _ptxas_flags(options: CudaOptions) -> list[str]:
    flags = []
    if knobs.nvidia.disable_ptxas_opt:
        flags += ["-g", "--opt-level", "0"]
    elif options.debug_info:
        flags.append("-lineinfo")
    if not options.enable_fp_fusion:
        flags.append("--fmad=false")
    return flags + (options.ptx_options or "").split()


def _ptx_version(options: CudaOptions, device: Device) -> int:
    return options.ptx_version or device.ptx


def _run(module: Op, passes: Sequence[Pass], facts: dict[str, Any]) -> None:
    """Run the passes of a stage; where not each of them was verified, verify the module at the end."""
    if not run_stage(module, passes, facts):
        verify_after(module, f"one up to {passes[-1].name} (MLIR_ENABLE_DUMP=1 tells which)")


def tensor_map_facts(module: Op) -> list[dict[str, Any]]:
    """One record per descriptor among the parameters of the kernel in TTGIR.

    Each has `swizzle` (the number of the mode), `elem_size` (bytes), `elem_type` (PTX's number of the element type),
    `block_size` (elements of one copy, outermost first) and `fp4_padded` (16 elements of 4 bits take 16 bytes).
    """
    kernels = [function for function in functions_of(module) if is_public(function)]
    parameters = [value.type for kernel in kernels for value in kernel.regions[0].blocks[0].args]
    return [_facts(kind) for kind in parameters if isinstance(kind, TensorDescType)]


def _facts(kind: TensorDescType) -> dict[str, Any]:
    block = kind.block
    assert block.encoding, f"{kind} has no layout"
    layout = encoding(block.encoding)
    padded = isinstance(layout, NvmmaShared) and layout.fp4_padded
    return {
        "swizzle": SWIZZLE_MODES[getattr(layout, "swizzling_byte_width", 0)],
        "elem_size": block.bits // 8,
        "elem_type": PADDED_FP4 if padded else element_type(block.element),
        "block_size": list(box_of(layout, block.shape, of_images=kind.of_images)),
        "fp4_padded": padded,
    }
