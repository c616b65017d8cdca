"""A loop whose ops have partitions becomes one loop per warp group.

    scf.for … {                                   nvws.warp_group
      "epilogue"  {ttg.partition = 0}             partition0 num_warps(4) { scf.for … { "epilogue" } }
      "product"   {ttg.partition = 1}     ->      partition1 num_warps(4) { scf.for … { "product" } }
      "copy"      {ttg.partition = 2}             partition2 num_warps(4) { scf.for … { "copy" } }
    }

Each group gets the part of the loop that it needs (`slices.py`). Tiles that a group other than the first one computes
for code after the loop go there through shared memory. The partition with products ends when the last one is complete,
so that all buffers are free after the op. Products of warp groups, in the first group, are asynchronous
(`run_products_on.py`). Ops outside of a loop that have a partition and the loop's number (`ttg.warp_specialize.tag`) go
with it to their group. A loop stays whole if a group needs values that only another one computes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tilewright.dialects.scf import For
from tilewright.dialects.ttng_mma import TensorCoreMma
from tilewright.ir.attributes import DenseArray, Number
from tilewright.ir.core import Block, Op, Region, Value, integer_in
from tilewright.ir.effects import is_pure
from tilewright.ir.types import TensorType, i32
from tilewright.transforms.gpu.pipelining.schedule import CLUSTER, LAST_STAGE, STAGE
from tilewright.transforms.gpu.tile_ops import plain_buffer, workers_of
from tilewright.transforms.gpu.tma_lowering import barriers_type
from tilewright.transforms.gpu.warp_specialization.run_products_on import run_products_on
from tilewright.transforms.gpu.warp_specialization.slices import (
    DEFAULT,
    OUTPUTS,
    PARTITION,
    STAGES,
    TAG,
    ForeignValueError,
    Slice,
    marked_loops,
    partitions_of_op,
    without,
)
from tilewright.transforms.op_builder import OpBuilder

SCHEDULING = (PARTITION, STAGES, OUTPUTS, STAGE, CLUSTER, LAST_STAGE)
"""Attributes that say when and by whom an op of a loop is executed; the slices are not scheduled again."""


def partition_loops(module: Op) -> bool:
    """Give each partition of the loops of `module` a loop of its own."""
    divided = [_partition(loop) for loop in marked_loops(module)]
    return any(divided)


def needs_of_others(module: Op) -> Iterator[tuple[Op, str]]:
    """The ops that keep loops of `module` whole, as one partition has them and another one needs them."""
    for loop in marked_loops(module):
        try:
            _parts(loop)
        except ForeignValueError as error:
            yield error.op, f"{_reason(error)}; the loop stays whole"


def _reason(error: ForeignValueError) -> str:
    numbers = partitions_of_op(error.op)
    if not numbers:
        return "no partition executes the op"
    return f"non-root partition #{numbers[0]} has direct SSA consumer: partition #{error.partition}"


class Part(NamedTuple):
    """A partition's part of a loop with the ops around it that are its own, and the results that the others use."""

    slice: Slice
    results: list[Value]
    front: list[Op]
    after: list[Op]


def _parts(loop: For) -> list[Part]:
    """The parts of `loop`, that of the default partition first.

    Raises:
        ForeignValueError: a partition needs what only another one has.
    """
    numbers = [DEFAULT, *sorted({number for op in loop.walk() for number in partitions_of_op(op)} - {DEFAULT})]
    _check_marks(loop)
    front, after = _ops_around(loop)
    used = [result for result in loop.results if any(user not in after for user in result.uses)]
    given: dict[int, list[Value]] = {number: [] for number in numbers}
    if _slice_with(loop, DEFAULT, used) is not None:
        given[DEFAULT] = used
    else:
        for result in used:
            given[_giver(loop, result, numbers)].append(result)
    return [
        Part(
            Slice(loop, number, results=[*results, *_results_for(loop, number, after)]),
            results,
            [op for op in front if number in partitions_of_op(op)],
            [op for op in after if number in partitions_of_op(op)],
        )
        for number, results in given.items()
    ]


def _ops_around(loop: For) -> tuple[list[Op], list[Op]]:
    """The ops before `loop` and behind it that belong to partitions of it.

    Raises:
        ForeignValueError: such an op gives values to ops that no partition has, or takes some from behind the loop.
    """
    tag = integer_in(loop, TAG)
    ops = list(loop.block or ())
    at = ops.index(loop)
    own = [tag is not None and op is not loop and integer_in(op, TAG) == tag and not op.regions for op in ops]
    front = [op for op, is_own in zip(ops[:at], own[:at], strict=True) if is_own]
    after = [op for op, is_own in zip(ops[at:], own[at:], strict=True) if is_own]
    others = [op for op, is_own in zip(ops[at + 1 :], own[at + 1 :], strict=True) if not is_own]
    for op in (*front, *after):
        if any(result.uses for result in op.results) or any(value.op in others for value in op.operands):
            raise ForeignValueError(op, DEFAULT)
    return front, after


def _results_for(loop: For, number: int, after: Sequence[Op]) -> list[Value]:
    """The results of `loop` that a partition computes for its own ops behind it, or because a mark says so."""
    own = {value for op in after if number in partitions_of_op(op) for value in op.operands}
    marks = loop.attributes.get(OUTPUTS)
    if after and isinstance(marks, tuple):
        pairs = zip(loop.results, marks, strict=False)
        own.update(result for result, mark in pairs if isinstance(mark, DenseArray) and number in mark.values)
    elif after and PARTITION not in loop.attributes:
        own.update(loop.results)  # without marks, as in Triton 3.5, all partitions compute what the loop carries
    return [result for result in loop.results if result in own]


def _check_marks(loop: For) -> None:
    """Refuse an op with an effect that no partition would execute."""
    for op in loop.walk():
        if not (op.regions or op.definition.terminator or is_pure(op) or partitions_of_op(op)):
            raise ForeignValueError(op, DEFAULT)


def _giver(loop: For, result: Value, numbers: Sequence[int]) -> int:
    """The first partition that can compute `result`; one besides the default one gives nothing but tiles."""
    *others, last = numbers if isinstance(result.type, TensorType) else [DEFAULT]
    return next((number for number in others if _slice_with(loop, number, [result])), last)


def _slice_with(loop: For, number: int, results: list[Value]) -> Slice | None:
    """The slice of a partition that gives `results`; None if it cannot."""
    try:
        return Slice(loop, number, results=results)
    except ForeignValueError:
        return None


def _partition(loop: For) -> bool:
    try:
        parts = _parts(loop)
    except ForeignValueError:
        return False
    if len(parts) == 1:
        return False
    barrier = _barrier(loop) if any(map(_multiplies, parts)) else None
    buffers = {result: _buffer(loop, result) for part in parts[1:] for result in part.results}
    mapping: dict[Value, Value] = {}
    default = Block()
    _write(parts[0], default, mapping)
    values = [mapping[value] for value in parts[0].results]
    default.append(Op.create("nvws.warp_group.yield", values, location=loop.location))
    regions = [default, *(_body(part, buffers, barrier) for part in parts[1:])]
    made = OpBuilder(loop).op(
        "nvws.warp_group",
        (),
        [value.type for value in values],
        {"numWarps": DenseArray(i32, (workers_of(loop).warps,) * len(parts))},
        [Region([block]) for block in regions],
    )
    run_products_on(default)
    for old, new in zip(parts[0].results, made.results, strict=True):
        old.replace_by(new)
    _read_after(loop, buffers)
    for op in made.walk():
        op.attributes = without(op, *SCHEDULING)
    for op in [op for part in parts for op in (*part.front, *part.after)]:
        op.erase()
    loop.erase()
    return True


def _write(part: Part, block: Block, mapping: dict[Value, Value]) -> None:
    """Put the code of `part` to the end of `block`."""
    for op in part.front:
        block.append(op.clone(mapping))
    part.slice.write(block, mapping)
    for op in part.after:
        block.append(op.clone(mapping))


def _multiplies(part: Part) -> bool:
    return part.slice.partition != DEFAULT and any(isinstance(op, TensorCoreMma) for op in part.slice.ops)


def _barrier(loop: For) -> Value:
    """A barrier that hears when the last product is done."""
    front, after = OpBuilder(loop), OpBuilder.after(loop)
    barrier = front.emit("ttg.local_alloc", (), barriers_type(loop))
    front.op("ttng.init_barrier", (barrier,), (), {"count": Number(1, i32)})
    after.op("ttng.inval_barrier", (barrier,))
    after.op("ttg.local_dealloc", (barrier,))
    return barrier


def _buffer(loop: For, result: Value) -> Value:
    """The place in shared memory through which `result` goes."""
    return OpBuilder(loop).emit("ttg.local_alloc", (), plain_buffer(result))


def _read_after(loop: For, buffers: Mapping[Value, Value]) -> None:
    """Let what is behind `loop` use its results as they are in `buffers`."""
    at = OpBuilder.after(loop)
    for result, buffer in buffers.items():
        result.replace_by(at.emit("ttg.local_load", (buffer,), result.type))
        at.op("ttg.local_dealloc", (buffer,))


def _body(part: Part, buffers: Mapping[Value, Value], barrier: Value | None) -> Block:
    """The code of a partition besides the default one."""
    block = Block()
    mapping: dict[Value, Value] = {}
    _write(part, block, mapping)
    at = OpBuilder(block.append(Op.create("nvws.warp_group.return", location=part.slice.loop.location)))
    for result in part.results:
        at.op("ttg.local_store", (mapping[result], buffers[result]))
    if barrier is not None and _multiplies(part):
        at.op("ttng.tc_gen5_commit", [barrier, [], []])
        at.op("ttng.wait_barrier", [barrier, at.constant(0, i32), [], []])
    return block
