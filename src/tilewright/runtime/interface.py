"""The interface of everything launchable: `kernel[grid](*args)`, `kernel.run(*args, grid=…)`, `kernel.warmup(…)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.runtime.array_shims import MockTensor
from tilewright.runtime.tracebacks import shortened
from tilewright.support.diagnostics import CompilationError


class KernelInterface:
    """Base of kernels and of what wraps them; subclasses implement `run`."""

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        """A function that launches on `grid`: one to three extents, or a function of the arguments by name."""
        return lambda *args, **kwargs: self.run(*args, grid=grid, warmup=False, **kwargs)

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        """Launch; with `warmup` only compile."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it runs")

    def warmup(self, *args: Any, grid: Any, **kwargs: Any) -> Any:
        """Compile without launching; a dtype stands for an array: `kernel.warmup(torch.float32, 8, grid=(1,))`."""
        arrays = {name: MockTensor.wrap_dtype(value) for name, value in kwargs.items()}
        try:
            return self.run(*map(MockTensor.wrap_dtype, args), grid=grid, warmup=True, **arrays)
        except CompilationError as error:
            raise shortened(error) from error.__cause__
