"""Automatic warp specialization: loops with `warp_specialize=True` are divided among warp groups.

partition_scheduling        each op gets a partition: copies, products, accumulator updates, all else
data_partitioning           two warp groups share products with enough rows
insert_channels             shared values of partitions get buffers and barriers
partition_loops             each partition gets its part of the loop
run_products_ahead          products of the next iteration start before those that wait
descriptor_rings            descriptors made in loops get several slots
lower_warp_groups           each partition gets its captured values
optimize_partition_warps    partitions get as many warps and registers as they need

Loops that cannot be divided stay whole, and are scheduled again where products had the latencies of divided ones.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.dialects.scf import For
from tilewright.ir.core import Op
from tilewright.transforms.gpu.pipelining.assign_latencies import DEFAULT_STAGES, StageOptions, assign_latencies
from tilewright.transforms.gpu.pipelining.product_latencies import SELF_LATENCY
from tilewright.transforms.gpu.pipelining.schedule import CLUSTER, LAST_STAGE, STAGE, WARP_SPECIALIZE
from tilewright.transforms.gpu.pipelining.schedule_loops import schedule_loops
from tilewright.transforms.gpu.tensor_memory_accumulators import remove_tensor_memory_tokens
from tilewright.transforms.gpu.warp_specialization.data_partitioning import data_partitioning
from tilewright.transforms.gpu.warp_specialization.descriptor_rings import descriptor_rings
from tilewright.transforms.gpu.warp_specialization.insert_channels import insert_channels
from tilewright.transforms.gpu.warp_specialization.lower_warp_groups import lower_warp_groups
from tilewright.transforms.gpu.warp_specialization.optimize_partition_warps import optimize_partition_warps
from tilewright.transforms.gpu.warp_specialization.partition_loops import partition_loops
from tilewright.transforms.gpu.warp_specialization.partition_scheduling import partition_scheduling
from tilewright.transforms.gpu.warp_specialization.run_products_ahead import run_products_ahead
from tilewright.transforms.gpu.warp_specialization.slices import STAGES, TAG, without


def automatic_warp_specialization(module: Op, options: StageOptions = DEFAULT_STAGES) -> bool:
    """Divide the loops of `module` that ask for it among warp groups."""
    for loop in _asking(module):
        loop.attributes = without(loop, STAGES)  # partitions are chosen here, whatever a text has
    is_divided = partition_scheduling(module, options)
    whole = [loop for loop in _asking(module) if TAG not in loop.attributes and _has_latencies(loop)]
    for loop in whole:
        _schedule_again(loop, options)
    if not is_divided:
        return bool(whole)
    data_partitioning(module)
    remove_tensor_memory_tokens(module)  # barriers order accesses from now on
    insert_channels(module, options)
    partition_loops(module)
    run_products_ahead(module)
    descriptor_rings(module)
    lower_warp_groups(module)
    optimize_partition_warps(module)
    for loop in module.ops_of(For):
        loop.attributes = without(loop, TAG)
    return True


def _asking(root: Op) -> Iterator[For]:
    """The loops in `root` that ask to be divided, but for those inside of others."""
    for op in root.walk():
        if isinstance(op, For) and WARP_SPECIALIZE in op.attributes and not _is_in_asking(op):
            yield op


def _is_in_asking(loop: For) -> bool:
    around = loop.parent
    while around is not None and WARP_SPECIALIZE not in around.attributes:
        around = around.parent
    return around is not None


def _has_latencies(loop: For) -> bool:
    """Whether products of `loop`, or of one inside, have the latencies of divided loops."""
    return any(SELF_LATENCY in op.attributes for op in loop.walk())


def _schedule_again(loop: For, options: StageOptions) -> None:
    """Give `loop`, which stays whole, and those inside the latencies and stages of loops that do not ask."""
    for op in loop.walk():
        op.attributes = without(op, WARP_SPECIALIZE, SELF_LATENCY, STAGE, CLUSTER, LAST_STAGE)
    assign_latencies(loop, options)
    schedule_loops(loop)
