"""Background compilation: inside `AsyncCompileMode`, compilations go to an executor of any kind.

    with AsyncCompileMode():                             # processes of this machine; or ThreadPoolExecutor(),
        for block in (64, 128, 256):                     # a Dask client's get_executor(), MPIPoolExecutor() …
            kernel.warmup(x, BLOCK=block, grid=(1,))     # returns at once, with a FutureKernel
        kernel[(1,)](x, BLOCK=64)                        # waits for this one

When the block ends, all compilations are waited for; the first error is raised. An error of the block itself is raised
at once.

Other processes compile into the cache, where this one finds the kernel (`compile_task.py`). They are an optimisation
only: kernels that they do not finish, refuse, or cannot store where this process looks are compiled here, with one
warning that gives the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from tilewright.runtime import lazy_imports

if TYPE_CHECKING:  # a tenth of the time that importing this package takes
    from concurrent.futures import Executor, Future

active_mode: ContextVar[AsyncCompileMode | None] = ContextVar("active_mode", default=None)


class FutureKernel:
    """A kernel that is being compiled; asking for anything of it waits for the kernel.

    Args:
        finalize_compile: called once with the kernel, in the thread that waits for it first.
        future: of the kernel, or of what another process says.
        awaited: gives the kernel for the future; without it, the future's result is the kernel.
    """

    def __init__(
        self,
        finalize_compile: Callable[[Any], None],
        future: Future[Any],
        awaited: Callable[[Future[Any]], Any] | None = None,
    ) -> None:
        self.finalize_compile = finalize_compile
        self.future = future
        self.kernel: Any = None
        self._awaited = awaited

    def result(self, ignore_errors: bool = False) -> Any:
        """The kernel; with `ignore_errors`, None if it cannot be compiled."""
        if self.kernel is None:
            try:
                kernel = self._awaited(self.future) if self._awaited else self.future.result()
            except Exception:
                if ignore_errors:
                    return None
                raise
            self.finalize_compile(kernel)
            self.kernel = kernel
        return self.kernel

    def __getattr__(self, name: str) -> Any:
        return getattr(self.result(), name)

    def __getitem__(self, grid: Any) -> Any:
        return self.result()[grid]


class AsyncCompileMode:
    """A context, entered by `with`, in which kernels are compiled by `executor`.

    Args:
        executor: its threads or processes compile; without it processes of this machine do, until the block is left.
        ignore_errors: kernels that cannot be compiled raise nothing on leaving.

    Raises:
        RuntimeError: on entering, when another mode is active.
    """

    def __init__(self, executor: Executor | None = None, *, ignore_errors: bool = False) -> None:
        self._is_own = executor is None
        self.executor: Any = executor
        self.ignore_errors = ignore_errors
        self.future_kernels: dict[Hashable, FutureKernel] = {}

    def submit(self, key: Hashable, compile_fn: Callable[[], Any], finalize_fn: Callable[[Any], None]) -> FutureKernel:
        """The kernel of this key, which `compile_fn` makes unless it was submitted before."""
        found = self.future_kernels.get(key)
        if found is None:
            future, awaited = lazy_imports.submit(self.executor, compile_fn), getattr(compile_fn, "awaited", None)
            found = self.future_kernels[key] = FutureKernel(finalize_fn, future, awaited)
        return found

    def __enter__(self) -> Self:
        if active_mode.get() is not None:
            raise RuntimeError("an AsyncCompileMode is active already")
        if self._is_own:
            self.executor = lazy_imports.local_processes()
        active_mode.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        active_mode.set(None)
        try:
            if error is None:  # an error is raised at once, also where the executor never runs what was submitted
                self._wait()
        finally:
            if self._is_own:
                self.executor.shutdown(wait=error is None, cancel_futures=True)

    def _wait(self) -> None:
        failures = []
        kernels = tuple(self.future_kernels.values())
        with lazy_imports.progress("compiling kernels", len(kernels)) as progress:
            for number, kernel in enumerate(kernels):
                progress.at(number)
                try:
                    kernel.result(self.ignore_errors)
                except Exception as failure:  # noqa: BLE001 - the others are awaited before the first is raised
                    failures.append(failure)
        if failures:
            raise failures[0]
