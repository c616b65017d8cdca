"""Cluster launch control of sm_100: a running program takes over the work of one that has not started.

ttng.clc_try_cancel %answer, %bar       @%p clusterlaunchcontrol.try_cancel.async.shared::cta… [%answer], [%bar];
%r = ttng.clc_load_result %answer       ld.shared.v2.b64
%i = ttng.clc_is_canceled %r            clusterlaunchcontrol.query_cancel.is_canceled.pred.b128

One thread of a cluster sends the request; all its CTAs get the answer. The intrinsics are LLVM's; PTX ISA,
"clusterlaunchcontrol", defines their meaning.
"""

from __future__ import annotations

from tilewright.backends.nvidia.lower.buffers import buffer_pointer
from tilewright.backends.nvidia.lower.lowerer import SHARED_POINTER, Lowerer, Lowering
from tilewright.backends.nvidia.lower.mbarriers import elected, first_of
from tilewright.dialects.ttng_barriers import ClcGetProgramId, ClcIsCanceled, ClcLoadResult, ClcTryCancel
from tilewright.layouts.linear_layout import log2

INTRINSIC = "llvm.nvvm.clusterlaunchcontrol"


def _try_cancel(lowerer: Lowerer, op: ClcTryCancel) -> None:
    """All threads come here first, because the answer may be overwritten from now on."""
    lowerer.barrier()
    operands = [(SHARED_POINTER, buffer_pointer(lowerer, buffer)) for buffer in (op.response, op.barrier)]
    others = lowerer.target.num_ctas - 1
    form = "async.shared::cta.mbarrier::complete_tx::bytes" + (".multicast::cluster::all" if others else "")
    condition = first_of(lowerer, others, elected(lowerer, 1))
    text = f"@$0 clusterlaunchcontrol.try_cancel.{form}.b128 [ $1 ], [ $2 ];"
    lowerer.assembly(text, [("i1", condition), *operands])


def _load_result(lowerer: Lowerer, op: ClcLoadResult) -> None:
    pointer = buffer_pointer(lowerer, op.response)
    lowerer.bind(op.result, [lowerer.w.emit(f"load i128, {SHARED_POINTER} {pointer}, align 16")])


def _is_canceled(lowerer: Lowerer, op: ClcIsCanceled) -> None:
    answer = [("i128", lowerer.scalar(op.answer))]
    lowerer.bind(op.result, [lowerer.w.call("i1", f"{INTRINSIC}.query_cancel.is_canceled", answer)])


def _program_id(lowerer: Lowerer, op: ClcGetProgramId) -> None:
    """The number of the program: the answer counts CTAs, which a cluster has along x."""
    w, answer = lowerer.w, [("i128", lowerer.scalar(op.answer))]
    number = w.call("i32", f"{INTRINSIC}.query_cancel.get_first_ctaid.{op.dim}", answer)
    if op.dim == "x" and lowerer.target.num_ctas > 1:
        number = w.emit(f"lshr i32 {number}, {log2(lowerer.target.num_ctas)}")
    lowerer.bind(op.result, [number])


LOWERINGS: dict[str, Lowering] = {
    "ttng.clc_get_program_id": _program_id,
    "ttng.clc_is_canceled": _is_canceled,
    "ttng.clc_load_result": _load_result,
    "ttng.clc_try_cancel": _try_cancel,
}
