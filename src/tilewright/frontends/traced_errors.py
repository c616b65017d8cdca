"""Errors in traced kernels: Python's exceptions converted to errors with source locations.

UnboundLocalError, raised in line 12 of a helper that line 20 calls
→  name `y` is not defined, at 12, called from 20
"""

from __future__ import annotations

import dis
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import CodeType, TracebackType
from typing import NamedTuple

from tilewright.frontends.errors import RecursionTooDeep
from tilewright.frontends.evaluate.explain import as_compilation_error
from tilewright.ir.attributes import FileLocation, span_of
from tilewright.language.python_code import UnsupportedSyntax, place_of
from tilewright.support.diagnostics import CompilationError, Diagnostic, TilewrightError, located

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep  # noqa: PTH100, PTH120 - compared often


@contextmanager
def explained(start: FileLocation) -> Iterator[None]:
    """Mistakes get their place in the user's program; those without a place of their own are at `start`."""
    try:
        yield
    except CompilationError:
        raise
    except Exception as error:
        places = _user_places(error) or [start]
        diagnostic = _diagnostic_of(error)
        found = located(diagnostic, span_of(places[-1])) if diagnostic else _found(error, places[-1])
        if isinstance(found, CompilationError) and found.span is not None:
            span = found.span
            for place in reversed(places[:-1]):
                span = span.called(span_of(place))
            found = located(found.diagnostic, span)
        raise found from error


def _found(error: Exception, place: FileLocation) -> TilewrightError:
    called = re.match(r"(\w+)\(\) ", str(error)) if isinstance(error, TypeError) else None
    return as_compilation_error(error, place, called[1] if called else "")


def _diagnostic_of(error: Exception) -> Diagnostic | None:
    """The diagnostic of errors found in the traceback only: endless recursion, and assignments into tiles."""
    frames = _user_frames(error)
    if isinstance(error, RecursionError) and (again := _first_repeated(frames)):
        return RecursionTooDeep(frames[again].code.co_name)
    if not frames:
        return None
    code, offset = frames[-1]
    changed = _CHANGES.get(dis.opname[code.co_code[offset]])
    return UnsupportedSyntax(changed) if changed and any(name in str(error) for name in _TRACED) else None


class _Frame(NamedTuple):
    code: CodeType
    offset: int


def _frames(traceback: TracebackType | None) -> Iterator[_Frame]:
    while traceback is not None:
        yield _Frame(traceback.tb_frame.f_code, traceback.tb_lasti)
        traceback = traceback.tb_next


def _user_frames(error: Exception) -> list[_Frame]:
    """The frames of the user's program that an exception came through, the outermost first."""
    return [
        frame
        for frame in _frames(error.__traceback__)
        if not frame.code.co_filename.startswith(PACKAGE) and frame.code.co_varnames[:1] != _OF_NAMED_TUPLES
    ]


def _first_repeated(frames: Sequence[_Frame]) -> int:
    """The number of the first frame whose function is running already; 0 if there is none."""
    codes = [frame.code for frame in frames]
    return next((number for number, code in enumerate(codes) if code in codes[:number]), 0)


def _user_places(error: Exception) -> list[FileLocation]:
    """The places in the user's program where an exception came through; endless recursion only once round."""
    frames = _user_frames(error)
    if isinstance(error, RecursionError):
        frames = frames[: _first_repeated(frames) or None]
    return [place_of(*frame) for frame in frames]


_OF_NAMED_TUPLES = ("_cls",)
"""The first parameter of the `__new__` that Python makes for them; they seem to belong to no file."""
_TRACED = ("'tensor' object", "'Element' object")
"""Python's names of tiles, and of the numbers of vectorized functions, when they are changed."""
_CHANGES = {
    "DELETE_ATTR": "`del` of anything but a variable",
    "DELETE_SUBSCR": "`del` of anything but a variable",
    "STORE_ATTR": "assignment to an attribute",
    "STORE_SLICE": "assignment to a subscript",
    "STORE_SUBSCR": "assignment to a subscript",
}
"""Instructions that change what they are given."""
