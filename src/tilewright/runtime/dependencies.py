"""What a kernel depends on: its own code, the functions it calls, the outer values it reads.

    found = dependencies(python_function)
    found.digest          # differs when any of that differs
    found.globals         # {("BLOCK", id(module globals)): (128, module globals)}: to notice later changes

Works on code objects, whose constants, names, bytecode and line table say everything that the source says (but for
comments). A function of Tilewright itself counts by its name: the compiler's identity stands for its content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple, TypeAlias

from tilewright.language.callable import JITCallable
from tilewright.runtime.bytecode_names import Read, global_reads
from tilewright.semantics.constexpr import constexpr
from tilewright.support.hashing import hash_of

UsedGlobals: TypeAlias = dict[tuple[str, int], tuple[Any, Mapping[str, Any]]]
OWN_PACKAGE = __name__.partition(".")[0]
_ABSENT = object()


class Dependencies(NamedTuple):
    """What a function depends on.

    Attributes:
        digest: 64 hexadecimal digits.
        globals: the outer values read, by name and namespace.
    """

    digest: str
    globals: UsedGlobals


def dependencies(python: FunctionType) -> Dependencies:
    """Everything that `python` depends on.

    Raises:
        RuntimeError: two functions saw one global with different values.
    """
    walk = _Walk()
    walk.function(python)
    return Dependencies(walk.hasher.hexdigest(), walk.globals)


def check_unchanged(name: str, used: UsedGlobals) -> None:
    """Raise RuntimeError when an outer value is not what it was when the kernel `name` was compiled."""
    for (variable, _), (value, namespace) in used.items():
        now = namespace.get(variable, _ABSENT)
        if now is not value and not same_value(now, value):
            now = "nothing" if now is _ABSENT else repr(now)
            raise RuntimeError(
                f"Global variable {variable} has changed since we compiled this kernel ({name}), "
                f"from {value!r} to {now}; make it an argument of the kernel if it has to change"
            )


def same_value(left: Any, right: Any) -> bool:
    """Whether two outer values compile alike; `1`, `1.0` and `True` do not."""
    return value_text(left) == value_text(right)


def value_text(value: Any) -> str:
    """A text that differs for values that compile differently."""
    for kind, text_of in _TEXTS:
        if isinstance(value, kind):
            return text_of(value)
    text = repr(value)
    # The default repr shows an address, which differs in each process.
    return _qualified(type(value)) + ("" if " at 0x" in text else f"={text}")


def _sequence_text(value: Any) -> str:
    return f"{type(value).__qualname__}({','.join(map(value_text, value))})"


def _set_text(value: Any) -> str:
    return f"set({','.join(sorted(map(value_text, value)))})"


def _dict_text(value: Any) -> str:
    return f"dict({','.join(f'{value_text(k)}:{value_text(v)}' for k, v in value.items())})"


def _function_text(value: FunctionType) -> str:
    own = (value.__module__ or "").partition(".")[0] == OWN_PACKAGE
    return _qualified(value) if own else f"function({dependencies(value).digest})"


def _qualified(value: Any) -> str:
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value.__name__)}"


def _code_text(code: CodeType) -> str:
    """All of a code object but its address, and deterministic."""
    constants = ",".join(map(value_text, code.co_consts))
    table = code.co_linetable.hex() + code.co_exceptiontable.hex()
    names = (code.co_names, code.co_varnames, code.co_cellvars, code.co_freevars, code.co_qualname)
    counts = (code.co_argcount, code.co_kwonlyargcount, code.co_flags, code.co_firstlineno)
    return f"{code.co_code.hex()}|{constants}|{names}|{counts}|{table}|{code.co_filename}"


class _Walk:
    """Hashes a function and follows what it reads."""

    def __init__(self) -> None:
        self.hasher = hash_of()
        self.globals: UsedGlobals = {}

    def function(self, python: FunctionType) -> None:
        defaults = (python.__defaults__, python.__kwdefaults__, python.__annotations__)
        self.add(_code_text(python.__code__), *map(value_text, defaults))
        for read in sorted(set(global_reads(python.__code__))):
            self.read(read, python)

    def read(self, read: Read, python: FunctionType) -> None:
        namespace = _captured(python) if read.captured else python.__globals__
        value = namespace.get(read.name, _ABSENT)
        if value is _ABSENT:  # a builtin, or a name that does not exist: the front end will say
            self.add(read.name)
            return
        path = [read.name]
        for attribute in read.attributes:
            if not isinstance(value, ModuleType):
                break
            namespace, value = vars(value), getattr(value, attribute, None)
            path.append(attribute)
        self.add(".".join(path))
        if isinstance(value, JITCallable):
            self.callee(value)
        elif value is python:
            self.add("itself")
        else:
            self.add(value_text(value))
            if _is_plain(value) and not read.captured:
                self.remember(path[-1], value, namespace, python.__qualname__)

    def callee(self, callee: JITCallable) -> None:
        self.add(callee.cache_key, str(callee.noinline))
        for (name, _), (value, namespace) in getattr(callee, "used_global_vals", {}).items():
            self.remember(name, value, namespace, callee.fn.__qualname__)

    def remember(self, name: str, value: Any, namespace: Mapping[str, Any], user: str) -> None:
        before, _ = self.globals.setdefault((name, id(namespace)), (value, namespace))
        if before is not value and not same_value(before, value):
            raise RuntimeError(f"Global variable {name} is {before!r}, but {user} was compiled when it was {value!r}")

    def add(self, *texts: str) -> None:
        for text in texts:
            self.hasher.update(f"{len(text)}:{text}".encode())


def _captured(python: FunctionType) -> dict[str, Any]:
    cells = zip(python.__code__.co_freevars, python.__closure__ or (), strict=True)
    return dict(_filled(cells))


def _filled(cells: Any) -> Iterator[tuple[str, Any]]:
    for name, cell in cells:
        try:
            yield name, cell.cell_contents
        except ValueError:  # the variable has no value yet
            continue


def _is_plain(value: Any) -> bool:
    """Values that can be noticed to change: constants, not functions, classes or modules."""
    return isinstance(value, int | float | str | bytes | tuple | constexpr | Enum) or value is None


_TEXTS: tuple[tuple[Any, Callable[[Any], str]], ...] = (
    (constexpr, lambda value: f"constexpr({value_text(value.value)})"),
    (JITCallable, lambda value: f"jit({value.cache_key})"),
    ((tuple, list), _sequence_text),
    ((frozenset, set), _set_text),
    (dict, _dict_text),
    (FunctionType, _function_text),
    (CodeType, lambda value: f"code({_code_text(value)})"),
    ((ModuleType, type, BuiltinFunctionType), _qualified),
)
