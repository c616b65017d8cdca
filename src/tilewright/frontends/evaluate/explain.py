"""The translation of Python exceptions into errors of the compiler."""

from __future__ import annotations

import difflib
import re
from types import ModuleType, TracebackType

from tilewright.frontends.errors import BadArguments, PythonRaised, UndefinedName, UnknownAttribute
from tilewright.ir.attributes import FileLocation, span_of
from tilewright.support.diagnostics import (
    CompilationError,
    Diagnostic,
    InternalError,
    NotSupported,
    SemanticError,
    StaticAssertionFailed,
    TilewrightError,
    located,
)

NO_POWER = "unsupported operand type(s) for **"
NO_POWERS = ("`**` of tiles", "multiply, or take tl.extra.libdevice.pow")
_DEEP = ("tilewright.dialects", "tilewright.frontends.from_ast", "tilewright.frontends.from_bytecode", "tilewright.ir")
"""Modules where no mistake of the user's ends in a Python exception."""
_MISTAKES = (
    TypeError,
    ValueError,
    ArithmeticError,
    LookupError,
    AttributeError,
    NotImplementedError,
    RecursionError,
    MemoryError,
)


def as_compilation_error(error: Exception, location: FileLocation, callee: str) -> TilewrightError:
    """The error for an exception that a step at `location` (a call of `callee`, perhaps) ended with.

    What Python refuses at compile time is the user's mistake, unless it happened deep in the compiler.
    """
    if isinstance(error, SemanticError):
        return located(error.diagnostic, span_of(location))
    if isinstance(error, (CompilationError, InternalError)):
        return error
    if _is_ours(error):
        return InternalError(f"{type(error).__name__}: {error}", f"{location.file}:{location.line}:{location.column}")
    return located(_diagnostic(error, callee), span_of(location))


def called_from(error: CompilationError, location: FileLocation) -> CompilationError:
    """The same error seen from the function that called, at `location`, the one it happened in."""
    span = span_of(location)
    return located(error.diagnostic, span if error.span is None else error.span.called(span))


def _diagnostic(error: Exception, callee: str) -> Diagnostic:
    (message,) = map(str, error.args if len(error.args) == 1 else (error,))
    if isinstance(error, NotImplementedError):
        return NotSupported(message or f"`{callee}`")
    if isinstance(error, AttributeError) and error.name is not None:
        return _unknown_attribute(error.obj, error.name)
    if isinstance(error, TypeError) and "argument" in message and callee:
        return BadArguments(callee, message.partition(". Did you mean")[0])  # Python 3.13 guesses, others do not
    if isinstance(error, AssertionError):
        return StaticAssertionFailed(message)
    if isinstance(error, NameError):
        reason = "it gets its value later, or not at all" if isinstance(error, UnboundLocalError) else "unknown here"
        return UndefinedName(re.findall("'(.*?)'", message)[0], reason)
    if isinstance(error, MemoryError):
        message = message or "the value needs more memory than there is"
    return NotSupported(*NO_POWERS) if NO_POWER in message else PythonRaised(type(error).__name__, message)


def _unknown_attribute(owner: object, name: str) -> Diagnostic:
    text = f"module `{owner.__name__}`" if isinstance(owner, ModuleType) else f"a {type(owner).__name__}"
    close = difflib.get_close_matches(name, [known for known in dir(owner) if not known.startswith("_")], 1)
    return UnknownAttribute(text, name, f"did you mean `{close[0]}`?") if close else UnknownAttribute(text, name)


def _is_ours(error: Exception) -> bool:
    """Whether an exception comes from a bug: not raised on purpose, and not by the user's own functions."""
    if isinstance(error, (ValueError, NotImplementedError, TilewrightError)):
        return False
    innermost: TracebackType | None = error.__traceback__
    while innermost is not None and innermost.tb_next is not None:
        innermost = innermost.tb_next
    module = "" if innermost is None else innermost.tb_frame.f_globals.get("__name__", "")
    if not module.startswith("tilewright."):
        return False
    return not isinstance(error, _MISTAKES) or module.startswith(_DEEP)
