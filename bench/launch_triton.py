"""The cost of Triton's `kernel[grid](…)` with a driver that does nothing; `launch.py` runs this where Triton is.

Prints nanoseconds per launch of one thread: with 4 arguments, and with 19.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.runtime import driver


class Array:
    """Just enough of a tensor."""

    dtype = "float32"
    shape = (1000,)

    def data_ptr(self) -> int:
        return 4096

    def stride(self, *_: int) -> tuple[int, ...]:
        return (1,)


class Utils:
    """Loads nothing."""

    def load_binary(self, *_: Any) -> tuple[int, ...]:
        return 1, 1, 32, 0, 1024

    def unload_module(self, *_: Any) -> None: ...

    def get_device_properties(self, device: int) -> dict[str, int]:
        return {"max_shared_mem": 1 << 20, "multiprocessor_count": 1, "warpSize": 32}


class Driver:
    """A GPU that is not there."""

    utils = Utils()

    def launcher_cls(self, *_: Any) -> Callable[..., None]:
        return lambda *_: None

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 80, 32)


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out + offsets, tl.load(x + offsets, mask=mask) + tl.load(y + offsets, mask=mask), mask=mask)


@triton.jit
def wide(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s):  # noqa: E741 - 19 names
    tl.store(a, g)


def nanoseconds(launch: Callable[[], Any], count: int = 2000) -> float:
    costs = []
    for _ in range(20):
        begin = time.thread_time()
        for _ in range(count):
            launch()
        costs.append((time.thread_time() - begin) / count * 1e9)
    return min(costs)


def main() -> None:
    driver.set_active(Driver())
    gc.disable()
    x, y, out = Array(), Array(), Array()
    few = nanoseconds(lambda: add[(1,)](x, y, out, 1000, BLOCK=1024))
    many = nanoseconds(lambda: wide[(1,)](x, y, out, x, y, out, *range(3, 16)))
    print(few, many)


if __name__ == "__main__":
    main()
