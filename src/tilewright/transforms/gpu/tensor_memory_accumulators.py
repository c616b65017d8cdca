"""Accumulators carried by a loop stay in tensor memory across iterations.

    for … iter_args(%c = %start)                        %m, %t = ttng.tmem_alloc %start
      %m, %t = ttng.tmem_alloc %c                       for … iter_args(%s = %t)
      %u = ttng.tc_gen5_mma %a, %b, %m[%t]       ->       %u = ttng.tc_gen5_mma %a, %b, %m[%s]
      %d = ttng.tmem_load %m[%u]                          yield %u
      yield %d                                          %d = ttng.tmem_load %m[…]

Otherwise each iteration would write the accumulator and read it again. Iterations that modify the accumulator before
they add to it, as those of attention do, load it at their beginning instead of their end: it then occupies no registers
in between, the product may be asynchronous, and a warp group of its own can modify it
(`warp_specialization/correction.py`).

    for … iter_args(%c = %start)                        %m, %t = ttng.tmem_alloc %start
      %x = f(%c)                                        for … iter_args(%s = %t)
      %m, %t = ttng.tmem_alloc %x                         %c, %v = ttng.tmem_load %m[%s]
      %u = ttng.tc_gen5_mma %a, %b, %m[%t]       ->       %w = ttng.tmem_store f(%c), %m[%v]
      %d = ttng.tmem_load %m[%u]                          %u = ttng.tc_gen5_mma %a, %b, %m[%w]
      yield %d                                            yield %u

Iterations that modify the accumulator after their product store it back at their end.

    for … iter_args(%c = %start)                        %m, %t = ttng.tmem_alloc %start
      %m, %t = ttng.tmem_alloc %c                       for … iter_args(%s = %t)
      %u = ttng.tc_gen5_mma %a, %b, %m[%t]       ->       %u = ttng.tc_gen5_mma %a, %b, %m[%s]
      %d, %v = ttng.tmem_load %m[%u]                      %d, %v = ttng.tmem_load %m[%u]
      yield f(%d)                                         %w = ttng.tmem_store f(%d), %m[%v]
                                                          yield %w

Branches that use the accumulator load it themselves. A first product that overwrites the memory needs no contents
before (`optimize_accumulator_init`).

    for … iter_args(%c = %zeros, %adds = %false)          %m, %t = ttng.tmem_alloc
      %m, %t = ttng.tmem_alloc %c                         for … iter_args(%adds = %false, %s = %t)
      %u = ttng.tc_gen5_mma %a, %b, %m[%t], %adds           %u = ttng.tc_gen5_mma %a, %b, %m[%s], %adds
      %d = ttng.tmem_load %m[%u]                    ->       scf.if %last {
      scf.if %last { use(%d) }                                %d = ttng.tmem_load %m[%u]; use(%d)
      yield %d, not %last                                   }
                                                            yield not %last, %u

A buffer that a loop carries unchanged becomes the one from before the loop.

The tokens that order accesses to tensor memory are removed once every op has its final position: from then on the order
of the ops is the order of accesses.

    %m, %t = ttng.tmem_alloc : …                              %m = ttng.tmem_alloc : …
    %u = ttng.tc_gen5_mma %a, %b, %m[%t], %true, %p     ->    ttng.tc_gen5_mma %a, %b, %m, %true, %p
    %x, %v = ttng.tmem_load %m[%u] : …                        %x = ttng.tmem_load %m : …

Loops still carry the same token from before them, until canonicalization removes it.
"""

from __future__ import annotations

from typing import NamedTuple

from tilewright.analysis.live_ranges import ancestor_in
from tilewright.dialects.arith import Select
from tilewright.dialects.assembly import RESULT_SEGMENTS
from tilewright.dialects.builtin import Poison
from tilewright.dialects.scf import For, If
from tilewright.dialects.tt_function import Func
from tilewright.dialects.ttng_mma import TensorCoreMma
from tilewright.dialects.ttng_tensor_memory import TmemAlloc, TmemLoad, TmemStore
from tilewright.ir.attributes import DenseArray
from tilewright.ir.core import Block, Op, Value, defining
from tilewright.ir.operands import SEGMENTS, operand_groups
from tilewright.ir.types import MemDescType, async_token, i1, i32
from tilewright.transforms.carried_values import add_carried, drop_carried, drop_unused_results, use_unchanged
from tilewright.transforms.functions import functions_of
from tilewright.transforms.gpu.pipelining.schedule import WARP_SPECIALIZE
from tilewright.transforms.gpu.tile_ops import TileOps
from tilewright.transforms.matching import constant_of, has_one_use, is_after, is_inside
from tilewright.transforms.op_builder import OpBuilder


def hoist_tensor_memory(module: Op) -> bool:
    """Hoist the tensor memory of accumulators out of the loops of `module` that carry them."""
    loops = [op for op in module.walk() if isinstance(op, For)]
    unchanged = [use_unchanged(loop, MemDescType) for loop in loops]
    unused = [drop_unused_results(op) for op in module.walk() if isinstance(op, If)]
    found = False
    for loop in loops:
        for argument in list(loop.carried):
            accumulator = _accumulator_of(loop, argument)
            if accumulator is not None:
                _hoist(accumulator)
                found = True
    return found or any(unchanged) or any(unused)


def is_divided(op: Op) -> bool:
    """Whether the program asks for `op`, a loop, or one around it to be divided among warp groups."""
    around: Op | None = op
    while around is not None and WARP_SPECIALIZE not in around.attributes:
        around = around.parent
    return around is not None


class _Accumulator(NamedTuple):
    """An accumulator that `loop` carries as `argument`: each iteration puts it, or what becomes of it, into memory.

    `load` gives what the next iteration gets, or what it is computed from.
    """

    loop: For
    argument: Value
    alloc: TmemAlloc
    load: TmemLoad


def _accumulator_of(loop: For, argument: Value) -> _Accumulator | None:
    """The accumulator that `argument` is, if only products of the loop's body add to it."""
    result = loop.yielded[argument.index - 1]
    load = defining(result, TmemLoad)
    alloc = defining(load.buffer, TmemAlloc) if load is not None else _filled_with(argument)
    if alloc is None or alloc.block is not loop.body or not _is_started(alloc, argument):
        return None
    load = load or _last_load(alloc)
    if load is None or load.token is None or len(alloc.results) != 2 or len(load.results) != 2:
        return None
    changed = load.results[0] is not result
    others = [user for user in alloc.results[0].uses if user is not load]
    adds = all(
        isinstance(user, TensorCoreMma) and user.block is loop.body and not is_after(user, load) for user in others
    )
    is_whole = load.block is loop.body and not list(load.results[1].uses)
    # A branch that changes the sum may hand it on as it is, too.
    is_new = is_inside(result, loop) and not isinstance(result.op, If)
    is_handed_on = result.uses[loop.body.terminator] == 1 and _readers(load) is not None
    is_free = alloc.source is argument and is_new if changed else is_handed_on
    return _Accumulator(loop, argument, alloc, load) if adds and is_whole and is_free else None


def _readers(load: TmemLoad) -> dict[Block, list[Op]] | None:
    """The users of what `load` gives, by arm of a branch behind it; None if others but the next iteration use it."""
    found: dict[Block, list[Op]] = {}
    assert load.block is not None, "the load stands in a loop"
    for user in load.results[0].uses:
        around, block = user, user.block
        while around.block is not load.block and isinstance(around.parent, If):
            around = around.parent
        if around.block is not load.block or (around is user and user is not load.block.terminator):
            return None
        if around is not user and block is not None:
            found.setdefault(block, []).append(user)
    return found


def _filled_with(argument: Value) -> TmemAlloc | None:
    """The tensor memory that is filled with `argument` alone, which nothing else uses."""
    user = next(iter(argument.uses), None)
    return user if isinstance(user, TmemAlloc) and has_one_use(argument) else None


def _last_load(alloc: TmemAlloc) -> TmemLoad | None:
    """The one load from the memory of `alloc`, if it stands behind all products that add to it."""
    loads = [user for user in alloc.results[0].uses if isinstance(user, TmemLoad)]
    products = [user for user in alloc.results[0].uses if isinstance(user, TensorCoreMma)]
    is_last = len(loads) == 1 and all(user.block is loads[0].block for user in products)
    return loads[0] if is_last and all(is_after(loads[0], user) for user in products) else None


def _is_started(alloc: TmemAlloc, argument: Value) -> bool:
    """Whether `alloc` starts with `argument`, or with what becomes of it."""
    if alloc.source is argument:
        return has_one_use(argument)
    return alloc.source is not None and bool(argument.uses)


def _hoist(accumulator: _Accumulator) -> None:
    loop, argument, alloc, load = accumulator
    block, number = loop.body, argument.index - 1
    types = [result.type for result in alloc.results]
    at = TileOps(loop)
    memory, token = at.op("ttng.tmem_alloc", (), types, alloc.attributes).results
    if not _begins_anew(accumulator):
        begun = at.op("ttng.tmem_store", (memory, [token], loop.inits[number], at.constant(1, i1)), [async_token])
        token = begun.results[0]
    carried = add_carried(loop, token)
    if alloc.source is not argument:
        carried = _change(accumulator, memory, carried)
    alloc.replace([memory, carried])
    assert load.token is not None, "the load waits for a product"
    end, last = block.terminator, load.token
    changed = end.operands[number] is not load.results[0]
    if changed:
        back = TileOps(end)
        operands = (memory, [load.results[1]], end.operands[number], back.constant(1, i1))
        last = back.op("ttng.tmem_store", operands, [async_token]).results[0]
    end.set_operands([*end.operands, last])
    after = TileOps.after(loop).op(
        "ttng.tmem_load", (memory, loop.results[-1]), [result.type for result in load.results], load.attributes
    )
    loop.results[number].replace_by(after.results[0])
    drop_carried(loop, [number])
    if not changed:
        _load_in_arms(load)


def _begins_anew(accumulator: _Accumulator) -> bool:
    """Whether the first product overwrites the sum, and nobody sees what there is if the loop has no iteration."""
    loop, argument, alloc, _ = accumulator
    first = next(op for op in loop.body if op in alloc.results[0].uses)
    if alloc.source is not argument or not isinstance(first, TensorCoreMma):
        return False
    flag, result = first.uses_accumulator, loop.results[argument.index - 1]
    if flag.owner is not loop.body or flag.index == 0 or constant_of(loop.inits[flag.index - 1]) != 0:
        return False
    is_told = loop.results[flag.index - 1]
    return all(isinstance(user, Select) and user.condition is is_told and user.chosen is result for user in result.uses)


def _load_in_arms(load: TmemLoad) -> None:
    """Load the sum only in the arms of branches that use it."""
    for arm, users in (_readers(load) or {}).items():
        assert arm.first is not None, "an arm has a terminator"
        sum = OpBuilder(arm.first).insert(load.clone({})).results[0]
        for user in users:
            user.set_operands([sum if operand is load.results[0] else operand for operand in user.operands])
    load.erase()


def _change(accumulator: _Accumulator, memory: Value, token: Value) -> Value:
    """Take the sum out of `memory` for those who use it, and put back what it becomes; returns the token of that."""
    loop, argument, alloc, load = accumulator
    users = {ancestor_in(user, loop.body) for user in argument.uses} | {alloc}
    first = next(op for op in loop.body if op in users)
    types = [result.type for result in load.results]
    taken = TileOps(first).op("ttng.tmem_load", (memory, token), types, load.attributes)
    argument.replace_by(taken.results[0])
    assert alloc.source is not None, "the memory starts with what becomes of the sum"
    at = TileOps(alloc)
    operands = (memory, [taken.results[1]], alloc.source, at.constant(1, i1))
    return at.op("ttng.tmem_store", operands, [async_token], alloc.attributes).results[0]


ACCESSES = (TmemAlloc, TmemLoad, TmemStore, TensorCoreMma)


def remove_tensor_memory_tokens(module: Op) -> bool:
    """Remove the tokens of accesses to tensor memory in `module`; returns whether there were any."""
    found = False
    for function in functions_of(module):
        for op in [op for op in function.walk() if isinstance(op, ACCESSES)]:
            found |= _without_token_operands(op)
            found |= _without_token_results(op, function)
    return found


def _without_token_operands(op: Op) -> bool:
    if not any(value.type is async_token for value in op.operands):
        return False
    groups = {
        name: [value for value in values if value.type is not async_token]
        for name, values in operand_groups(op).items()
    }
    op.set_operands([value for values in groups.values() for value in values])
    if SEGMENTS in op.attributes:
        op.attributes = {**op.attributes, SEGMENTS: DenseArray(i32, tuple(map(len, groups.values())))}
    return True


def _without_token_results(op: Op, function: Func) -> bool:
    kept = [result for result in op.results if result.type is not async_token]
    if len(kept) == len(op.results):
        return False
    attributes = {name: value for name, value in op.attributes.items() if name != RESULT_SEGMENTS}
    if RESULT_SEGMENTS in op.attributes:
        attributes[RESULT_SEGMENTS] = DenseArray(i32, (1, 0, len(kept) - 1))
    made = Op.create(op.name, op.operands, [result.type for result in kept], attributes, location=op.location)
    assert op.block is not None, "an access stands in a block"
    op.block.insert(made, op)
    names = [result.name for result in kept]
    for result, name in zip(made.results, names, strict=True):
        result.name = name
    results = iter(made.results)
    op.replace([_any_token(function) if result.type is async_token else next(results) for result in op.results])
    return True


def _any_token(function: Func) -> Value:
    """A token that stands for none, at the beginning of a function."""
    entry = function.body
    first = entry.first
    if isinstance(first, Poison) and first.result.type is async_token:
        return first.result
    token = Op.create("ub.poison", (), (async_token,), {}, location=function.location)
    entry.insert(token, first)
    return token.result
