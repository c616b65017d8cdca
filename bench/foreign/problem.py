"""The work of a row of these tables: one of our kernels, and peers that do the same work on the same arrays.

    problem = row.make(*row.shapes[0])
    making = problem.check()          # ours and each peer's result against NumPy's
    problem.launch(problem.out, 1)    # ours, on one thread
    problem.works()["torch"]()        # a peer
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from peers import jax, torch
from works import Work, empty, jax_work, like

RNG = np.random.default_rng(0)
NORMAL = RNG.standard_normal((1 << 20) - 3, np.float32)
"""Numbers that larger arrays repeat, as drawing them takes longer than the rows themselves."""

SIZES = ("L1", "L2 or L3", "memory")
"""Where the arrays of a row's three shapes fit, as far as its peers end in time."""
READING = 8
"""The least ratio of bytes read to bytes written at which reading alone is taken for the limit."""

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Problem:
    """One kernel on arrays.

    Attributes:
        launch: runs it into `out`, or what is like it, with so many threads.
        out: an array for the result, or several.
        inputs: what the peers get.
        reference: the result from `inputs`, by NumPy; not timed.
        peers: by name, functions of `inputs` and of an array like `out`, which they may ignore; they return the result.
        tolerance: largest difference, relative to the largest expected element.
        operations: multiplications and additions, where dots or sums of products are the work.
        peak: which instruction's peak bounds those: a key of `fma_peak.KINDS`.
        moved: bytes read and written at least, where it is not all of `inputs` and `out`.
        start: what `out` holds before a run, where the kernel updates it.
        draws: the peers whose results are random, and not compared.
    """

    launch: Callable[[Any, int], Any]
    out: Any
    inputs: tuple[np.ndarray, ...]
    reference: Callable[..., Any]
    peers: Mapping[str, Callable[..., Any]]
    tolerance: float = 1e-5
    operations: float = 0
    peak: str = "fp32"
    moved: int = 0
    start: tuple[np.ndarray, ...] = ()
    draws: frozenset[str] = field(default_factory=frozenset)

    def anew(self, threads: int) -> None:
        """Run ours, its result being made in this call."""
        self.launch(like(self.out), threads)

    def works(self) -> dict[str, Work]:
        """The installed peers, each ready to run; those that can write to an array share one."""
        out = like(self.out)
        self._reset(out)
        found: dict[str, Work] = {}
        for name, function in self.peers.items():
            if name == "jax" and jax:
                found[name] = jax_work(function, *self.inputs)
            elif name == "torch" and torch:
                results = tuple(map(torch.from_numpy, arrays(out)))
                inputs = map(torch.from_numpy, self.inputs)
                found[name] = partial(function, *inputs, results if isinstance(out, tuple) else results[0])
            elif name == "numpy":
                found[name] = partial(function, *self.inputs, out)
        return found

    def check(self, works: Mapping[str, Work]) -> frozenset[str]:
        """Compare everybody's result with NumPy's. Returns the peers that make their result in each call."""
        expected = [np.array(array) for array in arrays(self.reference(*self.inputs))]
        self._reset(self.out)
        self.launch(self.out, 1)
        self._compare("ours", arrays(self.out), expected)
        making = set()
        for name, work in works.items():
            written = work.args[-1] if isinstance(work, partial) else ()
            if isinstance(work, partial):
                self._reset(written)
            result = work()
            found = arrays(result)
            if name not in self.draws:
                self._compare(name, found, expected)
            if not self.start and not any(np.may_share_memory(found[0], array) for array in arrays(written)):
                making.add(name)
        return frozenset(making)

    def stream(self) -> tuple[Work, Work]:
        """Reads as many bytes, or copies them where the problem writes more than a few; and the same with next to none.

        The difference of their times is the limit of memory.
        """
        written = sum(array.nbytes for array in arrays(self.out))
        moved = self.moved or written + sum(array.nbytes for array in self.inputs)
        return tuple(streaming(count, is_reading=moved >= READING * written) for count in (moved, 16))

    def _reset(self, out: Any) -> None:
        """Fill `out` with what the kernel updates, or with what no kernel computes."""
        for at, array in enumerate(arrays(out)):
            array[...] = self.start[at] if self.start else 77

    def _compare(self, who: str, found: list[np.ndarray], expected: list[np.ndarray]) -> None:
        for got, wanted in zip(found, expected, strict=True):
            assert got.shape == wanted.shape, f"{who}: shape {got.shape}, not {wanted.shape}"
            scale = np.abs(wanted).max() or 1
            error = float(np.abs(np.subtract(got, wanted, dtype=np.float64)).max() / scale)
            assert error <= self.tolerance, f"{who}: wrong by {error:.1e}"


@dataclass(frozen=True)
class Row:
    """One line of the tables.

    Attributes:
        name: the problem.
        make: prepares it, given a shape.
        shapes: one for each of SIZES.
    """

    name: str
    make: Callable[..., Problem]
    shapes: tuple[Shape, Shape, Shape]


MATRICES: tuple[Shape, Shape, Shape] = (16, 128), (256, 1024), (4096, 4096)
"""Rows and columns of fp32."""


def streaming(moved: int, *, is_reading: bool) -> Work:
    """A sum of products, or a copy, that moves so many bytes; by torch, which has threads, where that is installed."""
    x, y = (empty(moved // 8) for _ in range(2))
    x[...] = y[...] = 1
    if torch:
        a, b = map(torch.from_numpy, (x, y))
        return partial(torch.dot, a, b) if is_reading else partial(b.copy_, a)
    return partial(np.dot, x, y) if is_reading else partial(np.copyto, y, x)


def arrays(result: Any) -> list[np.ndarray]:
    """One result or several, of any library, as NumPy arrays."""
    return [np.asarray(array) for array in (result if isinstance(result, tuple | list) else (result,))]


def normal(*shape: int) -> np.ndarray:
    """Normally distributed fp32 numbers."""
    made = empty(*shape)
    made.reshape(-1)[...] = np.resize(NORMAL, made.size)
    return made


def whole(low: int, high: int, *shape: int, dtype: Any = np.int64) -> np.ndarray:
    """Random integers from `low` up to, but not including, `high`."""
    return RNG.integers(low, high, shape, dtype)


def steps(*operands: np.ndarray) -> Iterator[int]:
    """The strides of arrays, in elements, one array after the other."""
    for array in operands:
        yield from (step // array.itemsize for step in array.strides)
