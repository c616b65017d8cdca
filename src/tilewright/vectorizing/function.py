"""`@tw.vectorize`: a plain Python function as machine code on numbers and as one fused loop over arrays.

    @tw.vectorize
    def some_expr(a, b, c):
        return b / (a + 2) - c * (b - a)

    some_expr(2, 16, 3)                       -38.0: a Python number, as Python computes it
    some_expr(x, y, 3.0)                      an array, with the shape and dtype that NumPy gives
    some_expr(x, y, 3.0, out=z, where=mask)   as for NumPy's ufuncs

The first call with new kinds of arguments compiles (or finds the code in the disk cache); calls like an earlier one run
no Python at all (`native/`).
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from functools import cache
from types import FunctionType
from typing import Any, overload

import numpy as np

from tilewright.language.callable import JITCallable
from tilewright.runtime.captured import CapturedFunction
from tilewright.runtime.dependencies import hashing
from tilewright.runtime.drivers.cpu.native.structs import Memory
from tilewright.runtime.errors import ArgumentError
from tilewright.runtime.foreign import allowing
from tilewright.runtime.tracebacks import shortened
from tilewright.support.annotations import signature_of
from tilewright.support.diagnostics import CompilationError
from tilewright.support.locks import fork_safe_lock
from tilewright.vectorizing import arrays, dispatch, reductions
from tilewright.vectorizing.build import SCALAR, SPAN, Code, Request, build
from tilewright.vectorizing.errors import BadParameters
from tilewright.vectorizing.kinds import WEAK_KINDS, Kind
from tilewright.vectorizing.native.structs import LARGE, MAX_ARGUMENTS, RECORDS, STATE
from tilewright.vectorizing.operands import Operand
from tilewright.vectorizing.process import NativeSide, native_side
from tilewright.vectorizing.records import array_record, can_stream, scalar_record, set_stream

_PACKERS = {"bool": struct.Struct("<q"), "float64": struct.Struct("<d"), "int64": struct.Struct("<q")}
_MAX_RECORDS = 64


class Vectorized(CapturedFunction, JITCallable):
    """A Python function that takes numbers and arrays alike; see `vectorize`.

    Attributes:
        fn: the Python function.
        nin: how many arguments it takes.
        nout: how many results it gives: one.
        prepared: calls with arrays that are ready to run again.
    """

    nout = 1

    def __init__(self, fn: FunctionType, frontend: str = "auto") -> None:
        super().__init__(fn, frontend)
        self.nin = _parameter_count(fn)
        self._codes: dict[Request, Code] = {}
        self._costs: dict[Request, ctypes.c_int64] = {}
        self.prepared: dict[Any, Any] = {}
        self._records: list[Any] = []
        self._records_by_key: dict[Any, Any] = {}
        self._retired: list[Any] = []
        self._lock = fork_safe_lock()
        native = _native()
        self._state = 0 if native is None else native.adopt(self)

    def __call__(self, *args: Any, out: Any = None, where: Any = True, **keywords: Any) -> Any:
        """The function of numbers, or of each element of the broadcast of arrays.

        Args:
            args: numbers, NumPy arrays, torch tensors on the CPU, objects with DLPack; arrays that take NumPy's ufuncs
                over (Dask's, xarray's) compute it in their own way.
            out: an array for the result (or a tuple with one).
            where: elements for which this is false keep what `out` has.
            keywords: arguments by name.

        Raises:
            ArgumentError: an argument of a kind that has no elements to compute with.
            CompilationError: the function is wrong for arguments of these kinds.
            ValueError: shapes that do not broadcast, an `out` of another shape.
        """
        if keywords or len(args) != self.nin:
            args = self._bound(args, keywords)
        target = out[0] if isinstance(out, tuple) and len(out) == 1 else out
        try:
            if out is None and where is True and all(value.__class__ in WEAK_KINDS for value in args):
                return self._of_numbers(args)
            if any(map(dispatch.computes_itself, (*args, target, where))):
                return dispatch.call(self, args, out=target, where=where)
            return arrays.call(self, native(), args, out=target, where=where)
        except CompilationError as error:
            raise shortened(error) from error.__cause__

    def maker(self) -> tuple[Callable[..., Any], dict[str, Any]]:
        """`vectorize`, and its options."""
        return vectorize, {"frontend": self.frontend}

    def __repr__(self) -> str:
        return f"<vectorized {self.fn.__qualname__}{self.signature}>"

    @property
    def cache_key(self) -> str:
        """A digest of the function and of everything that it uses, NumPy's ufuncs by their names."""
        with hashing, allowing(_merely_computes):
            return super().cache_key

    def reduce(self, array: Any, axis: Any = 0, *, out: Any = None, keepdims: bool = False, initial: Any = None) -> Any:
        """f(… f(f(x0, x1), x2) …) along axes: always from the first element to the last.

        Args:
            array: what is folded; of a Dask array the result is one, too: each block goes on from where the one before
                it ended.
            axis: one, several (a tuple), or None for all.
            out: an array for the result.
            keepdims: keep the axes with extent 1.
            initial: what the fold starts with; without it, the first element.

        Raises:
            ArgumentError: an array that computes itself and is not Dask's, `out` beside one of Dask's, chunks of
                unknown sizes.
            ValueError: the function does not take two arguments; an axis without elements and no `initial`.
        """
        try:
            if dispatch.computes_itself(array) or dispatch.computes_itself(out):
                return dispatch.reduce(self, array, axis, out=out, keepdims=keepdims, initial=initial)
            return reductions.reduce(self, native(), array, axis, out=out, keepdims=keepdims, initial=initial)
        except CompilationError as error:
            raise shortened(error) from error.__cause__

    def code(self, request: Request) -> Code:
        """Machine code for a request, made once."""
        found = self._codes.get(request)
        if found is None:
            with self._lock:
                found = self._codes.get(request) or build(self, request)
                self._codes[request] = found
        return found

    def cost(self, request: Request) -> ctypes.c_int64:
        """The cost of earlier runs of a request, for the launcher."""
        return self._costs.setdefault(request, ctypes.c_int64(-1))

    def lowered(self, *kinds: Any) -> dict[str, str]:
        """The TTIR and the LLVM IR of the function for arrays of these dtypes, or for Python's numbers.

        Args:
            kinds: one per argument: a dtype or its name, or a Python class.
        """
        found = tuple(WEAK_KINDS.get(kind) or Kind(np.dtype(kind).name) for kind in kinds)
        if all(kind.weak for kind in found):
            return self.code(Request(SCALAR, found)).text
        pattern = "".join("u" if kind.weak else "v" for kind in found)
        return self.code(Request(SPAN, found, pattern + "v")).text

    def forget_code(self) -> None:
        """Forget all that was compiled: the source is another one."""
        if not hasattr(self, "_codes"):
            return
        with self._lock:
            self._codes, self._costs, self._records_by_key = {}, {}, {}
            self.prepared = {}
            self._retired += self._records
            self._records = []
            self._publish()

    def install(self, operands: Sequence[Operand], size: int) -> None:
        """Let later calls with arrays like these, which give a result of `size` bytes, run natively."""
        letters = "".join("u" if operand.kind.weak else "v" for operand in operands)
        request = Request(SPAN, tuple(operand.kind for operand in operands), f"{letters}v")
        self._enter(request, lambda: array_record(self.code(request), operands))
        record = self._records_by_key.get(request)
        if size >= LARGE and record is not None and can_stream(self.code(request)):
            set_stream(record, self.code(request._replace(pattern=f"{letters}w")))

    def _of_numbers(self, args: tuple[Any, ...]) -> Any:
        kinds = tuple(WEAK_KINDS[value.__class__] for value in args)
        request = Request(SCALAR, kinds)
        code = self.code(request)
        self._enter(request, lambda: scalar_record(code, kinds))
        words = (ctypes.c_int64 * max(1, len(args)))()
        try:
            for number, (kind, value) in enumerate(zip(kinds, args, strict=True)):
                _PACKERS[kind.name].pack_into(words, 8 * number, value)
        except struct.error:  # an integer of more than 64 bits
            return _plain(self.fn(*args))
        result = (ctypes.c_double if code.result.is_float else ctypes.c_int64)()
        if _SCALAR_FUNCTION(code.address)(words, ctypes.byref(result)):
            return _plain(self.fn(*args))
        return bool(result.value) if code.result.is_bool else result.value

    def _bound(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, ...]:
        missing, defaults = self.nin - len(args), self.fn.__defaults__ or ()
        if not keywords and 0 < missing <= len(defaults):
            return (*args, *defaults[len(defaults) - missing :])
        bound = self.signature.bind(*args, **keywords)
        bound.apply_defaults()
        return bound.args

    def _enter(self, key: Any, make: Callable[[], Any]) -> None:
        if not self._state or key in self._records_by_key or len(self._records) >= _MAX_RECORDS:
            return
        with self._lock:
            if key in self._records_by_key:  # another thread was here first
                return
            self._records_by_key[key] = record = make()
            self._records = [*self._records, record]
            self._publish()

    def _publish(self) -> None:
        native = _native()
        if native is None:
            return
        addresses = struct.pack(f"<{len(self._records)}Q", *map(ctypes.addressof, self._records))
        memory = Memory(RECORDS.pack(count=len(self._records)) + addresses)
        self._retired.append(memory)
        native.publish(self._state + STATE.fields["records"].offset, memory.address)


_SCALAR_FUNCTION = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


def _merely_computes(value: Any) -> bool:
    """Whether it is a function of NumPy; those with a meaning on elements depend on nothing but their arguments."""
    return str(getattr(value, "__module__", None) or type(value).__module__).startswith("numpy")


def _plain(value: Any) -> Any:
    """A number of Python's own."""
    return value.item() if isinstance(value, np.generic) else value


def _parameter_count(fn: FunctionType) -> int:
    """The number of arguments that a function takes."""
    parameters = signature_of(fn).parameters.values()
    for parameter in parameters:
        if parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            reason = f"`{parameter}` is no parameter with a place of its own"
            raise CompilationError(BadParameters(fn.__qualname__, reason))
    if not 0 < len(parameters) <= MAX_ARGUMENTS:
        reason = f"it has {len(parameters)} parameters; 1 to {MAX_ARGUMENTS} are possible"
        raise CompilationError(BadParameters(fn.__qualname__, reason))
    return len(parameters)


def _missed(function: Vectorized, /, *args: Any, **keywords: Any) -> Any:
    """A call that native code leaves to Python."""
    return Vectorized.__call__(function, *args, **keywords)


@cache
def _native() -> NativeSide | None:
    return native_side(Vectorized, _missed)


def native() -> NativeSide:
    """The native side.

    Raises:
        ArgumentError: there is none here.
    """
    found = _native()
    if found is None:
        raise ArgumentError("functions of arrays need the native launcher; `tilewright doctor` says why there is none")
    return found


@overload
def vectorize(fn: Callable[..., Any], /, *, frontend: str = "auto") -> Vectorized: ...
@overload
def vectorize(*, frontend: str = "auto") -> Callable[[Callable[..., Any]], Vectorized]: ...


def vectorize(fn: Any = None, /, *, frontend: str = "auto") -> Any:
    """Decorates a plain Python function of numbers, so that it takes arrays, too, and runs as machine code.

    Args:
        fn: the function: numbers in, one number out, no effects.
        frontend: how it is read: "auto", "ast", "bytecode" or "trace".

    Raises:
        CompilationError: parameters that no position fills.
        ValueError: no such front end.

    Example:
        >>> @tw.vectorize
        ... def clipped(x, limit):
        ...     return limit if x > limit else x
        >>> clipped(7, 5)
        5
        >>> clipped(np.arange(4), 2)
        array([0, 1, 2, 2])
    """
    if fn is None:
        return lambda function: vectorize(function, frontend=frontend)
    if frontend not in ("ast", "auto", "bytecode", "trace"):
        raise ValueError(f"there is no front end {frontend!r}; known are: ast, auto, bytecode, trace")
    if isinstance(fn, CapturedFunction):
        fn = fn.fn
    if not isinstance(fn, FunctionType):
        raise ArgumentError(f"vectorize takes a Python function, not a {type(fn).__name__}")
    made = _native()
    return (Vectorized if made is None else made.type)(fn, frontend)
