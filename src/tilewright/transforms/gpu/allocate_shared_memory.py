"""Write into each op where its shared memory is.

%a = ttg.local_alloc {allocation.offset = 0 : i32} : …       module attributes {ttg.shared = 1024 : i32}
"""

from __future__ import annotations

from tilewright.analysis.scratch_memory import scratch_bytes
from tilewright.analysis.shared_memory import ScratchSize, allocate
from tilewright.dialects.ttg_attributes import OFFSET, SHARED_BYTES
from tilewright.ir.attributes import Attribute, Number
from tilewright.ir.core import Op
from tilewright.ir.types import i32


def allocate_shared_memory(module: Op, scratch: ScratchSize = scratch_bytes) -> bool:
    """Place all buffers; each op that has one gets `allocation.offset`, the module its need as `ttg.shared`.

    Args:
        module: TTGIR.
        scratch: the bytes of scratch memory that an op needs; of a device: `scratch_bytes_on`.

    Returns:
        True: the module always gets an attribute.
    """
    allocations = allocate(module, scratch)
    for allocation in allocations.values():
        for buffer in allocation.buffers:
            offsets: tuple[Attribute, ...] = tuple(Number(other.offset, i32) for other in allocation.of(buffer.owner))
            buffer.owner.attributes[OFFSET] = offsets if len(offsets) > 1 else offsets[0]
    # What a function needs includes what those that it calls need.
    needs = max((allocation.size for allocation in allocations.values()), default=0)
    module.attributes[SHARED_BYTES] = Number(needs, i32)
    return True
