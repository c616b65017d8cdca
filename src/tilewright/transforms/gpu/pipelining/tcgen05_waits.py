"""Products in tensor memory run on while the loop goes ahead.

    scf.for … {                                         scf.for … iter_args(%i = 0, %p = 0) {
      ttng.tc_gen5_mma %a, %b, %d, …                      %j = %i ^ 1
      copies for later steps                    ->        ttng.tc_gen5_mma %a, %b, %d, …, %done[%i] {is_async}
    }                                                     ttng.wait_barrier %done[%j], %p ^ %j
                                                          copies for later steps
                                                          yield %j, %p ^ %i
                                                        }
                                                        ttng.wait_barrier for the last step

Two barriers take turns. A step waits for the products of the step before when its own are under way, and then copies to
the places that those have read; rings of such operands have one place more. The first step waits for the barrier that
nobody has told anything, which is in the phase after phase 1.

All products of a loop run on or none: each adds to, or begins, a sum that nobody else accesses in the loop, and its
operands are copied to rings behind it, or do not change in the loop. CTAs that share tiles wait for each product,
and so do loops for whose further places shared memory has no room.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tilewright.analysis.buffer_aliases import is_in_shared_memory, users_through_views
from tilewright.analysis.shared_memory import buffer_bytes
from tilewright.dialects.scf import For
from tilewright.dialects.ttg_memory import LocalAlloc, MemDescView
from tilewright.dialects.ttng_mma import TensorCoreMma, TensorCoreMmaScaled
from tilewright.dialects.ttng_tensor_memory import TmemAlloc
from tilewright.ir.attributes import UNIT, Number
from tilewright.ir.core import Op, Value, buffer_type
from tilewright.ir.operands import set_operand_groups
from tilewright.ir.types import i1, i32
from tilewright.layouts.encodings import encoding
from tilewright.transforms.carried_values import add_carried
from tilewright.transforms.gpu.pipelining.schedule import Schedule, Writer, body_of
from tilewright.transforms.gpu.tile_ops import workers_of
from tilewright.transforms.gpu.tma_lowering import barriers_type
from tilewright.transforms.matching import constant_of, is_in

RUNS_ON = "tt.self_latency"
"""The attribute of a product that runs on into the next step, until its loop is written anew."""
SHARED_MEMORY = 232448
"""The shared memory that a program may have on devices with tensor memory, in bytes."""
BARRIERS = 256
"""The shared memory that is left for barriers, in bytes."""


def mark_running(loop: For, schedule: Schedule, loads: Mapping[Op, int], room: int) -> None:
    """Mark the products of `loop` if they may run on.

    Args:
        loop: the loop.
        schedule: its schedule.
        loads: the loads that become copies to rings, and the sizes of their places.
        room: the bytes of shared memory that rings without further places leave.
    """
    products = [op for op in loop.walk() if isinstance(op, TensorCoreMma)]
    allocs = {_alloc_of(value) for op in products for value in (op.a, op.b)}
    outside = sum(_bytes(alloc) for alloc in allocs if alloc is not None and not is_in(alloc, loop))
    if workers_of(loop).ctas > 1 or 0 <= room - outside < sum(loads.values()) + BARRIERS:
        return
    may_run_on = all(_may_run_on(op, loop, schedule, loads) for op in products)
    # One wait is for all products: no copy may stand between them.
    if may_run_on and len({schedule.slots[op].cluster for op in products}) == 1:
        for op in products:
            op.attributes = {**op.attributes, RUNS_ON: Number(1, i32)}


def _bytes(alloc: LocalAlloc) -> int:
    type = buffer_type(alloc.result)
    return buffer_bytes(type, encoding(type.encoding))


def runs_on(op: Op) -> bool:
    """Whether `op` is a product that was marked."""
    return RUNS_ON in op.attributes


def _may_run_on(product: TensorCoreMma, loop: For, schedule: Schedule, loads: Collection[Op]) -> bool:
    is_plain = not isinstance(product, TensorCoreMmaScaled) and not product.is_async and not product.barriers
    if product.block is not loop.body or not is_plain or constant_of(product.predicate) != 1:
        return False
    if schedule.slots[product].stage != schedule.stages - 1:
        return False
    sum = product.accumulator.op
    if not isinstance(sum, TmemAlloc) or is_in(sum, loop):
        return False
    if not all(_adds(user, sum.results[0]) for user in users_through_views(sum.results[0]) if is_in(user, loop)):
        return False
    return all(_stays(value, product, loop, schedule, loads) for value in (product.a, product.b))


def _adds(user: Op, sum: Value) -> bool:
    """Whether `user` is a product that uses the memory of `sum` for its own sum only."""
    return isinstance(user, TensorCoreMma) and user.accumulator is sum and sum not in (user.a, user.b)


def _stays(operand: Value, product: Op, loop: For, schedule: Schedule, loads: Collection[Op]) -> bool:
    """Whether `operand` is still there in the next step until that has waited for `product`."""
    if not is_in_shared_memory(operand):
        return False
    alloc = _alloc_of(operand)
    if alloc is None:
        return False
    if not is_in(alloc, loop):
        return all(isinstance(user, TensorCoreMma) for user in users_through_views(alloc.result) if is_in(user, loop))
    load = alloc.source.op if alloc.source is not None else None
    return (
        load is not None
        and load in loads
        and schedule.is_before(schedule.slots[product].cluster, schedule.slots[load].cluster)
    )


def _alloc_of(operand: Value) -> LocalAlloc | None:
    """The op that allocates the memory of `operand`, if it is known."""
    while isinstance(view := operand.op, MemDescView):
        operand = view.source
    return operand.op if isinstance(operand.op, LocalAlloc) else None


def launch_products(loop: For) -> None:
    """Let the marked products in the body of `loop` run on, and wait for those of the step before behind them."""
    products = [op for op in body_of(loop) if isinstance(op, TensorCoreMma) and runs_on(op)]
    for op in products:
        kept = {name: value for name, value in op.attributes.items() if name != RUNS_ON}
        op.attributes = {**kept, "is_async": UNIT}
    if products:
        _wait_in_next_step(loop, products)


def _wait_in_next_step(loop: For, products: list[TensorCoreMma]) -> None:
    last, end = products[-1], loop.body.terminator
    done, zero = allocate_barriers(loop, 2), Writer(loop).constant(0, i32)
    number, parity = add_carried(loop, zero), add_carried(loop, zero)
    at = Writer(last)
    set_operand_groups(last, {"barriers": [at.view(done, number)], "barrier_preds": [at.constant(1, i1)]})
    other = at.compute("arith.xori", number, at.constant(1, i32))
    end.set_operands([*end.operands, other, at.compute("arith.xori", parity, number)])
    _wait(Writer.behind(last), done, other, parity, ())
    behind = Writer.behind(loop)
    last_number = behind.compute("arith.xori", loop.results[-2], behind.constant(1, i32))
    operands = dict.fromkeys(value for product in products for value in (product.a, product.b))
    outside = [value for value in operands if value.op is not None and not is_in(value.op, loop)]
    _wait(behind, done, last_number, loop.results[-1], outside)


def allocate_barriers(loop: For, count: int, arrivals: int = 1) -> Value:
    """Barriers that are ready in front of `loop` and given up behind it; each counts so many arrivals in a phase."""
    front, behind = Writer(loop), Writer.behind(loop)
    barriers = front.emit("ttg.local_alloc", (), barriers_type(loop, count))
    for number in range(count):
        barrier = front.view(barriers, front.constant(number, i32))
        front.op("ttng.init_barrier", (barrier,), (), {"count": Number(arrivals, i32)})
    for number in range(count):
        behind.op("ttng.inval_barrier", (behind.view(barriers, behind.constant(number, i32)),))
    behind.op("ttg.local_dealloc", (barriers,))
    return barriers


def _wait(at: Writer, barriers: Value, number: Value, parity: Value, buffers: Collection[Value]) -> None:
    """Wait for the step that used barrier `number`; `parity` is that of the round of the step behind it."""
    phase = at.compute("arith.xori", parity, number)
    at.op("ttng.wait_barrier", [at.view(barriers, number), phase, [], list(buffers)])
