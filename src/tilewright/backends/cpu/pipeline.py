"""The CPU back end: TTIR → ttcir → LLVM IR → object.

inline            functions marked noinline, too
refuse            what has no lowering is refused, by name
expand_histogram  histograms become comparisons and sums
expand_unsplat    the only element of a tile is reduced to a scalar
carry_offsets     tiles that loops shift by a number become fixed tiles plus that number
carry_buffers     other tiles that cross loops and branches go through buffers
form_nests        tile ops are grouped into loop nests, dots get their operands in buffers
spill_phases      what is expensive and needed in two phases of a nest is kept for a row
guard_stores      stores that might overlap other memory get a buffer to fall back to
plan_arena        buffers get their places
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from tilewright.backends.base import Lowered
from tilewright.backends.cpu.carry_buffers import carry_buffers
from tilewright.backends.cpu.carry_offsets import carry_offsets
from tilewright.backends.cpu.dot.emit import dot_workspace_bytes
from tilewright.backends.cpu.dot.spec import operand_element_type
from tilewright.backends.cpu.dot_spec import spec_of
from tilewright.backends.cpu.dots import DotLowering
from tilewright.backends.cpu.emit_function import emit_function
from tilewright.backends.cpu.expand_histogram import expand_histogram
from tilewright.backends.cpu.expand_unsplat import expand_unsplat
from tilewright.backends.cpu.form_nests import form_nests
from tilewright.backends.cpu.guard_stores import guard_stores
from tilewright.backends.cpu.options import CpuOptions
from tilewright.backends.cpu.phases import spill_phases
from tilewright.backends.cpu.plan_arena import plan_arena
from tilewright.backends.cpu.refuse import refuse_unsupported
from tilewright.backends.llvm.machine import Target, compile_object, emit_assembly
from tilewright.backends.llvm.writer import LlvmWriter
from tilewright.ir.core import Op
from tilewright.ir.printer import print_op
from tilewright.transforms.inline import inline


class CpuBackend:
    """The back end for CPUs; see `backends/base.py` for the protocol."""

    name = "cpu"
    text_stages = ("ttcir", "llir")
    object_stage = "obj"
    assembly_stage = "asm"

    def lower(self, module: Op, target: Target, options: CpuOptions) -> Lowered:
        """Turn optimised TTIR with one function into an object; the module is consumed.

        Raises:
            Unsupported: the kernel uses something that has no CPU lowering.
        """
        scratch = lower_to_loops(module, target)
        ttcir = print_op(module)
        llir, entry = emit_llvm(module, target, fuse=options.enable_fp_fusion)
        code = compile_object(llir, target)
        return Lowered(texts={"ttcir": ttcir, "llir": llir}, object=code, entry=entry, scratch_bytes=scratch)

    def assembly(self, texts: Mapping[str, str], target: Target) -> str:
        """Assembly text of the LLVM IR in `texts`."""
        return emit_assembly(texts["llir"], target)


def lower_to_loops(module: Op, target: Target) -> int:
    """TTIR → ttcir, in place; returns the bytes of scratch memory per thread."""
    inline(module, every_call=True)
    refuse_unsupported(module)
    expand_histogram(module)
    expand_unsplat(module)
    carry_offsets(module)
    carry_buffers(module)
    form_nests(module, DotLowering(partial(operand_element_type, target=target)))
    spill_phases(module)
    guard_stores(module)
    dots = [op for op in module.walk() if op.name == "cpu.dot"]
    workspace = max((_workspace(op, target) for op in dots), default=0)
    return plan_arena(module, workspace)


def _workspace(dot: Op, target: Target) -> int:
    """Bytes that the micro-kernels need, whether the operands are copied or read where they lie."""
    copied = spec_of(dot)
    in_place = replace(copied, a_stride="%a", b_stride="%b")
    return max(dot_workspace_bytes(copied, target), dot_workspace_bytes(in_place, target))


def emit_llvm(module: Op, target: Target, *, fuse: bool) -> tuple[str, str]:
    """ttcir → the text of an LLVM module, and the name of its entry point."""
    function = next(op for op in module.regions[0].block if op.definition.symbol)
    name = str(function.attributes["sym_name"])
    writer = LlvmWriter(target, fuse=fuse)
    emit_function(writer, function, name)
    return writer.render(), name
