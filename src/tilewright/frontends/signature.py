"""The parameters that a kernel is compiled for: the type or the constant value of each.

Parameter("x_ptr", pointer_type(float32), divisibility=16)     # an argument of the compiled kernel
Parameter("BLOCK", constant=128)                               # compiled in
Parameter("pair", elements=(Parameter("0", int32), Parameter("1", constant=None)))    # a tuple of them
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.semantics.types import AnyType


class _NoConstant:
    """The type of `NO_CONSTANT`."""

    def __repr__(self) -> str:
        return "NO_CONSTANT"


NO_CONSTANT = _NoConstant()


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel, specialised.

    Attributes:
        name: as the function declares it.
        type: the language type of a run-time argument; None for constants and tuples. Types that stand for several
            arguments (tensor descriptors) have a method `arguments()`.
        constant: the value of a compile-time parameter, else NO_CONSTANT.
        divisibility: 16 if the run-time value is known to be a multiple of 16, else 1.
        elements: the parameters that make up a tuple, else None.
        container: the tuple class (a named tuple, perhaps) of `elements`, or any function from the list of their
            values to the value of the parameter.
    """

    name: str
    type: AnyType | None = None
    constant: Any = NO_CONSTANT
    divisibility: int = 1
    elements: tuple[Parameter, ...] | None = None
    container: Any = tuple

    @property
    def is_constant(self) -> bool:
        """Whether the value is compiled in."""
        return self.constant is not NO_CONSTANT
