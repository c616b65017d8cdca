"""The pipeline from TTIR to TTGIR ready for code generation, and the passes between TTGIR and LLVM IR.

The order is that of Triton 3.9 for compute capabilities 8.x, 9.x, 10.x and 12.x.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from tilewright.analysis.scratch_memory import scratch_bytes_on
from tilewright.ir.pass_manager import Pass
from tilewright.transforms.adopt_libraries import adopt_libraries
from tilewright.transforms.canonicalize import canonicalize
from tilewright.transforms.cse import cse, loop_aware_cse
from tilewright.transforms.gpu.accelerate_matmul import accelerate_matmul
from tilewright.transforms.gpu.allocate_memory import (
    allocate_global_scratch,
    allocate_shared_memory,
    allocate_tensor_memory,
)
from tilewright.transforms.gpu.cluster_barriers import cluster_barriers, widen_barriers
from tilewright.transforms.gpu.coalesce import coalesce, coalesce_async_copy
from tilewright.transforms.gpu.combine_select_if import combine_select_if, nested_selects
from tilewright.transforms.gpu.convert_to_ttgir import ConvertOptions, convert_to_ttgir
from tilewright.transforms.gpu.cta_local_layouts import assign_cga_layouts, cta_local_layouts, packs_in_threads
from tilewright.transforms.gpu.f32_dot_tc import F32DotOptions, f32_dot_tc
from tilewright.transforms.gpu.fence_insertion import FenceOptions, fence_insertion
from tilewright.transforms.gpu.fuse_nested_loops import fuse_nested_loops
from tilewright.transforms.gpu.membar import membar
from tilewright.transforms.gpu.mma_lowering import hoist_barriers, mma_lowering
from tilewright.transforms.gpu.optimize_accumulator_init import optimize_accumulator_init
from tilewright.transforms.gpu.optimize_descriptor_encoding import optimize_descriptor_encoding
from tilewright.transforms.gpu.optimize_dot_operands import optimize_dot_operands, reduce_data_duplication
from tilewright.transforms.gpu.optimize_thread_locality import optimize_thread_locality
from tilewright.transforms.gpu.optimize_tmem_layouts import optimize_tmem_layouts
from tilewright.transforms.gpu.pipelining.assign_latencies import StageOptions, assign_latencies
from tilewright.transforms.gpu.pipelining.pipeline_loops import pipeline_loops
from tilewright.transforms.gpu.pipelining.schedule_loops import schedule_loops
from tilewright.transforms.gpu.prefetch import prefetch
from tilewright.transforms.gpu.promote_lhs_to_tmem import promote_lhs_to_tmem
from tilewright.transforms.gpu.proxy_fences import proxy_fences
from tilewright.transforms.gpu.remove_layout_conversions import remove_layout_conversions
from tilewright.transforms.gpu.reorder_instructions import reorder_instructions
from tilewright.transforms.gpu.tensor_memory_accumulators import hoist_tensor_memory, remove_tensor_memory_tokens
from tilewright.transforms.gpu.tensor_memory_barriers import tensor_memory_barriers
from tilewright.transforms.gpu.tma_lowering import tma_lowering
from tilewright.transforms.gpu.warp_specialization.automatic import automatic_warp_specialization
from tilewright.transforms.inline import symbol_dce
from tilewright.transforms.licm import licm_with_loads
from tilewright.transforms.rewrite_tensor_descriptor_to_pointer import rewrite_tensor_descriptor_to_pointer

CAPABILITIES = (80, 90, 100, 120)
"""One compute capability of each family of devices; others are treated as the family's."""
FIRST_TF32 = 80
"""The first capability with matrix instructions for tf32 and bf16."""
FIRST_TMA = 90
"""The first capability with a tensor memory accelerator."""
FIRST_TENSOR_MEMORY = 100
"""The first capability for which Triton looks for sums that start from zero."""
AMPERE_FAMILY = 8
"""Devices 8.x, whose products take their operands from registers."""
FIRST_ASYNC_COPIES = 80
"""The first capability that copies to shared memory while it computes."""


@dataclass(frozen=True)
class TtgirOptions:
    """The device that a kernel is compiled for, by its compute capability, and how.

    Each tile is shared by `num_ctas` CTAs; `num_stages` steps of a loop that does not say so are under way at once.
    """

    capability: int
    num_warps: int = 4
    num_ctas: int = 1
    num_stages: int = 3


def _since(first: int, options: TtgirOptions, *passes: Pass) -> tuple[Pass, ...]:
    """These passes, for devices of compute capability `first` or above."""
    return passes if options.capability >= first else ()


def ttgir_passes(options: TtgirOptions) -> tuple[Pass, ...]:
    """The passes that turn TTIR into TTGIR, in order."""
    by_pointers = (
        Pass("rewrite_tensor_descriptor_to_pointer", rewrite_tensor_descriptor_to_pointer),
        Pass("canonicalize", canonicalize),
        Pass("cse", cse),
    )
    without_tma = by_pointers if options.capability < FIRST_TMA else ()
    return (*without_tma, *_layouts(options), *_loops(options), *_finish(options))


_CLUSTERS = (
    Pass("widen_barriers", widen_barriers, "one block may store what another one loads"),
    Pass("assign_cga_layouts", assign_cga_layouts, "each block loads its own part of the operands"),
)


def _layouts(options: TtgirOptions) -> tuple[Pass, ...]:
    """The passes that decide who holds what: memory decides first, then matrix instructions."""
    device = ConvertOptions(f"cuda:{options.capability}", options.num_warps, 32, options.num_ctas)
    return (
        Pass("convert_to_ttgir", partial(convert_to_ttgir, options=device), "every tile gets an initial layout"),
        Pass("coalesce", coalesce, "memory accesses need their layouts most; other ops adapt"),
        # Products in several parts, if asked for; devices without matrix instructions for them are exact anyway.
        *_since(FIRST_TF32, options, Pass("f32_dot_tc", partial(f32_dot_tc, options=F32DotOptions()))),
        *(_CLUSTERS if options.num_ctas > 1 else ()),
        Pass("remove_layout_conversions", remove_layout_conversions),
        Pass("optimize_thread_locality", optimize_thread_locality, "reductions within threads first"),
        Pass("accelerate_matmul", accelerate_matmul, "matrix instructions fix layouts, to which others adapt again"),
        Pass("remove_layout_conversions", remove_layout_conversions),
        Pass("optimize_dot_operands", optimize_dot_operands, "operands are transposed in memory, not in registers"),
        Pass("optimize_descriptor_encoding", optimize_descriptor_encoding, "the buffers of tiles are known"),
        Pass("loop_aware_cse", loop_aware_cse, "equal conversions"),
    )


def _loops(options: TtgirOptions) -> tuple[Pass, ...]:
    """Memory accesses of a loop's next iterations overlap with the arithmetic of this one."""
    stages = StageOptions(options.num_stages)
    return (
        Pass("fuse_nested_loops", fuse_nested_loops, "one loop over all tiles, if the program asks for it"),
        Pass("canonicalize", canonicalize),
        Pass("licm_with_loads", licm_with_loads),
        *_since(
            FIRST_TENSOR_MEMORY,
            options,
            Pass("optimize_accumulator_init", optimize_accumulator_init, "zeros need not be stored"),
            Pass("hoist_tensor_memory", hoist_tensor_memory, "before loads are pipelined: iterations become short"),
            Pass("promote_lhs_to_tmem", promote_lhs_to_tmem, "operands that threads compute"),
        ),
        Pass("canonicalize", canonicalize),
        Pass("combine_select_if", combine_select_if, "a selection that a branch makes anyway costs nothing"),
        *_since(
            FIRST_ASYNC_COPIES,
            options,
            Pass("assign_latencies", partial(assign_latencies, options=stages), "which loads run ahead, and how far"),
            Pass("schedule_loops", schedule_loops, "the other ops are scheduled around them"),
            *_since(
                FIRST_TMA,
                options,
                Pass(
                    "automatic_warp_specialization",
                    partial(automatic_warp_specialization, options=stages),
                    "loops that ask for it are divided among warp groups",
                ),
            ),
            Pass("pipeline_loops", partial(pipeline_loops, options=stages), "one iteration contains stages of several"),
        ),
        Pass("canonicalize", canonicalize),
        Pass("loop_aware_cse", loop_aware_cse),
        *([Pass("prefetch", prefetch)] if options.capability // 10 == AMPERE_FAMILY else ()),  # operands of a next part
        Pass("optimize_dot_operands", optimize_dot_operands),
        Pass("coalesce_async_copy", coalesce_async_copy, "copies in pipelined loops read whole rows"),
    )


def _finish(options: TtgirOptions) -> tuple[Pass, ...]:
    """Instructions in their final form and order."""
    fences = FenceOptions(options.capability)
    return (
        *_since(
            FIRST_TENSOR_MEMORY,
            options,
            Pass("optimize_tmem_layouts", optimize_tmem_layouts, "for tiles that are split, reduced or transposed"),
        ),
        *_since(FIRST_TMA, options, Pass("tma_lowering", tma_lowering, "copies by hardware")),
        Pass("remove_layout_conversions", remove_layout_conversions),
        Pass("reduce_data_duplication", reduce_data_duplication),
        Pass("reorder_instructions", reorder_instructions),
        Pass("loop_aware_cse", loop_aware_cse),
        Pass("symbol_dce", symbol_dce),
        Pass("fence_insertion", partial(fence_insertion, options=fences), "threads write what matrix units read"),
        Pass("mma_lowering", mma_lowering, "adds the waits for products in tensor memory"),
        Pass("hoist_barriers", hoist_barriers, "for all kinds of waits in loops"),
        Pass("remove_tensor_memory_tokens", remove_tensor_memory_tokens),
        Pass("cse", cse),
        Pass("canonicalize", canonicalize),
    )


def memory_passes(capability: int, *, fences: bool = True) -> tuple[Pass, ...]:
    """The passes between TTGIR and LLVM IR: places in memory, then barriers, which depend on what lies in one place.

    Args:
        capability: the compute capability of the device.
        fences: insert the fences between threads and engines that programs of Gluon leave out.
    """
    scratch = scratch_bytes_on(capability)
    return (
        Pass("adopt_libraries", adopt_libraries, "Gluon programs call libdevice by NVIDIA's names"),
        Pass("nested_selects", nested_selects),
        Pass("cta_local_layouts", cta_local_layouts),
        Pass("packs_in_threads", packs_in_threads),
        Pass("allocate_global_scratch", allocate_global_scratch),
        Pass("allocate_shared_memory", partial(allocate_shared_memory, scratch=scratch)),
        Pass("allocate_tensor_memory", allocate_tensor_memory),
        Pass("cluster_barriers", partial(cluster_barriers, scratch=scratch)),
        *((Pass("proxy_fences", partial(proxy_fences, scratch=scratch)),) if fences else ()),
        Pass("membar", partial(membar, scratch=scratch)),
        Pass("tensor_memory_barriers", partial(tensor_memory_barriers, scratch=scratch)),
    )
