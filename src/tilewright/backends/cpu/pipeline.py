"""The CPU back end: TTIR → ttcir → LLVM IR → object; `cpu_passes` has the way to ttcir."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tilewright.analysis.value_flow import stored_arguments
from tilewright.backends.cpu import launch_facts
from tilewright.backends.cpu.add_alias_checks import add_alias_checks
from tilewright.backends.cpu.allocate_buffers import allocate_buffers, arena_bytes
from tilewright.backends.cpu.blocked_transpose import blocked_transpose
from tilewright.backends.cpu.bound_rows import bound_rows
from tilewright.backends.cpu.bufferize_carried import bufferize_carried
from tilewright.backends.cpu.choose_widths import choose_widths
from tilewright.backends.cpu.clip_to_mask import clip_to_mask
from tilewright.backends.cpu.copy_elision import copy_elision
from tilewright.backends.cpu.demanded_lanes import demanded_lanes
from tilewright.backends.cpu.distribute_loops import distribute_loops
from tilewright.backends.cpu.dot.lower import dot_workspace_bytes
from tilewright.backends.cpu.dot.operands import DotLowering
from tilewright.backends.cpu.dot.spec import AT_RUN_TIME, operand_element_type, spec_of
from tilewright.backends.cpu.elide_zero_fill import elide_zero_fill
from tilewright.backends.cpu.emit_calls import shared_by
from tilewright.backends.cpu.emit_control import LOOPS, UNBOUNDED_LOOPS, waits
from tilewright.backends.cpu.emit_function import emit_functions
from tilewright.backends.cpu.emit_reports import Places, Site
from tilewright.backends.cpu.exchange_pairs import exchange_pairs
from tilewright.backends.cpu.expand_dots import expand_dots
from tilewright.backends.cpu.expand_histogram import expand_histogram
from tilewright.backends.cpu.expand_map import expand_map
from tilewright.backends.cpu.expand_reports import expand_reports
from tilewright.backends.cpu.expand_unsplat import expand_unsplat
from tilewright.backends.cpu.fuse_loops import fuse_loops
from tilewright.backends.cpu.group_programs import group_programs
from tilewright.backends.cpu.if_conversion import if_conversion
from tilewright.backends.cpu.interchange_loops import interchange_loops
from tilewright.backends.cpu.interchange_programs import interchange_programs
from tilewright.backends.cpu.interchange_rows import interchange_rows
from tilewright.backends.cpu.join_rows import join_rows
from tilewright.backends.cpu.keep_lanes import keep_lanes
from tilewright.backends.cpu.keep_panels import keep_panels
from tilewright.backends.cpu.legality import check_legality
from tilewright.backends.cpu.lower_nests import lower_nests
from tilewright.backends.cpu.merge_iterations import merge_iterations
from tilewright.backends.cpu.merge_programs import merge_programs
from tilewright.backends.cpu.merge_stores import merge_stores
from tilewright.backends.cpu.narrow_exactly import narrow_exactly
from tilewright.backends.cpu.network.expand import expand_networks
from tilewright.backends.cpu.network.find import find_networks
from tilewright.backends.cpu.options import CpuOptions
from tilewright.backends.cpu.order_programs import order_programs
from tilewright.backends.cpu.pointer_induction import pointer_induction
from tilewright.backends.cpu.prefetch_rows import prefetch_rows
from tilewright.backends.cpu.redirect_stores import redirect_stores
from tilewright.backends.cpu.reduction_splitting import split_reductions
from tilewright.backends.cpu.sanitize.instrument import instrument
from tilewright.backends.cpu.scalarize_gathers import scalarize_gathers
from tilewright.backends.cpu.short_tiles import add_short_tiles
from tilewright.backends.cpu.simplify_masks import simplify_masks
from tilewright.backends.cpu.single_trip_loops import version_single_trips
from tilewright.backends.cpu.split_index_sets import split_index_sets
from tilewright.backends.cpu.split_maxima import split_maxima
from tilewright.backends.cpu.store_columns import store_columns
from tilewright.backends.cpu.stream_stores import stream_stores
from tilewright.backends.cpu.transpose_tiles import transpose_tiles
from tilewright.backends.cpu.unroll_and_jam import unroll_and_jam
from tilewright.backends.cpu.version_atomics import version_atomics
from tilewright.backends.cpu.version_loops import version_loops
from tilewright.backends.cpu.version_single_vectors import version_single_vectors
from tilewright.backends.cpu.version_strides import version_strides
from tilewright.backends.cpu.widen_programs import widen_programs
from tilewright.backends.llvm.debug_writer import DebugWriter
from tilewright.backends.llvm.machine import Target, compile_object
from tilewright.backends.llvm.writer import LlvmWriter
from tilewright.dialects.cpu import CpuDot
from tilewright.dialects.tt_function import Func
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.pass_manager import Pass
from tilewright.ir.printer import print_op
from tilewright.ir.types import PointerType, TensorType
from tilewright.transforms.control_flow_sink import control_flow_sink
from tilewright.transforms.functions import functions_of, is_public
from tilewright.transforms.inline import inline
from tilewright.transforms.pipeline import run_stage


def make_ttcir(module: Op, metadata: dict[str, Any], options: CpuOptions, target: Target) -> Op:
    """The stage `ttcir`: optimised TTIR with one public function → loops; the module is consumed.

    Raises:
        Unsupported: the kernel uses something that has no CPU lowering.
    """
    metadata["stored"] = sorted(stored_arguments(module))
    if options.sanitize:
        sanitize(module, options)
    run_stage(module, cpu_passes(target, interruptible=options.interruptible), metadata)
    return module


def make_llir(module: Op, metadata: dict[str, Any], options: CpuOptions, target: Target) -> str:
    """The stage `llir`: loops → LLVM IR, which begins with what a launch has to know."""
    metadata.setdefault("stored", _pointers(module))  # the text of this stage does not tell any more
    if checks := _kernel_of(module).attributes.get("sanitizer"):
        metadata["sanitizer"] = checks
    metadata["scratch_bytes"] = arena_bytes(module, _workspace(module, target))
    metadata["waits"] = waits(_kernel_of(module), module)
    text, metadata["entry"], own_bytes, metadata["reports"], metadata["spins"] = emit_llvm(
        module,
        target,
        fuse=options.enable_fp_fusion,
        debug_info=options.debug_info,
        polled=LOOPS if options.interruptible else UNBOUNDED_LOOPS,
    )
    metadata["scratch_bytes"] = max(metadata["scratch_bytes"], own_bytes)  # passes on loops have buffers, too
    return launch_facts.text_of(metadata) + text


def make_obj(text: str, metadata: dict[str, Any], options: CpuOptions, target: Target) -> bytes:
    """The stage `obj`: LLVM IR → a relocatable object."""
    metadata.update(launch_facts.read(text))
    return compile_object(text, target)


def _pointers(module: Op) -> list[int]:
    """The arguments that are pointers, without the table of the sanitizer."""
    kernel = _kernel_of(module)
    arguments = kernel.body.args
    if "sanitizer" in kernel.attributes:
        arguments = arguments[:-1]
    return [argument.index for argument in arguments if isinstance(argument.type, PointerType)]


def _kernel_of(module: Op) -> Func:
    return next(function for function in functions_of(module) if is_public(function))


def sanitize(module: Op, options: CpuOptions) -> None:
    """Let the kernel check its accesses; see `sanitize/instrument.py`."""
    inline(module, every_call=True)
    check_legality(module)
    pointer_induction(module)
    _kernel_of(module).attributes["sanitizer"] = instrument(module, options.sanitize)


def cpu_passes(target: Target, *, interruptible: bool = False) -> tuple[Pass, ...]:
    """The passes from TTIR to ttcir; with `interruptible`, every iteration of a `for` loop looks for signals."""
    dots = DotLowering(partial(operand_element_type, target=target))
    interchange = Pass(
        "interchange_loops", partial(interchange_loops, target=target), "loops that only read keep tiles in registers"
    )
    widen = Pass(
        "widen_programs",
        partial(widen_programs, target=target),
        "before tiles become loops: programs that add up columns read longer rows together",
    )
    single_trips = Pass(
        "version_single_trips",
        partial(version_single_trips, target=target),
        "rows that one tile holds need no loop, so its body fuses with what follows",
    )
    return (
        Pass("inline_tiles", inline_tiles, "calls pass scalars only"),
        Pass("check_legality", check_legality, "unsupported ops are refused before anything is lowered"),
        Pass("order_programs", order_programs, "programs that are neighbours in memory run one after the other"),
        Pass("group_programs", group_programs, "programs of products with the same columns run one after the other"),
        Pass("interchange_programs", interchange_programs, "programs that share tiles cyclically run side by side"),
        Pass("if_conversion", if_conversion, "lanes of a combine function diverge, so both sides are computed"),
        Pass("expand_map", expand_map, "mapped functions become ops on tiles"),
        Pass("expand_reports", expand_reports, "prints and assertions become buffers and scalars"),
        Pass("expand_histogram", expand_histogram, "histograms become comparisons and sums"),
        Pass("expand_unsplat", expand_unsplat, "extracting the only element of a tile is a reduction"),
        Pass("narrow_exactly", partial(narrow_exactly, target=target), "while it is visible how tiles are computed"),
        Pass("simplify_masks", simplify_masks, "nested selections, before masks determine loops"),
        Pass("merge_stores", merge_stores, "before nests: two complementary stores are one store of a selection"),
        Pass("exchange_pairs", exchange_pairs, "two elements that get the same result gather from each other"),
        Pass(
            "add_short_tiles",
            partial(add_short_tiles, vector_bits=target.vector_bits),
            "before tiles become loops: sorts of few elements fit into one vector",
        ),
        Pass("pointer_induction", pointer_induction, "tiles that loops shift become fixed ones plus a scalar"),
        *(() if interruptible else (widen,)),
        Pass("transpose_tiles", transpose_tiles, "vectors run along the last axis: make it contiguous"),
        single_trips,
        *(() if interruptible else (interchange,)),
        Pass("bound_rows", bound_rows, "rows selected by memory are bounded by two addresses"),
        Pass("bufferize_carried", bufferize_carried, "other tiles that cross loops and branches go through buffers"),
        Pass("find_networks", partial(find_networks, target=target), "steps of sorts share a buffer"),
        Pass(
            "fuse_loops",
            partial(fuse_loops, dots=dots, vector_bits=target.vector_bits),
            "tile ops share loops, dots get operands in buffers",
        ),
        Pass("split_reductions", split_reductions, "expensive values that two phases need are kept for a row"),
        Pass("distribute_loops", distribute_loops, "once nests are known: values of rows become vectors, too"),
        Pass("add_alias_checks", add_alias_checks, "stores that may overlap other memory get a fall-back buffer"),
        Pass("allocate_buffers", partial(place_buffers, target=target), "last, when all buffers are known"),
    )


def loop_passes(target: Target) -> tuple[Pass, ...]:
    """The passes from ttcir to vector loops."""
    return (
        Pass("version_atomics", version_atomics, "if one thread runs the whole launch, plain additions suffice"),
        Pass("version_strides", version_strides, "run-time strides are nearly always 1"),
        Pass("store_columns", store_columns, "where columns are not contiguous, rows often are"),
        Pass("blocked_transpose", partial(blocked_transpose, target=target), "stores across the loads go by blocks"),
        Pass("merge_programs", merge_programs, "programs whose rows continue in the next one are merged"),
        Pass("clip_to_mask", clip_to_mask, "once nests have their versions: loops end where their masks do"),
        Pass("demanded_lanes", demanded_lanes, "what is never read is neither computed nor copied"),
        Pass("elide_zero_fill", elide_zero_fill, "once it is known how much of the zeros is read: products begin at 0"),
        Pass(
            "copy_elision",
            partial(copy_elision, target=target),
            "once it is known how much of its operands a product reads",
        ),
        Pass(
            "keep_panels",
            partial(keep_panels, target=target),
            "while products state their reads and nests their stores: the next program packs less",
        ),
        Pass(
            "merge_iterations",
            partial(merge_iterations, target=target),
            "once a packed B is kept: several iterations along k are one product",
        ),
        Pass("choose_widths", partial(choose_widths, target=target), "once the ops of nests are final"),
        Pass("join_rows", partial(join_rows, target=target), "rows of few vectors hide each other's latency"),
        Pass("redirect_stores", redirect_stores, "after versions, some of which need no redirection, and widths"),
        Pass("split_index_sets", split_index_sets, "a row that changes from one array to another is split there"),
        Pass("version_loops", version_loops, "once nests are final: fast versions for what nearly always holds"),
        Pass("lower_nests", lower_nests, "nests become loops over memory, independent of the machine"),
        Pass("interchange_rows", interchange_rows, "while loops over rows are not split: memory is read row by row"),
        Pass("expand_dots", partial(expand_dots, target=target), "products become register blocks"),
        Pass("expand_networks", partial(expand_networks, target=target), "sorts are minima and maxima of vectors"),
        Pass("keep_lanes", keep_lanes, "values that all rows of a nest share are computed once"),
        Pass("stream_stores", partial(stream_stores, target=target), "loops with streaming stores have short steps"),
        Pass("prefetch_rows", partial(prefetch_rows, target=target), "once it is known which stores bypass the caches"),
        Pass("unroll_and_jam", unroll_and_jam, "several iterations run side by side, so none waits for another"),
        Pass("scalarize_gathers", scalarize_gathers, "once iterations are straight code: indices are addresses"),
        Pass("version_single_vectors", version_single_vectors, "once it is known which loops along rows are left"),
        Pass("split_maxima", split_maxima, "once no pass inspects selections any more"),
        Pass("control_flow_sink", control_flow_sink, "last: not computed for both versions of a loop"),
    )


def loops(text: str, target: Target) -> str:
    """The text of the vector loops that the text of ttcir becomes, with locations where that has some."""
    module = parse_module(text)
    run_stage(module, loop_passes(target), {})
    return print_op(module, locations="\n#loc" in text)


def lower_to_loops(module: Op, target: Target) -> int:
    """TTIR → ttcir, in place; returns the bytes of scratch memory per thread."""
    run_stage(module, cpu_passes(target), {})
    return arena_bytes(module, _workspace(module, target))


def place_buffers(module: Op, target: Target) -> bool:
    """Assign an offset to every buffer, after the workspace of micro-kernels; returns whether there is a buffer."""
    return allocate_buffers(module, _workspace(module, target))


def inline_tiles(module: Op) -> bool:
    """Inline the functions marked noinline that take or return tiles, so that calls pass scalars only."""
    for function in functions_of(module):
        block = function.body
        if any(isinstance(v.type, TensorType) for v in [*block.args, *block.terminator.operands]):
            function.attributes["noinline"] = False
    return inline(module)


def _workspace(module: Op, target: Target) -> int:
    """Bytes that the micro-kernels need."""
    return max((_workspace_of(op, target) for op in module.ops_of(CpuDot)), default=0)


def _workspace_of(dot: CpuDot, target: Target) -> int:
    """Bytes that a micro-kernel needs, whether the operands are copied or read in place, all of A's rows or some."""
    copied = spec_of(dot)
    in_place = replace(copied, a_stride=AT_RUN_TIME, b_stride=AT_RUN_TIME, b_step=AT_RUN_TIME)
    requests = copied, in_place, replace(in_place, rows=AT_RUN_TIME)
    return max(dot_workspace_bytes(spec, target) for spec in requests)


def emit_llvm(
    module: Op, target: Target, *, fuse: bool, debug_info: str = "", polled: Sequence[str] = UNBOUNDED_LOOPS
) -> tuple[str, str, int, list[Site], list[Places]]:
    """ttcir → the text of an LLVM module, the name of its entry point, the bytes of its buffers, its reports and waits.

    Args:
        module: ttcir, which becomes loops.
        target: the machine.
        fuse: products and sums may become one instruction.
        debug_info: how much a debugger learns, `variables` for values as well; "": nothing.
        polled: names of the loops in which programs look whether their launch is still wanted.
    """
    if debug_info:
        writer: LlvmWriter = DebugWriter(target, fuse=fuse, variables=debug_info == "variables")
    else:
        writer = LlvmWriter(target, fuse=fuse)
    shared = shared_by(module, polled)
    if writer.debug is not None:
        writer.debug.remember(functions_of(module))
    run_stage(module, loop_passes(target), {})
    name, own_bytes, sites, spins = emit_functions(writer, module, shared)
    return writer.render(), name, own_bytes, sites, spins
