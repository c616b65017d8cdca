"""`@autotune`: a kernel that measures its configurations on the first launch for each key, and keeps the fastest.

@autotune([Config({"BLOCK": 128}), Config({"BLOCK": 1024})], key=["n"])
@jit
def add(x, y, out, n, BLOCK: tl.constexpr): …

prune → on disk? → else compile all (on all CPUs) → measure → launch with the fastest
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from tilewright.backends.llvm.machine import host_target
from tilewright.compiler.cache_key import llvm_identity
from tilewright.runtime.arrays import view_of
from tilewright.runtime.build import PreparationCounter, compiler_identity
from tilewright.runtime.devices import chosen, device_for
from tilewright.runtime.errors import AutotunerError
from tilewright.runtime.interpreted import InterpretedFunction
from tilewright.runtime.testing.measure import do_bench
from tilewright.runtime.tuning.config import Config, StoredResults, Timings, checked
from tilewright.runtime.tuning.heuristics import KernelWrapper, Launchable, names_of
from tilewright.runtime.tuning.table import TuningTable
from tilewright.runtime.tuning.trials import Call, Trials
from tilewright.support import knobs
from tilewright.support.locks import fork_safe_lock

Arguments = dict[str, Any]
Key = tuple[Hashable, ...]
class Tuning(NamedTuple):
    """The tuning of one launch.

    Attributes:
        stored: where results are kept; None if they cannot be.
    """

    key: Key
    configs: list[Config]
    stored: StoredResults | None


PLAIN = (int, float, bool, str, type(None))
"""Types of arguments that are no arrays."""


class Autotuner(KernelWrapper):
    """A kernel that chooses among configurations.

    Attributes:
        configs_timings: milliseconds per configuration in the latest measurement: median, quantiles 0.2 and 0.8;
            infinite where it does not work.
        bench_time: seconds that the latest measurement took.
        nargs: positional arguments of the launch at hand, by name.
        num_warmups, num_reps, use_cuda_graph: as given; they are deprecated.

    Classes of others that derive from this one call, or replace, `prune_configs`, `_bench` and `check_disk_cache`, as
    Triton's `run` does; they set `nargs` first.
    """

    def __init__(
        self,
        fn: Launchable,
        arg_names: Sequence[str],
        configs: Sequence[Config],
        key: Sequence[str],
        reset_to_zero: Sequence[str] | None = None,
        restore_value: Sequence[str] | None = None,
        pre_hook: Callable[..., Any] | None = None,
        post_hook: Callable[..., Any] | None = None,
        prune_configs_by: Mapping[str, Any] | None = None,
        warmup: float | None = None,
        rep: float | None = None,
        use_cuda_graph: bool = False,
        do_bench: Callable[..., Any] | None = None,
        cache_results: bool = False,
    ) -> None:
        """Makes the autotuner that `autotune` makes of a kernel; subclasses in programs call it as Triton has it.

        Args:
            fn: the kernel.
            arg_names: the names of its parameters, which `fn` knows, too.
            configs: … and all others: as in `autotune`.
        """
        super().__init__(fn, arg_names)
        if warmup is not None or rep is not None or use_cuda_graph:
            text = "warmup, rep and use_cuda_graph are deprecated: pass do_bench=…"
            warnings.warn(text, DeprecationWarning, stacklevel=3)
            do_bench = do_bench or _bench_for(warmup, rep)
        self.num_warmups, self.num_reps, self.use_cuda_graph = warmup, rep, use_cuda_graph
        self.configs = checked(configs or (), f"autotune of {self.__name__}") or [Config({})]
        self.keys = (key,) if isinstance(key, str) else key
        self.reset_to_zero, self.restore_value = list(reset_to_zero or ()), list(restore_value or ())
        self._check_names()
        self.user_defined_pre_hook, self.user_defined_post_hook = pre_hook is not None, post_hook is not None
        self.pre_hook = pre_hook or self._prepare_arrays
        self.post_hook = post_hook or self._restore_arrays
        pruning = prune_configs_by or {}
        self.early_config_prune: Callable[..., Any] | None = pruning.get("early_config_prune")
        self.perf_model: Callable[..., Any] | None = pruning.get("perf_model")
        self.configs_top_k: float | int = pruning.get("top_k", 1.0)
        self._do_bench = do_bench
        self.cache_results: bool = cache_results or knobs.autotuning.cache
        self.cache: dict[Key, Config] = {}
        self._known: dict[Key, Key] = {}
        self.best_config: Config | None = None
        self.configs_timings: Timings = {}
        self.bench_time: float | None = None
        self._is_from_disk = False
        self.nargs: Arguments | None = None
        self.restore_copies: Arguments = {}
        self._lock = fork_safe_lock()

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        call = Call(args, kwargs, grid, self.named(args, kwargs))
        config = self.configs[0] if len(self.configs) == 1 else self._choice(call)
        self.best_config = config
        if config.pre_hook is not None:
            config.pre_hook(call.named | config.all_kwargs())
        return self.fn.run(*args, grid=grid, warmup=warmup, **kwargs, **config.all_kwargs())

    def warmup(self, *args: Any, grid: Any, **kwargs: Any) -> list[Any]:
        """Compile every configuration that pruning leaves, without launching; returns the kernels."""
        with self._lock:
            self.nargs = self._positional(args)
            configs = self.prune_configs({**kwargs, "grid": grid, "warmup": True})
            self.nargs = None
        return [self.fn.warmup(*args, grid=grid, **kwargs, **config.all_kwargs()) for config in configs]

    def _choice(self, call: Call) -> Config:
        key = self._key(call)
        found = self.cache.get(key)
        if found is None:
            with self._lock:  # of several threads one measures
                found = self.cache.get(key) or self._tune(key, call)
        return found

    def _key(self, call: Call) -> Key:
        """The values of `keys`, the element types of all arrays, and the machine if it is not this CPU.

        Types are as Triton has them in its keys: programs put choices of their own into `cache`.
        """
        named = call.named
        values = [named[name] for name in self.keys if name in named]
        arguments = [(name, named[name]) for name in self.arg_names if name in named]
        kinds = [(type(x), getattr(x, "dtype", None), getattr(x, "device", None)) for _, x in arguments]
        if not all(kind in PLAIN or kind is np.ndarray or _is_torchs(device) for kind, _, device in kinds):
            return (*values, *_types_and_machine(arguments))
        facts = (chosen(), *kinds)
        found = self._known.get(facts)
        if found is None:
            found = self._known[facts] = _types_and_machine(arguments)
        return (*values, *found)

    def _tune(self, key: Key, call: Call) -> Config:
        _refuse_conflicts(self.configs, call)
        PreparationCounter.count += 1
        self.nargs = self._positional(call.args)
        try:
            configs = self.prune_configs({**call.kwargs, "grid": call.grid, "warmup": False})
            measure = partial(self._measure, key, configs, call)
            if self.cache_results or knobs.autotuning.cache:
                hit = self.check_disk_cache(key, configs, measure)
            else:
                hit = False
                measure()
        finally:
            self.nargs = None
        best = self.cache[key]
        self._is_from_disk = hit
        self._report(key, best, hit)
        return best

    def tuning(self, call: Call) -> Tuning:
        """The candidates to measure for a launch, and the place where their results are kept."""
        with self._lock:
            self.nargs = self._positional(call.args)
            try:
                configs = self.prune_configs({**call.kwargs, "grid": call.grid, "warmup": False})
            finally:
                self.nargs = None
        key = self._key(call)
        return Tuning(key, configs, self._stored(key, configs))

    def settle(self, call: Call, tuning: Tuning, timings: Timings | None = None) -> Timings:
        """Choose by `timings`, which others measured; without them, by what is measured now."""
        with self._lock:
            if timings is not None:
                self._choose(tuning.key, timings)
                return timings
            _refuse_conflicts(tuning.configs, call)
            PreparationCounter.count += 1
            self.nargs = self._positional(call.args)
            try:
                self._measure(tuning.key, tuning.configs, call)
            finally:
                self.nargs = None
            self._report(tuning.key, self.cache[tuning.key], False)
            return self.configs_timings

    def _measure(self, key: Key, configs: Sequence[Config], call: Call) -> None:
        begin = perf_counter()
        if type(self)._bench is Autotuner._bench:
            trials = Trials(self.fn, self.__name__, call, self.pre_hook, self.post_hook)
            timings = trials.measure(configs, self._do_bench)
        else:
            launch = {**call.kwargs, "grid": call.grid, "warmup": False}
            timings = {config: self._bench(*call.args, config=config, **launch) for config in configs}
        self.bench_time = perf_counter() - begin
        self._choose(key, timings)
        self.pre_hook(call.named, reset_only=True)

    def _choose(self, key: Key, timings: Timings) -> None:
        self.configs_timings = timings
        self.cache[key] = min(timings, key=timings.__getitem__)

    def _positional(self, args: Sequence[Any]) -> Arguments:
        return dict(zip(self.arg_names, args, strict=False))

    def tuning_table(self) -> TuningTable:
        """The candidates of the latest measurement, with their times: for `print`, as a data frame, as a plot.

        Raises:
            ValueError: nothing was measured yet.

        Example:
            `kernel[grid](*arguments)`, then `print(kernel.tuning_table())` or `kernel.tuning_table().plot().show()`.
        """
        if not self.configs_timings:
            raise ValueError(f"{self.__name__} has not been tuned yet: launch it, with more than one configuration")
        return TuningTable(self.__name__, self.configs_timings, None if self._is_from_disk else self.bench_time)

    # Methods that subclasses in programs call and replace

    @property
    def do_bench(self) -> Callable[..., Any]:
        """The function that measures one configuration by itself; by default configurations race without it."""
        return self._do_bench or do_bench

    @do_bench.setter
    def do_bench(self, bench: Callable[..., Any] | None) -> None:
        self._do_bench = bench

    def prune_configs(self, kwargs: Mapping[str, Any]) -> list[Config]:
        """The configurations that `prune_configs_by` leaves for the launch whose positional arguments are `nargs`."""
        positional, configs = self.nargs or {}, self.configs
        if self.early_config_prune is not None:
            configs = checked(self.early_config_prune(configs, positional, **kwargs), "`early_config_prune`")
            if not configs:
                reason = "`early_config_prune` should return at least one config."
                raise AutotunerError(f"No valid autotuner configs after pruning. {reason}")
        if self.perf_model is not None:
            model, top_k = self.perf_model, _top_k(self.configs_top_k, len(configs))
            if len(configs) > top_k:
                expected = {config: model(**positional, **kwargs, **config.all_kwargs()) for config in configs}
                configs = sorted(expected, key=expected.__getitem__)[:top_k]
        return configs

    def _bench(self, *args: Any, config: Config, **meta: Any) -> list[float]:
        """Milliseconds of one configuration: median and quantiles 0.2 and 0.8; infinite where it does not suit.

        Args:
            meta: the keywords of the launch, `grid` and `warmup` among them.

        Raises:
            ValueError: the launch gives a constant that the configuration chooses.
        """
        keywords = {name: value for name, value in meta.items() if name not in ("grid", "warmup")}
        call = Call(args, keywords, meta.get("grid"), self.named(args, keywords))
        _refuse_conflicts([config], call)
        return Trials(self.fn, self.__name__, call, self.pre_hook, self.post_hook).alone(config, self.do_bench)

    def check_disk_cache(self, tuning_key: Key, configs: Sequence[Config], bench_fn: Callable[[], Any]) -> bool:
        """Choose by what is kept on disk; otherwise measure with `bench_fn`, and keep `configs_timings`.

        Returns: whether the results were on disk.
        """
        stored = self._stored(tuning_key, configs)
        timings = stored.load() if stored else None
        if timings is not None:
            self._choose(tuning_key, timings)
            return True
        bench_fn()
        if stored:
            stored.save(self.configs_timings)
        return False

    def _report(self, key: Key, best: Config, hit: bool) -> None:
        duration = None if hit else self.bench_time
        if knobs.autotuning.print and not hit:
            print(f"Autotuning {self.__name__} for {key}: {duration:.2f} s; best: {best}")  # noqa: T201 - asked for
        if knobs.autotuning.listener is not None:
            knobs.autotuning.listener(
                fn=self.kernel,
                key=key,
                best_config=best,
                configs_timings=self.configs_timings,
                duration=duration,
                cache_hit=hit,
            )

    def sendable(self) -> dict[str, Any]:
        own = {"cache", "_known", "_lock", "restore_copies"}
        own |= ({"pre_hook"} if not self.user_defined_pre_hook else set())
        own |= ({"post_hook"} if not self.user_defined_post_hook else set())
        return {name: value for name, value in super().sendable().items() if name not in own}

    def arrive(self) -> None:
        super().arrive()
        vars(self).setdefault("pre_hook", self._prepare_arrays)
        vars(self).setdefault("post_hook", self._restore_arrays)
        self.cache, self._known, self.restore_copies, self._lock = {}, {}, {}, fork_safe_lock()

    # Arrays that trials change

    def _prepare_arrays(self, arguments: Arguments, reset_only: bool = False) -> None:
        for name in self.reset_to_zero:
            if arguments.get(name) is not None:
                _array(name, arguments)[...] = 0
        if not reset_only:
            given = [name for name in self.restore_value if arguments.get(name) is not None]
            self.restore_copies = {name: _copy(_array(name, arguments)) for name in given}

    def _restore_arrays(self, arguments: Arguments, exception: Exception | None) -> None:
        for name, content in self.restore_copies.items():
            arguments[name][...] = content
        self.restore_copies = {}

    # Results on disk

    def _stored(self, key: Key, configs: Sequence[Config]) -> StoredResults | None:
        if any(config.pre_hook for config in configs) or isinstance(self.kernel, InterpretedFunction):
            return None
        target = host_target(knobs.tilewright.cpu).identity
        facts = [compiler_identity(), llvm_identity(), target, self.kernel.cache_key, *map(repr, key)]
        return StoredResults(self.__name__, facts, configs)

    def _check_names(self) -> None:
        for name in (*self.reset_to_zero, *self.restore_value):
            if name not in self.arg_names:
                raise ValueError(f"autotune names {name!r}, which is no parameter of {self.__name__}")
        for name in self.keys:
            if name not in self.arg_names:
                warnings.warn(f"the autotune key {name!r} is no parameter of {self.__name__}", stacklevel=4)


def autotune(
    configs: Sequence[Config],
    key: Sequence[str],
    prune_configs_by: Mapping[str, Any] | None = None,
    reset_to_zero: Sequence[str] | None = None,
    restore_value: Sequence[str] | None = None,
    pre_hook: Callable[..., Any] | None = None,
    post_hook: Callable[..., Any] | None = None,
    warmup: float | None = None,
    rep: float | None = None,
    use_cuda_graph: bool = False,
    do_bench: Callable[..., Any] | None = None,
    cache_results: bool = False,
) -> Callable[[Any], Autotuner]:
    """Let a kernel choose the fastest of `configs`, once per value of the arguments in `key` and per element types.

    Args:
        configs: what may be chosen.
        key: parameters whose values make a difference.
        prune_configs_by: a dict. `early_config_prune(configs, named_args, **kwargs)` returns the configurations worth
            trying; `perf_model(**arguments)` estimates a time, and the best `top_k` (a number, or a share) are tried.
        reset_to_zero: arrays that are zeroed before each trial.
        restore_value: arrays that have their old content again after each trial.
        pre_hook, post_hook: called as `pre_hook(arguments, reset_only=…)` before and `post_hook(arguments,
            exception=…)` after each trial, instead of what `reset_to_zero` and `restore_value` do.
        warmup, rep: milliseconds for `do_bench`; deprecated.
        use_cuda_graph: means nothing on a CPU; deprecated.
        do_bench: called as `do_bench(launch, quantiles=(0.5, 0.2, 0.8))`, returns a time for each quantile.
        cache_results: keep the results on disk (or TRITON_CACHE_AUTOTUNING=1).

    Raises:
        ValueError: an array's name is no parameter of the kernel.

    Example:
        >>> @tw.autotune(configs=[tw.Config({"BLOCK": 64}), tw.Config({"BLOCK": 256})], key=["n"])
        ... @tw.jit
        ... def fill(x_ptr, n, BLOCK: tl.constexpr):
        ...     i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        ...     tl.store(x_ptr + i, 1.0, mask=i < n)
        >>> x = np.zeros(1000)
        >>> kernel = fill[lambda chosen: (tw.cdiv(1000, chosen["BLOCK"]),)](x, 1000)
        >>> x.sum()
        np.float64(1000.0)
    """
    return lambda fn: Autotuner(
        fn,
        names_of(fn, "autotune"),
        configs,
        key,
        reset_to_zero,
        restore_value,
        pre_hook,
        post_hook,
        prune_configs_by,
        warmup,
        rep,
        use_cuda_graph,
        do_bench,
        cache_results,
    )


def _bench_for(warmup: float | None, rep: float | None) -> Callable[..., Any]:
    return partial(do_bench, warmup=25 if warmup is None else warmup, rep=100 if rep is None else rep)


def _is_torchs(device: Any) -> bool:
    """Whether a device can be part of a key; those of other libraries need not be hashable, or not equal."""
    return type(device).__module__ == "torch"


def _types_and_machine(arguments: Sequence[tuple[str, Any]]) -> Key:
    views = {name: view_of(value) for name, value in arguments}
    arrays = {name: view for name, view in views.items() if view is not None}
    device = device_for(arrays.items())
    machine = () if device is None else (device.identity,)
    return (*(str(getattr(view.owner, "dtype", view.element)) for view in arrays.values()), *machine)


def _refuse_conflicts(configs: Sequence[Config], call: Call) -> None:
    """A constant that the launch gives cannot be chosen, too."""
    taken = sorted({name for config in configs for name in config.kwargs if name in call.named})
    if taken:
        reason = "Make sure that you don't re-define auto-tuned symbols."
        raise ValueError(f"Conflicting meta-parameters: {', '.join(taken)}. {reason}")


def _top_k(given: float | int, count: int) -> int:
    """The number of configurations that `top_k` means: a whole number, or a share up to 1.0."""
    if isinstance(given, float) and given <= 1.0:
        return max(1, int(count * given))
    if given == 0:
        raise ValueError("top_k is 0, which leaves no configuration to try")
    if not isinstance(given, int):
        raise TypeError(f"top_k is a whole number of configurations, or a share up to 1.0; not {given!r}")
    return given


def _array(name: str, arguments: Arguments) -> Any:
    array = arguments[name]
    if not hasattr(array, "__setitem__"):
        found = f"{array!r}, of type {type(array).__name__}"
        raise TypeError(f"reset_to_zero and restore_value of autotune name arrays; {name!r} is {found}")
    return array


def _copy(array: Any) -> Any:
    return array.clone() if hasattr(array, "clone") else array.copy()
