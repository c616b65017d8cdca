"""The dependencies of a kernel: its own code, the functions it calls, the outer values it reads.

    found = dependencies(python_function)
    found.digest          # differs when any of that differs
    found.globals         # {("BLOCK", id(module globals)): (128, module globals)}: to notice later changes
    found.callees         # {("helper", id(module globals)): (helper, module globals)}: to notice that it is redefined

They come from code objects, whose constants, names, bytecode and line table determine everything in the source except
comments. A function of Tilewright itself counts by its name: the compiler's identity stands for its content.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import partial
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, ModuleType
from typing import Any, Protocol, TypeAlias

from tilewright.language.callable import KeyedCallable
from tilewright.runtime.bytecode_names import Read, early_reads, global_reads
from tilewright.runtime.foreign import OWN_PACKAGE, is_installed, refuse_foreign
from tilewright.semantics.constexpr import constexpr, unwrap
from tilewright.semantics.tile import ValueType
from tilewright.support.annotations import annotations_of
from tilewright.support.hashing import hash_of
from tilewright.support.locks import fork_safe_lock, importing
from tilewright.support.named_tuple import NamedTuple


class Namespace(Protocol):
    """A holder of outer values: the dict of a module, or a variable of an enclosing function."""

    def get(self, name: str, default: Any, /) -> Any: ...


UsedGlobals: TypeAlias = dict[tuple[str, int], tuple[Any, Namespace]]
ABSENT = object()


class Dependencies(NamedTuple):
    """The dependencies of a function.

    Attributes:
        digest: 64 hexadecimal digits.
        globals: the outer values read, by name and namespace.
        callees: the functions called by the program's own functions, by name and namespace.
    """

    digest: str
    globals: UsedGlobals
    callees: UsedGlobals


def dependencies(python: FunctionType) -> Dependencies:
    """Everything that `python` depends on.

    Raises:
        RuntimeError: two functions saw one global with different values.
    """
    walk = _Walk()
    with hashing:
        _under_way.append(python)
        try:
            walk.function(python)
        finally:
            _under_way.remove(python)
    return Dependencies(walk.hasher.hexdigest(), walk.globals, walk.callees)


_under_way: list[FunctionType] = []
_classes_under_way: list[type] = []
_holders_under_way: list[object] = []


def _nothing_is_under_way() -> None:
    _under_way.clear()
    _classes_under_way.clear()
    _holders_under_way.clear()


hashing = fork_safe_lock(_nothing_is_under_way)
"""The lock held while functions are hashed: one for all, because functions may call each other."""


def is_being_hashed(python: FunctionType) -> bool:
    """Whether the key of `python` is asked for while it is computed: it calls itself."""
    return python in _under_way


def check_unchanged(name: str, used: UsedGlobals) -> None:
    """Raise RuntimeError when an outer value is not what it was when the kernel `name` was compiled."""
    for (variable, _), (value, namespace) in used.items():
        now = namespace.get(variable, ABSENT)
        if now is not value and not same_value(now, value):
            now = "nothing" if now is ABSENT else repr(now)
            raise RuntimeError(
                f"Global variable {variable} has changed since we compiled this kernel, from {value!r} to {now}; "
                f"make it an argument of {name} if it has to change"
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
    if " at 0x" in text:  # the default repr shows an address, which differs in each process
        text = _state_text(value)
    elif not isinstance(value, _PLAIN) and not is_installed(type(value).__module__) and not _is_own(type(value)):
        text += _state_text(value)  # a program's own repr need not show all
    return f"{_qualified(type(value))}={text}"


def _state_text(value: Any) -> str:
    """The state of an object as text: its dict and its slots, or the parts of a partial function."""
    if isinstance(value, partial):
        return _sequence_text((value.func, value.args, value.keywords))
    with hashing:
        if any(value is holder for holder in _holders_under_way):
            return "itself"
        _holders_under_way.append(value)
        try:
            return value_text(object.__getstate__(value))
        finally:
            _holders_under_way.pop()


def _sequence_text(value: Any) -> str:
    return f"{type(value).__qualname__}({','.join(map(value_text, value))})"


def _set_text(value: Any) -> str:
    return f"set({','.join(sorted(map(value_text, value)))})"


def _dict_text(value: Any) -> str:
    return f"dict({','.join(f'{value_text(k)}:{value_text(v)}' for k, v in value.items())})"


def _function_text(value: FunctionType) -> str:
    if _is_own(value) or value in _under_way:
        return _qualified(value)
    return f"function({dependencies(value).digest})"


def _class_text(value: type) -> str:
    """The name of a class, with its methods and constants if it is a program's, or has functions of kernels."""
    if _is_own(value) or value.__module__ == "builtins":
        return _qualified(value)
    with hashing:
        if value in _classes_under_way:
            return _qualified(value)
        _classes_under_way.append(value)
        is_program = hasattr(value, "hash_attrs") or not is_installed(value.__module__)
        try:
            members = [
                f"{name}={value_text(member)}" for name, member in _members(value) if _counts(name, member, is_program)
            ]
            if is_program:
                members += [f"{name}={value_text(constant)}" for name, constant in class_constants(value)]
        finally:
            _classes_under_way.pop()
    return f"{_qualified(value)}({','.join(members)})"


def _members(value: type) -> Iterator[tuple[str, Any]]:
    """The members of a class, by name; of static methods, class methods and properties the function."""
    for name, member in sorted(vars(value).items()):
        if isinstance(member, property):
            yield name, member.fget
        else:
            yield name, member.__func__ if isinstance(member, staticmethod | classmethod) else member


def _counts(name: str, member: Any, is_program: bool) -> bool:
    if isinstance(member, KeyedCallable):
        return True
    is_constant = is_immutable(member) and not _is_special(name)
    return is_program and (is_constant or isinstance(member, FunctionType))


def class_constants(kind: type) -> Iterator[tuple[str, Any]]:
    """Numbers, texts and sequences that stand in a class, or in one that it derives from; they may be replaced."""
    for base in kind.__mro__:
        for name, member in vars(base).items():
            if isinstance(member, int | float | str | tuple | list) and not _is_special(name):
                yield name, member


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _is_own(value: Any) -> bool:
    return (getattr(value, "__module__", "") or "").partition(".")[0] == OWN_PACKAGE


def _module_text(module: ModuleType) -> str:
    """The name of a module, without reading its attributes: `torch.classes` takes any attribute for a class."""
    return f"module({vars(module).get('__name__')})"


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
        self.callees: UsedGlobals = {}

    def function(self, python: FunctionType) -> None:
        defaults = (python.__defaults__, python.__kwdefaults__, annotations_of(python))
        self.add(_code_text(python.__code__), *map(value_text, defaults))
        for read in sorted(set(global_reads(python.__code__))):
            if read.name.isidentifier():  # others are of tools that rewrite code, as pytest does with `assert`
                self.read(read, python)
        self.shadowed(python)

    def shadowed(self, python: FunctionType) -> None:
        """Constants of the module that have the name of a variable, which has their value until it gets its own.

        Whether that ever happens is not certain before the function is evaluated; what is read early in the text is.
        """
        module, variables = python.__globals__, python.__code__.co_varnames
        names = [name for name in variables if isinstance(module.get(name), constexpr)]
        early = early_reads(python.__code__, names) if names else ()
        for name in names:
            self.add(name, value_text(module[name]))
            if name in early:
                self.remember(name, module[name], module, python.__qualname__)

    def read(self, read: Read, python: FunctionType) -> None:
        namespace = _captured(python, read.name) if read.captured else python.__globals__
        value = namespace.get(read.name, ABSENT)
        if value is ABSENT:  # a builtin, or a name that does not exist: the front end will say
            self.add(read.name)
            return
        path, is_own = [read.name], False
        for attribute in read.attributes:
            if not isinstance(value, ModuleType):
                break
            namespace = vars(value)
            path.append(attribute)
            is_own = str(namespace.get("__package__", "")).partition(".")[0] == OWN_PACKAGE
            if is_own and len(path) > len(read.attributes) and _is_as_given(namespace, attribute):
                self.add(".".join(path))
                return
            value = getattr(value, attribute, ABSENT)
        self.add(".".join(path))
        if value is ABSENT:  # in a branch that is not taken, or the front end will say
            return
        if isinstance(value, KeyedCallable):
            self.callee(value)
            if not is_installed(python.__module__ or ""):
                self.callees[_key(path[-1], namespace)] = value, namespace
        elif value is python:
            self.add("itself")
        else:
            refuse_foreign(value, python, path)
            self.add(self.helper(value) if isinstance(value, FunctionType) else value_text(value))
            kind = type(unwrap(value))
            if not (kind.__module__ == "builtins" or _is_own(kind) or is_installed(kind.__module__)):
                self.add(value_text(kind))  # the methods of an object
            stored = namespace.get(path[-1], ABSENT) is not ABSENT  # a module makes others when it is asked
            if stored and _may_change(value) and not is_own:
                self.remember(path[-1], value, namespace, python.__qualname__)

    def helper(self, python: FunctionType) -> str:
        """The text for a plain function. Numbers that it reads are watched; other objects may be its own memory.

        Functions of the standard library change with Python's version only. What they read is not followed: it may be
        anything that is loaded (`copy.deepcopy` knows how torch's classes are copied).
        """
        if _is_own(python) or python in _under_way:
            return _qualified(python)
        if (python.__module__ or "").partition(".")[0] in sys.stdlib_module_names:
            return f"{_qualified(python)} of Python {sys.version}"
        found = dependencies(python)
        for (name, _), (value, namespace) in found.globals.items():
            if is_immutable(unwrap(value)):
                self.remember(name, value, namespace, python.__qualname__)
        self.callees.update(found.callees)
        return f"function({found.digest})"

    def callee(self, callee: KeyedCallable) -> None:
        self.add(callee.cache_key, str(getattr(callee, "noinline", False)))
        for (name, _), (value, namespace) in getattr(callee, "used_global_vals", {}).items():
            self.remember(name, value, namespace, callee.fn.__qualname__)

    def remember(self, name: str, value: Any, namespace: Namespace, user: str) -> None:
        key = _key(name, namespace)
        before = self.globals.get(key)
        if before is None:
            self.globals[key] = _snapshot(value), namespace
        elif not same_value(before[0], value):
            raise RuntimeError(
                f"Global variable {name} has value {before[0]!r} now, but {user}, which is called here, was compiled "
                f"when it was {value!r}"
            )

    def add(self, *texts: str) -> None:
        for text in texts:
            self.hasher.update(f"{len(text)}:{text}".encode())


def _key(name: str, namespace: Namespace) -> tuple[str, int]:
    return name, namespace.identity if isinstance(namespace, Captured) else id(namespace)


def _is_as_given(namespace: Mapping[str, Any], name: str) -> bool:
    """Whether a name of this package means what it should: the compiler's identity stands for that.

    A name that was not accessed yet counts too, so that nothing is imported for kernels from the disk cache.
    """
    return namespace.get(name, ABSENT) is namespace.get("_lazy", {}).get(name, ABSENT)


def captured_values(python: FunctionType) -> dict[str, Any]:
    """The values that a function captures of enclosing functions, by name; variables without a value are left out."""
    names = python.__code__.co_freevars
    values = {name: _captured(python, name).get(name, ABSENT) for name in names}
    return {name: value for name, value in values.items() if value is not ABSENT}


class Captured(NamedTuple):
    """A variable of an enclosing function, as a namespace of its own."""

    cell: CellType

    @property
    def identity(self) -> int:
        """Equal for functions that share the variable."""
        return id(self.cell)

    def get(self, name: str, default: Any, /) -> Any:
        try:
            return self.cell.cell_contents
        except ValueError:  # the variable has no value yet
            return default


def _captured(python: FunctionType, name: str) -> Namespace:
    """The holder of a captured variable; empty if it is one of `python` itself, read by a function inside it."""
    if python.__closure__ is None or name not in python.__code__.co_freevars:
        return {}
    return Captured(python.__closure__[python.__code__.co_freevars.index(name)])


def _may_change(value: Any) -> bool:
    """Whether the variable could get another value: functions, modules and callees do not change."""
    return not isinstance(value, _DEFINITIONS) and not (callable(value) and not isinstance(value, _VALUES))


def _snapshot(value: Any) -> Any:
    """The value as it is now, also if it is changed in place."""
    if isinstance(value, constexpr):
        return constexpr(_snapshot(value.value))
    if is_immutable(value):
        return value
    with importing:
        from copy import deepcopy

    try:
        return deepcopy(value)
    except TypeError:  # something inside cannot be copied: a lock, a module
        return value


def is_immutable(value: Any) -> bool:
    """Whether the same object always has the same value."""
    if isinstance(value, tuple | frozenset):
        return all(map(is_immutable, value))
    return value is None or isinstance(value, _IMMUTABLE)


_DEFINITIONS = (KeyedCallable, FunctionType, BuiltinFunctionType, ModuleType)
_VALUES = (type, constexpr, ValueType)
_PLAIN = (int, float, str, bytes, complex, type(None), Enum)
_IMMUTABLE = (int, float, str, bytes, complex, type, Enum, ValueType, *_DEFINITIONS)
_TEXTS: tuple[tuple[Any, Callable[[Any], str]], ...] = (
    (constexpr, lambda value: f"constexpr({value_text(value.value)})"),
    (KeyedCallable, lambda value: f"jit({value.cache_key})"),
    ((tuple, list), _sequence_text),
    ((frozenset, set), _set_text),
    (dict, _dict_text),
    (FunctionType, _function_text),
    (CodeType, lambda value: f"code({_code_text(value)})"),
    (type, _class_text),
    (ModuleType, _module_text),
    (BuiltinFunctionType, _qualified),
)
