"""`tune`: measures many launches of autotuned kernels in advance, in many processes.

    launches = [Launch(matmul, grid, a, b, c, n) for n in sizes]
    tune(launches)                                              this process measures, all of its CPUs compile
    tune(launches, executor=client.get_executor())              each worker measures some
    tune(launches, store=store, rank=rank, world_size=count)    each rank of torch.distributed measures a share

Workers store their results in the cache, signed like its entries; ranks exchange them through the store, signed with
the same key. Results are found only by processes on the same kind of CPU with the same compiler, since their key
contains both; launches without a result are measured here.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from concurrent.futures import Executor
from datetime import timedelta
from typing import Any

from tilewright.backends.llvm.machine import host_identity
from tilewright.runtime import waiting
from tilewright.runtime.async_compile import AsyncCompileMode, active_mode
from tilewright.runtime.build import compiler_identity, cpu_target
from tilewright.runtime.cache.remote import opened, sealed
from tilewright.runtime.compile_task import COMPILED, FOUND, REFUSED, UNKEPT, Report, pickled, reported
from tilewright.runtime.tuning.autotuner import Autotuner, Tuning
from tilewright.runtime.tuning.trials import Call
from tilewright.support import knobs


class Launch:
    """A launch of an autotuned kernel: `kernel[grid](*args, **kwargs)`.

    Args:
        kernel: made by `autotune`.
        grid: one to three extents, or a function of the arguments by name.
        args, kwargs: the arguments. Workers get a copy, whose content decides what is measured.

    Raises:
        TypeError: the kernel is not autotuned.
    """

    def __init__(self, kernel: Any, grid: Any, *args: Any, **kwargs: Any) -> None:
        if not isinstance(kernel, Autotuner):
            raise TypeError(f"tune takes launches of autotuned kernels, not of a {type(kernel).__name__}")
        self.kernel, self.grid, self.args, self.kwargs = kernel, grid, args, kwargs

    @property
    def call(self) -> Call:
        """The launch as the autotuner has it."""
        return Call(self.args, self.kwargs, self.grid, self.kernel.named(self.args, self.kwargs))


def tune(
    launches: Sequence[Launch],
    *,
    executor: Executor | None = None,
    store: Any = None,
    rank: int = 0,
    world_size: int = 1,
) -> None:
    """Choose the configurations of launches, with nothing launched but for measuring.

    Args:
        launches: those to tune for. All ranks of a store give the same ones, in the same order.
        executor: its processes measure, each one launch at a time; best one per machine, or they disturb each other.
        store: a `torch.distributed.Store`, through which `world_size` ranks, of which this is `rank`, share the work.

    Raises:
        AutotunerError: no configuration of a kernel works.
        ValueError: both an executor and a store are given.
    """
    if executor is not None and store is not None:
        raise ValueError("tune takes an executor or a store, not both")
    if store is not None:
        _Ranks(store, rank, world_size).tune(launches)
    elif executor is not None:
        _by_workers(launches, executor)
    else:
        _here(launches)


def _here(launches: Sequence[Launch]) -> None:
    """Compile all candidates side by side, then measure one launch after the other."""
    missing = [(launch, tuning) for launch in launches if not _is_found(launch, tuning := _tuning(launch))]
    if active_mode.get() is None:  # in the block of another mode its executor compiles the candidates
        with AsyncCompileMode(ignore_errors=True):
            for launch, _ in missing:
                launch.kernel.warmup(*launch.args, grid=launch.grid, **launch.kwargs)
    for launch, tuning in missing:
        _measure(launch, tuning)


def _tuning(launch: Launch) -> Tuning:
    return launch.kernel.tuning(launch.call)


def _is_found(launch: Launch, tuning: Tuning) -> bool:
    """Choose by what the cache has; returns whether it has it."""
    timings = tuning.stored.load() if tuning.stored else None
    if timings is not None:
        launch.kernel.settle(launch.call, tuning, timings)
    return timings is not None


def _measure(launch: Launch, tuning: Tuning) -> None:
    """Measure in this process, and keep the results."""
    timings = launch.kernel.settle(launch.call, tuning)
    if tuning.stored:
        tuning.stored.save(timings)


# Workers of an executor


class TuneTask:
    """A launch to be tuned, called without arguments; in this process or, pickled, in another one."""

    def __init__(self, launch: Launch, tuning: Tuning) -> None:
        self.launch, self.tuning = launch, tuning

    def __call__(self) -> None:
        _measure(self.launch, self.tuning)

    def __reduce__(self) -> tuple[Any, ...]:
        stored = self.tuning.stored
        return ArrivedTuneTask, (pickled(self.launch), stored.digest if stored else "")


class ArrivedTuneTask:
    """A launch to be tuned in another process.

    Args:
        content: the launch, pickled.
        digest: of the table, as computed by the waiting process.
    """

    def __init__(self, content: Any, digest: str) -> None:
        self.content, self.digest = content, digest

    def __call__(self) -> Report:
        active_mode.set(None)  # a process that was forked in the block of a mode has it, and nobody who compiles
        return reported(self._outcome)

    def _outcome(self) -> tuple[str, str]:
        try:
            launch = pickle.loads(self.content) if isinstance(self.content, bytes) else self.content
        except Exception as error:  # noqa: BLE001 - modules that are missing, another Python: whatever it is
            return REFUSED, f"the launch cannot be read: {type(error).__name__}: {error}"
        tuning = _tuning(launch)
        if tuning.stored is None or tuning.stored.digest != self.digest:
            return REFUSED, "this worker would measure something else: its CPU, LLVM or sources are others"
        if _is_found(launch, tuning):
            return FOUND, ""
        _measure(launch, tuning)
        return (COMPILED, "") if tuning.stored.load() else (UNKEPT, "the cache of this worker does not take entries")


def _by_workers(launches: Sequence[Launch], executor: Executor) -> None:
    missing = [(launch, tuning) for launch in launches if not _is_found(launch, tuning := _tuning(launch))]
    futures = [waiting.submit(executor, TuneTask(launch, tuning)) for launch, tuning in missing]
    for future, (launch, tuning) in zip(futures, missing, strict=True):
        name = launch.kernel.__name__
        try:
            report = waiting.result(future)
        except Exception as error:  # noqa: BLE001 - whatever became of the worker
            waiting.warn(type(error).__name__, f"a worker was lost ({type(error).__name__}: {error})")
            report = None
        if isinstance(report, Report) and report.status in (REFUSED, UNKEPT):
            waiting.warn(report.why, f"{report.worker} did not help with {name}: {report.why}")
        if tuning.key not in launch.kernel.cache and not _is_found(launch, tuning):
            _measure(launch, tuning)


# Ranks of torch.distributed


class _Ranks:
    """The ranks of a job, which share what there is to measure.

    Args:
        store: a key-value store with `set`, `get` and `wait`, as torch's.
    """

    def __init__(self, store: Any, rank: int, world_size: int) -> None:
        self.store, self.rank, self.world_size = store, rank, world_size
        self.patience = timedelta(seconds=knobs.tilewright.worker_seconds)
        self.silent: set[int] = set()

    def tune(self, launches: Sequence[Launch]) -> None:
        """Measure this rank's share, send it to the others, and take over their results."""
        peers = self._peers()
        tunings = [_tuning(launch) for launch in launches]
        shares = [peers[index % len(peers)] for index in range(len(launches))]
        work = list(zip(launches, tunings, shares, strict=True))
        for launch, tuning, owner in work:
            if owner == self.rank:
                self._measure_and_tell(launch, tuning)
        for launch, tuning, owner in work:
            if owner != self.rank and not self._is_told(launch, tuning, owner):
                text = f"rank {owner} did not tell what it measured of {launch.kernel.__name__}"
                waiting.warn(f"rank {owner}", text)
                _measure(launch, tuning)

    def _peers(self) -> list[int]:
        """The ranks on machines of this kind: tables of others are of no use here."""
        kind = f"{cpu_target()} {host_identity()} {compiler_identity()}".encode()
        self.store.set(f"tilewright/machine/{self.rank}", kind)
        found = [self._get(f"tilewright/machine/{rank}", rank) == kind for rank in range(self.world_size)]
        return [rank for rank, is_alike in enumerate(found) if is_alike or rank == self.rank]

    def _measure_and_tell(self, launch: Launch, tuning: Tuning) -> None:
        if not _is_found(launch, tuning):
            _measure(launch, tuning)
        if tuning.stored:
            name = f"tilewright/tuned/{tuning.stored.digest}"
            table = tuning.stored.text(launch.kernel.configs_timings).encode()
            self.store.set(name, sealed(name, table))

    def _is_told(self, launch: Launch, tuning: Tuning, owner: int) -> bool:
        """Choose by the results that another rank has sent, or stored in the cache."""
        if tuning.stored is None:
            return False
        name = f"tilewright/tuned/{tuning.stored.digest}"
        received = self._get(name, owner)
        table = opened(name, received) if received is not None else None
        timings = tuning.stored.parse(table) if table is not None else None
        if timings is None:
            return False
        launch.kernel.settle(launch.call, tuning, timings)
        tuning.stored.save(timings)
        return True

    def _get(self, name: str, owner: int) -> bytes | None:
        """A value that a rank sets; None if it does not in time, after which this rank is not waited for again."""
        patience = _AT_ONCE if owner in self.silent else self.patience
        try:
            self.store.wait([name], patience)
            return bytes(self.store.get(name))
        except Exception:  # noqa: BLE001 - each kind of store has its own errors
            self.silent.add(owner)
            return None


_AT_ONCE = timedelta(milliseconds=100)
