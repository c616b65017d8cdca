"""Functions that kernels may not depend on: what they give is not determined by anything that enters the key.

    @constexpr_function
    def capability():
        return torch.cuda.get_device_capability()       RuntimeError: another machine gives another answer

The text of a program's own functions is part of the key, with that of all they call. Functions of installed packages
and of the standard library may ask for devices, files or the time; only modules that merely compute are allowed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

from tilewright.semantics.constexpr import constexpr

OWN_PACKAGE = __name__.partition(".")[0]
COMPUTE_ONLY = frozenset(("builtins", "cmath", "copy", "functools", "itertools", "math", "operator", "re"))
"""Modules whose functions depend on nothing but their arguments."""
_INSTALLED = (os.path.dirname(os.__file__) + os.sep, "<frozen ")  # noqa: PTH120 - pathlib takes long to import
_PACKAGE_FOLDERS = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


_allowed: list[Callable[[Any], bool]] = []


@contextmanager
def allowing(allows: Callable[[Any], bool]) -> Iterator[None]:
    """Until the end of the `with`, functions for which `allows` holds are no foreign ones. With the lock `hashing`."""
    _allowed.append(allows)
    try:
        yield
    finally:
        _allowed.pop()


def refuse_foreign(value: Any, reader: FunctionType) -> None:
    """Check that `reader`, if it is a program's own function, may read `value`, if that is something to call.

    Raises:
        RuntimeError: a function of an installed package, or of the standard library.
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
        name = f"{module}.{getattr(value, '__qualname__', type(value).__name__)}"
        raise RuntimeError(
            f"{reader.__qualname__} refers to {name}, a function of another package, which no kernel can depend on: "
            "what it gives may change while the kernel stays in the cache. Call it on the host and pass what it gives"
        )


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
