"""Readers that read a function once: what was read lies with the function, and goes with it.

    read_once = memoise(read_function, "ast")
    read_once(kernel) is read_once(kernel)

A table outside would keep functions for ever, even one with weak keys: HIR knows the function that it was read from.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import TypeAlias

from tilewright.frontends import hir

Reader: TypeAlias = Callable[[FunctionType], hir.Function]


def memoise(read: Reader, name: str) -> Reader:
    """`read`, which does not read a function again.

    Args:
        read: the reader.
        name: of the reader, which no other has.
    """
    slot = f"_tilewright_hir_{name}"

    def read_once(python: FunctionType) -> hir.Function:
        found: hir.Function | None = python.__dict__.get(slot)
        if found is None or found.python is not python:  # functools.wraps copies what lies with a function
            found = python.__dict__[slot] = read(python)
        return found

    return read_once
