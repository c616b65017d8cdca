"""The time limit of a report: TILEWRIGHT_BENCH_SECONDS, in equal shares for the lines of each table.

    budget = Budget("matmul", lines=2)
    for size in sizes:
        for line in budget.lines:
            line.point(lambda: benchmark(size))       # what the function returns; NaN where time does not suffice

A point is begun if there is time for as much as the last one of its line took, and grew. The first one always is. What
runs is not stopped, so a table may take longer. `do_bench` asks `current_line()`, which is None without the setting.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from contextvars import ContextVar
from time import perf_counter
from typing import Any

from tilewright.runtime.build import PreparationCounter
from tilewright.support import knobs

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
    """The time for one table.

    Args:
        name: the name of the table, for the warning.
        lines: their number.
    """

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
