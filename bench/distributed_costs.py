"""Messages and bytes of shared work, counted; and what follows from them for many workers."""

from __future__ import annotations

import pickle
import tempfile
import time
from concurrent.futures import Executor, Future
from typing import Any, NamedTuple

import numpy as np

import tilewright as tw
import tilewright.language as tl
from tilewright import knobs
from tilewright.runtime.cache.remote import RemoteCacheBackend, RemoteCacheManager


class Costs(NamedTuple):
    """The costs of one kernel.

    Attributes:
        task, task_by_source, report: bytes of the messages to a worker and back.
        messages: how many there are, both ways.
        stores, stored: commands to the remote cache of a process that compiles, and their bytes.
        loads, loaded: those of a process that finds the kernel.
        client_seconds: CPU time of the waiting process for each kernel: sending, waiting, loading.
    """

    task: int
    task_by_source: int
    report: int
    messages: int
    stores: int
    stored: int
    loads: int
    loaded: int
    client_seconds: float


class Counting(RemoteCacheBackend):
    """A remote cache in this process that counts."""

    files: dict[str, bytes]
    gets = puts = got = sent = 0

    def get(self, filenames: list[str]) -> dict[str, bytes]:
        found = {name: self.files[f"{self.key}/{name}"] for name in filenames if f"{self.key}/{name}" in self.files}
        Counting.gets += 1
        Counting.got += sum(map(len, found.values()))
        return found

    def put(self, filename: str, data: bytes) -> None:
        Counting.puts += 1
        Counting.sent += len(data)
        self.files[f"{self.key}/{filename}"] = data


class Wire(Executor):
    """Another process, as far as messages go: all that is sent is pickled, and counted."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self.tasks: list[int] = []
        self.elsewhere = 0.0

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        task = pickle.dumps(fn)
        begin = time.process_time()
        report = pickle.dumps(pickle.loads(task)(*args, **kwargs))
        self.elsewhere += time.process_time() - begin
        self.messages += task, report
        self.tasks.append(len(task))
        future: Future[Any] = Future()
        future.set_result(pickle.loads(report))
        return future


@tw.jit
def by_reference(x, out, n, BLOCK: tl.constexpr, N: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + N, mask=at < n)


def by_source() -> Any:
    @tw.jit
    def kernel(x, out, n, BLOCK: tl.constexpr, N: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + at, tl.load(x + at, mask=at < n) + N, mask=at < n)

    return kernel


def compiled_by(wire: Wire, kernel: Any, count: int) -> float:
    """Let another process compile `count` kernels; returns the CPU time of this one."""
    begin = time.process_time()
    with tw.AsyncCompileMode(wire):
        for number in range(count):
            kernel.warmup(np.float32, np.float32, 1000, BLOCK=64, N=number, grid=(1,))
    return time.process_time() - begin - wire.elsewhere


def measured(count: int = 20) -> Costs:
    """Count it all, for `count` kernels of an empty cache."""
    with tempfile.TemporaryDirectory() as folder, knobs.cache.scope():
        knobs.cache.dir = folder
        by_reference.hash = None
        wire, other = Wire(), Wire()
        seconds = compiled_by(wire, by_reference, count)
        compiled_by(other, by_source(), 3)
        knobs.cache.manager_class, knobs.cache.remote_manager_class = RemoteCacheManager, Counting
        Counting.files = {}
        by_reference.hash = None
        stores, stored, loads, loaded = _remote()
    return Costs(
        task=max(wire.tasks),
        task_by_source=max(other.tasks),
        report=max(map(len, wire.messages[1::2])),
        messages=len(wire.messages) // count,
        stores=stores,
        stored=stored,
        loads=loads,
        loaded=loaded,
        client_seconds=seconds / count,
    )


def _remote() -> tuple[int, int, int, int]:
    """Commands and bytes of one kernel in a remote cache: of who compiles it, and of who finds it."""
    x, out = np.zeros(64, np.float32), np.zeros(64, np.float32)
    Counting.gets = Counting.puts = Counting.got = Counting.sent = 0
    by_reference[(1,)](x, out, 64, BLOCK=64, N=1000)
    stores, stored = Counting.puts + Counting.gets, Counting.sent
    Counting.gets = Counting.puts = Counting.got = Counting.sent = 0
    by_reference.hash = None
    by_reference[(1,)](x, out, 64, BLOCK=64, N=1000)
    return stores, stored, Counting.gets + Counting.puts, Counting.got


class Model(NamedTuple):
    """The costs of so many workers that compile `kernels` once and all load them.

    Attributes:
        client_seconds: CPU time of the waiting process.
        client_megabytes: what it and the scheduler move.
        cache_commands, cache_megabytes: what the remote cache answers.
        cache_seconds: how long it takes at 50,000 commands and 500 megabytes a second.
    """

    client_seconds: float
    client_megabytes: float
    cache_commands: int
    cache_megabytes: float
    cache_seconds: float


def modelled(costs: Costs, workers: int, kernels: int) -> Model:
    """The costs of many workers: compilation is linear in kernels, loading in kernels times workers."""
    commands = kernels * (costs.stores + workers * costs.loads)
    megabytes = kernels * (costs.stored + workers * costs.loaded) / 1e6
    messages = kernels * (costs.task + costs.report) / 1e6
    seconds = max(commands / 50_000, megabytes / 500)
    return Model(kernels * costs.client_seconds, messages, commands, megabytes, seconds)
