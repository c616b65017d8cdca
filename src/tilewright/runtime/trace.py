"""A trace of compilations and launches for chrome://tracing or Perfetto: `TILEWRIGHT_TRACE=file.json`.

    [
    {"name": "add", "cat": "launch", "ph": "X", "ts": 81.2, "dur": 12.5, "pid": 7, "tid": 7, "args": {"flops": 4096}}
    ]

Times are microseconds of a clock that all processes share. Each event is on disk, and the file is complete, before the
launch returns: it can be read after a crash, and several processes can append to one file. An existing file is
continued.
"""

from __future__ import annotations

import json
import os
from _thread import get_native_id
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter_ns
from typing import Any

from tilewright.support import knobs
from tilewright.support.knobs import CompileTimes
from tilewright.support.system import SYSTEM

_OPENING, _CLOSING = b"[\n", b"\n]\n"


def is_on() -> bool:
    """Whether there is a file to trace into."""
    return knobs.tilewright.trace is not None


@contextmanager
def launch(kernel: Any, facts_of: Callable[[], dict[str, Any]]) -> Iterator[None]:
    """Record what is inside the `with` as a launch of `kernel` with these facts, unless it raises."""
    begin = perf_counter_ns()
    yield
    if is_on():
        end = perf_counter_ns()
        facts = {name: value for name, value in facts_of().items() if isinstance(value, int | float | str)}
        name = str(facts.pop("name", kernel.name))
        add(name, "launch", begin, end, {**facts, "kernel": kernel.name, "hash": kernel.hash})


def compilation(kernel: Any, begin: float, times: CompileTimes, *, cache_hit: bool) -> None:
    """Record a compilation and, inside it, its stages.

    Args:
        begin: when it began, by `perf_counter`.
        cache_hit: it was loaded from the cache.
    """
    start = int(1e9 * begin)
    facts = {"kernel": kernel.name, "hash": kernel.hash, "cache_hit": cache_hit}
    add(f"load {kernel.name}" if cache_hit else kernel.name, "compile", start, start + 1000 * times.total, facts)
    if cache_hit:
        return
    steps = [("front end", times.ir_initialization), *times.lowering_stages, ("link and store", times.store_results)]
    for name, microseconds in steps:
        add(name, "stage", start, start + 1000 * microseconds, {"kernel": kernel.name})
        start += 1000 * microseconds


def add(name: str, category: str, begin: int, end: int, args: dict[str, Any]) -> None:
    """Append an event; times are nanoseconds. A file that cannot be written is no reason to fail.

    Args:
        name: the name of the event.
        category: a word that viewers can filter by.
        begin, end: nanoseconds.
        args: further facts for the viewer.
    """
    event = {
        "name": name,
        "cat": category,
        "ph": "X",
        "ts": begin / 1000,
        "dur": (end - begin) / 1000,
        "pid": os.getpid(),
        "tid": get_native_id(),
        "args": args,
    }
    path = knobs.tilewright.trace
    if path is not None:
        try:
            _append(path, json.dumps(event).encode())
        except OSError:
            return


def _append(path: str, event: bytes) -> None:
    """Write the event and the closing bracket over the closing bracket, in one go."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | SYSTEM.binary, 0o644)
    try:
        SYSTEM.lock(descriptor)
        end = _end_of_events(descriptor)
        SYSTEM.write_at(descriptor, (b",\n" if end else _OPENING) + event + _CLOSING, end)
    finally:
        os.close(descriptor)


def _end_of_events(descriptor: int) -> int:
    """The offset of the end of the last whole event, in bytes; 0 where there is none."""
    size = os.fstat(descriptor).st_size
    tail = SYSTEM.read_at(descriptor, len(_CLOSING), max(0, size - len(_CLOSING)))
    if tail == _CLOSING:
        return size - len(_CLOSING)
    content = SYSTEM.read_at(descriptor, size, 0)  # something interrupted a write: events are lines
    end = len(content[: content.rfind(b"\n") + 1].rstrip(b",\n[ "))
    os.ftruncate(descriptor, end)
    return end
