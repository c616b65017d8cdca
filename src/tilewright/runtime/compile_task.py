"""A compilation that may run in a thread, or in another process of any executor.

    task = CompileTask(compilation, compile_here)
    executor.submit(task)       in this process: `compile_here()`, the kernel; in another one: a `Report`

Only data is sent: the kernel, by reference or by source (`pickling.py`), the signature as JSON, and the digest of the
cache key. A worker that would compile something else, because its CPU, its Python or its sources differ, compiles
nothing and reports why. The kernel itself comes back through the cache, where it is checked like any other entry.

`local_processes()` is an executor of processes of this machine.
"""

from __future__ import annotations

import os
import pickle
import platform
import warnings
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from time import perf_counter
from typing import Any, cast

from tilewright.backends.registry import make_backend
from tilewright.language.callable import KeyedCallable
from tilewright.runtime import waiting
from tilewright.runtime.build import build, digest_of
from tilewright.runtime.cache.store import load
from tilewright.runtime.captured import functions_by_name
from tilewright.runtime.compile_hooks import restored, specialization_data
from tilewright.runtime.kernel import CompiledKernel
from tilewright.runtime.sources import ASTSource, Compilation
from tilewright.runtime.tuning.forked import can_fork
from tilewright.support import knobs
from tilewright.support.named_tuple import NamedTuple
from tilewright.support.system import SYSTEM

COMPILED, FOUND, UNKEPT, REFUSED, FAILED = "compiled", "found", "not kept", "refused", "failed"


class Report(NamedTuple):
    """The end of a task in another process.

    Attributes:
        status: `compiled`; `found` in the cache; `not kept`, compiled, but the cache does not take it; `refused`, this
            worker would compile something else; `failed`.
        why: the reason, where there is one.
        seconds: how long it took.
        worker: host and process.
    """

    status: str
    why: str
    seconds: float
    worker: str


def worker_name() -> str:
    """This host and process."""
    return f"{platform.node()}:{os.getpid()}"


class CompileTask:
    """A compilation, called without arguments.

    Attributes:
        is_sent: it was pickled for another process.
    """

    def __init__(self, compilation: Compilation, compile_here: Callable[[], CompiledKernel]) -> None:
        self.compilation, self.compile_here = compilation, compile_here
        self.is_sent = False
        self._failure: Exception | None = None

    def __call__(self) -> CompiledKernel:
        try:
            return self.compile_here()
        except Exception as error:
            self._failure = error
            raise

    def awaited(self, future: Future[Any]) -> CompiledKernel:
        """The kernel, whatever became of the task: it is compiled here if the task did not.

        Raises:
            Exception: the compilation failed.
        """
        try:
            answer = waiting.result(future, lambda: self.is_sent)
        except Exception as error:
            if error is self._failure:
                raise
            waiting.warn(type(error).__name__, f"a worker was lost ({type(error).__name__}: {error})")
            return self.compile_here()
        if not isinstance(answer, Report):
            return cast("CompiledKernel", answer)
        if answer.status in (REFUSED, UNKEPT):
            name = self.compilation.source.name
            waiting.warn(answer.why, f"{answer.worker} did not help with {name}: {answer.why}")
        elif answer.status != FAILED and not self._is_here():
            where = "; set TRITON_CACHE_DIR to one folder on all machines, or TRITON_CACHE_MANAGER to a remote cache"
            waiting.warn("elsewhere", f"{answer.worker} keeps kernels where this process does not find them{where}")
        return self.compile_here()

    def _is_here(self) -> bool:
        compilation = self.compilation
        digest = digest_of(compilation.source, make_backend(compilation.target), compilation.options)
        return load(digest, compilation.source.name) is not None

    def __reduce__(self) -> tuple[Any, ...]:
        """The data that arrive elsewhere; kernels are apart, so that one that cannot be read there breaks no worker."""
        self.is_sent = True
        compilation = self.compilation
        others = [value for value in compilation.source.constants.values() if isinstance(value, KeyedCallable)]
        functions = [compilation.function, *others]
        digest = digest_of(compilation.source, make_backend(compilation.target), compilation.options)
        return ArrivedTask, (pickled(functions), compilation.source.name, specialization_data(compilation), digest)


def pickled(value: Any) -> Any:
    """The value as bytes, so that what cannot be read breaks no worker; as it is where only the executor can pickle it.

    Executors such as Dask's and Ray's pickle more than Python does, functions of scripts for instance.
    """
    try:
        return pickle.dumps(value)
    except (pickle.PicklingError, AttributeError, TypeError):
        return value


def reported(work: Callable[[], tuple[str, str]]) -> Report:
    """The report on work that gives a status and why it is so; an error is a failure."""
    begin = perf_counter()
    try:
        status, why = work()
    except Exception as error:  # noqa: BLE001 - the process that waits does the work itself, and meets the same error
        status, why = FAILED, f"{type(error).__name__}: {error}"
    return Report(status, why, perf_counter() - begin, worker_name())


class ArrivedTask(NamedTuple):
    """A compilation in another process.

    Attributes:
        functions: the kernel, and those that it has as constants; pickled.
        symbol: the kernel's name in compiled code.
        data: the specialisation, as `compile_hooks.specialization_data` writes it.
        digest: of the cache key, as computed by the waiting process.
    """

    functions: Any
    symbol: str
    data: str
    digest: str

    def __call__(self) -> Report:
        return reported(self._outcome)

    def _outcome(self) -> tuple[str, str]:
        try:
            functions = pickle.loads(self.functions) if isinstance(self.functions, bytes) else self.functions
        except Exception as error:  # noqa: BLE001 - modules that are missing, another Python: whatever it is
            return REFUSED, f"the kernel cannot be read: {type(error).__name__}: {error}"
        function, *others = functions
        named = {f"{other.fn.__module__}:{other.fn.__qualname__}": other for other in others}
        made = restored(self.data, function, {**functions_by_name, **named})
        source = ASTSource.of(function, self.symbol, made.source.specs)
        backend = make_backend(made.target)
        if digest_of(source, backend, made.options) != self.digest:
            return REFUSED, "this worker would make another kernel: its CPU, Python, LLVM or sources are others"
        if load(self.digest, self.symbol) is not None:
            return FOUND, ""
        kernel = build(source, backend, made.options)
        return (COMPILED, "") if kernel.metadata_group else (UNKEPT, "the cache of this worker does not take entries")


class LocalProcesses(ProcessPoolExecutor):
    """Processes that are forked where that is possible, so that none imports the compiler again."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # other threads exist: a worker that waits for one of them is given up
            return super().submit(fn, *args, **kwargs)


def local_processes() -> LocalProcesses:
    """An executor of TILEWRIGHT_COMPILE_WORKERS processes, or of as many as CPUs that may be used."""
    context = get_context("fork" if can_fork() else "spawn")
    return LocalProcesses(knobs.tilewright.compile_workers or SYSTEM.usable_cpus(), mp_context=context)
