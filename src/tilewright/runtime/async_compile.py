"""Compiling in the background: inside `AsyncCompileMode`, compilations go to an executor.

    with ThreadPoolExecutor() as pool, AsyncCompileMode(pool):
        for block in (64, 128, 256):
            kernel.warmup(x, BLOCK=block, grid=(1,))     # returns at once, with a FutureKernel
        kernel[(1,)](x, BLOCK=64)                        # waits for this one

On leaving, all compilations have ended; the first error is raised. An error of the block itself is raised at once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:  # a tenth of the time that importing this package takes
    from concurrent.futures import Executor, Future

active_mode: ContextVar[AsyncCompileMode | None] = ContextVar("active_mode", default=None)


class FutureKernel:
    """A kernel that is being compiled; asking for anything of it waits for the kernel.

    Args:
        finalize_compile: called once with the kernel, in the thread that waits for it first.
        future: gives the kernel.
    """

    def __init__(self, finalize_compile: Callable[[Any], None], future: Future[Any]) -> None:
        self.finalize_compile = finalize_compile
        self.future = future
        self.kernel: Any = None

    def result(self, ignore_errors: bool = False) -> Any:
        """The kernel; with `ignore_errors`, None where it cannot be compiled."""
        if self.kernel is None:
            if ignore_errors and self.future.exception() is not None:
                return None
            kernel = self.future.result()
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
        executor: of `concurrent.futures`.
        ignore_errors: kernels that cannot be compiled raise nothing on leaving.

    Raises:
        RuntimeError: on entering, when another mode is active.
    """

    def __init__(self, executor: Executor, *, ignore_errors: bool = False) -> None:
        self.executor = executor
        self.ignore_errors = ignore_errors
        self.future_kernels: dict[Hashable, FutureKernel] = {}

    def submit(self, key: Hashable, compile_fn: Callable[[], Any], finalize_fn: Callable[[Any], None]) -> FutureKernel:
        """The kernel of this key, which `compile_fn` makes unless it was submitted before."""
        found = self.future_kernels.get(key)
        if found is None:
            found = self.future_kernels[key] = FutureKernel(finalize_fn, self.executor.submit(compile_fn))
        return found

    def __enter__(self) -> Self:
        if active_mode.get() is not None:
            raise RuntimeError("an AsyncCompileMode is active already")
        active_mode.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        active_mode.set(None)
        if error is not None:  # it is raised at once, also where the executor never runs what was submitted
            return
        failures = []
        for kernel in tuple(self.future_kernels.values()):
            try:
                kernel.result(self.ignore_errors)
            except Exception as failure:  # noqa: BLE001 - the others are awaited before the first is raised
                failures.append(failure)
        if failures:
            raise failures[0]
