"""`gluon.jit`: kernels of Gluon, which are launched as all others are."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from tilewright.runtime.jit import JITFunction


class GluonJITFunction(JITFunction):
    """A kernel of Gluon: its tiles have layouts, and it runs on GPUs, simulated ones among them."""

    __slots__ = ()

    def is_gluon(self) -> bool:
        """True."""
        return True


def jit(fn: Any = None, **options: Any) -> Any:
    """Make a kernel of Gluon of a Python function.

    Args:
        fn: the function; without it, a decorator is returned.
        options: those of `tilewright.jit`, but `interpret`: layouts, barriers and groups of warps are a GPU's.

    Raises:
        TypeError: `fn` is no function, or has parameters that a kernel cannot have.
    """
    if fn is None:
        return lambda function: jit(function, **options)
    if isinstance(fn, JITFunction):
        return fn
    if not isinstance(fn, FunctionType):
        raise TypeError(f"@gluon.jit makes kernels of Python functions, not of a {type(fn).__name__}")
    return GluonJITFunction(fn, **{name: value for name, value in options.items() if value is not None})
