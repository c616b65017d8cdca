"""The candidates for one launch: compiled on all CPUs, run and measured.

Trials(kernel, call, pre_hook, post_hook).measure(configs, do_bench=None)
    {Config(BLOCK: 128, …): [0.12, 0.11, 0.15], Config(BLOCK: 1024, …): [inf, inf, inf]}

On terminals and in notebooks a progress bar is shown (`support/progress.py`).

Launches are measured as briefly as the decision allows. Each candidate runs twice; one that then takes 1.5 times as
long as the leader is dropped. The others run some more, and only those close to the leader continue until the time is
used up. They alternate, so that a slow moment of the machine affects all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from math import inf
from typing import Any, NamedTuple, TypeVar

from tilewright.backends.cpu.options import parse_options
from tilewright.runtime.async_compile import FutureKernel, active_mode
from tilewright.runtime.drivers.cpu.process import native_runtime
from tilewright.runtime.errors import AutotunerError, OutOfResources
from tilewright.runtime.testing.measure import summary, timed
from tilewright.runtime.tuning.config import Config, Timings
from tilewright.runtime.tuning.forked import Task, can_fork, share_out
from tilewright.runtime.tuning.heuristics import Launchable
from tilewright.support import knobs
from tilewright.support.diagnostics import CompileTimeAssertionFailure, PTXASError
from tilewright.support.progress import Progress
from tilewright.support.system import SYSTEM

PASSED_OVER = (OutOfResources, PTXASError, CompileTimeAssertionFailure)
"""The errors by which a configuration does not suit the kernel; any other failure is reported."""
NEVER = [inf, inf, inf]


class Call(NamedTuple):
    """A launch that is tuned for: as called, and all arguments by name."""

    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    grid: Any
    named: dict[str, Any]


class Trials:
    """Trials of one kernel for one launch."""

    def __init__(
        self,
        kernel: Launchable,
        name: str,
        call: Call,
        pre_hook: Callable[..., Any],
        post_hook: Callable[..., Any],
    ) -> None:
        self._kernel, self._name, self._call = kernel, name, call
        self._pre_hook, self._post_hook = pre_hook, post_hook
        self._failures: dict[Config, Exception] = {}

    def measure(self, configs: Sequence[Config], bench: Callable[..., Any] | None) -> Timings:
        """Milliseconds for all configurations: median and quantiles 0.2 and 0.8; infinite where it does not suit.

        Args:
            bench: measures a function as `do_bench` does; by default the configurations race.
        """
        self._compile(configs)
        found = self._by_race(configs) if bench is None else self._by_function(bench, configs)
        if not found:
            reasons = "".join(f"\n    {config}: {self._failures[config]}" for config in configs)
            raise AutotunerError(f"No configuration of {self._name} works:{reasons}") from self._failures[configs[0]]
        return dict.fromkeys(configs, NEVER) | found

    def alone(self, config: Config, bench: Callable[..., Any]) -> list[float]:
        """The same for one configuration; infinite where it does not suit."""
        return self._by_function(bench, [config]).get(config, NEVER)

    def _by_function(self, bench: Callable[..., Any], configs: Sequence[Config]) -> Timings:
        timings = {}
        with Progress(f"trying {self._name}", len(configs)) as progress:
            for index, config in enumerate(configs):
                progress.at(index)
                found = self._attempt(config, partial(bench, partial(self._launch, config), quantiles=QUANTILES))
                if config not in self._failures:
                    timings[config] = list(found) if isinstance(found, tuple | list) else [found]
        return timings

    def _by_race(self, configs: Sequence[Config]) -> Timings:
        """Each distinct kernel once: configurations whose differences change no code share the timings."""
        runners: dict[Hashable, Callable[[], float]] = {}
        kernels: dict[Config, Hashable] = {}
        with Progress(f"trying {self._name}", len(configs)) as progress:
            for index, config in enumerate(configs):
                progress.at(index)
                kernel = self._attempt(config, partial(self._launch, config))
                if config not in self._failures:
                    kernels[config] = _code(kernel, config)
                    runners.setdefault(kernels[config], partial(self._timed, config))
        times = race(runners)
        return {config: times[kernel] for config, kernel in kernels.items()}

    def _attempt(self, config: Config, run: Callable[[], Any]) -> Any:
        """Run; where the configuration does not suit, remember why; another exception gets its name."""
        try:
            return run()
        except PASSED_OVER as error:
            self._failures[config] = error
            return None
        except Exception as error:
            error.add_note(f"while autotuning {self._name}, with the configuration {config}")
            raise

    def _launch(self, config: Config) -> Any:
        """One launch with everything around it; returns the compiled kernel."""
        return self._hooked(config, lambda run: run())

    def _timed(self, config: Config) -> float:
        """Milliseconds of one launch, without what is around it."""
        return float(self._hooked(config, timed))

    def _hooked(self, config: Config, around: Callable[[Callable[[], Any]], Any]) -> Any:
        call = self._call
        arguments = call.named | config.all_kwargs()
        if config.pre_hook is not None:
            config.pre_hook(arguments)
        self._pre_hook(arguments)
        try:
            result = around(partial(self._kernel.run, *call.args, **self._keywords(config, warmup=False)))
        except Exception as error:
            self._post_hook(arguments, exception=error)
            raise
        self._post_hook(arguments, exception=None)
        return result

    def _keywords(self, config: Config, *, warmup: bool) -> dict[str, Any]:
        return {**self._call.kwargs, **config.all_kwargs(), "grid": self._call.grid, "warmup": warmup}

    def _compile(self, configs: Sequence[Config]) -> None:
        """Compile all kernels into the disk cache, on all CPUs, where that is possible."""
        distinct = list({self._code_identity(config): config for config in configs}.values())
        if active_mode.get() is not None:
            self._compile_in_background(distinct)
            return
        workers = knobs.tilewright.compile_workers or SYSTEM.usable_cpus()
        if workers < 2 or len(distinct) < 2 or not can_fork() or _must_compile_here():
            return
        run, args = self._kernel.run, self._call.args
        kernels: list[Task] = [partial(run, *args, **self._keywords(config, warmup=True)) for config in distinct]
        with Progress(f"compiling {self._name}", len(kernels)) as progress:
            share_out(kernels, workers, progress.at, beside=native_runtime)  # without a cache that is compiled, too

    def _compile_in_background(self, configs: Sequence[Config]) -> None:
        """Compile by the executor of the `AsyncCompileMode` around this launch; failures show when they are tried."""
        run, args = self._kernel.run, self._call.args
        kernels = [run(*args, **self._keywords(config, warmup=True)) for config in configs]
        with Progress(f"compiling {self._name}", len(kernels)) as progress:
            native_runtime()  # it may have to be compiled, too: here, while others compile kernels
            for index, kernel in enumerate(kernels):
                progress.at(index)
                if isinstance(kernel, FutureKernel):
                    kernel.result(ignore_errors=True)

    def _code_identity(self, config: Config) -> Hashable:
        """A key that is equal for configurations that give the same code."""
        names = self._kernel.arg_names
        constants = tuple(sorted((name, repr(value)) for name, value in config.kwargs.items() if name in names))
        options = {name: value for name, value in config.all_kwargs().items() if name not in names}
        return constants, config.ir_override, parse_options(options).identity


def _code(kernel: Any, config: Config) -> Hashable:
    """The identity of the compiled kernel; the configuration where there is none (in the interpreter)."""
    return (kernel.hash, kernel.num_threads) if hasattr(kernel, "num_threads") else config


def _must_compile_here() -> bool:
    """Whether kernels that another process has compiled are of no use, or hooks want to see each compilation."""
    hooks = (knobs.runtime.jit_cache_hook, knobs.runtime.jit_post_compile_hook, knobs.compilation.listener)
    return bool(knobs.compilation.always_compile) or any(hook is not None for hook in hooks)


Runner = TypeVar("Runner")

HEATS = ((2, 1.5), (4, 1.15), (10, 1.05))
"""Runs of each heat, and the max time relative to the leader's with which a runner stays in the race."""
MILLISECONDS_EACH = 10.0
"""Milliseconds for each runner of a heat; one that needs more has run often enough after its first run."""
QUANTILES = (0.5, 0.2, 0.8)


def race(runners: Mapping[Runner, Callable[[], float]]) -> dict[Runner, list[float]]:
    """Measure all.

    Args:
        runners: what to measure: each call is one run, and returns its milliseconds.

    Returns: median and the quantiles 0.2 and 0.8 in milliseconds.
    """
    times: dict[Runner, list[float]] = {runner: [] for runner in runners}
    left = list(runners)
    for runs, slack in HEATS:
        _heat({runner: runners[runner] for runner in left}, runs, times)
        limit = slack * min((min(times[runner]) for runner in left), default=0.0)
        left = [runner for runner in left if min(times[runner]) <= limit]
    return {runner: summary(found, QUANTILES) for runner, found in times.items()}


def _heat(runners: Mapping[Runner, Callable[[], float]], runs: int, times: dict[Runner, list[float]]) -> None:
    """Each runner runs `runs` times, or once and until the time is used up."""
    budget = MILLISECONDS_EACH * len(runners)
    for _ in range(runs):
        for runner, run in runners.items():
            times[runner].append(run())
            budget -= times[runner][-1]
        if budget <= 0:
            break
