"""Locations in source text, and the text at those locations.

>>> Span("kernel.py", 3, 12, 3, 17)        # `a + b` in line 3
Span(file='kernel.py', line=3, column=12, end_line=3, end_column=17, called_from=None)
"""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from operator import itemgetter
from types import CodeType, FunctionType
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from tilewright.support.locks import importing
from tilewright.support.named_tuple import NamedTuple

Tree = TypeVar("Tree", bound=ast.AST)
MAX_DISTURBANCES = 100
"""Max number of times that a text is parsed before an error counts."""


class Span(NamedTuple):
    """A piece of a source file; lines and columns start at 1, the end is exclusive, 0 means unknown.

    `called_from` is the call that led here when the piece lies in a helper function.
    """

    file: str
    line: int
    column: int
    end_line: int = 0
    end_column: int = 0
    called_from: Span | None = None

    def chain(self) -> Iterator[Span]:
        """This span, the call that led here, the call that led there, …"""
        span: Span | None = self
        while span is not None:
            yield span
            span = span.called_from

    @classmethod
    def of(cls, places: Sequence[Sequence[Any]]) -> Span | None:
        """The first of some places, as tuples, reached through calls at the others; None of none."""
        span = None
        for place in reversed(places):
            span = cls(*place).called(span)
        return span

    @property
    def lineno(self) -> int:
        """The line, as nodes of Python's syntax tree count."""
        return self.line

    @property
    def col_offset(self) -> int:
        """The column, as nodes of Python's syntax tree count: from 0."""
        return self.column - 1

    def called(self, caller: Span | None) -> Span:
        """The same place, reached through a call at `caller` (after the calls already known)."""
        if caller is None:
            return self
        if self.called_from is None:
            return self._replace(called_from=caller)
        return self._replace(called_from=self.called_from.called(caller))


def lines_of(file: str, names: Mapping[str, Any] | None = None) -> list[str]:
    """The lines of a file; none if it cannot be read.

    `<string>` has none: `exec` and `python -c` call every program so, and Python 3.13.0 keeps the lines of one of them.

    Args:
        names: the globals of its module, whose loader may have the text.
    """
    return [] if file == "<string>" else linecache.getlines(file, names)  # type: ignore[arg-type]  # it reads them only


def keep_lines(fn: FunctionType) -> None:
    """Read the file of `fn` now: who edits it later does not change what `fn` does, nor where its lines are."""
    file = fn.__code__.co_filename
    linecache.checkcache(file)
    if lines := lines_of(file, fn.__globals__):
        _kept_lines[fn] = lines


_kept_lines: WeakKeyDictionary[FunctionType, list[str]] = WeakKeyDictionary()
"""The lines of the files of functions; functions of one file share a list."""


def keep_text(fn: FunctionType, text: str) -> None:
    """Say that the source of `fn` is `text`, wherever its code says that it is from."""
    _kept_texts[fn] = text


_kept_texts: WeakKeyDictionary[FunctionType, str] = WeakKeyDictionary()
"""The sources of functions that are in no file."""


def lines_around(fn: FunctionType) -> list[str]:
    """The lines of the file of `fn`: those that were kept, else those that the file has now; none if it has none."""
    if text := _kept_texts.get(fn):
        return ["\n"] * (fn.__code__.co_firstlineno - 1) + text.splitlines(keepends=True)
    if lines := _kept_lines.get(fn):
        return lines
    linecache.checkcache(fn.__code__.co_filename)
    return lines_of(fn.__code__.co_filename, fn.__globals__)


def source_line(file: str, line: int) -> str:
    """Line number `line` of `file` without its end; empty if the file cannot be read."""
    lines = lines_of(file)
    return lines[line - 1].rstrip() if 0 < line <= len(lines) else ""


def shown_file(file: str) -> str:
    """A user's name for a file: the number of a notebook's cell, `Cell In[3]`, or else the path."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    named = getattr(getattr(shell, "compile", None), "format_code_name", lambda file: None)(file)
    return " ".join(named) if named else file


def source_text(file: str) -> str:
    """All of `file`; empty if it cannot be read."""
    return "".join(lines_of(file))


def function_lines(code: CodeType, lines: list[str]) -> list[str]:
    """The lines of a function with its decorators, out of those of its file.

    They go from the first one to that of the last instruction, and on to the next line that is not indented deeper.
    What has no instructions, as a string that stands for itself, may go on behind it: then the lines do not parse.
    """
    indent = _indentation(lines[code.co_firstlineno - 1])
    last = _last_line(code)
    while last < len(lines) and (not lines[last].strip() or _indentation(lines[last]) > indent):
        last += 1
    return lines[code.co_firstlineno - 1 : last]


def _last_line(code: CodeType) -> int:
    ends = [*map(itemgetter(1), code.co_positions())]
    ends += [_last_line(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return max(filter(None, ends), default=code.co_firstlineno)


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())


def display_width(text: str) -> int:
    """The number of columns that `text` takes in a terminal: wide characters take two, combining ones none."""
    return len(text) if text.isascii() else sum(map(_character_width, text))


def _character_width(character: str) -> int:
    with importing:
        import unicodedata

    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def syntax_tree(text: str) -> ast.Module:
    """The syntax tree of a module, as `ast.parse` makes it; other threads may parse meanwhile.

    Raises:
        SyntaxError: the text is no Python.
    """
    return _undisturbed(lambda: ast.parse(text))


def expression_tree(text: str) -> ast.expr:
    """The syntax tree of an expression; see `syntax_tree`."""
    return _undisturbed(lambda: ast.parse(text, mode="eval")).body


def _undisturbed(parsed: Callable[[], Tree]) -> Tree:
    """The result of `parsed`, however often it is disturbed.

    CPython 3.11.7, for one, counts the depth of all threads together (python/cpython#106905), so that a thread that
    parses while another one does may fail with a SystemError that says nothing of the text.
    """
    for _ in range(MAX_DISTURBANCES):
        with suppress(SystemError):
            return parsed()
    return parsed()
