"""Shared by the front-end tests: plain Python functions to TTIR text, with parameters written shortly."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import tilewright.dialects
import tilewright.language as tl
from tilewright.frontends import EvaluateOptions, Parameter, evaluate_kernel, read_function
from tilewright.ir.core import Op
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify
from tilewright.language.callable import JITCallable

assert tilewright.dialects  # its import declares the ops


class Typed:
    """A run-time parameter: `Typed("*fp32", 16)`."""

    def __init__(self, type: str, divisibility: int = 1) -> None:
        self.type = tl.str_to_ty(type)
        self.divisibility = divisibility


def run_time(type: str, divisibility: int = 1) -> Typed:
    """A run-time parameter of that type."""
    return Typed(type, divisibility)


class Helper(JITCallable):
    """A function as `@jit` hands it to the front end."""

    def __init__(self, fn: FunctionType, noinline: bool = False) -> None:
        self.fn = fn
        self.noinline = noinline
        self.__name__ = fn.__name__


def jit(fn: FunctionType) -> Helper:
    """Mark a helper function."""
    return Helper(fn)


def parameter(name: str, value: Any) -> Parameter:
    """`run_time(…)` gives an argument, a tuple a tuple, everything else a constant."""
    if isinstance(value, Typed):
        return Parameter(name, value.type, divisibility=value.divisibility)
    if isinstance(value, tuple):
        items = tuple(parameter(str(i), item) for i, item in enumerate(value))
        return Parameter(name, elements=items, container=type(value))
    return Parameter(name, constant=value)


def evaluate(fn: Callable[..., Any], options: EvaluateOptions | None = None, **values: Any) -> Op:
    """The verified module of a kernel."""
    python = getattr(fn, "fn", fn)
    parameters = [parameter(name, value) for name, value in values.items()]
    module = evaluate_kernel(read_function(python), parameters, name=python.__name__, options=options)
    verify(module)
    return module


def ttir(fn: Callable[..., Any], options: EvaluateOptions | None = None, **values: Any) -> str:
    """The text of the module of a kernel."""
    return print_op(evaluate(fn, options, **values))
