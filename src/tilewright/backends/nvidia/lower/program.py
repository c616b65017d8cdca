"""The place of the program in the grid, and other things that a thread asks the hardware."""

from __future__ import annotations

from tilewright.backends.nvidia.lower.lowerer import Lowerer, Lowering
from tilewright.dialects.builtin import Assume
from tilewright.dialects.tt_program import ProgramId
from tilewright.ir.core import Op

DEPENDENT_LAUNCHES_SINCE = 90
"""The first capability on which a kernel may begin before the one in front of it has ended."""


def program_id(lowerer: Lowerer, axis: str) -> str:
    """The place of this program in the grid along `axis`; the blocks of a cluster are one program."""
    return lowerer.special(f"{'ctaid' if lowerer.target.num_ctas == 1 else 'clusterid'}.{axis}")


def _program_id(lowerer: Lowerer, op: ProgramId) -> None:
    lowerer.bind(op.result, [program_id(lowerer, op.axis)])


def _num_programs(lowerer: Lowerer, op: ProgramId) -> None:
    kind = "nctaid" if lowerer.target.num_ctas == 1 else "nclusterid"
    lowerer.bind(op.result, [lowerer.special(f"{kind}.{op.axis}")])


def _warp_id(lowerer: Lowerer, op: Op) -> None:
    """The number of the warp: the same in all lanes, and LLVM is told so by taking that of lane 0."""
    arguments = [("i32", "-1"), ("i32", lowerer.warp()), ("i32", "0"), ("i32", "31")]
    lowerer.bind(op.result, [lowerer.w.call("i32", "llvm.nvvm.shfl.sync.idx.i32", arguments)])


def _barrier(lowerer: Lowerer, op: Op) -> None:
    lowerer.barrier()


def _assume(lowerer: Lowerer, op: Assume) -> None:
    lowerer.w.call_void("llvm.assume", [("i1", lowerer.scalar(op.condition))])


def _cluster_place(lowerer: Lowerer, op: Op) -> None:
    lowerer.bind(op.result, [lowerer.block_in_cluster()])


def _dependency(instruction: str) -> Lowering:
    """Lowering of a signal to the kernel before or behind this one in its stream; older devices run them one by one."""

    def lower(lowerer: Lowerer, op: Op) -> None:
        if lowerer.target.capability >= DEPENDENT_LAUNCHES_SINCE:
            lowerer.w.call_void(f"llvm.nvvm.griddepcontrol.{instruction}", [])

    return lower


LOWERINGS: dict[str, Lowering] = {
    "gpu.barrier": _barrier,
    "llvm.intr.assume": _assume,
    "tt.get_num_programs": _num_programs,
    "tt.get_program_id": _program_id,
    "tt.grid_dependency_launch_dependents": _dependency("launch.dependents"),
    "tt.grid_dependency_wait": _dependency("wait"),
    "ttg.barrier": _barrier,
    "ttg.warp_id": _warp_id,
    "tti.experimental_cluster_cta_id": _cluster_place,
}
