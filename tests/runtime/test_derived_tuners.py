"""Classes of other packages that derive from Triton's Autotuner: what they call, read and replace."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.support import knobs

BLOCKS = (64, 128, 256)


@tw.jit
def copied(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.static_assert(BLOCK != 256)
    tl.store(out + offsets, tl.load(x + offsets, mask=offsets < n), mask=offsets < n)


def derived(kind: type[tw.Autotuner], **options: Any) -> Any:
    configs = [tw.Config({"BLOCK": block}) for block in BLOCKS]
    return kind(tw.jit(copied.fn), copied.arg_names, configs, ["n"], None, None, **options)


def launch(kernel: Any, n: int = 1000, **options: Any) -> None:
    x, out = np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
    kernel[lambda meta: (tw.cdiv(n, meta["BLOCK"]),)](x, out, n, **options)
    assert (out == x).all()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path) -> Iterator[Path]:
    with knobs.cache.scope():
        knobs.cache.dir = str(tmp_path)
        yield tmp_path


class OwnLoop(tw.Autotuner):
    """Tunes with a loop of its own, made of Autotuner's parts."""

    hits: list[bool]

    def run(self, *args: Any, **kwargs: Any) -> Any:
        assert not self.use_cuda_graph
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        key = tuple(self.nargs[name] for name in self.keys)
        if key not in self.cache:
            configs = self.prune_configs(kwargs)

            def measure() -> None:
                self.configs_timings = {c: self._bench(*args, config=c, **kwargs) for c in configs}
                self.cache[key] = min(self.configs_timings, key=lambda c: self.configs_timings[c])

            self.hits = [*getattr(self, "hits", []), self.check_disk_cache(key, configs, measure)]
        self.nargs = None
        return self.fn.run(*args, **kwargs, **self.cache[key].all_kwargs())


def test_parts_of_the_autotuner_serve_a_loop_of_ones_own() -> None:
    for hits in ([False], [True]):
        kernel = derived(OwnLoop)
        launch(kernel)
        launch(kernel)
        assert kernel.hits == hits
        times = [kernel.configs_timings[config] for config in kernel.configs]
        assert all(0 < time < inf for time in [*times[0], *times[1]])
        assert times[2] == [inf, inf, inf]  # the static_assert fails


def test_a_loop_of_ones_own_prunes() -> None:
    pruning = {"early_config_prune": lambda configs, named, **kwargs: [configs[named["n"] > 500]]}
    kernel = derived(OwnLoop, prune_configs_by=pruning)
    launch(kernel, 400)
    launch(kernel, 600)
    assert [config.kwargs["BLOCK"] for config in kernel.cache.values()] == [64, 128]


def test_a_constant_is_not_given_and_chosen() -> None:
    with pytest.raises(ValueError, match="Conflicting meta-parameters: BLOCK"):
        launch(derived(OwnLoop), BLOCK=32)


class OwnParts(tw.Autotuner):
    """Leaves the loop to Autotuner."""

    calls: Sequence[str] = ()

    def prune_configs(self, kwargs: Any) -> list[tw.Config]:
        assert kwargs["grid"] is not None
        self.calls = [*self.calls, f"prune {sorted(self.nargs or ())}"]
        return super().prune_configs(kwargs)[:2]

    def _bench(self, *args: Any, config: tw.Config, **meta: Any) -> list[float]:
        assert (sorted(meta), meta["warmup"]) == (["grid", "warmup"], False)
        self.calls = [*self.calls, f"bench {config.kwargs['BLOCK']}"]
        middle, *others = super()._bench(*args, config=config, **meta)
        return [middle + 1000 * (config.kwargs["BLOCK"] == 64), *others]

    def check_disk_cache(self, tuning_key: Any, configs: Sequence[tw.Config], bench_fn: Callable[[], Any]) -> bool:
        self.calls = [*self.calls, "disk"]
        return super().check_disk_cache(tuning_key, configs, bench_fn)


def test_parts_that_are_replaced_are_called() -> None:
    prune, benches = "prune ['n', 'out', 'x']", ["bench 64", "bench 128"]
    for results, calls in (
        ({}, [prune, *benches]),
        ({"cache_results": True}, [prune, "disk", *benches]),
        ({"cache_results": True}, [prune, "disk"]),
    ):
        kernel = derived(OwnParts, **results)
        launch(kernel)
        launch(kernel)
        assert kernel.calls == calls
        assert kernel.best_config.kwargs == {"BLOCK": 128}


def test_warmup_prunes_too() -> None:
    kernel = derived(OwnParts)
    made = kernel.warmup(np.zeros(4, np.float32), np.zeros(4, np.float32), 4, grid=(1,))
    assert (len(made), kernel.calls) == (2, ["prune ['n', 'out', 'x']"])


def test_what_measures_can_be_read_and_set() -> None:
    kernel = derived(tw.Autotuner)
    assert min(kernel.do_bench(lambda: None, warmup=0, rep=0, quantiles=(0.5, 0.2))) >= 0
    assert (kernel.use_cuda_graph, kernel.num_warmups, kernel.num_reps) == (False, None, None)
    kernel.do_bench = lambda run, quantiles: [2.0] * len(quantiles)
    kernel.configs = kernel.configs[:2]
    launch(kernel)
    assert list(kernel.configs_timings.values()) == [[2.0] * 3] * 2


def test_the_deprecated_options_stay_readable() -> None:
    with pytest.warns(DeprecationWarning, match="warmup, rep and use_cuda_graph"):
        kernel = derived(tw.Autotuner, warmup=1, rep=2, use_cuda_graph=True)
    assert (kernel.use_cuda_graph, kernel.num_warmups, kernel.num_reps) == (True, 1, 2)
