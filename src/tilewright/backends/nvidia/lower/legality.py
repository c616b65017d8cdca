"""Ops that NVIDIA's GPUs do not have, or some of them do not, each with the reason that its compile error gives."""

from __future__ import annotations

from tilewright.backends.nvidia.targets import DEVICES
from tilewright.ir.attributes import span_of
from tilewright.ir.core import Op
from tilewright.ir.printer import print_op
from tilewright.support.diagnostics import InternalError, NotSupported, TilewrightError, located
from tilewright.support.named_tuple import NamedTuple

UNSUPPORTED: dict[str, str] = {
    "tti.experimental_fpsan_embed": "floats are not replaced by integers",
    "tti.experimental_fpsan_unembed": "floats are not replaced by integers",
    "ttng.clc_try_cancel_sync": "programs take over the work of others with an mbarrier only",
    "ttng.tmem_wait": "loads and stores of tensor memory wait at once",
}
"""Names of ops, sorted, and what is missing."""


class Instruction(NamedTuple):
    """An instruction of PTX that not all GPUs have.

    Attributes:
        name: its name in PTX.
        first: the first compute capability that has it.
        last: the last one; 0 where all later ones have it.
    """

    name: str
    first: int
    last: int = 0

    def is_on(self, capability: int) -> bool:
        """Whether a device has it."""
        return self.first <= capability <= (self.last or capability)

    @property
    def devices(self) -> str:
        """The devices that have it, in words."""
        if not self.last:
            return f"sm_{self.first} and later devices"
        names = [f"sm_{capability}" for capability in DEVICES if self.is_on(capability)]
        return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


COPY = Instruction("cp.async", 80)
BARRIER = Instruction("mbarrier", 80)
BLOCK_COPY = Instruction("cp.async.bulk.tensor", 90)
CLUSTER = Instruction("barrier.cluster", 90)
TENSOR_MAP = Instruction("tensormap", 90)
GROUP_PRODUCT = Instruction("wgmma", 90, 90)
TENSOR_MEMORY = Instruction("tcgen05", 100, 119)
CANCEL = Instruction("clusterlaunchcontrol", 100)
INSTRUCTIONS: dict[str, Instruction] = {
    "ttg.async_copy_global_to_local": COPY,
    "ttg.async_commit_group": COPY,
    "ttg.async_wait": COPY,
    "ttng.async_copy_mbarrier_arrive": COPY,
    "ttng.init_barrier": BARRIER,
    "ttng.inval_barrier": BARRIER,
    "ttng.arrive_barrier": BARRIER,
    "ttng.wait_barrier": BARRIER,
    "ttng.barrier_expect": Instruction("mbarrier.expect_tx", 90),
    "ttng.fence_async_shared": Instruction("fence.proxy.async", 90),
    "ttng.async_shared_store": Instruction("st.async", 90),
    "ttng.async_tma_copy_global_to_local": BLOCK_COPY,
    "ttng.async_tma_copy_local_to_global": BLOCK_COPY,
    "ttng.async_tma_reduce": BLOCK_COPY,
    "ttng.async_tma_store_wait": BLOCK_COPY,
    "ttng.async_tma_gather": Instruction("cp.async.bulk.tensor.tile::gather4", 100),
    "ttng.async_tma_scatter": Instruction("cp.async.bulk.tensor.tile::scatter4", 100, 119),
    "ttng.tensormap_create": TENSOR_MAP,
    "ttng.tensormap_fenceproxy_acquire": TENSOR_MAP,
    "ttng.cluster_arrive": CLUSTER,
    "ttng.cluster_barrier": CLUSTER,
    "ttng.cluster_wait": CLUSTER,
    "ttng.fence_mbarrier_init_release_cluster": CLUSTER,
    "ttng.warp_group_dot": GROUP_PRODUCT,
    "ttng.warp_group_dot_wait": GROUP_PRODUCT,
    "ttng.tmem_alloc": TENSOR_MEMORY,
    "ttng.tmem_copy": TENSOR_MEMORY,
    "ttng.tmem_load": TENSOR_MEMORY,
    "ttng.tmem_store": TENSOR_MEMORY,
    "ttng.tc_gen5_commit": TENSOR_MEMORY,
    "ttng.tc_gen5_mma": TENSOR_MEMORY,
    "ttng.tc_gen5_mma_scaled": TENSOR_MEMORY,
    "ttng.clc_try_cancel": CANCEL,
    "ttng.clc_load_result": CANCEL,
    "ttng.clc_is_canceled": CANCEL,
    "ttng.clc_get_program_id": CANCEL,
}
"""By op, where its lowering needs one that not all GPUs have: that instruction (PTX ISA 9.0, target notes)."""


def unsupported(op: Op) -> TilewrightError:
    """The error for an op without lowering."""
    reason = UNSUPPORTED.get(op.name)
    if reason is None:
        return InternalError(f"{op.name} has no lowering for NVIDIA GPUs", print_op(op))
    return refused(op, f"the op {op.name}", reason)


def refused(op: Op, what: str, reason: str) -> TilewrightError:
    """The error at the place of an op for what is not supported, and why."""
    return located(NotSupported(what, reason), span_of(op.location))


def missing_instruction(op: Op, capability: int) -> TilewrightError | None:
    """The error for an op whose instruction the device does not have; None where it has it."""
    needed = INSTRUCTIONS.get(op.name)
    if needed is None or needed.is_on(capability):
        return None
    return refused(op, f"the op {op.name} on sm_{capability}", f"its instruction {needed.name} is on {needed.devices}")
