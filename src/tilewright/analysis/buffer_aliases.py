"""The buffers that a memory descriptor may refer to (the allocations that flow into it), and what ops do with them.

    %a = ttg.local_alloc                                   %a: {%a}
    %v = ttg.memdesc_index %a[%i]                          %v: {%a}
    %r = scf.if %c { scf.yield %a } else { scf.yield %b }  %r: {%a, %b}
    ttng.tc_gen5_mma %a, %b, %acc, …, %bar                 reads %a and %b, writes the barrier %bar

Views, loops, branches and partitions of warps pass buffers on under other names; any other op ends the flow of a
buffer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tilewright.analysis.value_flow import Edge, flow_edges, propagate
from tilewright.dialects.arith import Constant, Select
from tilewright.dialects.cf import Branch, CondBranch
from tilewright.dialects.scf import Condition, For, Yield
from tilewright.dialects.traits import ControlFlow
from tilewright.dialects.tt_function import Func
from tilewright.dialects.ttg_async import AsyncWait
from tilewright.dialects.ttg_attributes import SHARED_MEMORY
from tilewright.dialects.ttg_memory import LocalAlloc, MemDescView
from tilewright.dialects.ttg_program import ScopedBarrier
from tilewright.dialects.ttg_warp_specialize import WarpSpecialize, WarpYield
from tilewright.dialects.ttng_barriers import ArriveBarrier, BarrierExpect, InitBarrier, InvalBarrier
from tilewright.dialects.ttng_descriptors import AsyncTmaCopyGlobalToLocal, AsyncTmaGather, AsyncTmaStoreWait
from tilewright.dialects.ttng_mma import AsyncMma
from tilewright.ir.core import Block, Op, Region, Value
from tilewright.ir.declare import Effect
from tilewright.ir.types import MemDescType, i64

CARRIERS = (ControlFlow, Condition, Yield, Branch, CondBranch, Select, WarpSpecialize, WarpYield)
"""Ops whose results or targets are other names of the buffers that they get."""


def is_in_shared_memory(value: Value) -> bool:
    """Whether `value` is a buffer in shared memory."""
    return isinstance(value.type, MemDescType) and value.type.space == SHARED_MEMORY


def allocations_of(function: Op) -> dict[Value, set[Op]]:
    """The `ttg.local_alloc` ops whose buffers each memory descriptor of `function` may name."""
    allocations = (op for op in function.ops_of(LocalAlloc) if is_in_shared_memory(op.result))
    return propagate(function.walk(), {op.result: {op} for op in allocations}, carried)


def carried(op: Op) -> Iterator[Edge]:
    """The operands and results of an op that name the same buffers."""
    if isinstance(op, MemDescView):
        yield op.source, op.result
    elif isinstance(op, CARRIERS):
        yield from flow_edges(op)


def alias_remarks(module: Op) -> Iterator[tuple[Op, str]]:
    """The buffers that each value may name, in the words of Triton's `-test-print-alias`.

    A value that a loop carries is said to name what it names in the loop's first round.
    """
    for function in module.ops_of(Func):
        allocations, names = allocations_of(function), _mlir_names(function)
        for op in function.walk():
            for value, shown in _shown_at(op):
                if known := sorted(names[allocation.results[0]] for allocation in allocations.get(shown, ())):
                    yield op, f"{names[value]} -> {','.join(known)}"


def _shown_at(op: Op) -> Iterator[tuple[Value, Value]]:
    """The values reported at `op`, and for each the values whose buffers are reported."""
    if isinstance(op, (Branch, CondBranch)) and op.block is not None:
        yield from ((argument, argument) for argument in op.block.args)
    if isinstance(op, For):
        yield from zip(op.carried, op.inits, strict=True)
    yield from ((result, result) for result in op.results)


def _mlir_names(function: Op) -> dict[Value, str]:
    """The names that MLIR prints for values: `%3`, `%3#1`, `%arg0`; constants, which have no number, as `%cst`.

    Regions side by side use the same numbers.
    """
    names: dict[Value, str] = {}

    def visit(region: Region, number: int, argument: int) -> None:
        nested: list[Region] = []
        for block in region.blocks:
            if block is region.blocks[0]:
                names.update({value: f"%arg{argument + place}" for place, value in enumerate(block.args)})
                argument += len(block.args)
            else:
                names.update({value: f"%{number + place}" for place, value in enumerate(block.args)})
                number += len(block.args)
            number = _name_results(block, number, names)
            nested += (inner for op in block for inner in op.regions)
        for inner in nested:
            visit(inner, number, argument)

    visit(function.regions[0], 0, 0)
    return names


def _name_results(block: Block, number: int, names: dict[Value, str]) -> int:
    """Name the results of the ops in `block` from `number` on; returns the next number."""
    for op in block:
        if isinstance(op, Constant):
            names[op.results[0]] = "%cst"
            continue
        for place, value in enumerate(op.results):
            names[value] = f"%{number}#{place}" if len(op.results) > 1 else f"%{number}"
        number += bool(op.results)
    return number


def users_through_views(buffer: Value) -> Iterator[Op]:
    """The ops that use a buffer or a view of it."""
    for user in buffer.uses:
        if isinstance(user, MemDescView):
            yield from users_through_views(user.result)
        else:
            yield user


class Access(NamedTuple):
    """One buffer that an op reads or writes, under the name it has there."""

    value: Value
    is_write: bool


TMA_LOADS = (AsyncTmaCopyGlobalToLocal, AsyncTmaGather)
BARRIER_OPS = (InitBarrier, InvalBarrier, BarrierExpect)
"""Ops that one thread executes, so that they follow each other without help."""
WAITS = (AsyncWait, AsyncTmaStoreWait)
"""Ops after which data is there for the thread that waited, but perhaps not yet for the others."""


def shared_accesses(op: Op) -> Iterator[Access]:
    """The accesses of `op` to shared memory, its scratch memory aside."""
    if isinstance(op, LocalAlloc):
        if op.source is not None:
            yield Access(op.result, is_write=True)
        return
    effect = op.definition.buffers
    reads, writes = effect in (Effect.READ, Effect.READ_WRITE), effect in (Effect.WRITE, Effect.READ_WRITE)
    for value in op.operands if effect is not Effect.NONE else ():
        type = value.type
        if isinstance(type, MemDescType) and type.space == SHARED_MEMORY:
            signals = isinstance(op, AsyncMma) and type.element is i64
            if writes or signals:
                yield Access(value, is_write=True)
            if reads and not signals:
                yield Access(value, is_write=False)


def synchronizes(op: Op | None) -> bool:
    """Whether all warps have finished with shared memory before anything after `op` begins."""
    if isinstance(op, ScopedBarrier):
        return "local" in op.scopes or "all" in op.scopes
    return op is not None and op.definition.synchronizes and not (isinstance(op, ArriveBarrier) and op.by_warps)
