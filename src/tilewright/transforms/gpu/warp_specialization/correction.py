"""Corrections: updates of an accumulator in tensor memory before a product adds to it, in a separate partition.

    scf.for … {                                                   partition
      %factor = …                                                 0
      %y = tt.broadcast %factor                                   1
      %s = ttng.tmem_load %m                                      1
      %t = arith.mulf %s, %y                                      1
      ttng.tmem_store %t, %m                                      1
      ttng.tc_gen5_mma %p, %v, %m                                 2
    }

In attention the scores do not wait for that: the default partition continues with the probabilities while another warp
group rescales the accumulator of the last iteration, and it needs no registers for it. The default partition passes
`%factor` through shared memory, in its small form before `tt.expand_dims`, `tt.broadcast` or `tt.splat`.
"""

from __future__ import annotations

from tilewright.analysis.buffer_aliases import users_through_views
from tilewright.dialects.scf import For
from tilewright.dialects.tt_shape import Broadcast, ExpandDims, Splat
from tilewright.dialects.ttng_mma import TensorCoreMma
from tilewright.dialects.ttng_tensor_memory import TmemAlloc, TmemLoad, TmemStore
from tilewright.ir.core import Op, Value, tile_type
from tilewright.ir.effects import is_pure
from tilewright.ir.types import TensorType
from tilewright.transforms.functions import function_around
from tilewright.transforms.gpu.pipelining.schedule import Writer
from tilewright.transforms.gpu.warp_specialization.channels import product_buffers
from tilewright.transforms.gpu.warp_specialization.optimize_partition_warps import WITHOUT_TILES, registers_of
from tilewright.transforms.gpu.warp_specialization.slices import Roles, partitions_of_op, roles_of
from tilewright.transforms.matching import constant_of, following, is_after, is_in, is_inside

READ_AT_ONCE = 128
"""Max number of registers of a thread that one instruction reads tensor memory to."""
GROWING = (ExpandDims, Broadcast, Splat)
"""Ops that make a tile of a smaller one, or of a number."""


def corrections(loop: For) -> set[Op]:
    """The ops of `loop` that correct sums, and those that make what they correct them by larger."""
    found: set[Op] = set()
    for alloc in product_buffers(loop):
        if isinstance(alloc, TmemAlloc):
            found |= _correction(alloc, loop)
    return found


def can_be_read(loop: For, registers: int) -> bool:
    """Whether threads with so many registers can read what the function around `loop` has in tensor memory."""
    reads = (op for op in function_around(loop).walk() if isinstance(op, TmemLoad))
    tiles = (tile_type(op.results[0]) for op in reads)
    return all(min(registers_of(tile), READ_AT_ONCE) + WITHOUT_TILES <= registers for tile in tiles)


def _correction(alloc: TmemAlloc, loop: For) -> set[Op]:
    """The ops from the load of the sum in `alloc` to its store, if they stand before its product."""
    users = [user for user in users_through_views(alloc.results[0]) if is_in(user, loop)]
    products = [user for user in users if isinstance(user, TensorCoreMma) and user.accumulator is alloc.results[0]]
    block = products[0].block if products else None
    inner = [user for user in users if user.block is block]
    loads = [user for user in inner if isinstance(user, TmemLoad)]
    stores = [user for user in inner if isinstance(user, TmemStore)]
    step = block.region.op if block is not None and block.region is not None else None
    if (len(products), len(loads), len(stores)) != (1, 1, 1) or step is None:
        return set()
    if len(inner) != len(BY_STEP) or any(is_in(user, step) for user in users if user not in inner):
        return set()
    product, load, store = products[0], loads[0], stores[0]
    if not (is_after(product, store) and is_after(store, load)) or constant_of(store.predicate) != 1:
        return set()
    return _with_growing(_between(load, store))


BY_STEP = (TmemLoad, TmemStore, TensorCoreMma)
"""The accesses of an iteration to a sum that it corrects."""


def _between(load: TmemLoad, store: TmemStore) -> set[Op]:
    """`load`, `store`, and the ops between that use what is loaded; nothing if it has other uses."""
    found: set[Op] = {load}
    waiting: list[Value] = [load.results[0]]
    while waiting:
        for user in waiting.pop().uses:
            if user is store:
                found.add(user)
            elif user.block is not load.block or not _changes_tiles(user):
                return set()
            elif user not in found:
                found.add(user)
                waiting += user.results
    return found if store in found else set()


def _changes_tiles(op: Op) -> bool:
    """Whether `op` gives nothing but tiles, has no effects, and no code inside."""
    gives_tiles = bool(op.results) and all(isinstance(result.type, TensorType) for result in op.results)
    return gives_tiles and is_pure(op) and not op.regions


def _with_growing(correction: set[Op]) -> set[Op]:
    """`correction` with the ops that make its other operands larger."""
    waiting, block = list(correction), {op.block for op in correction}
    while waiting:
        for value in waiting.pop().operands:
            op = value.op
            if isinstance(op, GROWING) and op.block in block and op not in correction:
                correction.add(op)
                waiting.append(op)
    return correction


def corrects(op: Op, roles: Roles) -> bool:
    """Whether the partition of corrections executes `op`, which is no loop or branch, nor the end of one."""
    own = roles.correction is not None and roles.correction in partitions_of_op(op)
    return own and not op.regions and not op.definition.terminator


def handed_tiles(loop: For) -> list[Value]:
    """The tiles that the default partition of `loop` computes and the one of corrections uses."""
    roles = roles_of(loop)
    users = (op for op in loop.walk() if corrects(op, roles)) if roles.correction is not None else ()
    return list(dict.fromkeys(value for op in users for value in op.operands if _is_handed(value, loop, roles)))


def _is_handed(value: Value, loop: For, roles: Roles) -> bool:
    is_tile = isinstance(value.type, TensorType) and is_inside(value, loop)
    return is_tile and (value.op is None or not corrects(value.op, roles))


def is_in_reach(tile: Value, roles: Roles) -> bool:
    """Whether `tile` is computed in the iteration that corrects a sum by it, by an op that stands in the same block."""
    op = tile.op
    return op is not None and all(user.block is op.block for user in tile.uses if corrects(user, roles))


def compute_early(op: Op) -> None:
    """Move `op`, and what it is computed from, to the first place in its block where all of that is known."""
    needed, last = _needed(op)
    if op.block is None or last is None:
        return
    for other in list(following(last)):
        if other in needed:
            other.unlink()
            Writer.after(last).insert(other)
            last = other


def _needed(op: Op) -> tuple[set[Op], Op | None]:
    """The ops that compute `op` in its block wherever all others stand that they need, and the last of those others."""
    needed: set[Op] = set()
    others: set[Op] = set()
    waiting = [op]
    while waiting:
        used = waiting.pop()
        if used.block is not op.block or used in needed or used in others:
            continue
        if not is_pure(used) or used.regions:
            others.add(used)
            continue
        needed.add(used)
        waiting += [value.op for value in used.operands if value.op is not None]
    return needed, next((other for other in reversed(list(op.block or ())) if other in others), None)
