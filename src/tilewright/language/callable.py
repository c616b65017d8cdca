"""What the language knows of a `@jit` function: the Python function behind it.

The runtime subclasses this; the front end recognises calls of other kernels by it.
"""

from __future__ import annotations

from types import FunctionType


class JITCallable:
    """A function in the tile language.

    Attributes:
        fn: the plain Python function.
        noinline: calls of it stay calls.
        frontend: which front end reads it, when it is launched as a kernel; see `frontends.choice`.
    """

    noinline: bool = False
    frontend: str = "auto"

    def __init__(self, fn: FunctionType) -> None:
        self.fn = fn

    def listing(self) -> str:
        """The text that a front end reads."""
        raise NotImplementedError

    @property
    def cache_key(self) -> str:
        """A digest of the function and of everything that it uses."""
        raise NotImplementedError
