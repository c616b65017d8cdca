"""The loads of a scheduled loop that become asynchronous copies, and the buffers they go to.

%x = tt.load %p {loop.stage = 0}; use(%x) {loop.stage = 2}        two buffers: one is read while the other is written
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tilewright.analysis.axis_info import AxisInfo
from tilewright.analysis.live_ranges import ancestor_in
from tilewright.dialects.scf import For
from tilewright.dialects.tt_descriptors import DescriptorRead
from tilewright.dialects.tt_memory import Load
from tilewright.dialects.ttg_memory import LocalAlloc, MemDescView
from tilewright.dialects.ttng_barriers import WaitBarrier
from tilewright.dialects.ttng_mma import WarpGroupDot
from tilewright.ir.core import Op, Value, buffer_type, tile_type
from tilewright.ir.types import TensorDescType, TensorType
from tilewright.layouts.encodings import Encoding, SwizzledShared, encoding
from tilewright.layouts.queries import cga_layout, order
from tilewright.transforms.gpu.pipelining.assign_latencies import (
    SMALLEST_COPY,
    IncompatibleUsersError,
    bits_into,
    elements_at_once,
    shared_layout_for,
)
from tilewright.transforms.gpu.pipelining.schedule import Schedule, body_of
from tilewright.transforms.gpu.shared_operands import LOADS
from tilewright.transforms.gpu.tile_ops import distributed_of
from tilewright.transforms.gpu.tma_lowering import buffer_layout, line_of_ctas
from tilewright.transforms.matching import has_one_use, is_zero


@dataclass
class AsyncLoad:
    """A load that runs ahead.

    Attributes:
        load: the op.
        buffers: how many tiles are on their way or in use at once.
        layout: of each buffer.
        contiguity: how many neighbours one instruction may copy.
    """

    load: Load | DescriptorRead
    buffers: int
    layout: Encoding
    contiguity: int = 1


def async_loads(loop: For, schedule: Schedule, facts: Mapping[Value, AxisInfo]) -> list[AsyncLoad]:
    """The loads of `loop` that run ahead of their users and can be copied asynchronously."""
    found = []
    for op in body_of(loop):
        if isinstance(op, LOADS) and (distance := stages_ahead(op, loop, schedule)) > 0:
            load = _async_load(op, distance, facts)
            if load is not None:
                load.buffers += _is_read_by_next_step(op)
                found.append(load)
    return found


def _async_load(op: Load | DescriptorRead, buffers: int, facts: Mapping[Value, AxisInfo]) -> AsyncLoad | None:
    type = op.result.type
    if isinstance(op, DescriptorRead):
        return AsyncLoad(op, buffers, buffer_layout(op.descriptor.type, tile_type(op.result)))
    if not isinstance(type, TensorType):
        return AsyncLoad(op, buffers, line_of_ctas(op)) if type.bits >= SMALLEST_COPY else None
    layout = _layout(op)
    count = elements_at_once(op, facts)
    narrow = min(count * type.bits, bits_into(op.result, layout)) < SMALLEST_COPY
    return None if narrow else AsyncLoad(op, buffers, layout, count)


def _layout(load: Load) -> Encoding:
    """The layout that the users of the tile prefer: a buffer's own layout, that of a dot's operand, or any."""
    buffers = [user.result for user in load.result.uses if isinstance(user, LocalAlloc)]
    if buffers:
        return encoding(buffer_type(buffers[-1]).encoding)
    try:
        found = shared_layout_for(load.result)
    except IncompatibleUsersError:
        found = None
    registers = distributed_of(load.result)
    shape = load.result.type.shape or ()
    return found or SwizzledShared(1, 1, 1, order(registers, shape), cga_layout(registers))


# --- users --------------------------------------------------------------------------------------------------------


def stages_ahead(op: Op, loop: For, schedule: Schedule) -> int:
    """The number of steps between `op` and the first that uses its result."""
    users = dict.fromkeys(users_in(op, loop))
    for user in list(users):
        if isinstance(user, LocalAlloc):  # it will not be there any more
            users.update(dict.fromkeys(users_in(user, loop)))
    own = schedule.slots[op]
    distances, waits = [], []
    for user in users:
        slot = schedule.slots[user]
        # A user that comes later in the step reads after the next copy began.
        distances.append(slot.stage - own.stage + schedule.is_before(own.cluster, slot.cluster))
        if isinstance(user, WaitBarrier):
            waits.append(slot.stage - own.stage)
    return max(min(distances, default=0), *waits, 0)


def users_in(op: Op, loop: For) -> Iterator[Op]:
    """The ops of the body of `loop` that use results of `op`, also in the next step; of views their users."""
    body = loop.body
    waiting, seen = list(op.results), set(op.results)
    while waiting:
        value = waiting.pop()
        for user in value.uses:
            further: list[Value] = []
            if user is body.last:
                further = [loop.carried[i] for i, handed in enumerate(user.operands) if handed is value]
            elif isinstance(user, MemDescView):
                further = list(user.results)
            else:
                ancestor = ancestor_in(user, body)
                if ancestor is not None:
                    yield ancestor
            waiting += [value for value in further if value not in seen]
            seen.update(further)


def must_be_in_registers(load: Load | DescriptorRead) -> bool:
    """Whether the users of `load` want more than a buffer that is as it was copied."""
    if isinstance(load, Load) and load.other is not None and not is_zero(load.other):
        return True
    if not has_one_use(load.result):
        return True
    (user,) = load.result.uses
    if not isinstance(user, LocalAlloc):
        return True
    own, descriptor = load.result.type, load.descriptor.type if isinstance(load, DescriptorRead) else None
    if not isinstance(descriptor, TensorDescType) or not isinstance(own, TensorType):
        return False
    return buffer_layout(descriptor, own) is not encoding(buffer_type(user.result).encoding)


def _is_read_by_next_step(load: Load | DescriptorRead) -> bool:
    """Whether a product that runs on reads the tile: it may still do so when the next step begins."""
    if must_be_in_registers(load):
        return False
    (alloc,) = load.result.uses
    return any(isinstance(user, WarpGroupDot) for user in _readers(alloc.result))


def _readers(buffer: Value) -> Iterator[Op]:
    for user in buffer.uses:
        if isinstance(user, MemDescView):
            yield from _readers(user.result)
        else:
            yield user
