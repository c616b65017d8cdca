"""Kernels that choose their own constants: `@heuristics` computes them, `@autotune` measures.

@autotune([Config({"BLOCK": 128}), Config({"BLOCK": 1024})], key=["n"])
@heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@jit
def add(x, y, out, n, BLOCK: tl.constexpr, EVEN: tl.constexpr): …
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from math import inf
from time import perf_counter
from typing import Any, Protocol

from tilewright.language.callable import JITCallable
from tilewright.runtime.arrays import view_of
from tilewright.runtime.errors import AutotunerError, OutOfResources
from tilewright.support.diagnostics import CompileTimeAssertionFailure

SECONDS_PER_CONFIG = 0.02
"""Measuring one configuration takes about this long."""


class Launchable(Protocol):
    """A kernel, or a wrapper around one."""

    arg_names: list[str]

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any: ...


class Config:
    """One choice of constants and options.

    Attributes:
        kwargs: constants by parameter name.
        num_warps, num_stages, num_ctas, maxnreg: GPU options, which mean nothing on a CPU.
        pre_hook: called with the arguments before each launch of this configuration.
    """

    def __init__(
        self,
        kwargs: Mapping[str, Any],
        num_warps: int = 4,
        num_stages: int = 3,
        num_ctas: int = 1,
        maxnreg: int | None = None,
        pre_hook: Callable[[dict[str, Any]], Any] | None = None,
    ) -> None:
        self.kwargs = dict(kwargs)
        self.num_warps, self.num_stages, self.num_ctas, self.maxnreg = num_warps, num_stages, num_ctas, maxnreg
        self.pre_hook = pre_hook

    def all_kwargs(self) -> dict[str, Any]:
        """Constants and options, as keywords of a launch."""
        options = {
            "num_warps": self.num_warps,
            "num_ctas": self.num_ctas,
            "num_stages": self.num_stages,
            "maxnreg": self.maxnreg,
        }
        return self.kwargs | {name: value for name, value in options.items() if value is not None}

    def __str__(self) -> str:
        return ", ".join(f"{name}: {value}" for name, value in self.all_kwargs().items())

    def __repr__(self) -> str:
        return f"Config({self})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> Hashable:
        return tuple(sorted(self.all_kwargs().items(), key=lambda item: item[0])), self.pre_hook


class _Wrapper(JITCallable):
    """A kernel around another one; calls from inside kernels go to the innermost."""

    def __init__(self, fn: Any) -> None:
        super().__init__(fn.fn)
        self.inner: Launchable = fn
        self.arg_names = list(fn.arg_names)

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        return lambda *args, **kwargs: self.run(*args, grid=grid, **kwargs)

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        raise NotImplementedError

    def warmup(self, *args: Any, grid: Any, **kwargs: Any) -> Any:
        """Compile without launching."""
        return self.run(*args, grid=grid, warmup=True, **kwargs)

    @property
    def cache_key(self) -> str:
        assert isinstance(self.inner, JITCallable), "a wrapper wraps kernels"
        return self.inner.cache_key

    def named(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments by name."""
        return dict(zip(self.arg_names, args, strict=False)) | dict(kwargs)


class Heuristics(_Wrapper):
    """A kernel some of whose constants are computed from its arguments."""

    def __init__(self, fn: Any, values: Mapping[str, Callable[[dict[str, Any]], Any]]) -> None:
        super().__init__(fn)
        self.values = dict(values)

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        for name, compute in self.values.items():
            kwargs[name] = compute(self.named(args, kwargs))
        return self.inner.run(*args, grid=grid, warmup=warmup, **kwargs)


class Autotuner(_Wrapper):
    """A kernel that tries its configurations on the first launch for each key, and keeps the fastest.

    Attributes:
        configs: what may be chosen.
        cache: the choice by key.
        best_config: the latest choice.
        configs_timings: seconds per configuration in the latest measurement; infinite where it does not work.
    """

    def __init__(
        self,
        fn: Any,
        configs: Sequence[Config],
        key: Sequence[str],
        *,
        reset_to_zero: Sequence[str] = (),
        restore_value: Sequence[str] = (),
    ) -> None:
        super().__init__(fn)
        unknown = [name for name in (*key, *reset_to_zero, *restore_value) if name not in self.arg_names]
        if unknown:
            raise ValueError(f"autotune names {unknown[0]!r}, which is no parameter of the kernel")
        self.configs = list(configs) or [Config({})]
        self.keys = list(key)
        self.reset_to_zero, self.restore_value = list(reset_to_zero), list(restore_value)
        self.cache: dict[Hashable, Config] = {}
        self.best_config: Config | None = None
        self.configs_timings: dict[Config, float] = {}

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        arguments = self.named(args, kwargs)
        self.best_config = self._choice(arguments, args, kwargs, grid)
        if self.best_config.pre_hook is not None:
            self.best_config.pre_hook(arguments | self.best_config.all_kwargs())
        return self.inner.run(*args, grid=grid, warmup=warmup, **kwargs, **self.best_config.all_kwargs())

    def _choice(self, arguments: dict[str, Any], args: Sequence[Any], kwargs: Mapping[str, Any], grid: Any) -> Config:
        if len(self.configs) == 1:
            return self.configs[0]
        key = self._key(arguments)
        found = self.cache.get(key)
        if found is None:
            taken = next((name for name in self.configs[0].kwargs if name in arguments), None)
            if taken is not None:
                raise ValueError(f"{taken!r} is both an argument of the launch and chosen by autotune")
            found = self.cache[key] = self._fastest(arguments, args, kwargs, grid)
        return found

    def _key(self, arguments: Mapping[str, Any]) -> Hashable:
        views = map(view_of, arguments.values())
        return tuple(arguments[name] for name in self.keys if name in arguments), tuple(
            view.element for view in views if view is not None
        )

    def _fastest(self, arguments: dict[str, Any], args: Sequence[Any], kwargs: Mapping[str, Any], grid: Any) -> Config:
        failures: dict[Config, Exception] = {}
        self.configs_timings = {}
        for config in self.configs:
            try:
                seconds = self._measure(config, arguments, args, kwargs, grid)
            except (OutOfResources, CompileTimeAssertionFailure) as error:
                failures[config], seconds = error, inf
            self.configs_timings[config] = seconds
        best = min(self.configs_timings, key=self.configs_timings.__getitem__)
        if self.configs_timings[best] == inf:
            raise AutotunerError(f"no configuration works; with {best!r}: {failures[best]}") from failures[best]
        return best

    def _measure(
        self, config: Config, arguments: dict[str, Any], args: Sequence[Any], kwargs: Mapping[str, Any], grid: Any
    ) -> float:
        """Seconds of the fastest of several launches; the arrays to be restored are."""

        def launch() -> float:
            if config.pre_hook is not None:
                config.pre_hook(arguments | config.all_kwargs())
            for name in self.reset_to_zero:
                arguments[name][...] = 0
            start = perf_counter()
            self.inner.run(*args, grid=grid, **kwargs, **config.all_kwargs())
            return perf_counter() - start

        kept = {name: _copy(arguments[name]) for name in self.restore_value}
        try:
            launch()  # compiles
            once = launch()
            repeats = max(1, min(100, int(SECONDS_PER_CONFIG / max(once, 1e-7))))
            return min(once, *(launch() for _ in range(repeats)))
        finally:
            for name, value in kept.items():
                arguments[name][...] = value


def autotune(
    configs: Sequence[Config],
    key: Sequence[str],
    *,
    reset_to_zero: Sequence[str] | None = None,
    restore_value: Sequence[str] | None = None,
) -> Callable[[Any], Autotuner]:
    """Let a kernel choose the fastest of `configs`, once per value of the arguments in `key` and per element types.

    Args:
        configs: what may be chosen.
        key: parameters whose values make a difference.
        reset_to_zero: arrays that are zeroed before each trial.
        restore_value: arrays that have their old content again after the trials.

    Raises:
        ValueError: a name is no parameter of the kernel.
    """
    return lambda fn: Autotuner(fn, configs, key, reset_to_zero=reset_to_zero or (), restore_value=restore_value or ())


def heuristics(values: Mapping[str, Callable[[dict[str, Any]], Any]]) -> Callable[[Any], Heuristics]:
    """Compute constants of a kernel from its other arguments.

    Args:
        values: a function of the arguments (by name) for each parameter.
    """
    return lambda fn: Heuristics(fn, values)


def _copy(array: Any) -> Any:
    return array.clone() if hasattr(array, "clone") else array.copy()
