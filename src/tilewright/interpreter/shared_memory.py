"""TTGIR: layouts do not affect values, shared memory is an array, and asynchronous copies arrive late.

    %b = ttg.local_alloc : () -> !ttg.memdesc<2x64xf16, …>          an uninitialised array
    %v = ttg.memdesc_index %b[%i]                                   a view of it
    %t = ttg.async_copy_global_to_local %p, %v                      nothing happens yet
    ttg.async_wait %g {num = 0 : i32}                               now %v has its data

A copy writes its buffer when the program waits for it, and not before, so that a read that a pass has moved too early
shows. The operands of an asynchronous matrix product must be unchanged when the program waits for the product.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, TypeAlias

import numpy as np

from tilewright.dialects.numpy_types import numpy_dtype
from tilewright.dialects.ttg_async import AsyncWait
from tilewright.dialects.ttg_memory import LocalGather, LocalScatter, MemDescSubslice, MemDescTrans
from tilewright.dialects.ttg_program import GlobalScratchAlloc, Mask, PredicateStage
from tilewright.dialects.ttng_barriers import ArriveBarrier, BarrierExpect, InitBarrier
from tilewright.dialects.ttng_descriptors import (
    AsyncTmaReduce,
    AsyncTmaStoreWait,
    ReinterpretTensorDescriptor,
    TensormapCreate,
)
from tilewright.dialects.ttng_mma import WarpGroupDot, WarpGroupDotWait
from tilewright.dialects.ttng_tensor_memory import TmemSubslice
from tilewright.interpreter.accesses import BlockPointer, combine_block, read_block, read_rows, write_rows
from tilewright.interpreter.asynchrony import Copies, Products
from tilewright.interpreter.buffers import UNWRITTEN
from tilewright.interpreter.dots import multiply_add
from tilewright.interpreter.machine import Executor, Interpreter, executes
from tilewright.ir.core import Op
from tilewright.ir.operands import operand_groups

TOKEN = np.bool_(True)
"""The value of a token: order is that of the program."""


Given: TypeAlias = Mapping[str, Any]
"""The run-time values of operands by name; groups of several as lists, absent ones as None."""


def executes_by_name(*names: str) -> Callable[[Executor], Executor]:
    """`executes` for functions that take the operands by name."""

    def enter(function: Executor) -> Executor:
        @executes(*names)
        @wraps(function)
        def execute(machine: Interpreter, op: Op, *operands: Any) -> Any:
            return function(machine, op, _by_name(op, operands))

        return function

    return enter


def _by_name(op: Op, operands: Sequence[Any]) -> Given:
    values = iter(operands)
    found: dict[str, Any] = {}
    for name, group in operand_groups(op).items():
        several = f"{name}*" in op.definition.operand_names
        taken = [next(values) for _ in group]
        found[name] = taken if several else taken[0] if taken else None
    return found


# Buffers and views


@executes("ttg.local_alloc", "ttng.tmem_alloc")
def _alloc(machine: Interpreter, op: Op, *operands: Any) -> Any:
    type = op.results[0].type
    dtype = numpy_dtype(type)
    buffer = np.full(int(np.prod(type.shape or ())) * dtype.itemsize, UNWRITTEN, np.uint8).view(dtype)
    buffer = buffer.reshape(type.shape or ())
    for source in operands:
        buffer[...] = source
    return (buffer, *(TOKEN for _ in op.results[1:]))


@executes("ttg.memdesc_index")
def _index(machine: Interpreter, op: Op, buffer: Any, index: Any) -> Any:
    assert 0 <= index < len(buffer), f"{op.name}: there is no buffer {index} of {len(buffer)}"
    return buffer[int(index)]


@executes("ttg.memdesc_subslice")
def _subslice(machine: Interpreter, op: MemDescSubslice, buffer: Any) -> Any:
    shape = op.results[0].type.shape or ()
    return buffer[tuple(slice(start, start + size) for start, size in zip(op.offsets, shape, strict=True))]


@executes("ttg.memdesc_trans")
def _trans(machine: Interpreter, op: MemDescTrans, buffer: Any) -> Any:
    return buffer.transpose(op.order)


@executes("ttg.memdesc_reshape", "ttg.memdesc_reinterpret")
def _reshape(machine: Interpreter, op: Op, buffer: Any) -> Any:
    type = op.results[0].type
    view = buffer.view() if buffer.flags.c_contiguous else buffer
    view = view.reshape(-1).view(numpy_dtype(type))[: int(np.prod(type.shape or ()))]
    shape = type.shape or ()
    view = view.reshape(shape)
    if not np.shares_memory(view, buffer):
        view.flags.writeable = False  # no strides describe it: what is written later does not show
    return view


@executes("ttg.local_load", "ttng.tmem_load")
def _load(machine: Interpreter, op: Op, buffer: Any, *_: Any) -> Any:
    return (buffer.copy(), *(TOKEN for _ in op.results[1:]))


@executes("ttg.local_store")
def _store(machine: Interpreter, op: Op, value: Any, buffer: Any) -> Any:
    buffer[...] = value


@executes_by_name("ttng.tmem_store")
def _tmem_store(machine: Interpreter, op: Op, given: Given) -> Any:
    if given["pred"]:
        given["dst"][...] = given["src"]
    return [TOKEN for _ in op.results]


@executes_by_name("ttng.tmem_copy")
def _tmem_copy(machine: Interpreter, op: Op, given: Given) -> Any:
    assert given["src"].shape == given["dst"].shape, f"{op.name}: chunks of scales are viewed as a matrix first"
    given["dst"][...] = given["src"]
    if given["barrier"] is not None:
        copies_of(machine).arrive(given["barrier"])


@executes("ttng.tmem_subslice")
def _tmem_subslice(machine: Interpreter, op: TmemSubslice, buffer: Any) -> Any:
    *_, columns = op.results[0].type.shape or ()
    return buffer[..., op.offset : op.offset + columns]


@executes("ttg.local_gather")
def _gather(machine: Interpreter, op: LocalGather, buffer: Any, indices: Any, *_: Any) -> Any:
    return np.take_along_axis(buffer, indices.astype(np.int64), op.axis)


@executes_by_name("ttg.local_scatter")
def _scatter(machine: Interpreter, op: LocalScatter, given: Given) -> Any:
    np.put_along_axis(given["dst"], given["indices"].astype(np.int64), given["values"], op.axis)


# Copies that run on


@executes_by_name("ttg.async_copy_global_to_local")
def _async_copy(machine: Interpreter, op: Op, given: Given) -> Any:
    target, mask, other = given["result"], given["mask"], given["other"]
    data = machine.memory.read(given["src"], target.dtype, mask, op)
    if mask is not None:
        data = np.where(mask, data, 0 if other is None else other).astype(target.dtype)
    copies_of(machine).start(lambda: target.__setitem__(..., data))
    return TOKEN


@executes("ttg.async_commit_group")
def _commit(machine: Interpreter, op: Op, *_: Any) -> Any:
    copies_of(machine).commit()
    return TOKEN


@executes("ttg.async_wait")
def _async_wait(machine: Interpreter, op: AsyncWait, *_: Any) -> Any:
    copies_of(machine).wait(op.pending)
    return TOKEN


# Matrix products that run on


@executes_by_name("ttng.warp_group_dot")
def _group_dot(machine: Interpreter, op: WarpGroupDot, given: Given) -> Any:
    c = given["c"] if given["useC"] is None or given["useC"] else np.zeros_like(given["c"])
    products_of(machine).start(given["a"], given["b"])
    if not op.is_async:
        products_of(machine).wait(0)
    return multiply_add(given["a"], given["b"], c)


@executes("ttng.warp_group_dot_wait")
def _group_dot_wait(machine: Interpreter, op: WarpGroupDotWait, *operands: Any) -> Any:
    products_of(machine).wait(op.pendings)
    return operands


@executes_by_name("ttng.tc_gen5_mma")
def _gen5_mma(machine: Interpreter, op: Op, given: Given) -> Any:
    if given["pred"]:
        target = given["d"]
        target[...] = multiply_add(given["a"], given["b"], target if given["useD"] else np.zeros_like(target))
        arrive_all(machine, given)
    return [TOKEN for _ in op.results]


def arrive_all(machine: Interpreter, given: Given) -> None:
    """A product is done: it signals its barriers."""
    for barrier, wanted in zip(given["barriers"], given["barrier_preds"], strict=True):
        if wanted:
            copies_of(machine).arrive(barrier)


# Copies by descriptor, which a barrier counts


@executes("ttng.init_barrier")
def _init_barrier(machine: Interpreter, op: InitBarrier, barrier: Any) -> Any:
    copies_of(machine).initialize(barrier, op.count)


@executes("ttng.inval_barrier")
def _inval_barrier(machine: Interpreter, op: Op, barrier: Any) -> Any:
    copies_of(machine).invalidate(barrier)


@executes("ttng.barrier_expect")
def _barrier_expect(machine: Interpreter, op: BarrierExpect, barrier: Any, holds: Any) -> Any:
    if holds:
        copies_of(machine).expect(barrier, op.size)


@executes("ttng.arrive_barrier")
def _arrive_barrier(machine: Interpreter, op: ArriveBarrier, barrier: Any, *conditions: Any) -> Any:
    if all(conditions):
        copies_of(machine).arrive(barrier, op.count)


@executes_by_name("ttng.tc_gen5_commit")
def _gen5_commit(machine: Interpreter, op: Op, given: Given) -> Any:
    if given["pred"] is None or given["pred"]:
        copies_of(machine).arrive(given["barrier"])


@executes_by_name("ttng.wait_barrier")
def _wait_barrier(machine: Interpreter, op: Op, given: Given) -> Any:
    if given["pred"] is None or given["pred"]:
        copies_of(machine).wait_barrier(given["alloc"], int(given["phase"]), op)


@executes_by_name("ttng.async_tma_copy_global_to_local")
def _tma_load(machine: Interpreter, op: Op, given: Given) -> Any:
    if given["pred"]:
        target = given["result"]
        data = read_block(machine, given["desc"], given["coord"], target.dtype, op).reshape(target.shape)
        copies_of(machine).load(given["barrier"], target.nbytes, lambda: target.__setitem__(..., data))


@executes_by_name("ttng.async_tma_copy_local_to_global")
def _tma_store(machine: Interpreter, op: Op, given: Given) -> Any:
    addresses, inside = given["desc"].moved(given["coord"]).elements(range(len(given["coord"])))
    source = given["src"]
    products_of(machine).start(source)  # the store reads it until the program has waited
    machine.memory.write(addresses, source.reshape(addresses.shape), inside, op)


@executes_by_name("ttng.async_tma_gather")
def _tma_gather(machine: Interpreter, op: Op, given: Given) -> Any:
    if given["pred"]:
        target = given["result"]
        data = read_rows(machine, given["desc"], given["x_offsets"], given["y_offset"], target.dtype, op)
        copies_of(machine).load(given["barrier"], target.nbytes, lambda: target.__setitem__(..., data))


@executes_by_name("ttng.async_tma_scatter")
def _tma_scatter(machine: Interpreter, op: Op, given: Given) -> Any:
    products_of(machine).start(given["src"])
    write_rows(machine, given["desc"], given["x_offsets"], given["y_offset"], given["src"], op)


@executes_by_name("ttng.async_tma_reduce")
def _tma_reduce(machine: Interpreter, op: AsyncTmaReduce, given: Given) -> Any:
    products_of(machine).start(given["src"])
    combine_block(machine, given["desc"], given["coord"], op.operation, given["src"], op)


@executes("ttng.async_tma_store_wait")
def _tma_store_wait(machine: Interpreter, op: AsyncTmaStoreWait, *_: Any) -> Any:
    products_of(machine).wait(op.pendings)


# Stages of a pipelined loop


@executes("ttg.predicate_stage")
def _predicate_stage(machine: Interpreter, op: PredicateStage, counter: Any, end: Any, step: Any) -> Any:
    later = op.last_stage - op.stage
    return np.bool_(counter < end - later * step)


@executes("ttg.mask")
def _mask(machine: Interpreter, op: Mask, condition: Any) -> Any:
    if condition:
        return machine.run_region(op.regions[0], ())[1]
    return [np.zeros(value.type.shape or (), numpy_dtype(value.type))[()] for value in op.results]


# Descriptors in memory


@executes("ttg.global_scratch_alloc")
def _global_scratch(machine: Interpreter, op: GlobalScratchAlloc, *_: Any) -> Any:
    return np.int64(machine.memory.reserve(op.size, op.alignment))


@executes_by_name("ttng.tensormap_create")
def _tensormap(machine: Interpreter, op: TensormapCreate, given: Given) -> Any:
    copies_of(machine).tensormaps[int(given["desc_ptr"])] = (
        int(given["global_address"]),
        tuple(int(extent) for extent in reversed(given["global_dim"])),
        tuple(int(stride) for stride in reversed(given["global_stride"])),
        bool(op.fill_mode),
    )


@executes("ttng.reinterpret_tensor_descriptor")
def _reinterpret(machine: Interpreter, op: ReinterpretTensorDescriptor, *operands: Any) -> Any:
    (address,), block = operands, op.tile
    base, shape, strides, with_nan = copies_of(machine).tensormaps[int(address)]
    size = block.element.bits // 8
    # The stride of the last dimension is one element and not part of the map, the others are in bytes.
    steps = (*(stride // size for stride in strides), 1)
    return BlockPointer(base, shape, steps, (0,) * len(shape), block, with_nan)


def copies_of(machine: Interpreter) -> Copies:
    """The copies of the program that run on."""
    return machine.state("copies", Copies)


def products_of(machine: Interpreter) -> Products:
    """The products that read shared memory while the program runs on."""
    return machine.state("products", Products)
