"""Tracebacks of compile errors: the program's own frames, and one of Tilewright.

    Traceback (most recent call last):
      File "program.py", line 12, in <module>
        add[grid](x, y, out)
      File "…/launcher.py", line 232, in _missed
        raise shortened(error) from error.__cause__
    tilewright.CompilationError: error: shapes do not broadcast
     --> program.py:8:14

The frames between the launch and the error are of use only to developers of the compiler: TILEWRIGHT_FULL_TRACEBACK=1
shows them. Notebooks, which print much source around each frame, get a text of their own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from types import TracebackType

from tilewright.support import knobs
from tilewright.support.diagnostics import CompilationError, SemanticError, TilewrightError, show_in_notebooks
from tilewright.support.source import shown_file, source_line

OURS = os.path.dirname(os.path.dirname(__file__)) + os.sep  # noqa: PTH120 - pathlib takes long to import
MAX_FRAMES = 3
"""Max frames of the program that a notebook shows; the outer ones are counted."""
NOTEBOOKS = ("IPython", "ipykernel")
RENDERER = "_render_traceback_"
"""The method that IPython calls for the text of an exception."""


def shortened(error: CompilationError) -> CompilationError:
    """The error on its way out of the package, without the frames in it and without what it came from.

    An exception of the program's own code stays its cause.
    """
    if _shows_all():
        return error
    error.__traceback__ = None
    if error.wording is None:  # otherwise it was put in other words for programs that look at its causes
        error.__cause__ = _from_program(error.__cause__)
    error.__suppress_context__ = True
    return error


def _shows_all() -> bool:
    return bool(knobs.tilewright.full_traceback or knobs.compilation.front_end_debugging)


def _notebook_text(error: TilewrightError) -> Callable[[], list[str]]:
    if _shows_all():
        raise AttributeError(RENDERER)
    return partial(_lines, error)


show_in_notebooks(_notebook_text)


def _from_program(cause: BaseException | None) -> BaseException | None:
    """An exception with the program's frames alone; None if it has none, or where our error says it all."""
    if cause is None or isinstance(cause, SemanticError | CompilationError):
        return None
    frames = [frame for frame in frames_of(cause.__traceback__) if _is_programs(frame)]
    if not frames:
        return None
    chained: TracebackType | None = None
    for frame in reversed(frames):
        chained = TracebackType(chained, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    cause.__suppress_context__ = True
    return cause.with_traceback(chained)


def show_uncaught() -> None:
    """Show uncaught compile errors as notebooks do, unless another hook shows errors."""
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _show


def _show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    lines = getattr(error, RENDERER, None) if isinstance(error, CompilationError) else None
    if lines is None:
        sys.__excepthook__(kind, error, trace)
    else:
        sys.stderr.write("\n".join([*lines(), ""]))


def _lines(error: TilewrightError) -> list[str]:
    """The program's innermost frames, and what is wrong."""
    frames = [frame for frame in frames_of(error.__traceback__) if _is_programs(frame)]
    left_out = max(0, len(frames) - MAX_FRAMES)
    lines = ["Traceback (most recent call last):"]
    if left_out:
        lines.append(f"  … {left_out} more frames")
    for frame in frames[left_out:]:
        code, line = frame.tb_frame.f_code, frame.tb_lineno
        shown = shown_file(code.co_filename)
        place = f'File "{shown}"' if shown == code.co_filename else shown
        lines.append(f"  {place}, line {line}, in {code.co_name}")
        lines.append(f"    {source_line(code.co_filename, line).strip()}")
    wording = getattr(error, "wording", None)
    text = str(error) if wording is None else wording.own
    return [*lines, *f"{type(error).__name__}: {text}".splitlines(), *getattr(error, "__notes__", ())]


def frames_of(outermost: TracebackType | None) -> Iterator[TracebackType]:
    """The frames of a traceback, outer ones first."""
    while outermost is not None:
        yield outermost
        outermost = outermost.tb_next


def _is_programs(frame: TracebackType) -> bool:
    package = str(frame.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
    return package not in NOTEBOOKS and not frame.tb_frame.f_code.co_filename.startswith(OURS)
