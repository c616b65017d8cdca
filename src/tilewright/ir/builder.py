"""The recording emitter: ops go to the end of a block, equal constants share one op in the entry block.

builder = Builder(function.regions[0].block)
(total,) = builder.emit("arith.addi", [a, b], [i32])
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from tilewright.ir.attributes import UNKNOWN, Attribute, Location, Number
from tilewright.ir.core import Block, Op, Region, Value
from tilewright.ir.declare import OPS, literal_definition
from tilewright.ir.literals import canonical
from tilewright.ir.types import Type


class ConstantPool:
    """The constants of one function, unique, at the start of its entry block.

    Constants that already stand at the start are taken over. They are read when a constant is first asked for: most
    builders of passes never need one.
    """

    __slots__ = ("_known", "_last", "block")

    def __init__(self, block: Block) -> None:
        self.block = block
        self._known: dict[tuple[object, ...], Op] | None = None
        self._last: Op | None = None

    @property
    def _found(self) -> dict[tuple[object, ...], Op]:
        """The constants by key."""
        known = self._known
        if known is None:
            known = self._known = {}
            op = self.block.first
            while op is not None and op.definition.constant:
                known.setdefault(constant_key(op.attributes["value"]), op)
                self._last = op
                op = op.next
        return known

    def value(self, value: int | float, type: Type) -> Value:
        """The constant `value` of `type`, a splat when that is a tensor."""
        number = Number(canonical(value, type), type)
        key = constant_key(number)
        constants = self._found
        found = constants.get(key)
        if found is None or found.block is not self.block:
            found = constants[key] = Op(literal_definition(), (), (type,), {"value": number})
            self._place(found)
        return found.results[0]

    def adopt(self, op: Op) -> bool:
        """Move a constant op to the pool; one that equals another one there gives way to it.

        Returns:
            whether that changed anything: the op did not stand there.
        """
        key, constants = constant_key(op.attributes["value"]), self._found
        found = constants.get(key)
        if found is not None and found is not op and found.block is not None:
            op.replace(found.results)
            return True
        constants[key] = op
        if op is not self._last:
            op.unlink()
            self._place(op)
        return found is not op

    def _place(self, op: Op) -> None:
        last = self._last
        at_start = last is None or last.block is not self.block
        self.block.insert(op, self.block.first if at_start or last is None else last.next)
        self._last = op


def constant_key(attribute: Attribute) -> tuple[object, ...]:
    """A key that is equal for attributes of constants that denote the same bits; 0.0 and -0.0 differ."""
    if isinstance(attribute, Number):
        value = attribute.value
        return (repr(value) if isinstance(value, float) else value, attribute.type)
    return (repr(attribute),)


class Builder:
    """Records ops at the end of `block`.

    Args:
        block: where ops go.
        entry: the block that gets the constants; by default `block`.
    """

    def __init__(self, block: Block, entry: Block | None = None) -> None:
        self.block = block
        self.location: Location = UNKNOWN
        self._constants = ConstantPool(entry if entry is not None else block)

    runs_now = False

    def emit(
        self,
        name: str,
        operands: Sequence[Value] = (),
        result_types: Sequence[Type] = (),
        attributes: dict[str, Attribute] | None = None,
        regions: Sequence[Region] = (),
        *,
        successors: Sequence[Block] = (),
    ) -> list[Value]:
        """Append an op of kind `name` and return its results.

        Args:
            name: a declared kind of ops.
            regions: the regions, which the op takes over.
            successors: blocks that a terminator may go on in.
        """
        op = Op(OPS[name], operands, result_types, attributes, regions, successors, self.location)
        self.block.append(op)
        return op.results

    def constant(self, value: int | float, type: Type) -> Value:
        """The number `value` as a scalar, or as a splat when `type` is a tensor.

        Integers wrap and floats are rounded to the type. Raises TypeError for types without numbers.
        """
        return self._constants.value(value, type)

    @contextmanager
    def recording(self, block: Block) -> Iterator[None]:
        """Send ops to the end of `block` until the end of the `with`."""
        outer, self.block = self.block, block
        try:
            yield
        finally:
            self.block = outer

    def concrete(self, value: Value) -> int | float | bool | None:
        """None: while recording nothing has a run-time value, and constants are folded by passes."""
        return None

    def region_of_calls(self, call: Callable[[list[Value]], list[Value]]) -> Region:
        """Fail: no value is known yet that `call` could be called with."""
        raise AssertionError("only an emitter that runs now has values for a call")


class PlacedBuilder(Builder):
    """A builder whose constants stand where they are used, as Triton's do; passes bring them together."""

    def emit(
        self,
        name: str,
        operands: Sequence[Value] = (),
        result_types: Sequence[Type] = (),
        attributes: dict[str, Attribute] | None = None,
        regions: Sequence[Region] = (),
        *,
        successors: Sequence[Block] = (),
    ) -> list[Value]:
        """Append an op of kind `name` and return its results; a constant that is repeated is one."""
        if name == "tt.splat":
            number = _number_of(operands[0])
            if number is not None:
                return [self.constant(number, result_types[0])]
        return super().emit(name, operands, result_types, attributes, regions, successors=successors)

    def constant(self, value: int | float, type: Type) -> Value:
        """The number `value` as a scalar, or as a splat when `type` is a tensor."""
        number = Number(canonical(value, type), type)
        op = Op(literal_definition(), (), (type,), {"value": number}, location=self.location)
        self.block.append(op)
        return op.results[0]


def _number_of(value: Value) -> int | float | None:
    """The number that a value is known to be."""
    op = value.op
    found = op.attributes["value"] if op is not None and op.definition.constant else None
    return found.value if isinstance(found, Number) else None
