"""Pickles of kernel functions: by reference if other processes can import them, otherwise by source.

    pickle.dumps(kernels.add)    "kernels", "add"
    pickle.dumps(add)            of a script, a notebook or another function: `Sent`, its lines and the values it reads

A function that arrives by source is compiled, never executed: its decorators and the lines around it do not run. Its
digest must be that of the function which was sent, so another version of Python, with other bytecode, refuses it.
"""

from __future__ import annotations
import __future__

import ast
import linecache
import pickle
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, reduce
from importlib import import_module
from operator import or_
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

from tilewright.runtime.bytecode_names import global_reads
from tilewright.runtime.function_source import read_source
from tilewright.support.locks import fork_safe_lock
from tilewright.support.named_tuple import NamedTuple
from tilewright.support.source import lines_around, syntax_tree

_PROGRAMS = ("__main__", "__mp_main__")
"""The modules that are another one in each process."""
_FUTURE = reduce(or_, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names))
_MAX_KEPT = 1000


class ModuleName(NamedTuple):
    """Stands for a module among the values that a function reads."""

    name: str


class PlainFunction(NamedTuple):
    """A Python function by its source.

    Attributes:
        file, first_line, lines: where it stands and how it is written, decorators included.
        flags: of its code, what `from __future__ import …` says at the top of the file among them.
        reads: the values of the module that it reads, by name.
        imported: those of the names that the module imports: CPython compiles calls of their attributes in another way.
        captured: those of enclosing functions; a variable without a value is left out.
        attributes: `__defaults__`, `__kwdefaults__`, `__annotations__`, `__doc__`.
    """

    module: str
    qualname: str
    file: str
    first_line: int
    lines: tuple[str, ...]
    flags: int
    reads: dict[str, Any]
    imported: tuple[str, ...]
    captured: dict[str, Any]
    attributes: dict[str, Any]


class Sent(NamedTuple):
    """A function of kernels by its source.

    Attributes:
        make: what its decorator does: called with the Python function and the options.
        key: its digest, of all that it depends on.
    """

    make: Callable[..., Any]
    options: dict[str, Any]
    function: PlainFunction
    key: str


def is_importable(value: Any) -> bool:
    """Whether another process that imports the module of `value` finds it there under its name."""
    module = getattr(value, "__module__", None)
    if module in _PROGRAMS or module not in sys.modules:
        return False
    found: Any = sys.modules[module]
    for name in value.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is value


def reduced(function: Any) -> str | tuple[Any, ...]:
    """The answer of `__reduce__` for a function of kernels.

    Raises:
        pickle.PicklingError: it goes by source, which cannot be read.
    """
    if is_importable(function):
        return str(function.__qualname__)
    make, options = function.maker()
    return arrived, (Sent(make, options, plain_function(function.fn), function.cache_key),)


def plain_function(fn: FunctionType) -> PlainFunction:
    """A Python function as it is pickled; errors as of `reduced`."""
    try:
        source = read_source(fn)
    except ValueError as error:
        raise pickle.PicklingError(f"{fn.__qualname__} cannot be sent to another process: {error}") from None
    code, module = fn.__code__, fn.__globals__
    names = {read.name for read in global_reads(code) if not read.captured}
    names |= {name for name in code.co_varnames if _is_shadowed(module.get(name))}
    reads = {name: _outgoing(module[name]) for name in sorted(names) if name in module and module[name] is not fn}
    attributes = {name: getattr(fn, name) for name in _ATTRIBUTES}
    return PlainFunction(
        module=fn.__module__,
        qualname=fn.__qualname__,
        file=code.co_filename,
        first_line=source.first_line,
        lines=tuple(source.raw),
        flags=code.co_flags,
        reads=reads,
        imported=tuple(sorted(names & _imports("".join(lines_around(fn))))),
        captured={name: _outgoing(value) for name, value in _captured(fn)},
        attributes=attributes,
    )


_ATTRIBUTES = ("__defaults__", "__kwdefaults__", "__annotations__", "__doc__")


@lru_cache
def _imports(text: str) -> frozenset[str]:
    """The names that a module imports outside of functions and classes."""
    found: set[str] = set()
    statements: list[ast.AST] = [syntax_tree(text)]
    for node in statements:
        if isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.expr):
            statements += ast.iter_child_nodes(node)
    return frozenset(found)


def _is_shadowed(value: Any) -> bool:
    """Whether a variable of this name has a constant's value until it gets its own; `dependencies` counts it."""
    return type(value).__name__ == "constexpr"


def _captured(fn: FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # the variable has no value yet
            continue


def _outgoing(value: Any) -> Any:
    if isinstance(value, ModuleType):
        return ModuleName(value.__name__)
    if isinstance(value, FunctionType) and not is_importable(value):
        return plain_function(value)
    return value


def arrived(message: Sent) -> Any:
    """The function that was sent; the same object for the same message, so that its kernels are kept.

    Raises:
        pickle.UnpicklingError: it is not the function that was sent.
    """
    name = message.function.module, message.function.qualname, message.key, repr(message.options)
    with _arriving:
        found = _arrived.get(name)
        if found is None:
            found = _arrived[name] = _restored(message)
            if len(_arrived) > _MAX_KEPT:
                _arrived.popitem(last=False)
    return found


_arrived: OrderedDict[Any, Any] = OrderedDict()
_arriving = fork_safe_lock()


def _restored(message: Sent) -> Any:
    function = message.make(_function(message.function), **message.options)
    if function.cache_key != message.key:
        version = ".".join(map(str, sys.version_info[:3]))
        raise pickle.UnpicklingError(
            f"{message.function.qualname} of {message.function.file} means something else in this process (Python "
            f"{version}): the process that sent it has another Python, or other versions of what the function uses"
        )
    return function


def _function(message: PlainFunction) -> FunctionType:
    """The Python function; its own name means itself, as it does where it comes from."""
    _show(message)
    code = _code(message)
    module = {"__name__": message.module, "__builtins__": __builtins__}
    module |= {name: _incoming(value) for name, value in message.reads.items()}
    cells = tuple(_cell(message.captured, name) for name in code.co_freevars)
    name = message.qualname.rpartition(".")[2]
    made = FunctionType(code, module, name, None, cells)
    made.__qualname__, made.__module__ = message.qualname, message.module
    for attribute, value in message.attributes.items():
        setattr(made, attribute, value)
    return made


def _incoming(value: Any) -> Any:
    if isinstance(value, ModuleName):
        return import_module(value.name)
    return _function(value) if isinstance(value, PlainFunction) else value


def _cell(captured: Mapping[str, Any], name: str) -> CellType:
    return CellType(_incoming(captured[name])) if name in captured else CellType()


def _code(message: PlainFunction) -> CodeType:
    """The code of the `def`, with the places that it has in its file."""
    text = "".join(message.lines)
    shift, indent = message.first_line - 1, text[: len(text) - len(text.lstrip(" \t"))]
    tree = syntax_tree("\n" * (shift - bool(indent)) + "if True:\n" * bool(indent) + text)
    names = sorted({"__class__", *message.captured})
    statements: Any = tree.body
    definition = statements[0].body[0] if indent else statements[0]
    outer: Any = syntax_tree(f"def enclosing({', '.join(names)}): pass").body[0]
    outer.body = [definition]
    imports = [syntax_tree(f"import {name}").body[0] for name in message.imported]
    module, flags = ast.Module([*imports, outer], []), message.flags & _FUTURE
    whole = compile(module, message.file, "exec", flags=flags, dont_inherit=True)
    name = message.qualname.rpartition(".")[2]
    for part in ("enclosing", name):
        whole = next(code for code in whole.co_consts if isinstance(code, CodeType) and code.co_name == part)
    return _renamed(whole, f"enclosing.<locals>.{name}", message.qualname).replace(co_flags=message.flags)


def _renamed(code: CodeType, before: str, after: str) -> CodeType:
    """The code with the qualified name that it has in its file, and so those of the functions inside it."""
    constants = tuple(_renamed(x, before, after) if isinstance(x, CodeType) else x for x in code.co_consts)
    return code.replace(co_qualname=after + code.co_qualname.removeprefix(before), co_consts=constants)


def _show(message: PlainFunction) -> None:
    """Let errors and front ends find the lines of the function, whatever is at that place on this machine."""
    begin, count = message.first_line - 1, len(message.lines)
    known = linecache.getlines(message.file)
    if tuple(known[begin : begin + count]) == message.lines:
        return
    padded = [*known, *["\n"] * (begin + count - len(known))]
    padded[begin : begin + count] = message.lines
    linecache.cache[message.file] = (sum(map(len, padded)), None, padded, message.file)
