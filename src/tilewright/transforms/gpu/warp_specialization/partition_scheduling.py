"""Partition scheduling: the warp group of each op of a loop with `warp_specialize=True`.

    scf.for … {                                            the op gets
      %x = tt.descriptor_load …                            ttg.partition = array<i32: 2>     copies by descriptor
      %a = ttg.local_alloc %x                              ttg.partition = array<i32: 2>
      ttng.tc_gen5_mma %a, …                               ttg.partition = array<i32: 1>     products
      %y = ttng.tmem_load …; "epilogue"(%y)                ttg.partition = array<i32: 0>     all else
    } {tt.warp_specialize}

A loop that modifies an accumulator in tensor memory before it adds to it has four partitions, in Triton's order: all
else, the updates of accumulators (`correction.py`), products, copies. The default partition updates accumulators itself
in these cases: the CTA has no warps or registers left for others, or no shared memory for the values to be passed; the
updates need values of the previous iteration; the iteration uses the accumulator otherwise.

Products of warp groups (sm_90) are in the default partition, whose registers hold the accumulators; such loops are
divided where Triton divides them: with one warp group, several stages, and operands that are all loaded by descriptor.

Scalars that several partitions need are recomputed in each, and loaded in each in a loop that writes by stores
only; so are descriptors that the loop makes. A loop is left as it is if it has no copies for products, if a copy or a
product needs values of the default partition other than through a buffer, or if the ops that access the buffers of
products are not all known.

A text may have partitions already, as Triton's tests do: then the loop lists their stages, and pure ops without a mark
get the partitions of their users, each an op of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tilewright.analysis.axis_info import AxisInfo, analyze_axis_info
from tilewright.dialects.builtin import Barrier
from tilewright.dialects.scf import For, If
from tilewright.dialects.traits import Atomic, ControlFlow, Loop
from tilewright.dialects.tt_descriptors import DescriptorAccess, DescriptorWrite, MakeTensorDescriptor
from tilewright.dialects.tt_function import Call
from tilewright.dialects.tt_memory import Load, Store
from tilewright.dialects.ttg_memory import LocalAlloc, MemDescView
from tilewright.dialects.ttg_program import ScopedBarrier
from tilewright.dialects.ttg_warp_specialize import WarpSpecialize, WarpSpecializePartitions
from tilewright.dialects.ttng_barriers import ClusterBarrier
from tilewright.dialects.ttng_mma import TensorCoreMma
from tilewright.dialects.ttng_tensor_memory import TmemAlloc
from tilewright.ir.attributes import DenseArray, Number
from tilewright.ir.core import Block, Op, Value, integer_in
from tilewright.ir.declare import OPS
from tilewright.ir.effects import is_pure, writes_memory
from tilewright.ir.types import MemDescType, TensorType, async_token, i32
from tilewright.transforms.functions import function_around, is_public
from tilewright.transforms.gpu.pipelining.assign_latencies import DEFAULT_STAGES, StageOptions, stages_of
from tilewright.transforms.gpu.pipelining.lower_loops import async_load_of
from tilewright.transforms.gpu.pipelining.lower_products import SHARED_MEMORY
from tilewright.transforms.gpu.pipelining.schedule import WARP_SPECIALIZE
from tilewright.transforms.gpu.tile_ops import module_of, workers_of
from tilewright.transforms.gpu.warp_specialization.channels import (
    ACCESSES,
    Channel,
    UnknownAccessError,
    channels_of,
    has_group_products,
    load_of,
    product_buffers,
    shared_buffers,
    source_of,
)
from tilewright.transforms.gpu.warp_specialization.correction import (
    can_be_read,
    corrections,
    handed_tiles,
    is_in_reach,
)
from tilewright.transforms.gpu.warp_specialization.descriptor_rings import handed_on
from tilewright.transforms.gpu.warp_specialization.loaded_tiles import bytes_of, put_into_memory, take_from_memory
from tilewright.transforms.gpu.warp_specialization.memory_order import orders_of
from tilewright.transforms.gpu.warp_specialization.slices import (
    CORRECTION,
    DEFAULT,
    OUTPUTS,
    PARTITION,
    STAGES,
    TAG,
    WITH_CORRECTION,
    WITHOUT_CORRECTION,
    ForeignValueError,
    Roles,
    Slice,
    handed_over,
    is_cheap,
    mark,
    partitions_of_op,
    roles_of,
    without,
)
from tilewright.transforms.matching import is_in
from tilewright.transforms.op_builder import OpBuilder

CONCERNS_ALL = (WarpSpecialize, Call, Barrier, ScopedBarrier, ClusterBarrier)
"""Ops that all warps of a block execute together."""
FURTHER_WARPS = 3
"""The number of warps of the partitions besides the default one if no threads copy."""
WARP_GROUP = 4
"""The number of warps that multiply together."""
WARP, REGISTERS = 32, 65536
"""The number of threads of a warp, and of registers that a block may have."""
LARGEST_CAPTURE = 8192
"""Max size of the tiles that a partition is given through shared memory, in bytes."""
MAX_WARPS = 32
"""Max number of warps of a block."""


def partition_scheduling(module: Op, options: StageOptions = DEFAULT_STAGES) -> bool:
    """Assign partitions to the ops of the loops of `module` that ask for it."""
    loops = [op for op in module.walk() if isinstance(op, For) and WARP_SPECIALIZE in op.attributes]
    facts = analyze_axis_info(module) if loops else {}
    scheduled = [loop for loop in loops if _can_be_divided(loop, options) and _schedule(loop, facts, options)]
    for number, loop in enumerate(scheduled):
        loop.attributes = {**loop.attributes, TAG: Number(number, i32)}
    return bool(scheduled)


def _schedule(loop: For, facts: Mapping[Value, AxisInfo], options: StageOptions) -> bool:
    """Mark the ops of `loop`, with all that threads load by descriptor if that can be, and else as far as it can."""
    if _complete_marks(loop):
        return True
    tiles = put_into_memory(loop, stages_of(loop, options.num_stages))
    if _schedule_products(loop, facts, options):
        return True
    take_from_memory(tiles)
    return bool(tiles) and _schedule_products(loop, facts, options)


def _schedule_products(loop: For, facts: Mapping[Value, AxisInfo], options: StageOptions) -> bool:
    """Mark the ops of `loop`, with copies by threads and a partition for corrections if it can be, and else without."""
    copies = _copies_by_threads(loop, facts)
    if copies and has_group_products(loop):
        return False
    corrected = _corrections(loop, bool(copies))
    stages = stages_of(loop, options.num_stages)
    for of_threads in (copies, ()) if copies else ((),):
        for ops in (corrected, ()) if corrected else ((),):
            if _schedule_with(loop, of_threads, ops, stages):
                return True
    return False


def _copies_by_threads(loop: For, facts: Mapping[Value, AxisInfo]) -> list[Load]:
    """The loads by pointers that fill operands of products as they are, if a block has warps for them."""
    if 2 * workers_of(loop).warps + 1 > MAX_WARPS:
        return []
    try:
        loads = [source_of(alloc) for alloc in product_buffers(loop) if is_in(alloc, loop)]
    except UnknownAccessError:
        return []
    found = [load for load in loads if isinstance(load, Load) and not load.is_volatile]
    return [load for load in found if async_load_of(load, 1, facts) is not None]


def _can_be_divided(loop: For, options: StageOptions) -> bool:
    """Whether a block has room for further warps, and all inside of `loop` can be done by some warps alone."""
    workers = workers_of(loop)
    is_usual = workers.warps == WARP_GROUP and stages_of(loop, options.num_stages) > 1
    if has_group_products(loop) and not is_usual:
        return False
    limit = integer_in(module_of(loop), "ttg.maxnreg") or 0
    too_many = workers.warps + FURTHER_WARPS > MAX_WARPS or (workers.warps + WARP_GROUP) * WARP * limit > REGISTERS
    if workers.ctas > 1 or too_many or not is_public(function_around(loop)):
        return False
    parent = loop.parent
    while parent is not None:
        if isinstance(parent, (WarpSpecialize, WarpSpecializePartitions)) or WARP_SPECIALIZE in parent.attributes:
            return False
        parent = parent.parent
    return not any(_concerns_all(op) for op in loop.walk())


def _corrections(loop: For, copies: bool) -> set[Op]:
    """The ops that correct sums, if a block has warps and registers for them beside those of copies by threads."""
    warps = workers_of(loop).warps * (2 + copies) + FURTHER_WARPS
    threads = -(-warps // WARP_GROUP) * WARP_GROUP * WARP
    limit = integer_in(module_of(loop), "ttg.maxnreg") or REGISTERS // threads
    if warps > MAX_WARPS or threads * limit > REGISTERS or not can_be_read(loop, limit):
        return set()
    try:
        return corrections(loop)
    except UnknownAccessError:
        return set()


def _concerns_all(op: Op) -> bool:
    """Whether what `op` orders or does is not known to be of one partition only."""
    if isinstance(op, Atomic):
        return op.sem != "relaxed"
    is_other_region = isinstance(op, (Loop, ControlFlow)) and not isinstance(op, (For, If))
    return is_other_region or isinstance(op, CONCERNS_ALL)


def _schedule_with(loop: For, copies: Collection[Load], corrected: Collection[Op], stages: int) -> bool:
    """Mark the ops of `loop`; takes the marks back and returns False if the loop cannot be divided so.

    Args:
        loop: the loop.
        copies: loads by pointers that threads of a partition do.
        corrected: ops that a partition of its own executes, as they correct sums.
        stages: how many places the rings of copies will have.
    """
    roles = WITH_CORRECTION if corrected else WITHOUT_CORRECTION
    for op in loop.walk():
        if op is not loop and not op.definition.terminator:
            mark(op, [roles.mma if isinstance(op, TensorCoreMma) else DEFAULT])
    for op in copies:
        mark(op, [roles.load])
    for op in corrected:
        mark(op, [CORRECTION])
    try:
        for alloc in shared_buffers(loop):
            load = load_of(alloc, roles)
            for op in () if load is None else (load, alloc):
                mark(op, [roles.load])
        _mark_undeclared(loop, roles)
        _check_descriptors(loop, roles)
        _check_handed(loop, stages)
        channels = channels_of(loop)
        if not any(channel.is_loaded and not channel.is_loaded_by_threads for channel in channels):
            raise UnknownAccessError
        _mark_slices(loop, channels, roles)
        orders_of(loop, channels)  # refuses copies that cannot keep behind what the loop may have written
    except (UnknownAccessError, ForeignValueError):
        for op in loop.walk():
            op.attributes = without(op, PARTITION, OUTPUTS)
        return False
    _give_each_its_own([op for op in loop.walk() if isinstance(op, MemDescView)])
    return True


def _give_each_its_own(ops: Sequence[Op]) -> None:
    """Let each partition that executes one of `ops`, which have one result each, have an op of its own."""
    for op in reversed(ops):
        first, *others = partitions_of_op(op) or (DEFAULT,)
        (result,) = op.results
        for number in others:
            copy = OpBuilder(op).insert(op.clone({}))
            mark(copy, [number])
            for user in [user for user in result.uses if partitions_of_op(user) == (number,)]:
                user.set_operands([copy.results[0] if value is result else value for value in user.operands])
        if others:
            mark(op, [first])


def _complete_marks(loop: For) -> bool:
    """Mark what has no mark in `loop`, if its text has partitions; False if there is none, or the rest is not pure."""
    ops = [op for op in loop.walk() if op is not loop and not op.definition.terminator]
    rest = [op for op in ops if PARTITION not in op.attributes]
    if STAGES not in loop.attributes or len(rest) == len(ops) or not all(_follows_its_users(op, loop) for op in rest):
        return False
    for op in ops:
        if op not in rest:
            mark(op, partitions_of_op(op))
    for op in reversed(rest):
        mark(op, {number for user in op.results[0].uses for number in partitions_of_op(user)})
    mark(loop, {number for op in ops for number in partitions_of_op(op)})
    _give_each_its_own([op for op in rest if isinstance(op.results[0].type, TensorType | MemDescType)])
    return True


def _follows_its_users(op: Op, loop: For) -> bool:
    """Whether `op` may be executed by all that use its one result, which is not carried by `loop`."""
    is_plain = is_pure(op) and not op.regions and len(op.results) == 1 and op.block is loop.body
    return is_plain and all(not user.definition.terminator for user in op.results[0].uses)


def _mark_undeclared(loop: For, roles: Roles) -> None:
    """Let the partition of copies execute undeclared ops whose scalars copies need.

    Such an op may do anything, so one partition executes it, where it stands; the loop cannot be divided if another
    partition needs its numbers too.
    """
    waiting = [value for op in loop.walk() if partitions_of_op(op) == (roles.load,) for value in op.operands]
    seen: set[Value] = set()
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        op = value.op
        if op is None or isinstance(op, (For, If)):
            waiting += _handed_to(value, loop)
        elif is_in(op, loop):
            gives_buffers = any(isinstance(value.type, MemDescType) for value in op.results)
            if op.name not in OPS and not op.regions and not gives_buffers:
                mark(op, [roles.load])
                waiting += op.operands
            elif is_cheap(op):
                waiting += op.operands


def _handed_to(value: Value, loop: For) -> list[Value]:
    """The values that `value` may be, if it is carried by `loop` or one inside, or a branch or loop inside gives it."""
    owner = value.owner
    if isinstance(owner, If) and is_in(owner, loop):
        return [owner.condition, *(arm.block.terminator.operands[value.index] for arm in owner.arms)]
    around, number = (
        (owner.region.op if owner.region else None, value.index - 1)
        if isinstance(owner, Block)
        else (owner, value.index)
    )
    if isinstance(around, For) and is_in(around, loop) and number >= 0:
        return [around.inits[number], around.yielded[number]]
    return []


def _mark_slices(loop: For, channels: Collection[Channel], roles: Roles) -> None:
    """Let each op have the numbers of all partitions that need it."""
    buffers = [alloc for channel in channels for alloc in channel.buffers]
    handed = handed_tiles(loop)
    given: set[Value] = {alloc.results[0] for alloc in buffers}
    written = [alloc.source for alloc in buffers if alloc.source is not None and load_of(alloc, roles) is None]
    results: list[Value] = [result for result in loop.results if result.uses]
    multiplies = any(isinstance(op, TensorCoreMma) for op in loop.walk())
    again = _numbers_loaded(loop)
    for load in again:
        mark(load, [])
    others = (roles.mma, roles.load) if multiplies else (roles.load,)
    slices = {number: Slice(loop, number, given, repeated=again) for number in others}
    if roles.correction is not None:
        slices[roles.correction] = Slice(loop, roles.correction, given.union(handed), repeated=again)
    for number, part in slices.items():
        _check_captures(part, multiplies=number == roles.mma)
    slices[DEFAULT] = Slice(loop, DEFAULT, given, [*results, *written, *handed], again)
    for op in loop.walk():
        found = {number for number, part in slices.items() if op in part.ops}
        if op in again:
            found.add(DEFAULT)  # which may need more of them when sums have their places
        if found and not op.definition.terminator:
            mark(op, found)
    for alloc in buffers:
        if isinstance(alloc, TmemAlloc) and is_in(alloc, loop):
            mark(alloc, {number for op in (alloc, *alloc.results[0].uses) for number in partitions_of_op(op)})
    _mark_results(loop, slices, roles)


def _mark_results(loop: For, slices: Mapping[int, Slice], roles: Roles) -> None:
    """Say which partitions compute each result of `loop`, and of loops and branches in it; they execute these, too."""
    for op in reversed([op for op in loop.walk() if isinstance(op, (For, If))]):
        outputs = [_partitions_of_result(result, slices, roles) for result in op.results]
        executing = {number for number, part in slices.items() if op in part.ops}.union(*outputs)
        ends = [op.body.terminator] if isinstance(op, For) else [arm.block.terminator for arm in op.arms]
        for each in (op, *ends):
            mark(each, executing)
        if outputs:
            op.attributes = {**op.attributes, OUTPUTS: tuple(DenseArray(i32, tuple(numbers)) for numbers in outputs)}


def _partitions_of_result(result: Value, slices: Mapping[int, Slice], roles: Roles) -> list[int]:
    """The partitions that compute `result`; a token of tensor memory belongs to its first users in an iteration."""
    if result.type is async_token:
        user = _first_user(result)
        found = () if user is None else partitions_of_op(user)
        return list(found) if found == (roles.correction,) else [roles.mma if roles.mma in slices else DEFAULT]
    return sorted(number for number, part in slices.items() if (result.op, result.index) in part.carried)


def _first_user(token: Value) -> Op | None:
    """The op that uses, in an iteration of its loop, the token that the loop carries as its result `token`."""
    user: Op | None = None
    loop = token.op
    while isinstance(loop, For):
        carried = loop.carried[token.index]
        loop = user = next(iter(carried.uses), None)
        if isinstance(user, For):
            token = user.results[user.inits.index(carried)]
    return user


def _numbers_loaded(loop: For) -> set[Load]:
    """The loads of numbers by pointers that each partition may do for itself.

    The loop writes by stores alone. Where one may write what they read, `memory_order.py` orders them.
    """
    writers = (op for op in loop.walk() if not op.regions and not op.definition.terminator and writes_memory(op))
    if not all(isinstance(op, (DescriptorWrite, Store, *ACCESSES)) for op in writers):
        return set()
    loads = (op for op in loop.walk() if isinstance(op, Load))
    return {op for op in loads if not isinstance(op.result.type, TensorType) and not op.is_volatile}


def _check_descriptors(loop: For, roles: Roles) -> None:
    """Refuse a descriptor that the loop makes if it is not known when its copies are done.

    `descriptor_rings` gives each other descriptor as many places as copies through it can be under way: one whose
    copies are in one block, and one that is carried by a loop, each of whose iterations has all its copies.
    """
    for maker in loop.ops_of(MakeTensorDescriptor):
        way = handed_on(maker)
        users = list(maker.result.uses) if way is None else [*way.accesses, *way.late]
        copies = {user.block for user in users if partitions_of_op(user) == (roles.load,)}
        if len(copies) > 1 or not all(isinstance(user, DescriptorAccess) for user in users):
            raise UnknownAccessError
        if way is not None and not (is_in(way.loop, loop) and copies <= {way.loop.body}):
            raise UnknownAccessError


def _check_handed(loop: For, stages: int) -> None:
    """Refuse a partition of corrections that would be handed what is from elsewhere, or too much for shared memory."""
    tiles, roles = handed_tiles(loop), roles_of(loop)
    if not all(is_in_reach(tile, roles) for tile in tiles):
        raise UnknownAccessError
    buffers = [alloc for alloc in shared_buffers(loop) if isinstance(alloc, LocalAlloc)]
    places = [1 if load_of(alloc, roles) is None or not is_in(alloc, loop) else stages for alloc in buffers]
    taken = sum(bytes_of(alloc.result.type) * count for alloc, count in zip(buffers, places, strict=True))
    if taken <= SHARED_MEMORY < taken + sum(bytes_of(tile.type) for tile in tiles):
        raise UnknownAccessError


def _check_captures(part: Slice, *, multiplies: bool) -> None:
    """Refuse a partition that needs a tile from outside, if it multiplies, or memory cannot hand the tile over."""
    tiles = [value for value in part.captured if isinstance(value.type, TensorType)]
    handed = [value for value in handed_over(tiles) if isinstance(value.type, TensorType)]
    in_bits = [value for value in handed if value.type.bits % 8]
    for value in tiles if multiplies else in_bits:
        raise ForeignValueError(value.op or part.loop, part.partition)
    if sum(bytes_of(value.type) for value in handed) > LARGEST_CAPTURE:
        raise UnknownAccessError
