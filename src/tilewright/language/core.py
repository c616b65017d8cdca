"""Triton's `tl.core`: how builtins are called, and the list of them in `names`.

    tl.core.load(pointer, _semantic=semantic)         as extensions of the language call it

Errors in a builtin pass through this file, so that tracebacks show a file with Triton's name.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from types import FunctionType
from typing import Any

from tilewright.semantics.active import OUTSIDE, is_running
from tilewright.support.diagnostics import SemanticError

BUILTIN = "__triton_builtin__"
"""The attribute of Python functions that kernels may call on tiles; Triton's name."""


def accept_semantic(module: dict[str, Any]) -> None:
    """Lets the functions of a module be called with `_semantic=…` and `_generator=…`, as Triton's extensions do.

    Here these say nothing: what a function emits goes where the running kernel's ops go.

    Args:
        module: its variables.
    """
    for name, found in list(module.items()):
        if isinstance(found, FunctionType) and found.__module__ == module["__name__"] and not name.startswith("_"):
            module[name] = _accepting_semantic(found)


def _accepting_semantic(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def call(*args: Any, _semantic: Any = None, _generator: Any = None, **keywords: Any) -> Any:
        try:
            return function(*args, **keywords)
        except (SemanticError, AttributeError):
            if is_running():
                raise
            raise RuntimeError(OUTSIDE) from None  # arguments may be looked at before it is asked where ops go

    setattr(call, BUILTIN, True)
    return call


def __getattr__(name: str) -> Any:
    """A name of `names.CORE`, whose modules import this one."""
    names = {} if name.startswith("__") and name != "__all__" else import_module("tilewright.language.names").CORE
    if name != "__all__" and name not in names:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=None)
    globals()[name] = sorted(names) if name == "__all__" else names[name]
    return globals()[name]
