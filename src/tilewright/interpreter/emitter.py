"""The eager emitter: every op is executed as soon as it is emitted.

    with emitting_into(EagerEmitter(machine)):
        x + y          # a tensor whose values are already computed

Only the regions of reductions and scans are recorded, because they are executed later, on other values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tilewright.interpreter.machine import Interpreter, Known, checked, constant_array
from tilewright.ir.attributes import UNKNOWN, Attribute, Location, Number
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Op, Region, Value
from tilewright.ir.literals import canonical
from tilewright.ir.types import Type


class EagerEmitter:
    """Executes ops on `machine`; see `Emitter` in `semantics/active.py` for the protocol."""

    def __init__(self, machine: Interpreter) -> None:
        self.machine = machine
        self.location: Location = UNKNOWN
        self._recorder: Builder | None = None

    @property
    def runs_now(self) -> bool:
        """Whether ops run now, as they do not while the regions of reductions and scans are recorded."""
        return self._recorder is None

    def emit(
        self,
        name: str,
        operands: Sequence[Value] = (),
        result_types: Sequence[Type] = (),
        attributes: dict[str, Attribute] | None = None,
        regions: Sequence[Region] = (),
    ) -> list[Value]:
        """Execute (or record) an op of kind `name` and return its results."""
        if self._recorder is not None:
            return self._recorder.emit(name, operands, result_types, attributes, regions)
        op = Op.create(name, operands, result_types, attributes, regions, location=self.location)
        results = self.machine.execute(op, self.machine.operands(op))
        known: list[Value] = [
            known_value(checked(result, type, op), type, op, index)
            for index, (result, type) in enumerate(zip(results, result_types, strict=True))
        ]
        # Forgotten, or every value would keep alive all values that it was computed from.
        op.drop_uses()
        op.operands, op.regions, op.results = [], (), known
        return known

    def constant(self, value: int | float, type: Type) -> Value:
        """The number `value` as a scalar, or as a splat when `type` is a tensor."""
        if self._recorder is not None:
            return self._recorder.constant(value, type)
        number = Number(canonical(value, type), type)
        op = Op.create("arith.constant", (), (), {"value": number})
        return known_value(constant_array(number), type, op, 0)

    @contextmanager
    def recording(self, block: Block) -> Iterator[None]:
        """Record ops at the end of `block` until the end of the `with`."""
        outer, self._recorder = self._recorder, Builder(block)
        try:
            yield
        finally:
            self._recorder = outer

    def region_of_calls(self, call: Callable[[list[Value]], list[Value]]) -> Region:
        """A region that calls back for each element, with values that have their numbers."""
        return CalledRegion(call)

    def concrete(self, value: Value) -> int | float | bool | None:
        """The number that a scalar has; None for tiles and inside of recorded regions."""
        if not isinstance(value, Known) or value.type.shape is not None:
            return None
        number: int | float | bool = value.array.item()
        return number


class CalledRegion(Region):
    """The region that a reduction, scan or map applies to elements, as a Python function of values."""

    def __init__(self, call: Callable[[list[Value]], list[Value]]) -> None:
        super().__init__()
        self.function = call

    def call(self, numbers: Sequence[Any], types: Sequence[Type]) -> list[Any]:
        """The function of these numbers."""
        values: list[Value] = [
            known_value(number, type, Block(), 0) for number, type in zip(numbers, types, strict=True)
        ]
        results = self.function(values)
        return [value.array for value in results if isinstance(value, Known)]


def known_value(array: object, type: Type, owner: Op | Block, index: int) -> Known:
    """A value of `type` that has its numbers."""
    value = Known(type, owner, index)
    value.array = array
    return value
