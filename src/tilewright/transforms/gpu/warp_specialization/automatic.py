"""Automatic warp specialization: loops with `warp_specialize=True` are divided among warp groups.

partition_scheduling        each op gets a partition: copies, products, accumulator updates, all else
data_partitioning           two warp groups share products with enough rows
insert_channels             shared values of partitions get buffers and barriers
partition_loops             each partition gets its part of the loop
run_products_ahead          products of the next iteration start before those that wait
descriptor_rings            descriptors made in loops get several slots
lower_warp_groups           each partition gets its captured values
optimize_partition_warps    partitions get as many warps and registers as they need

Loops that cannot be divided stay as they are.
"""

from __future__ import annotations

from tilewright.dialects.scf import For
from tilewright.ir.core import Op
from tilewright.transforms.gpu.pipelining.assign_latencies import DEFAULT_STAGES, StageOptions
from tilewright.transforms.gpu.tensor_memory_accumulators import remove_tensor_memory_tokens
from tilewright.transforms.gpu.warp_specialization.data_partitioning import data_partitioning
from tilewright.transforms.gpu.warp_specialization.descriptor_rings import descriptor_rings
from tilewright.transforms.gpu.warp_specialization.insert_channels import insert_channels
from tilewright.transforms.gpu.warp_specialization.lower_warp_groups import lower_warp_groups
from tilewright.transforms.gpu.warp_specialization.optimize_partition_warps import optimize_partition_warps
from tilewright.transforms.gpu.warp_specialization.partition_loops import partition_loops
from tilewright.transforms.gpu.warp_specialization.partition_scheduling import partition_scheduling
from tilewright.transforms.gpu.warp_specialization.run_products_ahead import run_products_ahead
from tilewright.transforms.gpu.warp_specialization.slices import TAG, without


def automatic_warp_specialization(module: Op, options: StageOptions = DEFAULT_STAGES) -> bool:
    """Divide the loops of `module` that ask for it among warp groups."""
    if not partition_scheduling(module, options):
        return False
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
