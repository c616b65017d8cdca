"""Decorators with which Triton's programs mark functions of the language."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tilewright.language.core import BUILTIN

Function = TypeVar("Function", bound=Callable[..., Any])


def builtin(fn: Function) -> Function:
    """Marks a Python function that kernels may call on tiles; it runs while the kernel is compiled."""
    setattr(fn, BUILTIN, True)
    return fn


def is_builtin(fn: Any) -> bool:
    """Whether `fn` is marked so."""
    return bool(getattr(fn, BUILTIN, False))
