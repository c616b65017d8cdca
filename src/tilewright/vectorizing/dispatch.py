"""Arrays with their own dispatch, such as Dask's: they get a vectorized function as they get NumPy's ufuncs.

    f(x, 2.0, out=z)      x.__array_ufunc__(AsUfunc(f), "__call__", x, 2.0, out=(z,)), if the class of x has it

So a Dask array stays lazy, and an array with labels keeps them. Neither this package nor the array library has code for
the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tilewright.runtime import lazy_imports
from tilewright.runtime.errors import ArgumentError
from tilewright.vectorizing import reductions
from tilewright.vectorizing.build import FOLD, SPAN, Request
from tilewright.vectorizing.kinds import WEAK_KINDS, Kind
from tilewright.vectorizing.operands import is_tensor, operand

_TOLD_THE_DTYPE = ("dask",)
"""Packages whose arrays take `dtype=`; they would find it by calling the function on an array of garbage."""


class AsUfunc:
    """A vectorized function with what the protocol looks at in a ufunc."""

    nout = 1
    signature = None
    """It works on elements: a ufunc has a text here if it works on whole axes."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.nin = function.nin
        # Not the plain name: pandas takes a ufunc that is called `add` for its own operator.
        self.__name__ = self.__qualname__ = f"vectorized_{function.fn.__name__}"
        self.__module__ = function.fn.__module__
        self.__doc__ = function.__doc__

    def __call__(self, *args: Any, out: Any = None, where: Any = True) -> Any:
        return self.function(*args, out=out, where=where)

    def __reduce__(self) -> tuple[Any, ...]:
        return AsUfunc, (self.function,)

    def __repr__(self) -> str:
        return repr(self.function)

    def __dask_tokenize__(self) -> tuple[str, ...]:
        """Equal for functions that compute the same, so that equal graphs have equal names."""
        return (type(self).__qualname__, self.function.cache_key)


def computes_itself(value: Any) -> bool:
    """Whether a value is an array of a class that takes ufuncs over."""
    kind = type(value)
    return getattr(kind, "__array_ufunc__", None) is not None and not issubclass(kind, np.ndarray | np.generic)


def call(function: Any, args: Sequence[Any], *, out: Any, where: Any) -> Any:
    """Let the first array that can do it compute a vectorized function; see `Vectorized.__call__`.

    Raises:
        ArgumentError: an argument that cannot be beside such an array, an `out` of another dtype.
        TypeError: no array takes the function.
    """
    keywords = ({} if out is None else {"out": (out,)}) | ({} if where is True else {"where": where})
    candidates = [value for value in (*args, out, where) if computes_itself(value)]
    for position, value in enumerate(args):
        if is_tensor(value):
            beside = type(candidates[0]).__name__
            raise ArgumentError(f"argument {position} is a tensor beside a {beside}; pass tensor.numpy()")
    for value in candidates:
        known = _known(function, args, value, out)
        found = value.__array_ufunc__(AsUfunc(function), "__call__", *args, **keywords, **known)
        if found is not NotImplemented:
            return found
    kinds = ", ".join(sorted({type(value).__name__ for value in candidates}))
    raise TypeError(f"none of {kinds} takes the vectorized function {function.fn.__name__}")


def reduce(function: Any, array: Any, axis: Any, *, out: Any, keepdims: bool, initial: Any) -> Any:
    """Fold an array that computes itself, of which only Dask's can do that; see `Vectorized.reduce`.

    Raises:
        ArgumentError: an array of another package, or `out`.
    """
    if out is not None or not _is_told_the_dtype(array):
        refuse((array, out), f"{function.fn.__name__}.reduce{'' if out is None else ' with out='}")
    reductions.check(function)
    axes = reductions.axes_of(axis, array.ndim)
    kind = _kind(array, 0)
    dtype = np.dtype(function.code(Request(FOLD, (kind, kind))).result.name)
    result = lazy_imports.folded_blocks(Fold(function, axes), array, axes, dtype, initial)
    if not keepdims:
        return result
    return result[tuple(None if number in axes else slice(None) for number in range(array.ndim))]


class Fold:
    """A fold of one block of an array, sent to workers.

    Args:
        axes: which to fold.
    """

    def __init__(self, function: Any, axes: tuple[int, ...]) -> None:
        self.function, self.axes = function, axes
        self.__name__ = f"{function.fn.__name__}_reduce"

    def __call__(self, block: Any, before: Any = None) -> Any:
        """The fold of the elements of a block, from `before` on: what the blocks before it gave, or a number."""
        return self.function.reduce(block, self.axes, initial=before)

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        return (type(self).__qualname__, self.function.cache_key, self.axes)


def refuse(values: Iterable[Any], what: str) -> None:
    """Refuse arrays that compute themselves where they cannot be handed a function."""
    for value in values:
        if computes_itself(value):
            kind = f"{type(value).__module__.partition('.')[0]} {type(value).__name__}"
            raise ArgumentError(f"{what} does not take a {kind}: compute it first, or fold its blocks one by one")


def _known(function: Any, args: Sequence[Any], value: Any, out: Any) -> dict[str, Any]:
    """The dtype of the result, for callers that need it."""
    if not _is_told_the_dtype(value):
        return {}
    kinds = tuple(_kind(argument, position) for position, argument in enumerate(args))
    pattern = "".join("u" if kind.weak else "v" for kind in kinds)
    dtype = np.dtype(function.code(Request(SPAN, kinds, f"{pattern}v")).result.name)
    if out is not None and out.dtype != dtype:
        raise ArgumentError(f"out= has the dtype {out.dtype}, the result {dtype}; write out[:] = result.astype(…)")
    return {"dtype": dtype}


def _is_told_the_dtype(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] in _TOLD_THE_DTYPE


def _kind(value: Any, position: int) -> Kind:
    if value.__class__ in WEAK_KINDS:
        return WEAK_KINDS[value.__class__]
    stand_in = np.empty(0, value.dtype) if computes_itself(value) else value
    return operand(stand_in, position).kind
