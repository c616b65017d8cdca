"""Functions that kernels may not depend on, because nothing in the cache key determines their results.

    @constexpr_function
    def capability():
        return torch.cuda.get_device_capability()       RuntimeError: the result depends on the machine

The text of a program's own functions is part of the key, with that of all they call. Functions of installed packages
and of the standard library may depend on devices, files or the time; only modules of pure computations are allowed.
"""

from __future__ import annotations

import dis
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import CodeType, FunctionType
from typing import Any, ClassVar

from tilewright.language.counterparts import advice_for
from tilewright.semantics.constexpr import constexpr
from tilewright.support.diagnostics import CompilationError, Diagnostic
from tilewright.support.source import Span

OWN_PACKAGE = __name__.partition(".")[0]
COMPUTE_ONLY = frozenset(("builtins", "cmath", "copy", "functools", "itertools", "math", "operator", "re"))
"""Modules whose functions depend on nothing but their arguments."""
_INSTALLED = (os.path.dirname(os.__file__) + os.sep, "<frozen ")  # noqa: PTH120 - pathlib takes long to import
_PACKAGE_FOLDERS = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


_allowed: list[Callable[[Any], bool]] = []


@contextmanager
def allowing(allows: Callable[[Any], bool]) -> Iterator[None]:
    """Makes functions for which `allows` holds no foreign ones until the end of the `with`. With the lock `hashing`."""
    _allowed.append(allows)
    try:
        yield
    finally:
        _allowed.pop()


class Foreign(Diagnostic):
    """A kernel, or a function that it calls while it is compiled, refers to a function of another package."""

    title: ClassVar[str] = "{reader} refers to {function}, a function of another package"
    label: ClassVar[str] = "no kernel can depend on it: what it gives may change while the kernel is cached"
    help: ClassVar[str] = "{advice}"
    reader: str
    function: str
    advice: str


class ForeignFunction(CompilationError, RuntimeError):  # noqa: N818 - reads as a sentence
    """A function that no kernel can depend on."""


def refuse_foreign(value: Any, reader: FunctionType, path: Sequence[str]) -> None:
    """Check that `reader`, if it is a program's own function, may read `value`, if that is something to call.

    Args:
        path: how it is written: a name and attributes.
    """
    if not callable(value) or isinstance(value, type | constexpr) or getattr(value, "__triton_builtin__", False):
        return
    if any(allows(value) for allows in _allowed):
        return
    module = str(getattr(value, "__module__", None) or getattr(getattr(value, "__self__", None), "__name__", ""))
    package = module.partition(".")[0].lstrip("_")  # `operator` is written in C as `_operator`
    if package in COMPUTE_ONLY or package in (OWN_PACKAGE, (reader.__module__ or "").partition(".")[0]):
        return
    is_foreign = is_installed(module) or (isinstance(value, FunctionType) and _is_file_installed(_file_of(value)))
    if is_foreign and not _is_file_installed(_file_of(reader)):
        name = str(getattr(value, "__qualname__", None) or getattr(value, "__name__", type(value).__name__))
        advice = advice_for(name) if package == "numpy" else advice_for("")
        raise ForeignFunction(Foreign(reader.__qualname__, f"{module}.{name}", advice), _place(reader.__code__, path))


def _place(code: CodeType, path: Sequence[str]) -> Span:
    """The place where a function reads a name with these attributes; else its beginning."""
    for instruction in dis.get_instructions(code):
        found = instruction.positions
        if instruction.argval == path[-1] and found is not None and found.lineno and found.col_offset is not None:
            ends = (found.end_lineno or 0, (found.end_col_offset or -1) + 1)
            return Span(code.co_filename, found.lineno, found.col_offset + 1, *ends)
    return Span(code.co_filename, code.co_firstlineno, 1)


def is_installed(module: str) -> bool:
    """Whether a module belongs to an installed package or the standard library, not to the program."""
    package = module.partition(".")[0]
    return package in sys.builtin_module_names or _is_file_installed(
        getattr(sys.modules.get(package), "__file__", None)
    )


def _file_of(function: FunctionType) -> str:
    return function.__code__.co_filename


def _is_file_installed(file: str | None) -> bool:
    return file is not None and (file.startswith(_INSTALLED) or any(folder in file for folder in _PACKAGE_FOLDERS))
