"""The arguments that Triton passes to functions that extend its language, in our terms.

    @triton.language.core.builtin
    def twice(x, _semantic=None):
        return _semantic.add(x, x, True)         # the same as tl.add(x, x, _semantic=_semantic)

Such functions, and classes of context managers, run while the kernel is compiled. A call from a kernel adds `_semantic`
(and `_generator`) where they have a parameter of that name, and marks constants as such:

    twice(3)         # x is tl.constexpr(3)
"""

from __future__ import annotations

from collections.abc import Sequence
from types import FunctionType
from typing import Any

from tilewright.language import core
from tilewright.language.aggregates import FIELDS
from tilewright.language.callable import JITCallable
from tilewright.language.tuples import named
from tilewright.language.values import is_compile_time, make_tuple
from tilewright.semantics.active import call_function
from tilewright.semantics.constexpr import constexpr, unwrap
from tilewright.semantics.types import block_type, dtype
from tilewright.support.diagnostics import NotSupported, SemanticError

NAMES = ("_semantic", "_generator")
MAKER = "__init__"


class Semantic:
    """The operations of the language as methods: `_semantic.add(x, y)` is `tl.add(x, y)`."""

    def __getattr__(self, name: str) -> Any:
        if name == "builder":
            raise SemanticError(NotSupported("`_semantic.builder`", "ops are made by the functions of the language"))
        if name not in core.__all__:
            raise AttributeError(f"the language has no function {name}", name=name, obj=self)
        return getattr(core, name)

    @staticmethod
    def call_JitFunction(function: Any, args: Any, kwargs: Any = None) -> Any:  # noqa: N802 - Triton's name
        """A call of a kernel function, as Triton's `_generator` has it."""
        return call_function(function, args, kwargs or {})


SEMANTIC = Semantic()


def is_extension(callee: Any) -> bool:
    """Whether a function (or class) of another package is marked as part of the language."""
    return getattr(callee, core.BUILTIN, False) and not str(callee.__module__).startswith("tilewright.")


def as_constants(value: Any, held: Sequence[Any]) -> Any:
    """An argument of an extension, with constants marked; in tuples, too.

    Types and kernel functions are marked only where a parameter holds them, as in Triton: `tl.int8` is a type.

    Args:
        value: the argument.
        held: what the parameters of the calling function hold.
    """
    if isinstance(value, tuple):
        return named(value.__class__, [as_constants(item, held) for item in value])
    if not is_compile_time(value) or hasattr(value.__class__, FIELDS):
        return value
    if isinstance(value, (dtype, block_type, JITCallable)) and not any(value is other for other in held):
        return value
    return constexpr(value)


def without_marks(value: Any) -> Any:
    """The result of an extension, with constants as they are everywhere else; in tuples, too."""
    if isinstance(value, tuple):
        return make_tuple(value.__class__, [without_marks(item) for item in value])
    return unwrap(value)


def with_semantic(callee: Any, keywords: dict[str, Any]) -> dict[str, Any]:
    """`keywords` with what `callee` has parameters for: a function, a method, or a class with `__init__`."""
    made = getattr(callee, MAKER) if isinstance(callee, type) else callee
    function = getattr(made, "__func__", made)
    if not isinstance(function, FunctionType) or function.__module__.startswith("tilewright."):
        return keywords
    code = function.__code__
    parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return {name: SEMANTIC for name in NAMES if name in parameters} | keywords
