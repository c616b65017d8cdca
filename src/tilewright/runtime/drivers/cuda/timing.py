"""The duration of work on a GPU, by events in its current stream.

    milliseconds(gpu, lambda: add[grid](x, y, out, n, BLOCK=1024), 100)     # a list of 100 times

What a function does on the CPU counts, too, where the GPU waits for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.runtime.drivers.cuda import streams
from tilewright.runtime.drivers.cuda.gpu import Block, Gpu
from tilewright.runtime.drivers.cuda.streams import Event

CACHE_BYTES = 256 << 20
"""Bytes to write so that nothing else is left in the second-level cache."""


def milliseconds(gpu: Gpu, fn: Callable[[], Any], count: int, before: Callable[[], None] | None = None) -> list[float]:
    """The times of `count` runs, each with nothing of its arrays in the GPU's caches.

    Args:
        gpu: where the work runs.
        fn: what to measure.
        count: the number of runs.
        before: called before each run, and not measured.
    """
    cache = Block(gpu, CACHE_BYTES)
    events = []
    for _ in range(count):
        if before is not None:
            before()
        with gpu.current() as driver:
            driver.call("cuMemsetD8Async", cache.address, 0, CACHE_BYTES, streams.current(gpu.ordinal))
        start, end = Event(gpu), Event(gpu)
        start.record()
        fn()
        end.record()
        events.append((start, end))
    with gpu.current() as driver:
        driver.call("cuCtxSynchronize")
    return [end.milliseconds_since(start) for start, end in events]
