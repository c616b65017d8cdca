"""Latencies of products in tensor memory: which are asynchronous, and whose users come a stage later.

    ttng.tc_gen5_mma %a, %b, %d, …     {tt.self_latency = 1}                  is waited for in the next iteration
    ttng.tc_gen5_mma %a, %b, %d, …     {tt.self_latency = 1, tt.latency = 1}  the users of %d come a stage later

An asynchronous product still reads its operands when the next iteration begins. This requires that all operands are
known: loads that run ahead keep their slots longer, and for operands that the loop computes and stores, the wait comes
before the store. Users come a stage later if all operands are available early, and if the loop reinitialises the
accumulator. A branch that uses the accumulator may run after the next product: then each iteration, or each one after
such a branch, must begin another accumulator, in a second slot.

In a loop that asks to be divided among warp groups, products have the latencies of a loop that is: partitions wait for
each other, so users of an accumulator that threads do not modify are a stage later still, and a product waits for
itself only if threads copy its operands. `automatic_warp_specialization` gives a loop that stays whole the others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from enum import Enum
from typing import NamedTuple

from tilewright.analysis.buffer_aliases import users_through_views
from tilewright.analysis.value_flow import forward_slice
from tilewright.dialects.arith import Binary, CompareIntegers
from tilewright.dialects.scf import For, If
from tilewright.dialects.tt_memory import Load
from tilewright.dialects.ttg_memory import LocalAlloc, LocalLoad, MemDescView
from tilewright.dialects.ttng_barriers import WaitBarrier
from tilewright.dialects.ttng_mma import TensorCoreMma, TensorCoreMmaScaled
from tilewright.dialects.ttng_tensor_memory import TmemAlloc, TmemLoad, TmemStore
from tilewright.ir.core import Op, Value, buffer_type, defining
from tilewright.layouts.encodings import TensorMemoryScales, encoding
from tilewright.transforms.arith_rules import NEGATED
from tilewright.transforms.gpu.allocate_memory import columns_of, free_columns
from tilewright.transforms.gpu.pipelining.schedule import WARP_SPECIALIZE
from tilewright.transforms.gpu.shared_operands import LOADS
from tilewright.transforms.gpu.tile_ops import workers_of
from tilewright.transforms.matching import constant_of, is_in

SELF_LATENCY = "tt.self_latency"
"""The attribute of a product that runs on: the number of iterations until it is waited for."""
ONE_SUM = "tt.disallow_acc_multi_buffer"
"""The attribute of loops whose sums have one place."""


class State(Enum):
    """A fact about an operand while its product runs on."""

    AHEAD = "it is there early, and stays until the product has read it"
    STORED = "each step stores it: in front of that the product is waited for"
    UNKNOWN = "nothing"


class Latencies(NamedTuple):
    """How many stages later the users of a product's sum come, and how many iterations later it is waited for."""

    of_users: int
    own: int


def products_that_run_on(loop: For, loads: Collection[Op]) -> dict[TensorCoreMma, Latencies]:
    """The products of `loop` that run on; `loads` run ahead."""
    if workers_of(loop).ctas > 1:
        return {}
    asks = _asks_to_be_divided(loop)
    found: dict[TensorCoreMma, Latencies] = {}
    for op in loop.body:
        if isinstance(op, TensorCoreMma) and may_run_on(op, loop):
            states = {state_of(value, loop, loads) for value in factors(op)}
            if State.UNKNOWN not in states:
                of_users = int(State.STORED not in states and _may_be_used_later(op, loop))
                found[op] = _when_divided(op, loop, of_users) if asks else Latencies(of_users, 1)
    return found


def _asks_to_be_divided(loop: For) -> bool:
    """Whether the program asks for warp groups in `loop`, or in a loop around it."""
    op: Op | None = loop
    while op is not None and WARP_SPECIALIZE not in op.attributes:
        op = op.parent
    return op is not None


def _when_divided(product: TensorCoreMma, loop: For, of_users: int) -> Latencies:
    """The latencies of `product` if `loop` is divided; `of_users` is that of its users if it stays whole."""
    by_threads = any(isinstance(_source_of(value), Load) for value in factors(product))
    return Latencies(0 if _is_modified(product, loop) else of_users + 1, int(by_threads))


def _source_of(operand: Value) -> Op | None:
    """The op whose tile is in the buffer `operand`."""
    alloc = root_of(operand).op
    return alloc.source.op if isinstance(alloc, (LocalAlloc, TmemAlloc)) and alloc.source is not None else None


def _is_modified(product: TensorCoreMma, loop: For) -> bool:
    """Whether threads read the sum of `product` and store what they compute from it, or `loop` makes the sum."""
    alloc = sum_of(product.accumulator, loop)
    if alloc is None or is_in(alloc, loop):
        return True
    accesses = [access for _, access in accesses_to(alloc, loop)]
    stores = {access for access in accesses if isinstance(access, TmemStore)}
    loads = (access for access in accesses if isinstance(access, TmemLoad))
    return any(not stores.isdisjoint(forward_slice(load.results[0])) for load in loads)


def may_run_on(product: TensorCoreMma, loop: For) -> bool:
    """Whether `product`, of the body of `loop`, is started in every iteration, and nothing but its sum is unknown."""
    is_plain = not product.is_async and not product.barriers and constant_of(product.predicate) == 1
    return is_plain and sum_of(product.accumulator, loop) is not None


def factors(product: TensorCoreMma) -> list[Value]:
    """The buffers that `product` reads: its operands, and their scales."""
    scales = [product.a_scale, product.b_scale] if isinstance(product, TensorCoreMmaScaled) else []
    return [product.a, product.b, *scales]


def root_of(buffer: Value) -> Value:
    """The buffer that `buffer` is a view of."""
    while isinstance(view := buffer.op, MemDescView):
        buffer = view.source
    return buffer


def state_of(operand: Value, loop: For, loads: Collection[Op]) -> State:
    """The state of `operand`, which a product of `loop` reads."""
    root = root_of(operand)
    alloc = root.op
    if alloc is None or not is_in(alloc, loop):
        is_argument = alloc is None and root.owner is loop.body
        return State.UNKNOWN if is_argument or _is_changed(root, loop) else State.AHEAD
    if not isinstance(alloc, (LocalAlloc, TmemAlloc)) or alloc.source is None or alloc.block is not loop.body:
        return State.UNKNOWN
    source = alloc.source.op
    if isinstance(alloc, TmemAlloc):
        is_scale = isinstance(encoding(buffer_type(root).encoding), TensorMemoryScales)
        return State.UNKNOWN if is_scale else State.STORED
    if source is None or not is_in(source, loop):
        return State.UNKNOWN if alloc.source.owner is loop.body else State.AHEAD
    if isinstance(source, LOADS):
        return State.AHEAD if source in loads else State.UNKNOWN
    return State.STORED


READS = (TensorCoreMma, TmemLoad, LocalLoad, WaitBarrier)
"""Ops that read buffers, and do not change them."""


def _is_changed(buffer: Value, loop: For) -> bool:
    """Whether anything in `loop` may change `buffer`, which is made outside."""
    users = (user for user in users_through_views(buffer) if is_in(user, loop))
    return not all(isinstance(user, READS) and not _adds_to(user, buffer) for user in users)


def _adds_to(user: Op, buffer: Value) -> bool:
    return isinstance(user, TensorCoreMma) and root_of(user.accumulator) is buffer


# --- sums ---------------------------------------------------------------------------------------------------------


def sum_of(buffer: Value, loop: For) -> TmemAlloc | None:
    """The op that allocates the sum `buffer`, if all its accesses in `loop` are known and none is in a loop inside."""
    alloc = root_of(buffer).op
    if not isinstance(alloc, TmemAlloc) or (is_in(alloc, loop) and alloc.block is not loop.body):
        return None
    inside = [user for user in users_through_views(alloc.results[0]) if is_in(user, loop)]
    return alloc if all(isinstance(user, (*READS, TmemStore)) for user in inside) else None


def accesses_to(alloc: TmemAlloc, loop: For) -> Iterator[tuple[Op, Op]]:
    """The accesses to the memory of `alloc` in `loop`, in order; before each the op of the body that it is in."""
    users = set(users_through_views(alloc.results[0]))
    for op in loop.body:
        for inner in op.walk():
            if inner in users or inner is alloc:
                yield op, inner


class Start(NamedTuple):
    """`op` restarts its sum in each iteration, or if `adds` is false: then a branch has read the last one."""

    op: Op
    adds: Value | None = None


def start_of(alloc: TmemAlloc, loop: For) -> Start | None:
    """Where the sum of `alloc` begins again in `loop`, if its old value is not used later; else None."""
    accesses = [found for found in accesses_to(alloc, loop) if found[1] is not alloc or alloc.source is not None]
    if not accesses or accesses[0][0] is not accesses[0][1]:
        return None
    _, first = accesses[0]
    if isinstance(first, TmemStore):
        return Start(first) if constant_of(first.predicate) == 1 else None
    if not isinstance(first, TensorCoreMma) or not _adds_to(first, alloc.results[0]):
        return Start(first) if first is alloc else None
    if constant_of(first.uses_accumulator) == 0:
        return Start(first)
    is_read_at_last = _is_read_at_last(first, accesses[1:], loop)
    return Start(first, first.uses_accumulator) if is_read_at_last else None


def _is_read_at_last(product: TensorCoreMma, readers: list[tuple[Op, Op]], loop: For) -> bool:
    """Whether branches alone read the sum of `product`, and only when the next iteration begins another one.

    %adds of the next iteration = not %last
    ttng.tc_gen5_mma …, %adds              or with what implies it: %adds and …
    scf.if %last { ttng.tmem_load … }
    """
    use = product.uses_accumulator
    both = defining(use, Binary)
    flags = both.operands if both is not None and both.name == "arith.andi" else [use]
    return any(_means_not(flag, readers, loop) for flag in flags)


def _means_not(flag: Value, readers: list[tuple[Op, Op]], loop: For) -> bool:
    """Whether each reader stands in the first arm of a branch whose condition is the opposite of the next `flag`."""
    if flag.owner is not loop.body or flag.index == 0 or constant_of(loop.inits[flag.index - 1]) != 0:
        return False
    following = loop.yielded[flag.index - 1]
    return all(
        isinstance(access, TmemLoad)
        and isinstance(branch, If)
        and access.block is branch.then.block
        and is_opposite(following, branch.condition)
        for branch, access in readers
    )


def is_opposite(flag: Value, condition: Value) -> bool:
    """Whether `flag` is known to hold just where `condition` does not."""
    computed = defining(flag, Binary)
    if computed is not None and computed.name == "arith.xori":
        return computed.lhs is condition and constant_of(computed.rhs) in (1, -1)
    ours, other = defining(flag, CompareIntegers), defining(condition, CompareIntegers)
    if ours is None or other is None or ours.predicate != NEGATED[other.predicate]:
        return False
    return all(mine is its for mine, its in zip(ours.operands, other.operands, strict=True))


def _may_be_used_later(product: TensorCoreMma, loop: For) -> bool:
    """Whether users of the accumulator of `product` in its iteration may run when the next iteration has begun."""
    alloc = sum_of(product.accumulator, loop)
    assert alloc is not None, "the sum is known"
    accesses = list(accesses_to(alloc, loop))
    after = accesses[[access for _, access in accesses].index(product) + 1 :]
    if not any(isinstance(access, TmemLoad) for _, access in after):
        return True
    if ONE_SUM in loop.attributes:
        return False
    if all(op is access for op, access in after):
        return any(_begins(access, loop) for _, access in accesses)
    return start_of(alloc, loop) is not None and columns_of(alloc) <= free_columns(loop)


def _begins(access: Op, loop: For) -> bool:
    """Whether `access` restarts a sum in some iterations of `loop`."""
    if isinstance(access, TensorCoreMma):
        use = access.uses_accumulator
        return constant_of(use) == 0 or (use.op is None and use.owner is loop.body) or is_computed_in(use, loop)
    return isinstance(access, TmemStore)


def is_computed_in(value: Value, loop: For) -> bool:
    """Whether an op of `loop` computes `value`."""
    return value.op is not None and is_in(value.op, loop)
