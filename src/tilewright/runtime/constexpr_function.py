"""`@constexpr_function`: Python code that runs while a kernel that calls it is compiled.

    @constexpr_function
    def half(n):
        return n // 2

    half(8)                          4, on the host
    size: tl.constexpr = half(BLOCK)     in a kernel, whose key depends on the text of `half` and on its reads

In a class it is a method, also of aggregates. `next_power_of_2` is such a function of sizes, which hosts and kernels
need.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any

from tilewright.runtime.captured import CapturedFunction, check_used
from tilewright.runtime.jit import forget_launches
from tilewright.semantics.constexpr import unwrap


class ConstexprFunction(CapturedFunction):
    """A Python function that runs while kernels are compiled, or on the host."""

    def __init__(self, fn: FunctionType) -> None:
        super().__init__(fn)
        self.frontend = "constexpr"  # part of the key: the same text under @jit means something else

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the Python function; constants arrive as the values that they hold."""
        check_used(self)
        return self.fn(*map(unwrap, args), **{name: unwrap(value) for name, value in kwargs.items()})

    def __repr__(self) -> str:
        return f"ConstexprFunction({self.__module__}:{self.__qualname__})"

    def forget_code(self) -> None:
        """The source changed: any kernel may have had the function as an argument."""
        forget_launches()


def constexpr_function(fn: Callable[..., Any]) -> ConstexprFunction:
    """Marks a Python function that kernels call on constants while they are compiled.

    Args:
        fn: the function. What it calls has to be like it, or a plain function of the same program.

    Example:
        >>> @tw.constexpr_function
        ... def half(n):
        ...     return n // 2
        >>> @tw.jit
        ... def fill(x_ptr, N: tl.constexpr):
        ...     tl.store(x_ptr + tl.arange(0, half(N)), 1.0)
        >>> x = np.zeros(8)
        >>> kernel = fill[(1,)](x, N=8)
        >>> x.sum()
        np.float64(4.0)
    """
    if isinstance(fn, ConstexprFunction):
        return fn
    if not isinstance(fn, FunctionType):
        raise TypeError(f"@constexpr_function marks Python functions, not a {type(fn).__name__}")
    return ConstexprFunction(fn)


def next_power_of_2(n: Any) -> int:
    """The smallest power of two that is not below `n`; 0 for zero and below, as in Triton: programs test for it.

    Raises:
        TypeError: `n` is not a whole number.

    Example:
        >>> tw.next_power_of_2(781)
        1024
    """
    size = operator.index(unwrap(n))
    return 1 << (size - 1).bit_length() if size > 0 else 0
