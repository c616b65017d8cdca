"""The source of a kernel function: as it is in its file, or replaced by another text.

    source = read_source(fn)
    source.text                  "def add(x_ptr, …):\n    …"        without decorators and indentation
    source.raw                   ["    @jit\n", "    def add(x_ptr, …):\n", …]
    changed = with_text(fn, source.text.replace("+", "-"))          other code, the same location and closure

The file is read when the function is made a kernel; it is parsed only on demand, since kernels from the disk cache need
no source.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import re
import textwrap
from types import CodeType, FunctionType

from tilewright.support.annotations import annotations_of
from tilewright.support.hashing import hash_of
from tilewright.support.named_tuple import NamedTuple
from tilewright.support.source import function_lines, keep_text, lines_around, lines_of, syntax_tree

_DEFINITION = r"^(?P<indent>[ \t]*)def\s+\w+\s*[(\[]"


class FunctionSource(NamedTuple):
    """The source of a function.

    Attributes:
        raw: its lines in the file, decorators included.
        def_line, def_column: where `def` stands; both count from 1.
        text: from `def` on, not indented.
    """

    raw: list[str]
    first_line: int
    def_line: int
    def_column: int
    text: str


def require_source(fn: FunctionType) -> None:
    """Check that the source of `fn` can be found once it is needed; files are not opened for that.

    Raises:
        ValueError: `fn` comes from `exec` or a prompt that keeps no text.
    """
    file = fn.__code__.co_filename
    if file.startswith("<") and not lines_of(file, fn.__globals__):
        raise _no_source(fn)


def read_source(fn: FunctionType) -> FunctionSource:
    """The source of `fn`.

    Raises:
        ValueError: it cannot be found, or is no `def`.
    """
    raw = source_lines(fn)
    first = fn.__code__.co_firstlineno
    joined = "".join(raw)
    definition = re.search(_DEFINITION, joined, re.MULTILINE)
    if definition is None:
        raise _no_source(fn)
    before = joined.count("\n", 0, definition.start())
    text = textwrap.dedent("".join(raw[before:]))
    return FunctionSource(raw, first, first + before, len(definition["indent"]) + 1, text)


def source_lines(fn: FunctionType) -> list[str]:
    """The lines of `fn` in its file, without empty ones at the end; of a wrapper, those of what it wraps.

    Raises:
        ValueError: they cannot be found.
    """
    if hasattr(fn, "__wrapped__"):
        return _lines_of_wrapped(fn)
    code, lines = fn.__code__, lines_around(fn)
    if len(lines) < code.co_firstlineno:
        raise _no_source(fn)
    found = function_lines(code, lines)
    while not found[-1].strip():
        found.pop()
    if not found[-1].lstrip().startswith("@") and _is_whole("".join(found)):
        return found
    return inspect.getblock(lines[code.co_firstlineno - 1 :])


def _lines_of_wrapped(fn: FunctionType) -> list[str]:
    try:
        return inspect.getsourcelines(fn)[0]
    except (OSError, TypeError) as error:
        raise _no_source(fn) from error


def _is_whole(text: str) -> bool:
    """Whether no string or bracket is left open where `function_lines` ends.

    Only a statement without instructions can be cut there, since those that have some end at an instruction.
    """
    if all(text.count(left) == text.count(right) for left, right in ("()", "[]", "{}")):
        return not any(mark in text for mark in ('"""', "'''", "\\\n"))
    return False


def with_text(fn: FunctionType, text: str) -> FunctionType:
    """A function that has the code of `text` and everything else from `fn`.

    Args:
        text: a whole `def` that is not indented; it may read what `fn` reads from enclosing functions.

    Raises:
        SyntaxError: `text` is not Python.
    """
    line = fn.__code__.co_firstlineno
    file = f"<changed {fn.__qualname__} of {fn.__code__.co_filename} {hash_of(text.encode()).hexdigest()[:16]}>"
    lines = ["\n"] * (line - 1) + text.splitlines(keepends=True)
    linecache.cache[file] = (len(text), None, lines, file)
    code = _compiled(text, file, line, fn)
    cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
    closure = tuple(cells[name] for name in code.co_freevars)
    made = FunctionType(code, fn.__globals__, fn.__name__, fn.__defaults__, closure)
    made.__kwdefaults__, made.__annotations__ = fn.__kwdefaults__, annotations_of(fn)
    made.__qualname__, made.__module__, made.__doc__ = fn.__qualname__, fn.__module__, fn.__doc__
    keep_text(made, text)
    return made


def _compiled(text: str, file: str, line: int, fn: FunctionType) -> CodeType:
    """The code of the `def` in `text`, which may use the captured variables of `fn`."""
    (definition,) = ast.increment_lineno(syntax_tree(text), line - 1).body
    if fn.__code__.co_freevars:
        enclosing = syntax_tree(f"def enclosing({', '.join(fn.__code__.co_freevars)}): pass").body
        (outer,) = (part for part in enclosing if isinstance(part, ast.FunctionDef))
        outer.body = [definition]
        definition = outer
    code = compile(ast.Module([definition], []), file, "exec", dont_inherit=True)
    for name in ("enclosing",) * bool(fn.__code__.co_freevars) + (fn.__name__,):
        code = next(part for part in code.co_consts if isinstance(part, CodeType) and part.co_name == name)
    return code.replace(co_qualname=fn.__qualname__)


def _no_source(fn: FunctionType) -> ValueError:
    return ValueError(
        f"@jit needs the source of {fn.__qualname__}, which {fn.__code__.co_filename} does not have: "
        "define the kernel in a Python file or in a notebook cell"
    )
