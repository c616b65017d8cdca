"""`tilewright.testing`: measuring, comparing, reporting."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilewright import testing
from tilewright.runtime.testing import measure, report
from tilewright.runtime.testing.measure import quantile
from tilewright.runtime.tuning.trials import race


def test_do_bench_gives_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    def work() -> None:
        nonlocal calls
        calls += 1

    monkeypatch.setattr(measure, "perf_counter_ns", lambda: 2_000_000 * calls)
    assert testing.do_bench(work, warmup=4, rep=10) == 2
    assert 5 + 2 + 5 <= calls <= 5 + 2 + 5 + 1


def test_of_a_slow_function_the_first_runs_are_what_is_measured() -> None:
    calls: list[float] = []

    def work() -> None:
        calls.append(0)
        time.sleep(0.02)

    times = testing.do_bench(work, warmup=5, rep=10, return_mode="all")

    assert len(calls) == 2
    assert len(times) == 1
    assert times[0] >= 20


@pytest.mark.quick
@pytest.mark.parametrize(
    ("mode", "kind"), [("min", float), ("max", float), ("mean", float), ("median", float), ("all", list)]
)
def test_return_modes(mode: str, kind: type) -> None:
    assert type(testing.do_bench(lambda: None, 0, 0.01, return_mode=mode)) is kind


def test_quantiles_are_ordered() -> None:
    low, middle, high = testing.do_bench(lambda: None, 0, 0.1, quantiles=(0.2, 0.5, 0.8))
    assert 0 < low <= middle <= high
    assert isinstance(testing.do_bench(lambda: None, 0, 0.1, quantiles=(0.5,)), float)
    assert quantile([4, 1, 3, 2], 0.5) == 2.5
    assert [quantile([4, 1, 3, 2], share) for share in (0, 1)] == [1, 4]


def test_what_do_bench_refuses() -> None:
    with pytest.raises(ValueError, match="'average'"):
        testing.do_bench(lambda: None, return_mode="average")
    with pytest.raises(ValueError, match="between 0 and 1"):
        testing.do_bench(lambda: None, 0, 0, quantiles=(20,))


def test_gradients_are_dropped() -> None:
    class Parameter:
        grad: Any = 1

    parameter = Parameter()
    testing.do_bench(lambda: None, 0, 0, grad_to_none=[parameter])
    assert parameter.grad is None


def test_the_fastest_wins_the_race() -> None:
    runs = {"fast": 0, "slow": 0, "slower": 0}

    def runner(name: str, milliseconds: float) -> Any:
        def run() -> float:
            runs[name] += 1
            return milliseconds

        return run

    times = race({"slow": runner("slow", 1.2), "fast": runner("fast", 1.0), "slower": runner("slower", 1.6)})
    assert times == {"slow": [1.2] * 3, "fast": [1.0] * 3, "slower": [1.6] * 3}
    assert runs["slower"] == 2  # out after the first runs
    assert runs["slow"] == 6  # out after the second heat
    assert runs["fast"] == 16
    assert race({}) == {}


def test_assert_close() -> None:
    testing.assert_close(np.array([1.0, np.nan]), np.array([1.009, np.nan]))
    testing.assert_close(np.array([1.0], ml_dtypes.bfloat16), np.array([1.0]))
    testing.assert_close([100.0], 101.0, rtol=0.02, atol=lambda dtype: 0)
    with pytest.raises(AssertionError, match="too far"):
        testing.assert_close(np.zeros(3), np.full(3, 0.02), err_msg="too far")
    with pytest.raises(AssertionError):
        testing.assert_close(np.zeros(3), np.zeros(4))


@pytest.mark.needs_torch
def test_assert_close_takes_tensors() -> None:
    import torch

    x = torch.ones(3, dtype=torch.bfloat16, requires_grad=True)
    testing.assert_close(x, torch.ones(3))
    with pytest.raises(AssertionError):
        testing.assert_close(x, torch.zeros(3))


def benchmark(name: str = "times") -> testing.Benchmark:
    return testing.Benchmark(
        x_names=["m", "n"],
        x_vals=[2, (3, 4)],
        line_arg="provider",
        line_vals=["a", "b"],
        line_names=["A", "B"],
        plot_name=name,
        args={"scale": 10},
        ylabel="ms",
    )


def product(m: int, n: int, provider: str, scale: int, offset: int = 0) -> Any:
    value = m * n * scale + offset
    return value if provider == "a" else (value + 0.5, value, value + 1)


@pytest.mark.spared
def test_reports_print_and_save(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    testing.perf_report([benchmark("one"), benchmark("two")])(product).run(
        print_data=True, save_path=str(tmp_path / "new")
    )
    assert (tmp_path / "new" / "one.csv").read_text().splitlines() == [
        "m,n,A (ms),B (ms)",
        "2,2,40,40.5",
        "3,4,120,120.5",
    ]
    printed = capsys.readouterr().out.splitlines()
    assert printed[:4] == ["one:", "m  n  A (ms)  B (ms)", "2  2      40    40.5", "3  4     120   120.5"]
    assert printed[4] == "two:"


def test_further_arguments_reach_the_function(tmp_path: Path) -> None:
    testing.perf_report(benchmark())(product).run(save_path=str(tmp_path), offset=1)
    assert "2,2,41,41.5" in (tmp_path / "times.csv").read_text()


def test_sizes_must_fit_their_names() -> None:
    wrong = benchmark()
    wrong.x_vals = [(1, 2, 3)]
    with pytest.raises(ValueError, match="one value for each of m, n"):
        testing.perf_report(wrong)(product).run()


def test_missing_libraries_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        testing.perf_report(benchmark())(product).run(show_plots=True)


@pytest.mark.needs_matplotlib
def test_plots_are_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "Agg")
    testing.perf_report(benchmark())(product).run(save_path=str(tmp_path))
    assert (tmp_path / "times.png").read_bytes().startswith(b"\x89PNG")
    assert 'src="times.png"' in (tmp_path / "results.html").read_text()


@pytest.mark.needs_matplotlib
def test_bounds_are_error_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "Agg")
    rows = [[1, 1, 10.0, 8.0, 13.0, 5.0, None, None], [2, 2, 20.0, 24.0, 19.0, 6.0, None, None]]
    pyplot = report.needed("matplotlib.pyplot", "plots")
    (axes,) = report.Table(benchmark(), rows).draw(pyplot).axes
    bars, none = axes.containers
    (segments,) = bars.lines[2]
    assert [segment[:, 1].tolist() for segment in segments.get_segments()] == [[8.0, 13.0], [19.0, 24.0]]
    assert none.lines[2] == ()


@pytest.mark.slow
@pytest.mark.needs_matplotlib
def test_data_frames() -> None:
    frame = testing.perf_report(benchmark())(product).run(return_df=True)
    assert frame["A (ms)"].tolist() == [40, 120]


def test_options_that_are_gone_warn_and_change_nothing() -> None:
    with pytest.warns(UserWarning, match="fast_flush=…\\) is deprecated"):
        assert testing.do_bench(lambda: None, 0, 0, fast_flush=True) >= 0
    with pytest.warns(UserWarning, match="write quantiles=…"):
        assert len(testing.do_bench(lambda: None, 0, 0, percentiles=(0.5, 0.2))) == 2
    with pytest.raises(TypeError, match="no option 'flush'"):
        testing.do_bench(lambda: None, flush=True)
