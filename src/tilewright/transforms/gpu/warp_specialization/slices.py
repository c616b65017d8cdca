"""Partitions: marks of the warp groups that execute an op, and the part of a loop that a partition needs.

    %x = tt.descriptor_load %d[%i, %c0]     {ttg.partition = array<i32: 2>}
    %t = ttng.tc_gen5_mma %a, %b, %m, …     {ttg.partition = array<i32: 1>}
    tt.descriptor_store %e[%i, %c0], %y     {ttg.partition = array<i32: 0>}

Partition 0 is the warps of the code around the loop. An op that several partitions recompute has the numbers of all of
them.

    scf.for %k … iter_args(%n, %s) {            the slice of partition 2:
      "copy"(%n)     {ttg.partition = 2}        scf.for %k … iter_args(%n) {
      "add"(%s)      {ttg.partition = 0}          "copy"(%n)
      yield %n + 1, %s + 1                        yield %n + 1
    }                                           }

The slice has the ops with effects that have the partition's number, their operands, and the enclosing loops and
branches. Scalars and views of buffers are recomputed in every partition that needs them; an op with an effect, or whose
result is a tile, belongs to one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from tilewright.dialects.scf import For, If
from tilewright.dialects.traits import DotLike
from tilewright.dialects.ttng_mma import TensorCoreMma
from tilewright.ir.attributes import Attribute, DenseArray, Number
from tilewright.ir.core import Block, Op, Region, Value
from tilewright.ir.effects import is_pure
from tilewright.ir.types import TensorType, async_token, i32
from tilewright.transforms.gpu.pipelining.schedule import WARP_SPECIALIZE, values_used
from tilewright.transforms.matching import is_in

DEFAULT = 0
"""The number of the partition of all else than the others do."""


class Roles(NamedTuple):
    """The numbers of the partitions of corrections, products in tensor memory, and copies by descriptor."""

    correction: int | None
    mma: int
    load: int


CORRECTION = 1
"""The number of the partition of corrections, in a loop that has one."""
WITHOUT_CORRECTION, WITH_CORRECTION = Roles(None, 1, 2), Roles(CORRECTION, 2, 3)
"""The partitions of loops, in Triton's order."""
PARTITION = "ttg.partition"
"""The attribute of an op that has the numbers of its partitions."""
OUTPUTS = "ttg.partition.outputs"
"""The attribute of a loop or branch that has, for each result, the numbers of the partitions that compute it."""
STAGES = "ttg.partition.stages"
"""The attribute of a loop that has a number for each of its partitions, which Triton's passes give it."""
TAG = "ttg.warp_specialize.tag"
"""The attribute of a loop that has its number among those to be divided, which Triton's passes give it."""


def partitions_of_op(op: Op) -> tuple[int, ...]:
    """The numbers of the partitions that execute `op`; none if it has no mark."""
    mark = op.attributes.get(PARTITION)
    if isinstance(mark, DenseArray):
        return mark.values
    return (int(mark.value),) if isinstance(mark, Number) else _partitions_around(op)


def _partitions_around(op: Op) -> tuple[int, ...]:
    """All partitions of the loop around `op`, or that `op` is, if its marks are in the spelling of Triton 3.5.

    There each op has the number of one partition at most, and those without are executed by all.
    """
    loop: Op | None = op
    while loop is not None and STAGES not in loop.attributes:
        loop = loop.parent
    if loop is None or PARTITION in loop.attributes:
        return ()
    stages = loop.attributes[STAGES]
    return tuple(range(len(stages))) if isinstance(stages, tuple) else ()


def mark(op: Op, partitions: Iterable[int]) -> None:
    """Say that these partitions execute `op`."""
    op.attributes = {**op.attributes, PARTITION: DenseArray(i32, tuple(sorted(partitions)))}


def without(op: Op, *names: str) -> dict[str, Attribute]:
    """The attributes of `op` but those with these names."""
    return {name: value for name, value in op.attributes.items() if name not in names}


def marked_loops(module: Op) -> list[For]:
    """The loops of `module` whose ops have partitions."""
    loops = [op for op in module.walk() if isinstance(op, For) and partitions_of_op(op)]
    return [loop for loop in loops if WARP_SPECIALIZE in loop.attributes or TAG in loop.attributes]


def roles_of(loop: For) -> Roles:
    """The numbers of the partitions of `loop`, whose products have their marks."""
    product = next((op for op in loop.walk() if isinstance(op, TensorCoreMma)), None)
    has_correction = product is not None and partitions_of_op(product) == (WITH_CORRECTION.mma,)
    return WITH_CORRECTION if has_correction else WITHOUT_CORRECTION


class ForeignValueError(Exception):
    """A partition needs what only another one has.

    Attributes:
        op: what has it.
        partition: the number of the partition that needs it.
    """

    def __init__(self, op: Op, partition: int) -> None:
        super().__init__(f"partition {partition} needs what only another one has: {op.name}")
        self.op, self.partition = op, partition


def is_cheap(op: Op) -> bool:
    """Whether several warp groups may compute `op`, each for itself: numbers and addresses."""
    tiles = any(isinstance(value.type, TensorType) for value in op.results)
    return is_pure(op) and not (tiles and (op.regions or isinstance(op, DotLike)))


def is_made_again(value: Value) -> bool:
    """Whether a warp group computes `value`, which is from outside, for itself: constants and tiles of addresses.

    Tiles that it is computed from and that are not made again go there through shared memory: those that were loaded,
    for instance.
    """
    op = value.op
    if op is None or not isinstance(value.type, TensorType):
        return op is not None and op.name in ("arith.constant", "ub.poison")
    return is_cheap(op)


def handed_over(values: Iterable[Value]) -> list[Value]:
    """The values that a warp group is given: those of `values`, from outside, or what it computes them from."""
    found: dict[Value, None] = {}
    waiting, seen = list(values)[::-1], set[Value]()
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        if is_made_again(value):
            assert value.op is not None, "only what an op gives is made again"
            waiting += value.op.operands[::-1]
        else:
            found[value] = None
    return list(found)


class Slice:
    """The ops of `loop` that `partition` executes.

    Args:
        loop: the loop with marks.
        partition: the number of the partition.
        given: buffers that partitions hand to each other; what they come from is not part of the slice.
        results: values behind the loop that the slice has to give.
        repeated: ops with effects that each partition may execute for itself.

    Raises:
        ForeignValueError: the partition needs what only another one has.

    Attributes:
        ops: the ops of the slice.
        carried: the loops and branches with the numbers of their results that the slice needs.
        captured: values from outside of the loop, in order.
    """

    def __init__(
        self,
        loop: For,
        partition: int,
        given: Collection[Value] = (),
        results: Iterable[Value] = (),
        repeated: Collection[Op] = (),
    ) -> None:
        self.loop, self.partition, self.given, self.repeated = loop, partition, given, repeated
        self._multiplies = partition == roles_of(loop).mma
        self.ops: set[Op] = {loop}
        self.carried: set[tuple[Op, int]] = set()
        self.captured: dict[Value, None] = {}
        self._waiting: list[Op | Value] = [*results, *loop.operands[:3]]
        own = (op for op in loop.walk() if partition in partitions_of_op(op))
        self._waiting += (op for op in own if not op.regions and not op.definition.terminator and not is_pure(op))
        while self._waiting:
            item = self._waiting.pop()
            if isinstance(item, Op):
                self._need(item)
            else:
                self._need_value(item)

    def _need(self, op: Op) -> None:
        if op in self.ops:
            return
        self._check(op)
        self.ops.add(op)
        parent = op.parent
        if parent is not None and parent is not self.loop:
            self._waiting.append(parent)
        if isinstance(op, For):
            self._waiting += op.operands[:3]
        elif isinstance(op, If):
            self._waiting.append(op.condition)
        else:
            self._waiting += values_used(op)

    def _check(self, op: Op) -> None:
        if isinstance(op, (For, If)) or self.partition in partitions_of_op(op) or op in self.repeated:
            return
        if not (is_pure(op) if self.partition == DEFAULT else self._is_computed_again(op)):
            raise ForeignValueError(op, self.partition)

    def _is_computed_again(self, op: Op) -> bool:
        """Whether a partition besides the default one computes `op` for itself: addresses, but no products or sums."""
        tiles = any(isinstance(value.type, TensorType) for value in op.results)
        return is_cheap(op) and not (tiles and self._multiplies)

    def _need_value(self, value: Value) -> None:
        if value in self.given or value.type is async_token:
            return
        owner = value.owner
        if isinstance(owner, Block):
            self._need_argument(value, owner)
        elif owner is self.loop or is_in(owner, self.loop):
            if isinstance(owner, (For, If)):
                self._need_result(owner, value.index)
            self._waiting.append(owner)
        else:
            self.captured[value] = None

    def _need_argument(self, value: Value, block: Block) -> None:
        around = block.region.op if block.region is not None else None
        if around is None or not is_in(around, self.loop):
            self.captured[value] = None
        elif isinstance(around, For):
            self._waiting.append(around)
            if value.index > 0:
                self._need_result(around, value.index - 1)

    def _need_result(self, around: For | If, number: int) -> None:
        if (around, number) in self.carried:
            return
        self.carried.add((around, number))
        if isinstance(around, For):
            self._waiting += (around.inits[number], around.yielded[number])
        else:
            self._waiting += [arm.block.terminator.operands[number] for arm in around.arms]

    def write(self, block: Block, mapping: dict[Value, Value]) -> None:
        """Put a copy of the slice to the end of `block`, with its values in place of those of the loop."""
        self._write(self.loop, block, mapping)

    def _write(self, op: Op, block: Block, mapping: dict[Value, Value]) -> None:
        if isinstance(op, For):
            self._write_loop(op, block, mapping)
        elif isinstance(op, If):
            self._write_branch(op, block, mapping)
        else:
            block.append(op.clone(mapping))

    def _kept(self, op: Op) -> list[int]:
        return [number for number in range(len(op.results)) if (op, number) in self.carried]

    def _write_loop(self, loop: For, block: Block, mapping: dict[Value, Value]) -> None:
        kept = self._kept(loop)
        operands = [*loop.operands[:3], *(loop.inits[number] for number in kept)]
        arguments = [loop.induction_variable, *(loop.carried[number] for number in kept)]
        body = Block([argument.type for argument in arguments])
        for old, new in zip(arguments, body.args, strict=True):
            new.name = old.name
            mapping[old] = new
        self._write_block(loop.body, body, kept, mapping)
        self._write_around(loop, operands, [body], block, mapping)

    def _write_branch(self, branch: If, block: Block, mapping: dict[Value, Value]) -> None:
        kept = self._kept(branch)
        arms = []
        for arm in branch.arms:
            arms.append(Block())
            self._write_block(arm.block, arms[-1], kept, mapping)
        self._write_around(branch, [branch.condition], arms, block, mapping)

    def _write_block(self, source: Block, target: Block, kept: list[int], mapping: dict[Value, Value]) -> None:
        for op in source:
            if op in self.ops:
                self._write(op, target, mapping)
        end = source.terminator
        values = [mapping.get(end.operands[number], end.operands[number]) for number in kept]
        target.append(Op.create(end.name, values, location=end.location))

    def _write_around(
        self, op: Op, operands: list[Value], blocks: list[Block], target: Block, mapping: dict[Value, Value]
    ) -> None:
        """The loop or branch `op` with these bodies and the results that the slice needs."""
        kept = self._kept(op)
        values = [mapping.get(value, value) for value in operands]
        types = [op.results[number].type for number in kept]
        bodies = iter(blocks)
        regions = [Region([next(bodies)] if region.blocks else []) for region in op.regions]
        copy = Op.create(op.name, values, types, dict(op.attributes), regions, location=op.location)
        for number, new in zip(kept, copy.results, strict=True):
            new.name = op.results[number].name
            mapping[op.results[number]] = new
        target.append(copy)
