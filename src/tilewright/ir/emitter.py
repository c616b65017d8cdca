"""The interface between semantics and recording: an emitter takes ops and hands back their results.

The builder records; the eager interpreter computes at once. Semantics cannot tell them apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from tilewright.ir.attributes import Attribute, Location
from tilewright.ir.core import Block, Region, Value
from tilewright.ir.types import Type


class Emitter(Protocol):
    """Takes ops one at a time."""

    location: Location
    """The place where the user's program is now; the next ops get it."""

    @property
    def runs_now(self) -> bool:
        """Whether ops are executed as they are emitted."""
        ...

    def emit(
        self,
        name: str,
        operands: Sequence[Value] = (),
        result_types: Sequence[Type] = (),
        attributes: dict[str, Attribute] | None = None,
        regions: Sequence[Region] = (),
    ) -> list[Value]:
        """Add an op of kind `name` and return its results."""
        ...

    def constant(self, value: int | float, type: Type) -> Value:
        """The number `value` as a scalar, or as a splat when `type` is a tensor; equal constants may share a value."""
        ...

    def recording(self, block: Block) -> AbstractContextManager[None]:
        """Record ops at the end of `block` until the end of the `with` (also by an eager emitter)."""
        ...

    def concrete(self, value: Value) -> int | float | bool | None:
        """The run-time value of a scalar if it is already known (eager emitter), else None."""
        ...

    def region_of_calls(self, call: Callable[[list[Value]], list[Value]]) -> Region:
        """A region of a reduction, scan or map that calls back for each element (eager emitter)."""
        ...
