"""The structure of vector loops under construction: insertion points, loops and branches.

with b.loop(0, count, 16, carried=[zero]) as loop:
    loop.next = [b.add(loop.carried[0], loop.index)]
with b.branch(condition, unlikely=True) as branch:
    with branch.then():
        few = …
    with branch.otherwise():
        many = …
found = branch.join(few, many)
here = b.place()
…
with b.at(here):                                    # further up
    b.prefetch(p)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Generic, Self, TypeAlias, TypeVar

from tilewright.dialects.scf import If
from tilewright.dialects.vector import NONEMPTY, PLACELESS, UNLIKELY, UNROLL, wide_type
from tilewright.ir.attributes import UNIT, UNKNOWN, Attribute, Location, Number
from tilewright.ir.builder import ConstantPool
from tilewright.ir.core import Block, Op, Region, Value
from tilewright.ir.declare import OPS
from tilewright.ir.types import Type, i64

Operand: TypeAlias = "Value | int"
"""A value, or an integer that is known now."""


class Place:
    """A place between two ops, at which more can be inserted, one behind the other."""

    __slots__ = ("block", "last")

    def __init__(self, block: Block, last: Op | None) -> None:
        self.block, self.last = block, last


class StructureBuilder:
    """Ops go to the end of `block`, or to a place further up (`at`).

    Args:
        block: where the ops go.
        entry: the block whose first ops are the constants; `block` without it.
    """

    def __init__(self, block: Block, entry: Block | None = None) -> None:
        self.block = block
        self.location: Location = UNKNOWN
        self._place: Place | None = None
        self._latest: Place | None = None
        self.entry = block if entry is None else entry
        self._pool = ConstantPool(self.entry)
        self._integers: dict[tuple[int, Type], Value] = {}
        self._literals: dict[tuple[str, Type, str], Value] = {}
        self._numbers: dict[int, Value] = {}

    def append(self, op: Op) -> Op:
        """Put an op where ops go now."""
        place = self._place
        if place is None:
            return self.block.append(op)
        before = place.block.first if place.last is None else place.last.next
        while place.last is None and before is not None and before.name in PLACELESS:
            before = before.next
        place.last = op
        return place.block.insert(op, before)

    def emit(self, name: str, operands: Sequence[Value], type: Type, attributes: Any = None) -> Value:
        """The result of a new op."""
        op = Op(OPS[name], operands, (type,), attributes, (), (), self.location)
        if self._place is None:
            self.block.append(op)
        else:
            self.append(op)
        return op.results[0]

    def do(self, name: str, operands: Sequence[Value], attributes: Any = None) -> None:
        """A new op without a result."""
        self.append(Op(OPS[name], operands, (), attributes, (), (), self.location))

    def copy(self, op: Op, operands: Sequence[Value], lanes: int = 1) -> Op:
        """An op that does to these operands, number by number, what `op` does to its own."""
        types = [wide_type(result.type.scalar, lanes) for result in op.results]
        return self.append(Op(op.definition, operands, types, op.attributes, (), (), op.location))

    def splice(self, block: Block) -> None:
        """Put the ops of another block here."""
        for op in block:
            op.unlink()
            self.append(op)

    def place(self) -> Place:
        """This place, at which more ops can be inserted later; two that have nothing between them are one."""
        if self._place is not None:
            return self._place
        latest = self._latest
        if latest is None or latest.block is not self.block or latest.last is not self.block.last:
            latest = self._latest = Place(self.block, self.block.last)
        return latest

    def at(self, place: Place) -> Elsewhere[Self]:
        """Let ops go to `place` for a while."""
        return Elsewhere(self, place.block, place)

    def into(self, block: Block) -> Elsewhere[Self]:
        """Let ops go to the end of `block` for a while."""
        return Elsewhere(self, block, None)

    @contextmanager
    def before(self, op: Op | None) -> Iterator[None]:
        """Let ops stand in front of `op`, where they are put when all are written."""
        assert op is not None, "behind ops that are no terminators there are others"
        assert op.block is not None, "it stands in the function"
        with self.into(Block()):
            yield
            written = self.block
        op.block.splice(written, op)

    @contextmanager
    def in_place_of(self, op: Op) -> Iterator[None]:
        """Let ops be written in place of `op`, which has no results and goes."""
        self.location = op.location
        with self.before(op):
            yield
        op.erase()

    def later(self, type: Type) -> Value:
        """A value to use before it is computed: once it is, `later.replace_by(value)` puts it in."""
        (value,) = Block((type,)).args
        return value

    def constant(self, number: float, type: Type) -> Value:
        """A number of this type, in every lane of a vector."""
        if number.__class__ is not int:
            return self._pool.value(number, type)
        found = self._integers.get((number, type))
        if found is None:
            found = self._integers[number, type] = self._pool.value(number, type)
        return found

    def number(self, operand: Operand) -> Value:
        """An i64 as a value."""
        if not isinstance(operand, int):
            return operand
        found = self._numbers.get(operand)
        if found is None:
            found = self._numbers[operand] = self.constant(operand, i64)
        return found

    def loop(
        self,
        low: Operand,
        high: Operand,
        step: Operand = 1,
        *,
        carried: Sequence[Value] = (),
        nonempty: bool = False,
        marks: Mapping[str, Attribute] | None = None,
    ) -> LoopFrame:
        """`for index in range(low, high, step)` in i64; `nonempty`: low < high. See `LoopFrame`.

        Args:
            low, high, step: the range.
            carried: the values that the first iteration gets.
            nonempty: there is one iteration at least.
            marks: attributes that the loop gets.
        """
        runs = nonempty or (isinstance(low, int) and isinstance(high, int) and low < high)
        bounds = [self.number(low), self.number(high), self.number(step)]
        return LoopFrame(self, bounds, carried, {**(marks or {}), **({NONEMPTY: UNIT} if runs else {})})

    def parallel(
        self, low: Operand, high: Operand, step: Operand, *, unroll: int, facts: Mapping[str, Attribute]
    ) -> ParallelFrame:
        """A loop whose iterations may run in any order, `unroll` of them at once. See `ParallelFrame`.

        Args:
            low, high, step: the range.
            unroll: the number of iterations that run at once.
            facts: further attributes of the loop.
        """
        bounds = [self.number(low), self.number(high), self.number(step)]
        attributes = {**facts} if unroll == 1 else {**facts, UNROLL: Number(unroll, i64)}
        return ParallelFrame(self, bounds, attributes)

    def branch(self, condition: Value, *, unlikely: bool = False) -> BranchFrame:
        """`if condition`. See `BranchFrame`."""
        return BranchFrame(self, condition, {UNLIKELY: UNIT} if unlikely else {})


B = TypeVar("B", bound=StructureBuilder)


class Elsewhere(Generic[B]):
    """Ops go elsewhere within a `with`; a class, since a generator costs four times as much."""

    __slots__ = ("_block", "_builder", "_outer", "_place")

    def __init__(self, builder: B, block: Block, place: Place | None) -> None:
        self._builder, self._block, self._place = builder, block, place

    def __enter__(self) -> B:
        builder = self._builder
        self._outer = builder.block, builder._place
        builder.block, builder._place = self._block, self._place
        return builder

    def __exit__(self, *_: object) -> None:
        self._builder.block, self._builder._place = self._outer


class LoopFrame:
    """A loop whose body is being built.

    Attributes:
        index: the counter.
        carried: what the iteration before passed on, or the initial values.
        next: what this iteration passes on; to be set inside.
        results: what the last iteration passed on; after the loop.
    """

    __slots__ = ("_attributes", "_bounds", "_elsewhere", "body", "builder", "carried", "index", "next", "results")

    def __init__(
        self, builder: StructureBuilder, bounds: list[Value], carried: Sequence[Value], attributes: Any
    ) -> None:
        self.builder, self._attributes = builder, attributes
        self._bounds = [*bounds, *carried]
        self.body = Block([i64, *[value.type for value in carried]])
        self.index, *self.carried = self.body.args
        self.next: Sequence[Value] = ()
        self._elsewhere = builder.into(self.body)

    def __enter__(self) -> Self:
        self._elsewhere.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        assert raised[0] is not None or len(self.next) == len(self.carried), "loop.next has one value per carried one"
        self.body.append(Op(OPS["scf.yield"], self.next))
        self._elsewhere.__exit__()
        types = [value.type for value in self.carried]
        op = Op(OPS["scf.for"], self._bounds, types, self._attributes, [Region((self.body,))])
        self.results = self.builder.append(op).results


class ParallelFrame:
    """An `scf.parallel` whose body is being built.

    Attributes:
        index: the counter.
        results: what the values given to `reduce` combine to; after the loop.
    """

    __slots__ = ("_attributes", "_bounds", "_builder", "_elsewhere", "_types", "body", "index", "results")

    def __init__(self, builder: StructureBuilder, bounds: list[Value], attributes: Any) -> None:
        self._builder, self._bounds, self._attributes = builder, bounds, attributes
        self.body = Block((i64,))
        (self.index,) = self.body.args
        self._types: list[Type] = []
        self._elsewhere = builder.into(self.body)

    def __enter__(self) -> Self:
        self._elsewhere.__enter__()
        return self

    def reduce(self, values: Sequence[Value], combine: Region) -> None:
        """Combine `values` of all iterations by the function in the region, of which a copy is made."""
        copy = Region()
        combine.clone_into(copy, {}, {})
        end = copy.block.terminator
        copy.block.append(Op(OPS["scf.reduce.return"], end.operands))
        end.erase()
        self._builder.append(Op(OPS["scf.reduce"], values, (), None, [copy], (), self._builder.location))
        self._types += [value.type for value in values]

    def __exit__(self, *_: object) -> None:
        self._elsewhere.__exit__()
        op = Op(OPS["scf.parallel"], self._bounds, self._types, self._attributes, [Region((_closed(self.body),))])
        self.results = self._builder.append(op).results


class BranchFrame:
    """An `if` being built: fill `then()` and perhaps `otherwise()`, and `join` values of both behind it."""

    __slots__ = ("_attributes", "_blocks", "_builder", "_condition", "op")

    def __init__(self, builder: StructureBuilder, condition: Value, attributes: Any) -> None:
        self._builder, self._condition, self._attributes = builder, condition, attributes
        self._blocks: list[Block | None] = [None, None]

    def __enter__(self) -> Self:
        return self

    def then(self) -> Elsewhere[StructureBuilder]:
        """The ops where the condition holds."""
        return self._side(0)

    def otherwise(self) -> Elsewhere[StructureBuilder]:
        """The ops where it does not."""
        return self._side(1)

    def _side(self, number: int) -> Elsewhere[StructureBuilder]:
        block = self._blocks[number] = Block()
        return self._builder.into(block)

    def __exit__(self, *_: object) -> None:
        then, otherwise = self._blocks
        regions = [Region((_closed(then or Block()),)), Region(() if otherwise is None else (_closed(otherwise),))]
        self.op = If(OPS["scf.if"], (self._condition,), (), self._attributes, regions)
        self._builder.append(self.op)

    def join(self, chosen: Value, other: Value) -> Value:
        """The value of the side that was taken."""
        return join(self.op, chosen, other)


def join(branch: If, chosen: Value, other: Value) -> Value:
    """A further result of an `scf.if`: the value of the side that was taken."""
    if not branch.otherwise.blocks:
        branch.otherwise.add(_closed(Block()))
    for region, value in ((branch.then, chosen), (branch.otherwise, other)):
        end = region.block.terminator
        end.set_operands([*end.operands, value])
    result = Value(chosen.type, branch, len(branch.results))
    branch.results.append(result)
    return result


def _closed(block: Block) -> Block:
    block.append(Op(OPS["scf.yield"]))
    return block
