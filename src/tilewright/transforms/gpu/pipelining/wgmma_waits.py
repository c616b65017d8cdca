"""Asynchronous matrix products of warp groups in loops.

    %d = ttng.warp_group_dot %a, %b, %c                      %d = ttng.warp_group_dot %a, %b, %c {isAsync = true}
    scf.yield %d                                     ->      %w:3 = ttng.warp_group_dot_wait %d, %a, %b {pendings = 1}
                                                             scf.yield %w#0

A product may still run when the next iteration begins if only that iteration's product accumulates into its result, and
its buffers are not overwritten before that; a wait for all but the products of this iteration keeps the buffers of the
previous one. Every other product is waited for at once. After the loop all are waited for.

Products with their left operand in registers become two, each over half of K.

    %d = ttng.warp_group_dot %a, %b, %c        %a0, %a1 = the halves of %a along its columns, in registers as they are
                                         ->    %b0, %b1 = the halves of %b along its rows, views of the buffer
                                               %d0 = ttng.warp_group_dot %a0, %b0, %c
                                               %d  = ttng.warp_group_dot %a1, %b1, %d0

While the second half runs, the registers of the first may be written again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile

from tilewright.dialects.scf import For, If
from tilewright.dialects.tt_shape import Reshape, Trans
from tilewright.dialects.ttg_memory import LocalDealloc, MemDescIndex, MemDescReshape, MemDescSubslice, MemDescTrans
from tilewright.dialects.ttg_program import ConvertLayout
from tilewright.dialects.ttng_mma import WarpGroupDot, WarpGroupDotWait
from tilewright.ir.attributes import DenseArray, Number
from tilewright.ir.core import Block, Op, Value, buffer_type, tile_type, typed
from tilewright.ir.types import MemDescType, TensorType, f32, i32
from tilewright.layouts.encodings import NvidiaMma
from tilewright.layouts.inference import split
from tilewright.layouts.movement import Movement, movement
from tilewright.transforms.carried_values import add_result
from tilewright.transforms.gpu.pipelining.descriptors import with_result
from tilewright.transforms.gpu.pipelining.product_latencies import root_of
from tilewright.transforms.gpu.pipelining.schedule import body_of
from tilewright.transforms.gpu.tile_ops import TileOps, distributed_of, layout_as
from tilewright.transforms.matching import following, is_after, is_inside, uses_of
from tilewright.transforms.op_builder import OpBuilder

BUFFER_VIEWS = (ConvertLayout, MemDescTrans, MemDescReshape, MemDescSubslice)
"""Ops that may stand between a buffer of a ring and a product."""


def launch_wgmmas(loop: For) -> None:
    """Let the products in the body of `loop` run on as far as they may."""
    running: dict[WarpGroupDot, int] = {}
    for product in [op for op in body_of(loop) if isinstance(op, WarpGroupDot)]:
        product.attributes = {**product.attributes, "isAsync": True}
        carried = _carried_by(product, loop)
        if carried is None:
            _wait_after(product, product.results, 0)
        else:
            running[product] = carried
    if not running:
        return
    if not _full_waits(loop):
        running = {part: carried for product, carried in running.items() for part in split_wgmma(product)}
    _wait_in_loop(loop, list(running))
    buffers = _buffers_around(running, loop)
    _wait_after(loop, [*(loop.results[carried] for carried in running.values()), *buffers], 0)


def _buffers_around(products: Mapping[WarpGroupDot, int], loop: For) -> list[Value]:
    """The buffers from outside of `loop` that `products` read and that are never freed: they live until the wait.

    Other tiles that the loop gives may be stored before the wait, in what would be free memory. Without such tiles
    nothing stands there.
    """
    sums = set(products.values())
    tiles = (result for result in loop.results if isinstance(result.type, TensorType) and result.uses)
    if all(result.index in sums for result in tiles):
        return []
    roots = dict.fromkeys(root_of(value) for product in products for value in (product.a, product.b))
    outside = [root for root in roots if isinstance(root.type, MemDescType) and not is_inside(root, loop)]
    return [root for root in outside if not any(isinstance(user, LocalDealloc) for user in root.uses)]


# --- which may run on ---------------------------------------------------------------------------------------------


def _carried_by(product: WarpGroupDot, loop: For) -> int | None:
    """The number of the loop's value that is the result of `product`, if that may run on; None: it may not."""
    if not _is_kept(product.a, loop) or not _is_kept(product.b, loop) or product.accumulator.type.scalar is not f32:
        return None
    carried = _yielded_as(product, loop)
    if carried is None:
        return None
    argument = loop.carried[carried]
    if all(_only_accumulates(user, argument) for user in argument.uses):
        return carried
    for wait in _full_waits(loop)[:1]:
        if all(is_after(user, wait) for user in argument.uses):
            _thread(wait, [argument])
            return carried
    return None


def _is_kept(operand: Value, loop: For) -> bool:
    """Whether the next iteration leaves the memory of `operand` alone: it is a part of a ring, or from outside."""
    if isinstance(operand.type, TensorType):
        return True
    seen: set[Value] = set()
    while is_inside(operand, loop):
        op = operand.op
        if op is not None:
            if not isinstance(op, BUFFER_VIEWS):
                return isinstance(op, MemDescIndex)
            operand = op.source
        elif operand in seen or operand.index == 0:
            return True  # handed round, from outside
        else:
            seen.add(operand)
            operand = loop.yielded[operand.index - 1]
    return True


def _yielded_as(product: WarpGroupDot, loop: For) -> int | None:
    """The index of the yielded value that is the result of `product`; None if something else in the loop needs it."""
    body, found = loop.body, None
    waiting = list(uses_of(product.result))
    while waiting:
        user, index = waiting.pop()
        if user.block is body:
            if _is_free(user):
                waiting += uses_of(user.result)
            elif user.definition.terminator and found is None:
                found = index
            else:
                return None
            continue
        branch = user.parent
        if not isinstance(branch, If):
            return None
        if user.definition.terminator:
            waiting += uses_of(branch.results[index])
    return found


def _is_free(op: Op) -> bool:
    """Whether `op` only names registers again."""
    if isinstance(op, (Reshape, Trans)):
        return True
    if not isinstance(op, ConvertLayout):
        return False
    source, result = distributed_of(op.source), distributed_of(op.result)
    return movement(source, result, tile_type(op.result).shape) is Movement.NOTHING


def _only_accumulates(user: Op, value: Value) -> bool:
    """Whether `user` is a product that adds to `value`, or leads to such products only."""
    if isinstance(user, WarpGroupDot):
        return all(operand is not value for index, operand in enumerate(user.operands) if index != 2)
    return _is_free(user) and all(_only_accumulates(other, user.result) for other in user.result.uses)


# --- waits --------------------------------------------------------------------------------------------------------


def _full_waits(loop: For) -> list[WarpGroupDotWait]:
    """The waits of the body of `loop` that wait for everything."""
    return [op for op in body_of(loop) if isinstance(op, WarpGroupDotWait) and op.pendings == 0]


def _wait_after(op: Op, values: Sequence[Value], pendings: int) -> None:
    """Wait behind `op` until at most `pendings` products run; the users of `values` get what the wait gives."""
    wait_for(OpBuilder.after(op), values, pendings)


def wait_for(writer: OpBuilder, values: Sequence[Value], pendings: int) -> WarpGroupDotWait:
    """Wait until at most `pendings` products run; the users behind the wait of `values` get what it gives, in order."""
    wait = typed(writer.op("ttng.warp_group_dot_wait", (), (), {"pendings": Number(pendings, i32)}), WarpGroupDotWait)
    _thread(wait, values)
    return wait


def _thread(wait: WarpGroupDotWait, values: Sequence[Value]) -> None:
    """Let the users of `values` behind `wait` use what it gives, and keep the buffers that it waits for alive."""
    products: dict[WarpGroupDot, None] = {}
    for value in values:
        _collect_products(value.op, wait.block, products, set())
    buffers = [value for product in products for value in product.operands if isinstance(value.type, MemDescType)]
    new = [value for value in dict.fromkeys((*values, *buffers)) if value not in wait.operands]
    users = {value: [user for user in value.uses if is_after(user, wait)] for value in new}
    wait.set_operands([*wait.operands, *new])
    for value in new:
        result = add_result(wait, value.type)
        if not isinstance(value.type, MemDescType):
            for user in users[value]:
                user.set_operands([result if operand is value else operand for operand in user.operands])


def _collect_products(op: Op | None, block: Block | None, found: dict[WarpGroupDot, None], seen: set[Op]) -> None:
    """The products in `block` that `op` depends on."""
    if op is None or op in seen:
        return
    seen.add(op)
    if isinstance(op, WarpGroupDot):
        found[op] = None
    elif op.block is block:
        arms = (value for arm in (op.arms if isinstance(op, If) else ()) for value in arm.block.terminator.operands)
        for value in (*op.operands, *(value for value in arms if value.op is not None and value.op.block is block)):
            _collect_products(value.op, block, found, seen)


def _wait_in_loop(loop: For, running: Sequence[WarpGroupDot]) -> None:
    """Wait for the products of this iteration before what uses them in it, and for those of the previous iteration."""
    waits_for_all = bool(_full_waits(loop))
    for product in running:
        _wait_in_front_of_users(product)
    if waits_for_all:
        return  # never more than the products behind that wait run
    for product in running:
        if _overwrites_registers(product, loop):
            _wait_after(product, product.results, len(running) - 1)
    if not _overwrites_registers(running[-1], loop):
        _wait_after(running[-1], [_named_at(running[-1], product.result) for product in running], len(running))


def _named_at(end: Op, value: Value) -> Value:
    """The value before `end` that has the registers of `value`, the result of a product in the same block."""
    assert value.op is not None, "a product has a result"
    for op in takewhile(lambda op: op is not end, following(value.op)) if value.op is not end else ():
        if isinstance(op, If):
            named = iter(_results_of(op, [value] * len(op.arms)))
        else:
            named = (op.results[0] for source in op.operands if source is value and _is_free(op))
        value = next(named, value)
    return value


def _wait_in_front_of_users(product: WarpGroupDot) -> None:
    """Wait in every branch before the first op that uses the result other than by adding to it."""
    assert product.block is not None, "the product is in a loop"
    _wait_in_block(product.result, product.block)


def _wait_in_block(value: Value, block: Block) -> Value:
    """Wait in `block` for what `value` is the sum of; returns what it is at the end of the block."""
    for op in block:
        if isinstance(op, If) and _names_after(op, value) <= 1:
            value = _wait_in_arms(value, op)
        elif isinstance(op, If) or (not op.definition.terminator and any(_needs_end(i, value) for i in op.walk())):
            return wait_for(OpBuilder(op), [value], 0).results[0]
    return value


def _names_after(branch: If, value: Value) -> int:
    """The number of values behind `branch` that may be `value`: each has registers, which running products forbid."""
    is_used = any(is_after(user, branch) for user in value.uses)
    return len(_results_of(branch, [value] * len(branch.arms))) + is_used


def _results_of(branch: If, ends: Sequence[Value]) -> list[Value]:
    """The results of `branch` for which one of the arms gives its value of `ends`."""
    found = []
    for arm, end in zip(branch.arms, ends, strict=True):
        pairs = zip(branch.results, arm.block.terminator.operands, strict=True)
        found += [result for result, given in pairs if given is end]
    return list(dict.fromkeys(found))


def _needs_end(op: Op, value: Value) -> bool:
    accumulated = (2,) if isinstance(op, WarpGroupDot) else ()
    return any(operand is value and number not in accumulated for number, operand in enumerate(op.operands))


def _wait_in_arms(value: Value, branch: If) -> Value:
    """Wait in the arms of `branch`; behind it there is one value: registers of running products are not copied."""
    first, *others = [arm.block for arm in branch.arms]
    ends = [_wait_in_block(value, block) for block in (first, *others)]
    if results := _results_of(branch, ends):
        return results[0]
    if all(end is value for end in ends):
        return value
    users = [user for user in value.uses if is_after(user, branch)]
    found = with_result(branch, first, ends[0], ends[1] if others else value)
    for user in users:
        user.set_operands([found if operand is value else operand for operand in user.operands])
    return found


def _overwrites_registers(product: WarpGroupDot, loop: For) -> bool:
    """Whether the next iteration writes the registers of the left operand: it must not while the product runs."""
    left = product.a
    if not isinstance(left.type, TensorType) or not is_inside(left, loop):
        return False
    if isinstance(left.op, ConvertLayout):
        return not isinstance(distributed_of(left.op.source), NvidiaMma)
    return True


PARTS = 2
EXACT = 1 << 30
"""The number of imprecise additions that stands for all of them."""


def split_wgmma(product: WarpGroupDot) -> list[WarpGroupDot]:
    """The products that `product` was divided into; itself where there is nothing to divide."""
    left, right, accumulator = product.a, product.b, product.accumulator
    layout = layout_as(product.result, NvidiaMma)
    if not isinstance(left.type, TensorType) or left.type.shape[-1] <= layout.instr_shape[2]:
        return [product]
    ops, size = TileOps(product), left.type.shape[-1] // PARTS
    budget, flag = product.max_imprecise_sums, product.uses_accumulator
    flags, parts = [] if flag is None else [flag], []
    for columns, rows in zip(_halves(ops, left), _rows(ops, right, size), strict=True):
        taken = min(budget, size)
        budget -= taken
        count = Number(EXACT if taken == size else taken, i32)
        attributes = {**product.attributes, "maxNumImpreciseAcc": count}
        operands = (columns, rows, accumulator, *flags)
        part = ops.op(product.name, operands, [product.result.type], attributes)
        parts.append(typed(part, WarpGroupDot))
        accumulator, flags = parts[-1].result, []
    product.replace([accumulator])
    return parts


def _halves(ops: TileOps, tile: Value) -> tuple[Value, Value]:
    """The left and the right half of `tile`, with its layout."""
    type = tile_type(tile)
    *rows, columns = type.shape
    rank = len(type.shape)
    apart = ops.reshaped(tile, (*rows, PARTS, columns // PARTS))
    pairs = ops.transposed(apart, (*range(rank - 1), rank, rank - 1))
    shape = tile_type(pairs).shape
    half = TensorType(shape[:-1], type.element, split(distributed_of(pairs), shape).text)
    results = ops.op("tt.split", (pairs,), (half, half)).results
    first, second = (ops.converted(result, distributed_of(tile)) for result in results)
    return first, second


def _rows(ops: TileOps, buffer: Value, size: int) -> list[Value]:
    """Parts of `buffer` with `size` rows each."""
    type = buffer_type(buffer)
    *outer, _, columns = type.shape
    part = MemDescType((*outer, size, columns), type.element, type.encoding, type.space, False, type.alloc_shape)
    starts = [(*(0 for _ in outer), index * size, 0) for index in range(PARTS)]
    return [ops.emit("ttg.memdesc_subslice", (buffer,), part, {"offsets": DenseArray(i32, start)}) for start in starts]
