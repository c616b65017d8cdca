"""Base classes of functions that kernels use, and whether the result of a call may be dropped.

The runtime subclasses these; the front end recognises calls of other kernels by `JITCallable`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import Any, TypeVar, overload

from tilewright.semantics.active import is_in_python
from tilewright.support.diagnostics import Diagnostic

Function = TypeVar("Function", bound=Callable[..., Any])
MUST_USE = "_must_use_result"
"""The attribute of functions whose result must be used; Triton's name, which its extensions set themselves."""


class ResultUnused(Diagnostic):
    title = "The result of {function} is not being used"
    label = "the call does nothing else"
    help = "{advice}"
    function: str
    advice: str

    @classmethod
    def of(cls, function: str, words: Any) -> ResultUnused:
        """The diagnostic with what the mark says: the advice, or True."""
        return cls(function, words if isinstance(words, str) else "assign it to a variable, or leave the call out")


class KeyedCallable:
    """A function with a digest: in the tile language, or in Python for the time when kernels are compiled.

    Attributes:
        fn: the plain Python function.
    """

    def __init__(self, fn: FunctionType) -> None:
        self.fn = fn

    @property
    def cache_key(self) -> str:
        """A digest of the function and of everything that it uses."""
        raise NotImplementedError


class JITCallable(KeyedCallable):
    """A function in the tile language.

    Attributes:
        noinline: calls of it stay calls.
        frontend: which front end reads it, when it is launched as a kernel; see `frontends.choice`.
    """

    noinline: bool = False
    frontend: str = "auto"

    def is_gluon(self) -> bool:
        """Whether the function is a kernel of Gluon: its tiles have layouts."""
        return False

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """The function; of an object in a kernel that Python runs, its method."""
        function: Any = self
        return self if instance is None or not is_in_python() else partial(function, instance)

    def listing(self) -> str:
        """The text that a front end reads."""
        raise NotImplementedError


@overload
def must_use_result(marked: str) -> Callable[[Function], Function]: ...
@overload
def must_use_result(marked: Function, used: bool | str = True) -> Function: ...


def must_use_result(marked: Any, used: bool | str = True) -> Any:
    """Marks a function whose result must not be dropped: a call as a statement of its own is a CompilationError.

    Args:
        marked: the function, or advice for callers that drop the result (then a decorator is returned).
        used: the advice, or False to take the mark away.
    """
    if isinstance(marked, str):
        return lambda fn: must_use_result(fn, marked)
    setattr(marked, MUST_USE, used)
    return marked
