"""The passes of `tilewright opt`, under our names and under Triton's flags.

    find_pass("licm")                          find_pass("triton-licm")
    find_pass("pipeline{num-stages=3}")        find_pass("tritongpu-pipeline=num-stages=3")

A pass with options is a function of the module and a frozen dataclass, whose fields are the options. A new pass is one
row in `PASSES`, a new report (an analysis that prints facts about ops) one row in `REPORTS`, a new list of passes one
row in `PIPELINES`.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import get_close_matches
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

from tilewright.analysis.axis_info import alignment_remarks
from tilewright.analysis.buffer_aliases import alias_remarks
from tilewright.analysis.shared_memory import allocation_remarks
from tilewright.backends.cpu.pipeline import cpu_passes, loop_passes, lower_to_loops
from tilewright.backends.llvm.machine import host_target
from tilewright.ir.core import Op
from tilewright.ir.pass_manager import Pass
from tilewright.tools.kernels import UsageError
from tilewright.transforms import pipeline
from tilewright.transforms.adopt_libraries import adopt_libraries
from tilewright.transforms.canonicalize import canonicalize, canonicalize_as_triton
from tilewright.transforms.combine import combine
from tilewright.transforms.convert_scf_to_cf import convert_scf_to_cf
from tilewright.transforms.cse import cse, loop_aware_cse
from tilewright.transforms.gpu.accelerate_matmul import accelerate_matmul, forced_orders
from tilewright.transforms.gpu.allocate_memory import (
    allocate_global_scratch,
    allocate_shared_memory,
    allocate_tensor_memory,
)
from tilewright.transforms.gpu.barrier_layouts import check_barriers
from tilewright.transforms.gpu.cluster_barriers import cluster_barriers, widen_barriers
from tilewright.transforms.gpu.coalesce import coalesce, coalesce_async_copy
from tilewright.transforms.gpu.combine_select_if import combine_select_if, nested_selects
from tilewright.transforms.gpu.convert_to_ttgir import ConvertOptions, convert_to_ttgir
from tilewright.transforms.gpu.cta_local_layouts import assign_cga_layouts, cta_local_layouts, packs_in_threads
from tilewright.transforms.gpu.f32_dot_tc import F32DotOptions, f32_dot_tc
from tilewright.transforms.gpu.fence_insertion import FenceOptions, fence_insertion
from tilewright.transforms.gpu.fuse_nested_loops import fuse_nested_loops
from tilewright.transforms.gpu.gluon_layouts import infer_coalesced_layouts, resolve_auto_layouts
from tilewright.transforms.gpu.gluon_pipeline import (
    GLUON_PASSES,
    canonicalize_keeping_layouts,
    check_rules,
    note_two_ctas,
)
from tilewright.transforms.gpu.matrix_instructions import MatmulOptions
from tilewright.transforms.gpu.membar import membar
from tilewright.transforms.gpu.mma_lowering import hoist_barriers, mma_lowering
from tilewright.transforms.gpu.optimize_accumulator_init import optimize_accumulator_init
from tilewright.transforms.gpu.optimize_descriptor_encoding import optimize_descriptor_encoding
from tilewright.transforms.gpu.optimize_dot_operands import optimize_dot_operands, reduce_data_duplication
from tilewright.transforms.gpu.optimize_thread_locality import optimize_thread_locality
from tilewright.transforms.gpu.optimize_tmem_layouts import optimize_tmem_layouts
from tilewright.transforms.gpu.pipeline import CAPABILITIES, TtgirOptions, memory_passes, ttgir_passes
from tilewright.transforms.gpu.pipelining.assign_latencies import StageOptions, assign_latencies
from tilewright.transforms.gpu.pipelining.lower_loops import lower_loops
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
from tilewright.transforms.gpu.warp_specialization.data_partitioning import data_partitioning
from tilewright.transforms.gpu.warp_specialization.descriptor_rings import descriptor_rings
from tilewright.transforms.gpu.warp_specialization.insert_channels import insert_channels
from tilewright.transforms.gpu.warp_specialization.lower_warp_groups import lower_warp_groups
from tilewright.transforms.gpu.warp_specialization.optimize_partition_warps import optimize_partition_warps
from tilewright.transforms.gpu.warp_specialization.partition_loops import needs_of_others, partition_loops
from tilewright.transforms.gpu.warp_specialization.partition_scheduling import partition_scheduling
from tilewright.transforms.gpu.warp_specialization.run_products_ahead import run_products_ahead
from tilewright.transforms.inline import inline, symbol_dce
from tilewright.transforms.licm import licm, licm_with_loads
from tilewright.transforms.loop_unroll import loop_unroll, peel_marked_loops
from tilewright.transforms.reorder_broadcast import reorder_broadcast
from tilewright.transforms.rewrite_tensor_descriptor_to_pointer import (
    DescriptorOptions,
    rewrite_tensor_descriptor_to_pointer,
)
from tilewright.transforms.rewrite_tensor_pointer import rewrite_tensor_pointer, rewrite_tensor_pointer_by_axis
from tilewright.transforms.structure_control_flow import structure_control_flow


def lower_for_this_machine(module: Op) -> None:
    """TTIR → loops over tiles and buffers, for the CPU of this machine."""
    lower_to_loops(module, host_target())


Level: TypeAlias = Literal["any", "TTIR", "TTGIR"]
Remark: TypeAlias = tuple[Op, str]
_REQUEST = re.compile(r"-{0,2}(?P<name>[\w.\-]+)(?:\{(?P<braced>[^{}]*)\}|=(?P<plain>.*))?", re.DOTALL)
_TRUTH = {"true": True, "1": True, "false": False, "0": False}


class Row(NamedTuple):
    """A pass.

    Attributes:
        name: what we call it.
        function: changes a module in place; returns False if there was nothing to change.
        flags: what Triton's `triton-opt` calls it, without dashes.
        level: the modules it works on; TTGIR has layouts and `ttg.num-warps`.
        options: the dataclass of its second argument, if it takes one.
        warnings: says which ops it will do something slow to.
    """

    name: str
    function: Callable[..., bool | None]
    flags: tuple[str, ...] = ()
    level: Level = "any"
    options: type[Any] | None = None
    warnings: Callable[[Op], Iterable[Remark]] | None = None


class Said(NamedTuple):
    """A remark or warning of a report or a pass about an op."""

    op: Op
    text: str
    kind: Literal["remark", "warning"] = "remark"


class Report(NamedTuple):
    """An analysis that says something about ops and changes nothing; fields as of `Row`."""

    name: str
    function: Callable[[Op], Iterable[Remark]]
    flags: tuple[str, ...] = ()


class Request(NamedTuple):
    """A requested pass or report, with its options."""

    row: Row | Report
    options: Any = None

    @property
    def step(self) -> Pass:
        """The pass, as `run_passes` takes it."""
        row, options = self.row, self.options
        assert isinstance(row, Row), "a report changes nothing"
        return Pass(row.name, row.function if options is None else lambda module: row.function(module, options))


def _row(
    function: Callable[..., bool | None],
    flag: str = "",
    level: Level = "any",
    options: type[Any] | None = None,
    warnings: Callable[[Op], Iterable[Remark]] | None = None,
) -> Row:
    """A pass that is called as its function."""
    return Row(function.__name__, function, (flag,) if flag else (), level, options, warnings)


PASSES: tuple[Row, ...] = (
    _row(accelerate_matmul, "tritongpu-accelerate-matmul", "TTGIR", MatmulOptions, forced_orders),
    _row(adopt_libraries),
    _row(allocate_global_scratch, level="TTGIR"),
    _row(allocate_shared_memory, "allocate-shared-memory", "TTGIR"),
    _row(allocate_tensor_memory, level="TTGIR"),
    _row(assign_cga_layouts, level="TTGIR"),
    _row(assign_latencies, "tritongpu-assign-latencies", "TTGIR", StageOptions),
    _row(automatic_warp_specialization, "tritongpu-automatic-warp-specialization", "TTGIR", StageOptions),
    _row(canonicalize),
    _row(canonicalize_as_triton),
    _row(check_barriers, level="TTGIR"),
    _row(check_rules, level="TTGIR"),
    _row(cluster_barriers, level="TTGIR"),
    _row(coalesce, "tritongpu-coalesce", "TTGIR"),
    _row(coalesce_async_copy, "tritongpu-coalesce-async-copy", "TTGIR"),
    _row(combine, "triton-combine"),
    _row(combine_select_if, "tritongpu-combine-tensor-select-and-if"),
    _row(convert_scf_to_cf, "convert-scf-to-cf"),
    _row(convert_to_ttgir, "convert-triton-to-tritongpu", options=ConvertOptions),
    _row(cse, "cse"),
    _row(data_partitioning, level="TTGIR"),
    _row(descriptor_rings, level="TTGIR"),
    _row(f32_dot_tc, "tritongpu-F32DotTC", options=F32DotOptions),
    _row(fence_insertion, "triton-nvidia-gpu-fence-insertion", "TTGIR", FenceOptions),
    _row(fuse_nested_loops, "tritongpu-fuse-nested-loops"),
    _row(hoist_barriers, level="TTGIR"),
    _row(hoist_tensor_memory, "tritongpu-hoist-tmem-alloc", "TTGIR"),
    _row(optimize_tmem_layouts, "triton-nvidia-optimize-tmem-layouts", "TTGIR"),
    _row(promote_lhs_to_tmem, "tritongpu-promote-lhs-to-tmem", "TTGIR"),
    _row(inline, "inline"),
    _row(insert_channels, level="TTGIR", options=StageOptions),
    _row(licm),
    _row(licm_with_loads, "triton-licm"),
    _row(loop_aware_cse, "triton-loop-aware-cse"),
    Row("loop_peeling", peel_marked_loops, ("triton-test-loop-peeling",)),
    _row(loop_unroll, "triton-loop-unroll"),
    _row(lower_loops, "tritongpu-test-pipeline-lower-loop", "TTGIR"),
    _row(lower_warp_groups, "nvws-lower-warp-group", "TTGIR"),
    _row(membar, "test-print-membar", "TTGIR"),
    _row(mma_lowering, "triton-nvidia-mma-lowering", "TTGIR"),
    _row(nested_selects, level="TTGIR"),
    _row(optimize_accumulator_init, "tritongpu-optimize-accumulator-init", "TTGIR"),
    _row(optimize_descriptor_encoding, "triton-nvidia-optimize-descriptor-encoding", "TTGIR"),
    _row(optimize_dot_operands, "tritongpu-optimize-dot-operands", "TTGIR"),
    _row(optimize_thread_locality, "tritongpu-optimize-thread-locality", "TTGIR"),
    _row(optimize_partition_warps, "tritongpu-optimize-partition-warps", "TTGIR"),
    _row(partition_loops, "tritongpu-partition-loops", "TTGIR", warnings=needs_of_others),
    _row(partition_scheduling, "tritongpu-partition-scheduling", "TTGIR"),
    _row(prefetch, "tritongpu-prefetch", "TTGIR"),
    _row(proxy_fences, level="TTGIR"),
    _row(pipeline_loops, "tritongpu-pipeline", "TTGIR", StageOptions),
    _row(reduce_data_duplication, "tritongpu-reduce-data-duplication", "TTGIR"),
    _row(remove_layout_conversions, "tritongpu-remove-layout-conversions", "TTGIR"),
    _row(reorder_broadcast, "triton-reorder-broadcast"),
    _row(reorder_instructions, "tritongpu-reorder-instructions", "TTGIR"),
    _row(
        rewrite_tensor_descriptor_to_pointer, "triton-rewrite-tensor-descriptor-to-pointer", options=DescriptorOptions
    ),
    _row(rewrite_tensor_pointer),
    _row(rewrite_tensor_pointer_by_axis, "triton-rewrite-tensor-pointer"),
    _row(remove_tensor_memory_tokens, "triton-nvidia-gpu-remove-tmem-tokens", "TTGIR"),
    _row(run_products_ahead, level="TTGIR"),
    _row(schedule_loops, "tritongpu-schedule-loops", "TTGIR"),
    _row(structure_control_flow),
    _row(symbol_dce, "symbol-dce"),
    _row(tensor_memory_barriers, level="TTGIR"),
    _row(tma_lowering, "triton-nvidia-tma-lowering", "TTGIR"),
    _row(packs_in_threads, level="TTGIR"),
    _row(canonicalize_keeping_layouts, "gluon-canonicalize", "TTGIR"),
    _row(infer_coalesced_layouts, "gluon-infer-coalesced-encodings", "TTGIR"),
    _row(note_two_ctas, level="TTGIR"),
    _row(resolve_auto_layouts, "gluon-resolve-auto-encodings", "TTGIR"),
    _row(cta_local_layouts, level="TTGIR"),
    _row(widen_barriers, level="TTGIR"),
)

CPU_STEPS, LOOP_STEPS = cpu_passes(host_target()), loop_passes(host_target())

CPU_PASSES: tuple[Row, ...] = (
    *(Row(step.name, step.function, level="TTIR") for step in (*CPU_STEPS, *LOOP_STEPS)),
    Row("lower_to_loops", lower_for_this_machine, level="TTIR"),
)
"""Steps from TTIR to vector loops, for the CPU of this machine; `lower_to_loops` is all of those to ttcir."""

REPORTS: tuple[Report, ...] = (
    Report("alignment", alignment_remarks, ("test-print-alignment",)),
    Report("alias", alias_remarks, ("test-print-alias",)),
    Report("allocation", allocation_remarks, ("test-print-allocation",)),
)

PIPELINES: dict[str, Sequence[Pass]] = {
    "ttir": pipeline.PASSES,
    "normalize": pipeline.NORMALIZING,
    "ttcir": CPU_STEPS,
    "loops": (*CPU_STEPS, *LOOP_STEPS),
    "gluon": GLUON_PASSES,
    **{f"ttir-{capability}": pipeline.device_passes(capability) for capability in CAPABILITIES},
    **{f"ttgir-{capability}": ttgir_passes(TtgirOptions(capability)) for capability in CAPABILITIES},
    **{f"memory-{capability}": memory_passes(capability) for capability in CAPABILITIES},
}
"""Lists of passes under one name."""

ROWS: tuple[Row | Report, ...] = (*PASSES, *CPU_PASSES, *REPORTS)


def find_passes(text: str) -> list[Request]:
    """The pass or the passes of the pipeline that `text` names."""
    match = _REQUEST.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"--pass {text}: expected a name such as licm or pipeline{{num-stages=3}}")
    name, options = match["name"], match["braced"] or match["plain"] or ""
    steps = PIPELINES.get(name)
    if steps is not None:
        _refuse_options(name, options)
        return [Request(Row(step.name, step.function)) for step in steps]
    row = _BY_NAME.get(_normal(name))
    if row is None:
        raise UsageError(_unknown(name))
    if not isinstance(row, Row) or row.options is None:
        _refuse_options(name, options)
        return [Request(row)]
    return [Request(row, row.options(**dict(_parsed_options(row, options))))]


def listing() -> Iterator[str]:
    """One line per pass, report and pipeline: its name, Triton's flags, what it does."""
    for row in ROWS:
        flags = " ".join(f"-{flag}" for flag in row.flags)
        yield f"{row.name:36} {flags:48} {purpose(row)}"
    for name, steps in PIPELINES.items():
        yield f"{name:36} {'':48} {', '.join(step.name for step in steps)}"


def purpose(row: Row | Report) -> str:
    """The purpose of a pass: the first line of its docstring."""
    function = row.function.func if isinstance(row.function, partial) else row.function
    return (inspect.getdoc(function) or "").partition("\n")[0]


def _normal(name: str) -> str:
    return name.replace("-", "_").lower()


def _table() -> dict[str, Row | Report]:
    found: dict[str, Row | Report] = {}
    for row in ROWS:
        for name in (row.name, *row.flags):
            assert found.setdefault(_normal(name), row) is row, f"two passes are called {name}"
    return found


_BY_NAME = _table()


def _unknown(name: str) -> str:
    known = [*PIPELINES, *(row.name for row in ROWS), *(flag for row in ROWS for flag in row.flags)]
    close = get_close_matches(name, known, 1) or get_close_matches(_normal(name), known, 1)
    hint = f", did you mean {close[0]}?" if close else ""
    return f"there is no pass {name}{hint}\n`tilewright opt --list` prints all of them"


def _refuse_options(name: str, options: str) -> None:
    if options.strip():
        raise UsageError(f"--pass {name}: takes no options, found {options.strip()}")


def _parsed_options(row: Row, text: str) -> Iterator[tuple[str, Any]]:
    """The fields that `num-stages=3 other=true` sets."""
    assert row.options is not None, "the pass takes options"
    kinds = {field.name: str(field.type) for field in dataclasses.fields(row.options)}
    for entry in text.split():
        name, equals, value = entry.partition("=")
        field = name.replace("-", "_")
        if field not in kinds:
            known = ", ".join(kind.replace("_", "-") for kind in kinds)
            raise UsageError(f"--pass {row.name}: there is no option {name}; it takes {known}")
        yield field, _value(f"--pass {row.name}: {name}", kinds[field], value if equals else "true")


def _value(option: str, kind: str, text: str) -> int | bool | str:
    if kind == "bool":
        if text.lower() not in _TRUTH:
            raise UsageError(f"{option}: expected true or false, found {text}")
        return _TRUTH[text.lower()]
    if kind == "int":
        if not re.fullmatch(r"-?\d+", text):
            raise UsageError(f"{option}: expected a number, found {text}")
        return int(text)
    return text
