"""Which front end reads a kernel, by name.

    ast         its source text, as Triton does
    bytecode    what CPython made of it: no source needed
    auto        the source where there is one, else the bytecode

All of them read a function into HIR; functions that a kernel calls are read by the kernel's front end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType
from weakref import WeakKeyDictionary

from tilewright.frontends import from_ast, from_bytecode, hir
from tilewright.frontends.errors import NoSource
from tilewright.support.diagnostics import CompilationError

Reader = Callable[[FunctionType], hir.Function]


def reader(name: str) -> Reader:
    """The front end with this name; what it has read of a function is kept as long as the function."""
    return READERS[name]


def _kept(read: Reader) -> Reader:
    """`read`, which does not read a function again."""
    known: WeakKeyDictionary[FunctionType, hir.Function] = WeakKeyDictionary()

    def read_once(python: FunctionType) -> hir.Function:
        found = known.get(python)
        if found is None:
            found = known[python] = read(python)
        return found

    return read_once


def _read_auto(python: FunctionType) -> hir.Function:
    try:
        return from_ast.read_function(python)
    except CompilationError as error:
        if not isinstance(error.diagnostic, NoSource):
            raise
        return from_bytecode.read_function(python)


READERS: Mapping[str, Reader] = {
    "ast": from_ast.read_function_once,
    "auto": _kept(_read_auto),
    "bytecode": _kept(from_bytecode.read_function),
}
