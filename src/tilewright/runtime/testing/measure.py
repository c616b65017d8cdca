"""Measures the duration of a function: `do_bench`.

do_bench(lambda: add[grid](x, y, out, n, BLOCK=1024))                              mean, in milliseconds
do_bench(lambda: add[grid](x, y, out, n, BLOCK=1024), quantiles=(0.5, 0.2, 0.8))   [median, 20 %, 80 %]

TILEWRIGHT_BENCH_SECONDS limits the time of a report; the lines of each table have equal shares:

    budget = Budget("matmul", lines=2)
    for size in sizes:
        for line in budget.lines:
            line.point(lambda: benchmark(size))       # the function's result, or NaN if there is too little time

A point is measured if the remaining time covers the duration of the last one of its line, scaled by its growth. The
first point is always measured. A running measurement is not stopped, so a table may take longer.
"""

from __future__ import annotations

import math
import statistics
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from time import perf_counter, perf_counter_ns
from typing import Any

from tilewright.runtime import lazy_imports
from tilewright.runtime.build import PreparationCounter
from tilewright.support import knobs
from tilewright.support.deprecation import warn_deprecated

_current: ContextVar[Line | None] = ContextVar("line", default=None)


class Line:
    """One line of a table, and its share of the time.

    Attributes:
        times: seconds that its points took.
        passed_over: the number of points that were not measured.
        by_first_call: which points were measured by a single call, the first one.
    """

    def __init__(self, seconds: float) -> None:
        self._share = seconds
        self._begin = 0.0
        self.times: list[float] = []
        self.passed_over = 0
        self.by_first_call: set[int] = set()

    def point(self, measure: Callable[[], Any]) -> Any:
        """The result of `measure`, or NaN where time does not suffice."""
        if self.expected() > self._share - sum(self.times):
            self.passed_over += 1
            return math.nan
        token = _current.set(self if self._share < math.inf else None)
        self._begin = perf_counter()
        try:
            return measure()
        finally:
            _current.reset(token)
            self.times.append(perf_counter() - self._begin)

    def expected(self) -> float:
        """Seconds of the next point: more than the last by what that was more than the one before it, as a ratio."""
        if not self.times:
            return 0.0
        before, last = self.times[-2:] if len(self.times) > 1 else self.times * 2
        return last * max(1.0, last / before) if before else last

    def left(self) -> float:
        """Seconds that are left for the point that is being measured; less than 0 when it takes longer."""
        return self._share - sum(self.times) - (perf_counter() - self._begin)

    def only_call(self, run: Callable[[], list[float]]) -> list[float] | None:
        """Run for the first time: the result, if that was all the time and a later run would take as long; else None.

        It would where nothing was compiled or tuned; of what other libraries compile, nothing is known.
        """
        before = PreparationCounter.count
        times = run()
        if self.left() > 0 or PreparationCounter.count != before:
            return None
        self.by_first_call.add(len(self.times))
        return times


class Budget:
    """The time for one table."""

    def __init__(self, name: str, lines: int) -> None:
        self._name = name
        self._seconds = knobs.tilewright.bench_seconds or math.inf
        self.lines = [Line(self._seconds / lines) for _ in range(lines)]

    def warn(self) -> None:
        """Say what the limit has changed."""
        measured = sum(len(line.times) for line in self.lines)
        passed_over = sum(line.passed_over for line in self.lines)
        first = sum(len(line.by_first_call) for line in self.lines)
        if passed_over or first:
            single = f" ({first} by the first call alone)" if first else ""
            rest = "; the others are NaN" if passed_over else ""
            limit = f"TILEWRIGHT_BENCH_SECONDS={self._seconds}"
            text = f"{self._name}: {measured} of {measured + passed_over} points were measured{single}{rest}: {limit}"
            warnings.warn(text, stacklevel=4)


def current_line() -> Line | None:
    """The line whose point is being measured, where there is a limit."""
    return _current.get()


_NS_PER_MS = 1_000_000
_FIRST_RUNS = 5
"""The number of runs from which the duration of one is estimated."""

DROPPED_OPTIONS = frozenset(["device_type", "fast_flush", "record_clocks"])
"""Options of `do_bench` in Triton 2.0 to 3.2, taken with a warning."""

SUMMARIES: dict[str, Callable[[Sequence[float]], Any]] = {
    "min": min,
    "max": max,
    "mean": statistics.fmean,
    "median": statistics.median,
    "all": list,
}
"""`return_mode` → the function of the times."""


def do_bench(
    fn: Callable[[], Any],
    warmup: float = 25,
    rep: float = 100,
    grad_to_none: Iterable[Any] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
    *,
    measure_time_with_hooks: bool = False,
    percentiles: Sequence[float] | None = None,
    **dropped: Any,
) -> Any:
    """The duration of `fn` on this machine, in milliseconds.

    On a CPU, caches are not flushed between the runs: arrays that fit into them are found there, as in NumPy's and
    PyTorch's own benchmarks. In a process that uses a GPU, the GPU's clock counts, and its caches are flushed.
    Where a report has a limit (TILEWRIGHT_BENCH_SECONDS), and the first run uses it up and compiled and tuned nothing,
    that run is what is measured.

    Args:
        fn: what to measure.
        warmup, rep: milliseconds to run before, and while, measuring; at least one run each, unless the first runs,
            which tell how many are needed, take that long: then they are what is measured.
        grad_to_none: tensors whose `.grad` is dropped before each run.
        quantiles: which quantiles to return, each between 0 and 1.
        return_mode: without `quantiles`: min, max, mean, median, or all for the list of times.
        measure_time_with_hooks: an option of triton-cpu, which changes nothing: what is measured is all of `fn`.
        percentiles: what `quantiles` was called once; taken, as other options that Triton has dropped, with a warning.

    Returns: a time, or a list of them (one quantile alone is no list, as in Triton).

    Raises:
        TypeError: there never was such an option.
        ValueError: there is no such `return_mode`, or a quantile is not between 0 and 1.

    Example:
        >>> milliseconds = tw.testing.do_bench(lambda: np.ones(1000).sum(), warmup=1, rep=2)
        >>> milliseconds > 0
        True
    """
    for name in dropped:
        if name not in DROPPED_OPTIONS:
            raise TypeError(f"do_bench has no option {name!r}")
        warn_deprecated(f"do_bench(…, {name}=…)", "nothing: it is not needed")
    if percentiles is not None:
        warn_deprecated("do_bench(…, percentiles=…)", "quantiles=…")
        quantiles = percentiles
    if return_mode not in SUMMARIES:
        raise ValueError(f"return_mode is one of {', '.join(SUMMARIES)}, not {return_mode!r}")
    tensors = list(grad_to_none or ())

    def drop_gradients() -> None:
        for tensor in tensors:
            tensor.grad = None

    return summary(run_times(fn, warmup, rep, drop_gradients), quantiles, return_mode)


def run_times(fn: Callable[[], Any], warmup: float, rep: float, before: Callable[[], None]) -> list[float]:
    """Milliseconds of the runs that count; arguments as for `do_bench`, `before` is called before each."""
    line = current_line()
    if line is None:
        fn()
    elif only := line.only_call(lambda: times_of(fn, 1)):
        return only
    first = first_times(fn, warmup + rep, before)
    if sum(first) >= warmup + rep:
        return first
    estimate = max(min(first), 1e-4)
    for _ in range(max(1, int(warmup / estimate))):
        fn()
    return times_of(fn, max(1, int(rep / estimate)), before)


def first_times(fn: Callable[[], Any], enough: float, before: Callable[[], None]) -> list[float]:
    """Milliseconds of some runs; of slow ones no more than it takes to be at it for `enough` milliseconds."""
    times: list[float] = []
    while len(times) < _FIRST_RUNS and (not times or sum(times) < enough):
        times += times_of(fn, 1, before)
    return times


def times_of(fn: Callable[[], Any], count: int, before: Callable[[], None] = lambda: None) -> list[float]:
    """Milliseconds of `count` runs; `before` is called before each, and not measured."""
    gpu = lazy_imports.busy_gpu()
    if gpu is not None:
        return lazy_imports.gpu_times(gpu, fn, count, before)
    times = []
    for _ in range(count):
        before()
        start = perf_counter_ns()
        fn()
        times.append((perf_counter_ns() - start) / _NS_PER_MS)
    return times


def timed(fn: Callable[[], Any]) -> float:
    """Milliseconds of one run."""
    return times_of(fn, 1)[0]


def summary(times: Sequence[float], quantiles: Sequence[float] | None, return_mode: str = "mean") -> Any:
    """The result of `do_bench` for these times."""
    if quantiles is None:
        return SUMMARIES[return_mode](times)
    found = [quantile(times, share) for share in quantiles]
    return found if len(found) > 1 else found[0]


def quantile(times: Sequence[float], share: float) -> float:
    """The time below which `share` of the times lie, interpolated between neighbours."""
    if not 0 <= share <= 1:
        raise ValueError(f"a quantile is between 0 and 1, not {share}")
    ordered = sorted(times)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
