"""A Python function with its source and with the digest of everything that it depends on.

function = CapturedFunction(fn)
function.src                                   "def add(x_ptr, …):\n    …"
function.cache_key                             64 digits; differs for other code, callees or constants
function._unsafe_update_src(function.src.replace("+", "-"))      for tests; kernels that call it keep their key
"""

from __future__ import annotations

import ast
import dis
import inspect
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache, update_wrapper
from types import CodeType, FunctionType
from typing import Any, Self, cast
from weakref import WeakValueDictionary

from tilewright.language.callable import MUST_USE, KeyedCallable, ResultUnused
from tilewright.runtime import lazy_imports
from tilewright.runtime.dependencies import UsedGlobals, captured_values, dependencies, hashing, is_being_hashed
from tilewright.runtime.function_source import FunctionSource, read_source, require_source, with_text
from tilewright.semantics.active import is_running
from tilewright.semantics.constexpr import constexpr_type
from tilewright.support.annotations import signature_of
from tilewright.support.diagnostics import SemanticError
from tilewright.support.source import keep_lines, syntax_tree


class _Assignable:
    """A fact that a function states of itself, until a program states another: some make kernels of templates.

    Messages go on to name the place where the code says that it is from.

    Args:
        find: what the function says.
        doc: the docstring.
    """

    def __init__(self, find: Callable[[CapturedFunction], Any], doc: str) -> None:
        self._find, self.__doc__ = find, doc
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, function: CapturedFunction | None, owner: type | None = None) -> Any:
        if function is None:
            return self
        told = vars(function)
        return told[self._name] if self._name in told else self._find(function)

    def __set__(self, function: CapturedFunction, value: Any) -> None:
        vars(function)[self._name] = value


class CapturedFunction(KeyedCallable):
    """A function that kernels are made of, or that they call.

    Every one is kept in `functions_by_name` while it lives.

    Attributes:
        fn: the Python function; another one after `_unsafe_update_src`.
        used_global_vals: the outer values that it and its callees read: (value, namespace) by (name, namespace id).
        used_callees: the functions that it calls itself, in the same way.

    Raises:
        ValueError: the function has no source, and is to be read from it.
    """

    __globals__: dict[str, Any]
    __name__: str
    __qualname__: str
    __signature__: inspect.Signature

    def __init__(self, fn: FunctionType, frontend: str = "auto") -> None:
        keep_lines(fn)
        if frontend == "ast":
            require_source(fn)
        super().__init__(fn)
        self.frontend = frontend
        self.used_global_vals: UsedGlobals = {}
        self.used_callees: UsedGlobals = {}
        self._original = fn
        self._source: FunctionSource | None = None
        self._src: str | None = None
        self._hash: str | None = None
        stand_for(self, fn)
        self.__globals__ = fn.__globals__
        functions_by_name[f"{fn.__module__}:{fn.__qualname__}"] = self

    @property
    def source(self) -> FunctionSource:
        """The source in its file.

        Raises:
            ValueError: it cannot be read any more.
        """
        if self._source is None:
            self._source = read_source(self._original)
        return self._source

    raw_src = _Assignable(lambda self: self.source.raw, "The lines in the file, decorators included.")
    starting_line_number = _Assignable(
        lambda self: self._original.__code__.co_firstlineno, "Number of the first line, which may be a decorator's."
    )
    file_name = _Assignable(lambda self: self._original.__code__.co_filename, "The path of the file.")
    def_file_line_number = _Assignable(lambda self: self.source.def_line, "Number of the line of `def`.")
    def_file_col_number = _Assignable(lambda self: self.source.def_column, "Column of `def`, from 1.")
    _fn_name = _Assignable(
        lambda self: f"{self._original.__module__}.{self._original.__qualname__}", "The module and the qualified name."
    )

    @property
    def src(self) -> str:
        """The text of the function, from `def` on; `_unsafe_update_src` changes it."""
        return self.source.text if self._src is None else self._src

    @src.setter
    def src(self, text: str) -> None:
        raise AttributeError(
            f"the source of {self.__qualname__} cannot be assigned, because callers keep their keys: "
            "call _unsafe_update_src(text), and set `hash` of the callers to None"
        )

    def listing(self) -> str:
        """The input of the front end: the text of the function, or its bytecode, disassembled."""
        if self.frontend != "bytecode":
            try:
                return self.src
            except ValueError:
                pass  # no source: bytecode it is
        return dis.Bytecode(self.fn).dis()

    def _unsafe_update_src(self, new_src: str) -> None:
        """Give the function another body. Functions that call it need `caller.hash = None`."""
        if new_src == self.source.text:
            self.fn, self._src = self._original, None
        else:
            self.fn, self._src = with_text(self._original, new_src), new_src
        self.hash = None

    @property
    def signature(self) -> inspect.Signature:
        return self.__signature__

    def parse(self) -> ast.Module:
        """The syntax tree of `src`: a module with one function."""
        return syntax_tree(self.src)

    def get_capture_scope(self) -> Mapping[str, Any]:
        """The names around the function: globals, and over them what it captures of enclosing functions."""
        captured = captured_values(self.fn)
        return {**self.__globals__, **captured} if captured else self.__globals__

    @property
    def hash(self) -> str | None:
        """The key, if it was computed; set to None, it is computed again."""
        return self._hash

    @hash.setter
    def hash(self, value: str | None) -> None:
        self._hash = value
        self.used_global_vals, self.used_callees = {}, {}
        self.forget_code()

    def all_callees(self) -> UsedGlobals:
        """The functions that it and its callees call: (function, namespace) by (name, namespace id)."""
        found, functions = UsedGlobals(), [self]
        for function in functions:
            new = {key: entry for key, entry in function.used_callees.items() if key not in found}
            found |= new
            functions += [callee for callee, _ in new.values() if isinstance(callee, CapturedFunction)]
        return found

    def forget_if_redefined(self) -> None:
        """Forget the keys of this function and its callees if a name means another function than when they were made.

        A name that was deleted still means what it meant.
        """
        callees = self.all_callees()
        if any(namespace.get(name, callee) is not callee for (name, _), (callee, namespace) in callees.items()):
            for callee, _ in callees.values():
                if isinstance(callee, CapturedFunction):
                    callee.hash = None
            self.hash = None

    def forget_code(self) -> None:
        """The source is not what it was when code was made of it."""

    @property
    def cache_key(self) -> str:
        """A digest of the function and of everything that it uses.

        Raises:
            CompilationError: the function was declared in a way that cannot be compiled.
            RuntimeError: two functions saw one global with different values.
        """
        if self._hash is None:
            with hashing:
                if is_being_hashed(self.fn):  # it calls itself, perhaps through others
                    return f"recursive {self._fn_name}"
                self.check()
                found = dependencies(self.fn)
                self.used_global_vals, self.used_callees = found.globals, found.callees
                self._hash = found.digest if self.frontend == "auto" else f"{found.digest}-{self.frontend}"
        return self._hash

    def check(self) -> None:
        """Raise if the function as it was declared cannot be compiled."""

    @property
    def type(self) -> constexpr_type:
        return constexpr_type(self)

    def _flatten_ir(self, handles: list[Any]) -> None:
        """A function is no value at run time."""

    def maker(self) -> tuple[Callable[..., Any], dict[str, Any]]:
        """The decorator that makes such a function of a plain one, and its options."""
        return type(self), {}

    def __reduce__(self) -> str | tuple[Any, ...]:
        """By reference where other processes can import it, else by source; see `pickling.py`.

        What torch's compile workers send has lost `fn`, and cannot run.
        """
        if self.fn is None:
            return _without_code, (type(self), {name: vars(self)[name] for name in PLAIN if name in vars(self)})
        return lazy_imports.reduced(self)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        return self


PLAIN = ("__name__", "__qualname__", "__module__", "fn", "repr", "params", "arg_names", "constexprs", "_src", "_hash")
"""The attributes that torch asks for of a kernel without code, and that can be sent."""


def _without_code(kind: type[CapturedFunction], attributes: dict[str, Any]) -> CapturedFunction:
    """A function that only has these attributes, and None for those that torch takes away once more (on GPUs)."""
    function = kind.__new__(kind)
    vars(function).update(attributes, __globals__=None, used_global_vals=None)
    return function


def stand_for(function: KeyedCallable, fn: FunctionType) -> None:
    """Give `function` the names, the documentation and the signature of `fn`.

    Not `__wrapped__`, as `functools.wraps` does: pytest would take a kernel called `test_…` for a test.
    """
    update_wrapper(cast("Callable[..., Any]", function), fn)
    vars(function).pop("__wrapped__")
    vars(function)["__signature__"] = signature_of(fn)


functions_by_name: WeakValueDictionary[str, CapturedFunction] = WeakValueDictionary()
"""The latest function of each name, `module:qualified name`, to find those that are arguments of kernels."""


def check_used(function: Any) -> None:
    """Checks that a kernel uses the result of a function; to be called by the `__call__` of the function."""
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
