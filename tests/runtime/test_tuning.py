"""Autotuning and heuristics, on a kernel that only records how it is launched."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.language.callable import JITCallable
from tilewright.runtime.errors import OutOfResources
from tilewright.runtime.tuning.table import TuningTable
from tilewright.support import knobs


class Recorder(JITCallable):
    """Stands for a kernel; BLOCK decides how long a launch takes, 0 fails."""

    arg_names = ("x", "n", "BLOCK", "EVEN")

    def __init__(self) -> None:
        super().__init__(test_heuristics_compute_constants)
        self.launches: list[dict[str, Any]] = []

    def warmup(self, *args: Any, grid: Any, **kwargs: Any) -> int:
        return self.run(*args, grid=grid, warmup=True, **kwargs)

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> int:
        self.launches.append(dict(zip(self.arg_names, args, strict=False)) | kwargs | {"warmup": warmup})
        block = kwargs["BLOCK"]
        if warmup:
            return int(block)
        if block == 0:
            raise OutOfResources(2, 1, "registers")
        if isinstance(args[0], np.ndarray):
            args[0][...] += 1
        sum(range(block * 100))
        return int(block)


def tuned(recorder: Recorder, blocks: list[int], **options: Any) -> Any:
    return tw.autotune([tw.Config({"BLOCK": block}) for block in blocks], key=["n"], **options)(recorder)


def test_the_fastest_is_chosen_and_kept() -> None:
    recorder = Recorder()
    kernel = tuned(recorder, [500, 10, 300])
    assert kernel[(1,)](None, 5) == 10
    measured = len(recorder.launches)
    assert kernel[(1,)](None, 5) == 10
    assert len(recorder.launches) == measured + 1
    assert set(kernel.configs_timings) == set(kernel.configs)
    assert kernel.best_config.kwargs == {"BLOCK": 10}
    kernel[(1,)](None, 6)
    assert len(recorder.launches) > measured + 2


@pytest.mark.spared
def test_element_types_are_part_of_the_key() -> None:
    kernel = tuned(Recorder(), [10, 20])
    for dtype in (np.float32, np.float64, np.float32):
        kernel[(1,)](np.zeros(4, dtype), 5)
    assert len(kernel.cache) == 2


def test_a_choice_that_a_program_puts_into_the_cache_counts() -> None:
    recorder = Recorder()
    kernel = tuned(recorder, [10, 500])
    kernel.cache[5, "float32"] = kernel.configs[1]
    assert kernel[(1,)](np.zeros(4, np.float32), 5) == 500
    assert len(recorder.launches) == 1


class Elsewhere:
    """An array of a library whose devices are not hashable."""

    device: dict[str, int] = {}  # noqa: RUF012 - stands for an object without a hash
    dtype = np.dtype(np.float32)

    def __init__(self) -> None:
        self.content = np.zeros(4, np.float32)
        self.__array_interface__ = self.content.__array_interface__


def test_arrays_of_other_libraries_have_keys() -> None:
    kernel = tuned(Recorder(), [10, 500])
    assert kernel[(1,)](Elsewhere(), 5) == 10
    assert list(kernel.cache) == [(5, "float32")]


def test_configurations_that_fail_are_passed_over() -> None:
    kernel = tuned(Recorder(), [0, 10])
    assert kernel[(1,)](None, 5) == 10


def test_no_configuration_works() -> None:
    with pytest.raises(tw.AutotunerError, match=r"BLOCK: 0.*registers"):
        tuned(Recorder(), [0, 0])[(1,)](None, 5)


def test_arrays_are_restored_or_zeroed() -> None:
    x = np.full(4, 7.0)
    tuned(Recorder(), [10, 20], restore_value=["x"])[(1,)](x, 5)
    assert x.tolist() == [8.0] * 4
    tuned(Recorder(), [10, 20], reset_to_zero=["x"])[(1,)](x, 5)
    assert x.tolist() == [1.0] * 4  # zeroed after the trials, too


def test_hooks_run_before_each_launch() -> None:
    seen = []
    config = tw.Config({"BLOCK": 3}, pre_hook=lambda args: seen.append((args["n"], args["BLOCK"])))
    tw.autotune([config], key=["n"])(Recorder())[(1,)](None, 5)
    assert seen == [(5, 3)]


def test_mistakes() -> None:
    with pytest.raises(ValueError, match="'m'"):
        tw.autotune([], key=["n"], reset_to_zero=["m"])(Recorder())
    with pytest.warns(UserWarning, match="'m' is no parameter"):
        tw.autotune([], key=["m"])(Recorder())
    with pytest.raises(ValueError, match="meta-parameters: BLOCK"):
        tuned(Recorder(), [10, 20])[(1,)](None, 5, BLOCK=7)


def test_heuristics_compute_constants() -> None:
    recorder = Recorder()
    kernel = tw.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})(recorder)
    kernel[(1,)](None, 8, BLOCK=4)
    kernel.warmup(None, 9, BLOCK=4, grid=(1,))
    assert [(launch["EVEN"], launch["warmup"]) for launch in recorder.launches] == [(True, False), (False, True)]


def test_both_together() -> None:
    recorder = Recorder()
    kernel = tw.heuristics({"EVEN": lambda args: args["n"] % 2 == 0})(tuned(recorder, [10]))
    kernel[(1,)](None, 8)
    assert recorder.launches[-1]["EVEN"] is True
    assert recorder.launches[-1]["BLOCK"] == 10


def test_configs_compare_by_content() -> None:
    assert tw.Config({"A": 1}, num_warps=2) == tw.Config({"A": 1}, num_warps=2)
    assert len({tw.Config({"A": 1}), tw.Config({"A": 1}), tw.Config({"A": 2})}) == 2
    assert str(tw.Config({"A": 1})) == "A: 1, num_warps: 4, num_ctas: 1, num_stages: 3"


def test_options_of_configs_that_are_gone_warn_and_change_nothing() -> None:
    with pytest.warns(UserWarning, match="option num_consumer_groups is deprecated: write nothing"):
        assert tw.Config({"BLOCK": 1}, num_consumer_groups=2) == tw.Config({"BLOCK": 1})
    with pytest.raises(TypeError, match="no option 'num_warp'"):
        tw.Config({"BLOCK": 1}, num_warp=2)


def test_threads_of_a_cpu_are_an_option_of_configs() -> None:
    assert tw.Config({}, num_cpu_threads=1).all_kwargs()["num_cpu_threads"] == 1
    assert "num_cpu_threads" not in tw.Config({}).all_kwargs()


def test_hooks_around_trials_replace_the_defaults() -> None:
    seen: list[str] = []
    kernel = tuned(
        Recorder(),
        [0, 10],
        pre_hook=lambda args, reset_only=False: seen.append(f"before {args['BLOCK']}" if "BLOCK" in args else "reset"),
        post_hook=lambda args, exception: seen.append(f"after {args['BLOCK']} {type(exception).__name__}"),
    )
    assert kernel[(1,)](None, 5) == 10
    assert seen[:4] == ["before 0", "after 0 OutOfResources", "before 10", "after 10 NoneType"]
    assert seen[-1] == "reset"


def test_other_failures_name_the_configuration() -> None:
    class Broken(Recorder):
        def run(self, *args: Any, **kwargs: Any) -> int:
            raise ZeroDivisionError("oh")

    with pytest.raises(ZeroDivisionError) as caught:
        tuned(Broken(), [10, 20])[(1,)](None, 5)
    assert caught.value.__notes__ == [
        f"while autotuning {Broken().fn.__name__}, with the configuration "
        "BLOCK: 10, num_warps: 4, num_ctas: 1, num_stages: 3"
    ]


def test_arrays_that_are_none_are_left_out() -> None:
    kernel = tuned(Recorder(), [10, 20], restore_value=["x"], reset_to_zero=["x"])
    assert kernel[(1,)](None, 5) == 10


def test_early_pruning_sees_configs_and_arguments() -> None:
    seen: dict[str, Any] = {}

    def prune(configs: list[tw.Config], named: dict[str, Any], **kwargs: Any) -> list[tw.Config]:
        seen.update(named=named, kwargs=kwargs)
        return configs[1:]

    kernel = tuned(Recorder(), [10, 20], prune_configs_by={"early_config_prune": prune})
    assert kernel[(1,)](None, n=5) == 20
    assert seen == {"named": {"x": None}, "kwargs": {"n": 5, "grid": (1,), "warmup": False}}


def test_pruning_must_leave_something() -> None:
    kernel = tuned(Recorder(), [10, 20], prune_configs_by={"early_config_prune": lambda *_, **__: []})
    with pytest.raises(tw.AutotunerError, match=r"^Autotuner error: No valid autotuner configs after pruning"):
        kernel[(1,)](None, 5)


@pytest.mark.parametrize(
    ("top_k", "tried"), [(1, [30]), (2, [20, 30]), (0.5, [30]), (1.0, [10, 20, 30]), (9, [10, 20, 30])]
)
def test_a_performance_model_chooses_what_is_tried(top_k: float, tried: list[int]) -> None:
    recorder = Recorder()
    model = {"perf_model": lambda **arguments: -arguments["BLOCK"], "top_k": top_k}
    tuned(recorder, [10, 20, 30], prune_configs_by=model)[(1,)](None, 5)
    assert sorted({launch["BLOCK"] for launch in recorder.launches}) == tried


def test_top_k_is_a_number_or_a_share() -> None:
    model = {"perf_model": lambda **arguments: 0, "top_k": 1.5}
    with pytest.raises(TypeError, match=r"not 1\.5"):
        tuned(Recorder(), [10, 20], prune_configs_by=model)[(1,)](None, 5)


def test_a_benchmark_function_of_the_user() -> None:
    asked: list[Any] = []

    def bench(launch: Any, quantiles: Any) -> list[float]:
        asked.append(quantiles)
        return [1 / launch()] * 3

    kernel = tuned(Recorder(), [10, 20, 30], do_bench=bench)
    assert kernel[(1,)](None, 5) == 30
    assert asked == [(0.5, 0.2, 0.8)] * 3
    assert kernel.configs_timings[kernel.best_config] == [1 / 30] * 3


def test_warmup_compiles_every_candidate() -> None:
    recorder = Recorder()
    assert tuned(recorder, [10, 20]).warmup(None, 5, grid=(1,)) == [10, 20]
    assert [launch["warmup"] for launch in recorder.launches] == [True, True]


def test_programs_derive_from_both_classes_as_triton_has_them() -> None:
    class Remembered(tw.Autotuner):
        def __init__(self, fn: Any, arg_names: Any, configs: Any, key: Any, *arrays: Any, **keywords: Any) -> None:
            super().__init__(fn, arg_names, configs, key, *arrays, **keywords)
            self.asked = 0

        def run(self, *args: Any, **kwargs: Any) -> Any:
            self.asked += 1
            return super().run(*args, **kwargs)

    recorder = Recorder()
    inner = tw.Heuristics(recorder, recorder.arg_names, {"EVEN": lambda arguments: arguments["n"] % 2 == 0})
    configs = [tw.Config({"BLOCK": 10}), tw.Config({"BLOCK": 500})]
    kernel = Remembered(inner, inner.arg_names, configs, ["n"], None, None, pre_hook=None, warmup=None, do_bench=None)
    assert kernel[(1,)](None, 6) == 10
    assert kernel.asked == 1
    assert recorder.launches[-1]["EVEN"]


def test_deprecated_parameters_warn() -> None:
    with pytest.warns(DeprecationWarning, match="do_bench"):
        tuned(Recorder(), [10, 20], warmup=1, rep=1)


def test_listener_and_printing(capsys: pytest.CaptureFixture[str]) -> None:
    heard: list[dict[str, Any]] = []
    with knobs.autotuning.scope():
        knobs.autotuning.listener = lambda **facts: heard.append(facts)
        knobs.autotuning.print = True
        recorder = Recorder()
        kernel = tuned(recorder, [10, 2000])
        kernel[(1,)](None, 5)
        kernel[(1,)](None, 5)
        tuned(recorder, [10])[(1,)](None, 5)
    assert len(heard) == 1
    assert heard[0] == {
        "fn": recorder,
        "key": (5,),
        "best_config": kernel.configs[0],
        "configs_timings": kernel.configs_timings,
        "duration": kernel.bench_time,
        "cache_hit": False,
    }
    assert "best: BLOCK: 10, " in capsys.readouterr().out


def test_wrappers_know_the_function_inside() -> None:
    kernel = tw.heuristics({"EVEN": lambda args: True})(tuned(Recorder(), [10]))
    assert kernel.base_fn is test_heuristics_compute_constants
    assert kernel.__name__ == "test_heuristics_compute_constants"
    assert isinstance(kernel.fn, tw.Autotuner)


@tw.jit
def copied(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.load(x + offsets, mask=offsets < n), mask=offsets < n)


def launch(kernel: Any, n: int = 1000) -> None:
    x, out = np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
    kernel[lambda meta: (tw.cdiv(n, meta["BLOCK"]),)](x, out, n)
    assert (out == x).all()


def real(blocks: list[int], **options: Any) -> Any:
    return tw.autotune([tw.Config({"BLOCK": block}) for block in blocks], key=["n"], **options)(tw.jit(copied.fn))


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Path]:
    with knobs.cache.scope():
        knobs.cache.dir = str(tmp_path)
        yield tmp_path


@pytest.mark.spared
def test_results_are_kept_on_disk(cache: Path) -> None:
    heard: list[tuple[bool, float | None]] = []
    with knobs.autotuning.scope():
        knobs.autotuning.listener = lambda cache_hit, duration, **_: heard.append((cache_hit, duration))
        for _ in range(2):
            launch(real([64, 128], cache_results=True))
        launch(real([64, 256], cache_results=True))
        launch(real([64, 128]))
    assert [hit for hit, _ in heard] == [False, True, False, False]
    assert [duration is None for _, duration in heard] == [False, True, False, False]
    assert len(list(cache.rglob("copied.autotune.json"))) == 2


@pytest.mark.spared
@pytest.mark.parametrize("content", [b"", b"{", b'{"configs_timings": [[1, 2]]}', b'{"configs_timings": []}', b"\xff"])
def test_damaged_results_are_measured_again(cache: Path, content: bytes) -> None:
    launch(real([64, 128], cache_results=True))
    (kept,) = cache.rglob("copied.autotune.json")
    kept.write_bytes(content)
    again = real([64, 128], cache_results=True)
    launch(again)
    assert again.bench_time > 0
    assert b"configs_timings" in kept.read_bytes()


def test_options_that_change_no_code_share_a_measurement(cache: Path) -> None:
    configs = [tw.Config({"BLOCK": 64}, num_warps=warps, num_stages=stages) for warps in (1, 4) for stages in (1, 3)]
    kernel = tw.autotune(configs, key=["n"])(copied)
    launch(kernel)
    assert len({tuple(times) for times in kernel.configs_timings.values()}) == 1


def test_candidates_are_compiled_by_several_processes(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fork, forks = os.fork, []
    monkeypatch.setattr(os, "fork", lambda: forks.append("one") or fork())
    with knobs.tilewright.scope():
        knobs.tilewright.compile_workers = 2
        launch(real([32, 64, 128, 256, 512]))
    assert len(list(cache.rglob("copied.json"))) == 5
    assert forks


def test_the_table_of_what_was_tried(cache: Path) -> None:
    kernel = tw.autotune([tw.Config({"BLOCK": 64}), tw.Config({"BLOCK": 128}, num_warps=8)], key=["n"])(copied)
    with pytest.raises(ValueError, match="has not been tuned yet"):
        kernel.tuning_table()
    launch(kernel)
    table = kernel.tuning_table()
    assert [trial.config for trial in table.trials] == sorted(kernel.configs, key=lambda c: kernel.configs_timings[c])
    title, header, *rows = str(table).splitlines()
    assert title.startswith("copied: 2 configurations in ")
    assert header.split() == ["BLOCK", "num_warps", "ms", "lowest", "highest", "of", "the", "best"]
    assert rows[0].split()[:2] == [str(value) for value in table.trials[0].config.all_kwargs().values()][:2]
    assert rows[0].endswith("1.00")


def times_of_three() -> TuningTable:
    configs = [tw.Config({"BLOCK": 64}), tw.Config({"BLOCK": 128}, num_warps=8), tw.Config({"BLOCK": 1 << 30})]
    times = [[2.0, 1.5, 3.0], [1.0, 0.9, 1.25], [math.inf] * 3]
    return TuningTable("f", dict(zip(configs, times, strict=True)), None)


def test_what_does_not_work_is_last() -> None:
    assert str(times_of_three()).splitlines() == [
        "f: 3 configurations from the disk",
        "     BLOCK  num_warps            ms  lowest  highest  of the best",
        "       128          8         1.000   0.900    1.250         1.00",
        "        64          4         2.000   1.500    3.000         2.00",
        "1073741824          4  not possible",
    ]
    assert times_of_three()._repr_html_().count("<td>") == 18


@pytest.mark.needs_matplotlib
def test_the_plot_of_what_was_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "Agg")
    (axes,) = times_of_three().plot().axes
    assert [bar.get_width() for bar in axes.patches] == [1.0, 2.0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["BLOCK 128, num_warps 8", "BLOCK 64, num_warps 4"]
    frame = times_of_three().frame()
    assert frame["of the best"].tolist() == [1.0, 2.0, math.inf]
