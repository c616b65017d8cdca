"""Results of asynchronous matrix products, which become tiles only when the program waits for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from tilewright.ir.types import Type
from tilewright.semantics.tile import Held
from tilewright.semantics.types import AnyType


class running_type:  # noqa: N801 - as Triton's types are called
    """The type of a sum that will be a tile of `tensor_type`."""

    __slots__ = ("ir", "tensor_type")
    held_by: ClassVar[Callable[..., Any]]
    _interned: ClassVar[dict[Any, running_type]] = {}
    tensor_type: AnyType
    ir: Type

    def __new__(cls, tensor_type: AnyType) -> running_type:
        found = cls._interned.get(tensor_type)
        if found is None:
            found = cls._interned[tensor_type] = object.__new__(cls)
            found.tensor_type, found.ir = tensor_type, tensor_type.ir
        return found

    def mangle(self) -> str:
        """The part of a mangled function name for this type."""
        return f"FT{self.tensor_type.mangle()}FT"

    def __str__(self) -> str:
        return f"warpgroup_mma_accumulator<{self.tensor_type}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return running_type, (self.tensor_type,)


class RunningSum(Held):
    """A sum to which `wgmma` still adds."""

    __slots__ = ()
    type: running_type


running_type.held_by = RunningSum
