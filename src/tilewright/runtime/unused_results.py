"""Calls whose result nobody takes, seen from the function that is called: for kernels that run in Python.

    square.area()         marked `must_use_result`: CompilationError, when the kernel is traced or interpreted

Front ends that read a function see its statements. Here only the bytecode of the caller tells: a statement drops what
the call left on the stack. Functions that are not of a kernel (`tl.advance`) are called by Python and not asked.
"""

from __future__ import annotations

import dis
import sys
from functools import lru_cache
from types import CodeType
from typing import Any

from tilewright.language.callable import MUST_USE
from tilewright.semantics.active import is_running
from tilewright.semantics.errors import ResultUnused
from tilewright.support.diagnostics import SemanticError


def check_used(function: Any) -> None:
    """Checks that a kernel uses the result of a function; to be called by the `__call__` of the function.

    Raises:
        SemanticError: the function is marked, and the call is a statement of its own.
    """
    words = getattr(function, MUST_USE, False)
    if words and is_running():
        caller = sys._getframe(2)
        if _drops(caller.f_code, caller.f_lasti):
            raise SemanticError(ResultUnused.of(function.__name__, words))


@lru_cache(maxsize=256)
def _drops(code: CodeType, call: int) -> bool:
    """Whether what the instruction at `call` leaves is thrown away."""
    following = (instruction for instruction in dis.get_instructions(code) if instruction.offset > call)
    return next(following).opname == "POP_TOP"
