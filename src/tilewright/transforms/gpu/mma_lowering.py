"""The final form of products in tensor memory: with completion barriers, and with scales in tensor memory.

    ttng.tc_gen5_mma %a, %b, %d, %use, %p

        %r = ttg.local_alloc : () -> !ttg.memdesc<1xi64, …, mutable>
        ttng.init_barrier %r, 1
        ttng.tc_gen5_mma %a, %b, %d, %use, %p, %r[%true] {is_async}
        ttng.wait_barrier %r, %c0_i32, %p
        ttng.inval_barrier %r

    ttng.tc_gen5_mma %a, %b, %d, %use, %true {is_async}
    ttng.tc_gen5_commit %r, %q                            ->     … %true, %r[%q] {is_async}

Scales in shared memory are copied to tensor memory before the product.

`hoist_barriers` then moves the allocation and the invalidation of barriers out of loops; their phase alternates.

    for … {                                             %r = ttg.local_alloc
      %r = ttg.local_alloc                              ttng.init_barrier %r, 1
      ttng.init_barrier %r, 1                           for … iter_args(%p = %c0) {
      … %r[%true] …                              ->       … %r[%true] …
      ttng.wait_barrier %r, %c0                           ttng.wait_barrier %r, %p
      ttng.inval_barrier %r                               yield %p ^ 1
    }                                                   }
                                                        ttng.inval_barrier %r

All threads of a CTA must synchronise at the initialisation and at the invalidation, which now happens once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tilewright.dialects.scf import For
from tilewright.dialects.ttg_attributes import TENSOR_MEMORY
from tilewright.dialects.ttg_memory import LocalAlloc
from tilewright.dialects.ttng_barriers import InitBarrier, InvalBarrier, WaitBarrier
from tilewright.dialects.ttng_mma import TensorCoreCommit, TensorCoreMma, TensorCoreMmaScaled
from tilewright.ir.attributes import UNIT, Number
from tilewright.ir.core import Block, Op, Region, Value, buffer_type
from tilewright.ir.effects import is_pure
from tilewright.ir.operands import set_operand_groups
from tilewright.ir.types import MemDescType, i1, i32
from tilewright.layouts.encodings import TensorMemoryScales, encoding
from tilewright.layouts.queries import cga_layout
from tilewright.transforms.carried_values import add_carried
from tilewright.transforms.gpu.tile_ops import TileOps
from tilewright.transforms.gpu.tma_lowering import barriers_type
from tilewright.transforms.matching import constant_of, following


def mma_lowering(module: Op) -> bool:
    """Bring the products of `module` in tensor memory into their final form."""
    products = [op for op in module.walk() if isinstance(op, TensorCoreMma)]
    for op in products:
        if not op.is_async:
            _wait_for(op)
        if isinstance(op, TensorCoreMmaScaled):
            _copy_scales(op)
        _merge_commits(op)
    return bool(products)


def _add_barrier(product: TensorCoreMma, barrier: Value, predicate: Value) -> None:
    """`product` signals `barrier` when it is done, if `predicate` holds."""
    barriers, predicates = [*product.barriers, barrier], [*product.barrier_predicates, predicate]
    set_operand_groups(product, {"barriers": barriers, "barrier_preds": predicates})


# Products that are waited for


def _wait_for(product: TensorCoreMma) -> None:
    """The program goes on when the product is done."""
    ops = TileOps(product)
    barrier = ops.emit("ttg.local_alloc", (), barriers_type(product))
    ops.op("ttng.init_barrier", (barrier,), (), {"count": Number(1, i32)})
    _add_barrier(product, barrier, ops.literal(1, i1))
    product.attributes = {**product.attributes, "is_async": UNIT}
    after = TileOps.after(product)
    # There are no further buffers that must live so long.
    after.op("ttng.wait_barrier", [barrier, ops.literal(0, i32), [product.predicate], []])
    after.op("ttng.inval_barrier", (barrier,))


# Scales


def _copy_scales(product: TensorCoreMmaScaled) -> None:
    """Tensor memory gets scales that are in shared memory."""
    ops = TileOps(product)
    for axis in (0, 1):  # both may be one value
        scale = product.b_scale if axis else product.a_scale
        type = buffer_type(scale)
        if type.space == TENSOR_MEMORY or type.shape != type.alloc_shape:
            continue
        rows = (product.accumulator.type.shape or ())[axis]
        layout = TensorMemoryScales(cga_layout(encoding(type.encoding)))
        wanted = MemDescType((rows, type.numel // rows), type.element, layout.text, TENSOR_MEMORY, True)
        memory = ops.emit("ttng.tmem_alloc", (), wanted)
        _copy(ops, scale, memory, product.predicate)
        product.set_operands([memory if value is scale else value for value in product.operands])


def _copy(ops: TileOps, scale: Value, memory: Value, predicate: Value) -> None:
    """Copy a scale for a product if there is one: otherwise there would be no wait for the copy."""
    if constant_of(predicate) == 1:
        ops.op("ttng.tmem_copy", (scale, memory), ())
        return
    body = Block()
    ops.op("scf.if", (predicate,), (), None, [Region([body]), Region()])
    end = body.append(Op.create("scf.yield"))
    TileOps(end).op("ttng.tmem_copy", (scale, memory), ())


# Commits


def _merge_commits(product: TensorCoreMma) -> None:
    """Barriers that are signalled right behind the product are signalled by it."""
    for commit in list(_commits_after(product)):
        barrier, predicate = commit.barrier, commit.predicate
        needed = [barrier] if predicate is None else [barrier, predicate]
        late = _computed_after(product, needed)
        if late is None:
            return
        at = TileOps(product)
        for op in late:
            op.unlink()
            at.insert(op)
        _add_barrier(product, barrier, at.literal(1, i1) if predicate is None else predicate)
        commit.erase()


def _commits_after(product: TensorCoreMma) -> Iterator[TensorCoreCommit]:
    """Commits for this product: nothing but pure ops is between it and them."""
    mine = product.predicate
    always = bool(constant_of(mine))
    buffers = _read_buffers(product) if product.multicast else []
    for op in following(product):
        if isinstance(op, TensorCoreCommit):
            if (not always and op.predicate is not mine) or op.buffers != buffers:
                return
            yield op
        elif not is_pure(op):
            return


def _read_buffers(product: TensorCoreMma) -> list[Value]:
    """The buffers in shared memory that `product` reads."""
    values = [product.a, product.b]
    if isinstance(product, TensorCoreMmaScaled):
        values += [product.a_scale, product.b_scale]
    return [value for value in values if isinstance(value.type, MemDescType) and value.type.space != TENSOR_MEMORY]


def _computed_after(product: Op, values: list[Value]) -> list[Op] | None:
    """The ops behind `product` that compute `values`, in order; None if one of them cannot stand before it."""
    after = list(following(product))
    found: set[Op] = set()
    waiting = list(values)
    while waiting:
        maker = waiting.pop().op
        if maker is None or maker not in after or maker in found:
            continue
        if not is_pure(maker):
            return None
        found.add(maker)
        waiting += maker.operands
    return [op for op in after if op in found]


def hoist_barriers(module: Op) -> bool:
    """Hoist the initialisation and invalidation of mbarriers out of the loops of `module`."""
    loops = [op for op in module.walk() if isinstance(op, For)]
    found = [life for loop in loops for op in loop.body if (life := _life_of(loop, op))]
    for life in found:
        _hoist(life)
    return bool(found)


class _Life(NamedTuple):
    """A barrier that lives in one iteration of a loop, and completes one phase there."""

    loop: For
    alloc: LocalAlloc
    init: InitBarrier
    wait: WaitBarrier
    remove: InvalBarrier


def _life_of(loop: For, alloc: Op) -> _Life | None:
    if not isinstance(alloc, LocalAlloc) or alloc.source is not None:
        return None
    users = list(alloc.result.uses)
    inits = [user for user in users if isinstance(user, InitBarrier)]
    waits = [user for user in users if isinstance(user, WaitBarrier)]
    removals = [user for user in users if isinstance(user, InvalBarrier)]
    if any(user.block is not alloc.block for user in users) or not len(inits) == len(waits) == len(removals) == 1:
        return None
    (init,), (wait,), (remove,) = inits, waits, removals
    waits_always = wait.predicate is None or constant_of(wait.predicate) == 1
    first_phase = constant_of(wait.phase) == 0
    return _Life(loop, alloc, init, wait, remove) if waits_always and first_phase else None


def _hoist(life: _Life) -> None:
    loop, alloc, init, wait, remove = life
    block, before = loop.body, TileOps(loop)
    barrier = before.emit("ttg.local_alloc", (), alloc.result.type, alloc.attributes)
    before.op("ttng.init_barrier", (barrier,), (), init.attributes)
    alloc.result.replace_by(barrier)
    wait.phase = phase = add_carried(loop, before.literal(0, i32))
    at_end = TileOps(block.terminator)
    other = at_end.compute("arith.xori", phase, at_end.literal(1, i32))
    block.terminator.set_operands([*block.terminator.operands, other])
    TileOps.after(loop).op("ttng.inval_barrier", (barrier,), (), remove.attributes)
    for op in (remove, init, alloc):
        op.erase()
