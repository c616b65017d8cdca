"""Reports with a limit: TILEWRIGHT_BENCH_SECONDS. The clock is one that passes only when a test says so."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright import testing
from tilewright.runtime.build import PreparationCounter
from tilewright.runtime.testing import measure
from tilewright.runtime.testing.measure import Line, current_line

Limit = Callable[[int], None]


class Clock:
    """Seconds, and a count of the calls that took some."""

    def __init__(self) -> None:
        self.now = 0.0
        self.calls = 0

    def takes(self, seconds: float) -> Callable[[], None]:
        """A function that takes so long."""

        def work() -> None:
            self.now += seconds
            self.calls += 1

        return work


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(measure, "perf_counter", lambda: clock.now)
    monkeypatch.setattr(measure, "perf_counter_ns", lambda: round(clock.now * 1e9))
    return clock


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> Limit:
    return lambda seconds: monkeypatch.setenv("TILEWRIGHT_BENCH_SECONDS", str(seconds))


def report(fn: Callable[..., Any]) -> testing.Mark:
    """A report of `fn(n, line)` for n = 1, 2, 4, … 64, and two lines."""
    lines = ["slow", "fast"]
    of = testing.Benchmark(["n"], [2**i for i in range(7)], "line", lines, lines, "growth", {})
    return testing.perf_report(of)(fn)


def printed(mark: testing.Mark, capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    """The rows of the table without the sizes."""
    mark.run(print_data=True)
    return [line.split()[1:] for line in capsys.readouterr().out.splitlines()[2:]]


def test_what_would_take_longer_than_a_line_may_is_nan(
    clock: Clock, limit: Limit, capsys: pytest.CaptureFixture[str]
) -> None:
    limit(40)

    def seconds(n: int, line: str) -> float:
        clock.takes(n if line == "slow" else 0.1)()
        return n

    said = r"^growth: 11 of 14 points .*others are NaN: TILEWRIGHT_BENCH_SECONDS=40$"
    with pytest.warns(UserWarning, match=said) as warned:
        rows = printed(report(seconds), capsys)
    assert [warning.filename for warning in warned] == [__file__]

    assert [row[1] for row in rows] == ["1", "2", "4", "8", "16", "32", "64"]
    # After 1 + 2 + 4 + 8 of 20 seconds, 16 do not fit.
    assert [row[0] for row in rows] == ["1", "2", "4", "8", "nan", "nan", "nan"]
    assert clock.now == pytest.approx(15.7)


def test_without_the_setting_everything_is_measured_as_ever(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    def seconds(n: int, line: str) -> Any:
        assert current_line() is None
        return testing.do_bench(clock.takes(1000 * n), quantiles=(0.5, 0.2, 0.8))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = printed(report(seconds), capsys)

    assert rows[-1] == ["6.4e+07", "6.4e+07"]
    assert clock.calls == 2 * 7 * 2  # each once to warm up


def test_the_first_call_counts_if_it_took_all_the_time(
    clock: Clock, limit: Limit, capsys: pytest.CaptureFixture[str]
) -> None:
    limit(40)

    def milliseconds(n: int, line: str) -> Any:
        return testing.do_bench(clock.takes(100 if line == "slow" else 0.3), quantiles=(0.5, 0.2, 0.8))

    with pytest.warns(UserWarning, match=r"8 of 14 points were measured \(1 by the first call alone\); the others are"):
        rows = printed(report(milliseconds), capsys)

    assert rows[0] == ["100000", "300"]
    assert rows[1] == ["nan", "300"]
    assert clock.calls == 1 + 7 * 2


def test_a_first_call_that_prepares_something_does_not_count(clock: Clock, limit: Limit) -> None:
    limit(40)
    times = []

    def compiles() -> None:
        clock.takes(1 if clock.calls else 100)()
        PreparationCounter.count += clock.calls == 1

    def milliseconds(n: int, line: str) -> float:
        if line == "slow":
            times.append(testing.do_bench(compiles))
        return 0

    with pytest.warns(UserWarning, match="8 of 14 points were measured; the others"):
        report(milliseconds).run()

    assert times == [1000]


def test_a_point_is_expected_to_grow_as_the_last_one_did(clock: Clock) -> None:
    line = Line(1000)
    expected = []
    for seconds in (10, 20, 15, 0, 0):
        expected.append(line.expected())
        line.point(clock.takes(seconds))

    assert expected == [0, 10, 40, 15, 0]
    assert line.expected() == 0


def test_a_point_that_fails_ends_the_report(clock: Clock, limit: Limit) -> None:
    limit(40)

    def fails(n: int, line: str) -> float:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        report(fails).run()
    assert current_line() is None


@pytest.mark.slow
def test_kernels_and_choices_are_preparations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))

    @tw.jit
    def fill(out, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + at, at, mask=at < n)

    tuned = tw.autotune([tw.Config({"BLOCK": 16}), tw.Config({"BLOCK": 16}, num_warps=2)], key=["n"])(fill)
    add = tw.vectorize(lambda a, b: a + b)
    out = np.zeros(64, np.int32)
    counts = [PreparationCounter.count]
    for call in (
        lambda: fill[(1,)](out, 8, BLOCK=16),
        lambda: tuned[(1,)](out, 8),
        lambda: tuned[(1,)](out, 10),
        lambda: add(out, out),
    ):
        for _ in range(2):
            call()
            counts.append(PreparationCounter.count)

    assert [before < later for before, later in pairwise(counts)] == [True, False] * 4
