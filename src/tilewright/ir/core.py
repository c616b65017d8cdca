"""SSA: values, ops, blocks and regions, independent of dialects.

    module ─ region ─ block ─ op ─ region ─ block ─ op …
    op.operands: list[Value]   op.results: list[Value]   value.uses: {op: how many operands}

Ops of a block form a doubly linked list (`block.first`, `op.next`), so inserting and erasing cost O(1).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import compress
from typing import Any, Self, TypeVar

from tilewright.ir.attributes import UNKNOWN, Attribute, Location, Number
from tilewright.ir.declare import OPS, OUTER, OpDefinition, classes_of
from tilewright.ir.types import MemDescType, TensorType, Type

OpT = TypeVar("OpT", bound="Op")


class Value:
    """An SSA value: result `index` of an op, or argument `index` of a block.

    Attributes:
        owner: the op that computes the value, or the block that has it as an argument.
        op: the op that computes the value; None for a block argument.
    """

    __slots__ = ("index", "location", "name", "op", "owner", "type", "uses")

    def __init__(self, type: Type, owner: Op | Block, index: int, name: str | None = None) -> None:
        self.type = type
        self.owner = owner
        self.op: Op | None = None if owner.__class__ is Block else owner  # type: ignore[assignment]  # isinstance is slow
        self.index = index
        self.uses: dict[Op, int] = {}
        self.name = name
        self.location: Location | None = None

    @property
    def block(self) -> Block | None:
        """The block that has the op, or the argument."""
        owner = self.owner
        return owner.block if isinstance(owner, Op) else owner

    def replace_by(self, new: Value) -> None:
        """Let every user of this value use `new` instead; a nameless `new` takes this value's name."""
        if new is self or not self.uses:
            return
        for op, count in self.uses.items():
            op.operands = [new if v is self else v for v in op.operands]
            new.uses[op] = new.uses.get(op, 0) + count
        self.uses = {}
        if new.name is None:
            new.name = self.name

    def replace_in(self, users: Iterable[Op], new: Value) -> None:
        """Let some of the users of this value use `new` instead."""
        for op in list(users):
            op.set_operands([new if v is self else v for v in op.operands])


class Op:
    """One operation. Use `Op.create` with the op's name, or the constructor with its definition.

    Either makes an object of the class that the op's kind declares, whose fields have names (see `ir.fields`).
    """

    __slots__ = (
        "attributes",
        "block",
        "definition",
        "location",
        "name",
        "next",
        "operands",
        "previous",
        "regions",
        "results",
        "successors",
    )

    def __init__(
        self,
        definition: OpDefinition,
        operands: Sequence[Value] = (),
        result_types: Sequence[Type] = (),
        attributes: dict[str, Attribute] | None = None,
        regions: Sequence[Region] = (),
        successors: Sequence[Block] = (),
        location: Location = UNKNOWN,
    ) -> None:
        kind = definition.kind
        if kind is not None:
            self.__class__ = kind
        self.name = definition.name
        self.definition = definition
        self.operands: list[Value] = list(operands)
        for value in self.operands:
            uses = value.uses
            uses[self] = uses[self] + 1 if self in uses else 1
        if len(result_types) == 1:  # nearly always; a loop takes a quarter of the time to make an op
            self.results = [Value(result_types[0], self, 0)]
        else:
            self.results = [Value(t, self, i) for i, t in enumerate(result_types)] if result_types else []
        self.attributes: dict[str, Attribute] = attributes if attributes is not None else {}
        self.regions = regions
        for region in regions:
            region.op = self
        self.successors = successors
        self.location = location
        self.block: Block | None = None
        self.previous: Op | None = None
        self.next: Op | None = None

    @classmethod
    def create(
        cls,
        name: str,
        operands: Sequence[Value] = (),
        result_types: Sequence[Type] = (),
        attributes: dict[str, Attribute] | None = None,
        regions: Sequence[Region] = (),
        *,
        successors: Sequence[Block] = (),
        location: Location = UNKNOWN,
    ) -> Op:
        """A new op of the declared kind `name`, not yet in any block.

        Args:
            name: a declared kind of ops.
            regions: the regions, which the op takes over.
            successors: blocks that a terminator may go on in.
            location: the place in the user's program.
        """
        return cls(OPS[name], operands, result_types, attributes, regions, successors, location)

    @property
    def result(self) -> Value:
        """The first result."""
        return self.results[0]

    @property
    def parent(self) -> Op | None:
        """The op whose region holds this op."""
        return None if self.block is None or self.block.region is None else self.block.region.op

    def set_operand(self, index: int, value: Value) -> None:
        uses = self.operands[index].uses
        uses[self] -= 1
        if not uses[self]:
            del uses[self]
        self.operands[index] = value
        value.uses[self] = value.uses.get(self, 0) + 1

    def set_operands(self, values: Iterable[Value]) -> None:
        self._forget_operands()
        self.operands = operands = list(values)
        for value in operands:
            uses = value.uses
            uses[self] = uses.get(self, 0) + 1

    def unlink(self) -> None:
        """Take the op out of its block; operands and uses stay."""
        block, before, after = self.block, self.previous, self.next
        assert block is not None, f"{self.name} is in no block"
        block.listed = None
        if before is None:
            block.first = after
        else:
            before.next = after
        if after is None:
            block.last = before
        else:
            after.previous = before
        self.block = self.previous = self.next = None

    def drop_uses(self) -> None:
        """Give up all operands, also those of the ops inside."""
        self._forget_operands()
        self.operands = []
        for region in self.regions:
            for block in region.blocks:
                for op in block.ops():
                    op.drop_uses()

    def _forget_operands(self) -> None:
        for value in self.operands:
            uses = value.uses
            if uses[self] == 1:
                del uses[self]
            else:
                uses[self] -= 1

    def erase(self) -> None:
        """Remove the op for good; nothing may use its results any more."""
        if self.block is not None:
            self.unlink()
        self.drop_uses()
        for region in self.regions:
            _take_apart(region)

    def destroy(self) -> None:
        """Take the op and all ops inside apart, for good; nothing may use any of them any more.

        They refer to one another in circles, so only the garbage collector would free their memory: a compilation
        that leaves its module to it takes up to a tenth longer.
        """
        self.operands.clear()
        self.results.clear()
        self.previous = self.next = None
        for region in self.regions:
            _take_apart(region)

    def replace(self, values: Sequence[Value]) -> None:
        """Let `values` take the place of the results, and erase the op."""
        for result, value in zip(self.results, values, strict=True):
            result.replace_by(value)
        self.erase()

    def walk(self) -> Iterator[Op]:
        """This op and all ops inside, outer before inner; the yielded op may be erased."""
        yield self
        if self.regions:
            yield from _walk([*reversed(self.regions)])

    def ops_of(self, kind: type[OpT] | tuple[type[OpT], ...]) -> list[OpT]:
        """This op and those inside that are of a class, in the order of `walk`; most programs have few kinds of ops."""
        classes = classes_of(kind if isinstance(kind, tuple) else (kind,), len(OPS))
        found: list[Any] = [self] if type(self) in classes else []
        _find(self.regions, classes, classes | OUTER, found)
        return found

    def clone(self, mapping: dict[Value, Value] | None = None, blocks: dict[Block, Block] | None = None) -> Self:
        """A copy whose operands go through `mapping`; the mapping learns the copied results and arguments."""
        mapping = {} if mapping is None else mapping
        regions: Sequence[Region] = ()
        successors: Sequence[Block] = ()
        if self.regions or self.successors:
            blocks = {} if blocks is None else blocks
            regions = [Region() for _ in self.regions]
            successors = [blocks.get(b, b) for b in self.successors]
        copy = self.__class__(
            self.definition,
            list(map(mapping.get, self.operands, self.operands)),
            [result.type for result in self.results],
            self.attributes.copy(),
            regions,
            successors,
            self.location,
        )
        for old, new in zip(self.results, copy.results):  # noqa: B905 - of one length; asking takes as long as the rest
            new.name, new.location = old.name, old.location
            mapping[old] = new
        if blocks is not None:
            for source, target in zip(self.regions, regions, strict=True):
                source.clone_into(target, mapping, blocks)
        return copy


class Block:
    """Arguments, then ops in order; the last one is a terminator (but for a module's body).

    Attributes:
        is_outer: an op with regions is in the block, or was.
        listed: the ops in order, if somebody has asked for them since the last change.
        kinds: the classes of the ops that are in the block or inside them, or were.
    """

    __slots__ = ("args", "first", "is_outer", "kinds", "last", "listed", "name", "region")

    def __init__(self, arg_types: Iterable[Type] = (), name: str | None = None) -> None:
        self.args = [Value(t, self, i) for i, t in enumerate(arg_types)]
        self.first: Op | None = None
        self.last: Op | None = None
        self.region: Region | None = None
        self.name = name
        self.is_outer = False
        self.listed: list[Op] | None = None
        self.kinds: set[type[Op]] = set()

    def _learn(self, op: Op) -> None:
        """Note the class of an op that comes into the block, and those of the ops inside."""
        kinds = {type(op)}
        if self.region is None and not op.regions:
            self.kinds |= kinds
            return
        for region in op.regions:
            self.is_outer = True
            OUTER.add(type(op))
            for inner in region.blocks:
                kinds |= inner.kinds
        self.tell(kinds)

    def tell(self, kinds: set[type[Op]]) -> None:
        """Let this block, and those around, know the classes of ops inside."""
        block: Block | None = self
        while block is not None and not kinds <= block.kinds:
            block.kinds |= kinds
            around = None if block.region is None else block.region.op
            block = None if around is None else around.block

    def append(self, op: Op) -> Op:
        if op.regions or type(op) not in self.kinds:
            self._learn(op)
        self.listed = None
        last = self.last
        op.block, op.previous, op.next = self, last, None
        if last is None:
            self.first = op
        else:
            last.next = op
        self.last = op
        return op

    def insert(self, op: Op, before: Op | None) -> Op:
        """Put `op` before `before`; None means at the end."""
        if op.regions or type(op) not in self.kinds:
            self._learn(op)
        op.block = self
        self._link(op, op, before)
        return op

    def _link(self, first: Op, last: Op, before: Op | None) -> None:
        """Let the chain of ops from `first` to `last` stand before `before`, or at the end."""
        previous = self.last if before is None else before.previous
        first.previous, last.next, self.listed = previous, before, None
        if previous is None:
            self.first = first
        else:
            previous.next = first
        if before is None:
            self.last = last
        else:
            before.previous = last

    def splice(self, ops: Iterable[Op], before: Op | None = None) -> None:
        """Move ops from where they are to the place before `before`, or to the end; all of a block move at once."""
        if not isinstance(ops, Block):
            for op in ops:
                op.unlink()
                self.insert(op, before)
        elif ops.first is not None and ops.last is not None:
            for op in ops.ops():
                op.block = self
            self._link(ops.first, ops.last, before)
            ops.first = ops.last = ops.listed = None
            self.is_outer = self.is_outer or ops.is_outer
            self.tell(ops.kinds)

    def add_argument(self, type: Type, name: str | None = None) -> Value:
        value = Value(type, self, len(self.args), name)
        self.args.append(value)
        return value

    @property
    def terminator(self) -> Op:
        assert self.last is not None, "an empty block has no terminator"
        return self.last

    def ops(self) -> list[Op]:
        """The ops in order, for readers: the list is kept until the block changes, and is not to be changed itself."""
        listed = self.listed
        if listed is None:
            listed = self.listed = []
            op = self.first
            while op is not None:
                listed.append(op)
                op = op.next
        return listed

    def ops_of(self, kind: type[OpT] | tuple[type[OpT], ...]) -> list[OpT]:
        """The ops of the block itself that are of a class, in order."""
        classes = classes_of(kind if isinstance(kind, tuple) else (kind,), len(OPS))
        ops: list[Any] = [] if self.kinds.isdisjoint(classes) else self.ops()
        return [*compress(ops, map(classes.__contains__, map(type, ops)))]

    def __iter__(self) -> Iterator[Op]:
        """The ops in order; the current one may be erased or moved."""
        op = self.first
        while op is not None:
            after = op.next
            yield op
            op = after


class Region:
    """Blocks of one op; the first is the entry."""

    __slots__ = ("blocks", "op")

    def __init__(self, blocks: Iterable[Block] = ()) -> None:
        self.op: Op | None = None
        self.blocks = list(blocks)
        for block in self.blocks:
            block.region = self

    def add(self, block: Block, position: int | None = None) -> Block:
        """Put a block at the end, or at a position."""
        block.region = self
        self.blocks.insert(len(self.blocks) if position is None else position, block)
        if self.op is not None and self.op.block is not None:
            self.op.block.tell(block.kinds)
        return block

    @property
    def block(self) -> Block:
        """The entry block."""
        return self.blocks[0]

    def walk(self) -> Iterator[Op]:
        """All ops inside, outer before inner; the yielded op may be erased."""
        return _walk([self])

    def clone_into(self, target: Region, mapping: dict[Value, Value], blocks: dict[Block, Block]) -> None:
        for block in self.blocks:
            copy = target.add(Block(name=block.name))
            blocks[block] = copy
            for arg in block.args:
                new = copy.add_argument(arg.type, arg.name)
                new.location = arg.location
                mapping[arg] = new
        for block in self.blocks:
            for op in block:
                blocks[block].append(op.clone(mapping, blocks))


def _take_apart(region: Region) -> None:
    """`Op.destroy` for the ops in a region."""
    region.op = None
    for block in region.blocks:
        for op in block.ops():
            op.operands = op.results = []  # takes a third of the time of emptying both
            op.previous = op.next = None
            for inner in op.regions:
                _take_apart(inner)
        block.args.clear()
        block.first = block.last = block.region = block.listed = None


def _walk(rest: list[Region | Block | Op | None]) -> Iterator[Op]:
    """The ops of what is in `rest`, the last first: one generator, however deep regions lie."""
    while rest:
        entry = rest.pop()
        if isinstance(entry, Region):
            rest += reversed(entry.blocks)
            continue
        op = entry.first if isinstance(entry, Block) else entry
        while op is not None:
            after = op.next
            yield op
            if op.regions:
                rest.append(after)
                rest += reversed(op.regions)
                break
            op = after


def _find(regions: Sequence[Region], classes: frozenset[type], or_outer: frozenset[type], found: list[Any]) -> None:
    """Add the ops inside that are of these classes to `found`; `or_outer` are these, and those with regions."""
    for region in regions:
        for block in region.blocks:
            if block.kinds.isdisjoint(classes):
                continue
            ops = block.ops()
            for op in compress(ops, map(or_outer.__contains__, map(type, ops))):
                if type(op) in classes:
                    found.append(op)
                if op.regions:
                    _find(op.regions, classes, or_outer, found)


def defining(value: Value, kind: type[OpT]) -> OpT | None:
    """The op that computes `value` if it is of this class."""
    return value.owner if isinstance(value.owner, kind) else None


def typed(op: Op | None, kind: type[OpT]) -> OpT:
    """`op`, which is of this class, as those who made it by the name of its kind know."""
    assert isinstance(op, kind), f"{op and op.name} is no {kind.__name__}"
    return op


def tile_type(value: Value) -> TensorType:
    """The type of a tile."""
    assert isinstance(value.type, TensorType), f"{value.type} is no tile"
    return value.type


def buffer_type(value: Value) -> MemDescType:
    """The type of a buffer in shared or tensor memory."""
    assert isinstance(value.type, MemDescType), f"{value.type} is no buffer"
    return value.type


def integer_in(op: Op, name: str) -> int | None:
    """The whole number in an attribute that the kind of `op` does not declare; None if it is missing."""
    number = op.attributes.get(name)
    return int(number.value) if isinstance(number, Number) else None
