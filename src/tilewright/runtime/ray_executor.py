"""Ray as an executor: the only module that imports Ray.

    ray.init(address="auto")
    with RayExecutor(num_cpus=1) as pool, AsyncCompileMode(pool):
        …
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any


class RayExecutor(Executor):
    """Tasks of Ray behind the interface of `concurrent.futures`; Ray repeats those whose worker dies.

    Args:
        options: of the tasks, as `ray.remote` has them: `num_cpus`, `resources`, `max_retries`, `runtime_env` …

    Raises:
        ImportError: Ray is not installed.
        RuntimeError: `ray.init` was not called.
    """

    def __init__(self, **options: Any) -> None:
        try:
            import ray
        except ImportError as error:
            raise ImportError(f"RayExecutor needs Ray: pip install 'tilewright[ray]' ({error})") from error
        self._ray: Any = ray
        if not ray.is_initialized():
            raise RuntimeError("call ray.init() first: RayExecutor uses the cluster that this process belongs to")
        remote = ray.remote(**options) if options else ray.remote
        self._run = remote(_called)
        self._references: list[Any] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """The future of `fn(*args, **kwargs)`, which a worker of the cluster computes."""
        reference = self._run.remote(fn, args, kwargs)
        self._references.append(reference)
        future: Future[Any] = reference.future()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait for what was submitted, or cancel it; the cluster goes on."""
        if cancel_futures:
            for reference in self._references:
                self._ray.cancel(reference, force=False)
        elif wait and self._references and self._ray.is_initialized():
            self._ray.wait(self._references, num_returns=len(self._references))
        self._references = []


def _called(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return fn(*args, **kwargs)
