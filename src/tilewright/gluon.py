"""Gluon: kernels with explicit layouts, shared memory, barriers and warp groups, for (simulated) NVIDIA GPUs.

    from tilewright import gluon
    from tilewright.gluon import language as gl

    @gluon.jit
    def copy(x, out, n, BLOCK: gl.constexpr):
        layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
        offsets = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=layout)
        gl.store(out + offsets, gl.load(x + offsets, mask=offsets < n), mask=offsets < n)
"""

from types import FunctionType
from typing import Any

from tilewright.language import gluon as language
from tilewright.runtime.constexpr_function import constexpr_function
from tilewright.runtime.jit import JITFunction

__all__ = ["GluonJITFunction", "constexpr_function", "jit", "language"]


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
        options: those of `tilewright.jit`, but `interpret`: layouts, barriers and warp groups are a GPU's.

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
