"""Autotuning and heuristics, on a kernel that only records how it is launched."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.language.callable import JITCallable
from tilewright.runtime.errors import OutOfResources


class Recorder(JITCallable):
    """Stands for a kernel; BLOCK decides how long a launch takes, 0 fails."""

    arg_names = ("x", "n", "BLOCK", "EVEN")

    def __init__(self) -> None:
        super().__init__(test_heuristics_compute_constants)
        self.launches: list[dict[str, Any]] = []

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> int:
        self.launches.append(dict(zip(self.arg_names, args, strict=False)) | kwargs | {"warmup": warmup})
        block = kwargs["BLOCK"]
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
    assert kernel.best_config.kwargs == {"BLOCK": 10}
    kernel[(1,)](None, 6)
    assert len(recorder.launches) > measured + 2


def test_element_types_are_part_of_the_key() -> None:
    kernel = tuned(Recorder(), [10, 20])
    for dtype in (np.float32, np.float64, np.float32):
        kernel[(1,)](np.zeros(4, dtype), 5)
    assert len(kernel.cache) == 2


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
    assert x.tolist() == [2.0] * 4


def test_hooks_run_before_each_launch() -> None:
    seen = []
    config = tw.Config({"BLOCK": 3}, pre_hook=lambda args: seen.append((args["n"], args["BLOCK"])))
    tw.autotune([config], key=["n"])(Recorder())[(1,)](None, 5)
    assert seen == [(5, 3)]


def test_mistakes() -> None:
    with pytest.raises(ValueError, match="'m'"):
        tw.autotune([], key=["m"])(Recorder())
    with pytest.raises(ValueError, match="'BLOCK'"):
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
