"""The compiled kernels of a `@jit` function, in Triton's form; clearing a cache also clears the native launcher's.

kernels, keys, target, backend, binder = function.device_caches[0]
kernels.clear()                          # the next launch compiles, or loads from disk
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any


class KernelCache(dict[str, Any]):
    """Compiled kernels by key; `forget` is called when one is taken out or replaced."""

    def __init__(self, forget: Callable[[], None]) -> None:
        super().__init__()
        self._forget = forget

    def __setitem__(self, key: str, kernel: Any) -> None:
        if key in self:
            self._forget()
        super().__setitem__(key, kernel)

    def __delitem__(self, key: str) -> None:
        super().__delitem__(key)
        self._forget()

    def clear(self) -> None:
        """Forget all kernels."""
        super().clear()
        self._forget()

    def pop(self, key: str, *default: Any) -> Any:
        """Take a kernel out."""
        self._forget()
        return super().pop(key, *default)

    def popitem(self) -> tuple[str, Any]:
        """Take the latest kernel out."""
        self._forget()
        return super().popitem()


class DeviceCaches(dict[Hashable, tuple[Any, ...]]):
    """The caches of each device. There is one, the CPU; `0`, `"cpu"` and `"cpu:0"` are names of it.

    Args:
        entry: makes (kernels, keys, target, backend, binder) on demand.
        clear: empties the kernels.
    """

    def __init__(self, entry: Callable[[], tuple[Any, ...]], clear: Callable[[], None]) -> None:
        super().__init__()
        self._entry, self._clear = entry, clear

    def __getitem__(self, device: Hashable) -> tuple[Any, ...]:
        if not self:
            super().__setitem__(0, self._entry())
        return super().__getitem__(0)

    def __contains__(self, device: object) -> bool:
        return super().__contains__(0)

    def clear(self) -> None:
        """Forget all kernels."""
        super().clear()
        self._clear()

    def pop(self, device: Hashable, *default: Any) -> Any:
        """Forget the kernels of a device; returns its caches, which are no longer used."""
        found = super().pop(0, *default)
        self._clear()
        return found
