"""`map_blocks`: a kernel on each block of chunked arrays, lazily, with halos for stencils.

    size = lambda block: block.out.size
    total = map_blocks(add, x, y, OUT, size, grid=lambda meta: (cdiv(meta["n"], 1024),), BLOCK=1024)

Arguments are those of the kernel, in its order: a chunked array stands for its block, `OUT` for the block of the
result, a function for its value on the block; everything else is passed unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from tilewright.runtime import lazy_imports
from tilewright.runtime.captured import CapturedFunction
from tilewright.runtime.errors import ArgumentError
from tilewright.runtime.specialize import DIVISIBILITY
from tilewright.support.hashing import hash_of
from tilewright.support.named_tuple import NamedTuple

Array = np.ndarray[Any, Any]


class _Out:
    """The placeholder for the block of the result among the arguments of `map_blocks`."""

    def __reduce__(self) -> str:
        return "OUT"

    def __repr__(self) -> str:
        return "OUT"


OUT = _Out()


class Block(NamedTuple):
    """The block that a kernel is launched for.

    Attributes:
        inputs: the blocks of the chunked arrays, in the order of the arguments, halos included.
        out: the block of the result.
        begin: where the block begins in the result: the index of its first element.
        number: which block it is, along each axis.
    """

    inputs: tuple[Array, ...]
    out: Array
    begin: tuple[int, ...]
    number: tuple[int, ...]


class _Input(NamedTuple):
    """The placeholder for the block of the chunked array with this number."""

    number: int


class BlockLaunch:
    """The launch of a kernel for one block; sent to workers, and called with the blocks of the chunked arrays.

    Args:
        arguments: with an `_Input` for each chunked array.
    """

    def __init__(
        self, kernel: Any, arguments: Sequence[Any], grid: Any, dtype: np.dtype[Any], keywords: Mapping[str, Any]
    ) -> None:
        self.kernel, self.arguments, self.grid = kernel, tuple(arguments), grid
        self.dtype, self.keywords = dtype, dict(keywords)
        self.__name__ = inner(kernel).fn.__name__
        self._text = _text_of(kernel)

    def __call__(self, *blocks: Any, block_info: Any = None) -> Array:
        """The block of the result.

        Raises:
            ArgumentError: the kernel is another one here, or a block is no NumPy array.
            ReadOnlyError: the kernel stores through a block that it is given.
        """
        if _text_of(self.kernel) != self._text:
            name = f"{self.kernel.__module__}:{self.__name__}"
            raise ArgumentError(f"the kernel {name} has another source on this worker: install the same version there")
        facts = block_info[None]
        out = np.zeros(facts["chunk-shape"], self.dtype)
        begin = tuple(first for first, _ in facts["array-location"])
        inputs = tuple(_readable(block, self.__name__) for block in blocks)
        block = Block(inputs, out, begin, tuple(facts["chunk-location"]))
        arguments = [_given(argument, block) for argument in self.arguments]
        keywords = {name: _given(value, block) for name, value in self.keywords.items()}
        if out.size:
            self.kernel[self.grid](*arguments, **keywords)
        return out

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        """A key that is equal for launches that compute the same, so that equal graphs have equal names."""
        kernel = inner(self.kernel)
        parts = self.arguments, self.grid, str(self.dtype), sorted(self.keywords.items())
        return (kernel.cache_key, repr(self.kernel), *parts)


def inner(kernel: Any) -> Any:
    """The kernel inside of autotuners and heuristics."""
    return getattr(kernel, "kernel", None) or kernel


def _text_of(kernel: Any) -> str:
    function = inner(kernel)
    return hash_of(function.listing().encode()).hexdigest() if isinstance(function, CapturedFunction) else ""


def _readable(block: Any, name: str) -> Array:
    """The block in C order, not to be written: others may read it, and it may be computed only once.

    Blocks that came over a wire lie anywhere; those that are not aligned are copied, which costs less than a kernel of
    their own for each combination of arguments that happen to be aligned.
    """
    if not isinstance(block, np.ndarray | np.generic):
        raise ArgumentError(f"a block for {name} is a {type(block).__name__}; map_blocks takes blocks of NumPy arrays")
    view = np.asarray(block, order="C").view()
    if view.ctypes.data % DIVISIBILITY:
        view = view.copy()
    view.flags.writeable = False
    return view


def _given(argument: Any, block: Block) -> Any:
    if argument is OUT:
        return block.out
    if isinstance(argument, _Input):
        return block.inputs[argument.number]
    return argument(block) if isinstance(argument, FunctionType) else argument


def map_blocks(
    kernel: Any,
    *arguments: Any,
    grid: Any,
    dtype: Any = None,
    chunks: Any = None,
    depth: Any = 0,
    boundary: Any = None,
    **keywords: Any,
) -> Any:
    """Launch a kernel for each block of Dask arrays, when the result is computed.

    Args:
        kernel: made by `@jit`, perhaps with `autotune` or `heuristics` around it.
        arguments: those of the kernel. A Dask array stands for its block, a NumPy array in C order that must not be
            written; blocks of several arrays are aligned and broadcast as NumPy does with arrays. `OUT`, which is there
            once, stands for the block of the result: zeros at first. A Python function is called with the `Block`.
        grid: as for a launch: one to three extents, or a function of the arguments.
        dtype: of the result; without it that of the first Dask array.
        chunks: the extents of the result's blocks along each axis, as Dask has them; without it those of the arrays.
        depth: elements of the neighbouring blocks that each block has besides its own: a number, or one for each axis.
        boundary: what is beyond the ends of the array: `"reflect"`, `"periodic"`, `"nearest"` or a number;
                or one of them for each axis, as a tuple or by axis as a dict.
        keywords: constants and options of the launch; a Python function is called with the `Block`.

    Returns:
        A Dask array; its shape and dtype are known, and nothing runs before it is computed.

    Raises:
        ArgumentError: no Dask array or not exactly one `OUT` among the arguments, a halo without a boundary.
        ImportError: Dask is not installed.

    Example:
        `map_blocks(add, x, y, OUT, lambda block: block.out.size, grid=lambda meta: (cdiv(meta["n"], 64),), BLOCK=64)`
    """
    if sum(argument is OUT for argument in (*arguments, *keywords.values())) != 1:
        raise ArgumentError("map_blocks needs OUT once among the arguments: it stands for the block of the result")

    def launch(number_of: Callable[[Any], int | None], kind: Any) -> BlockLaunch:
        numbers = [(argument, number_of(argument)) for argument in arguments]
        placed = [argument if number is None else _Input(number) for argument, number in numbers]
        return BlockLaunch(kernel, placed, grid, np.dtype(kind), keywords)

    return lazy_imports.mapped_blocks(arguments, launch, dtype=dtype, chunks=chunks, depth=depth, boundary=boundary)
