"""Kernels that clients and workers import; workers find this folder on their path."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import tilewright as tw
import tilewright.language as tl
from tilewright import knobs


@tw.jit
def store(out, N: tl.constexpr):
    tl.store(out, N)


@tw.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)


@tw.vectorize
def weighted(a, b):
    return a * 2 + b


@tw.autotune([tw.Config({"BLOCK": block}) for block in (16, 64, 256)], key=["n"])
@tw.jit
def scale(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)


def grid(meta: Any) -> tuple[int]:
    return (tw.cdiv(meta["n"], meta["BLOCK"]),)


def die() -> None:
    """End this process as a crash does."""
    os.kill(os.getpid(), signal.SIGKILL)


def become_another_cpu() -> None:
    """Make this process one of a machine that has fewer instructions."""
    from tilewright.backends import registry
    from tilewright.backends.llvm import machine

    name = "x86-64-v2" if os.uname().machine == "x86_64" else "cortex-a72"
    machine._detected_host = lambda: machine.host_target(name)
    registry.make_backend.cache_clear()


def count_compilations(folder: str) -> None:
    """Let this process note in a file of its own how often it compiles."""
    file = Path(folder) / f"compiled-{os.getpid()}"
    file.touch()

    def note(*, cache_hit: bool, **_: Any) -> None:
        if not cache_hit:
            with file.open("a") as lines:
                lines.write("1\n")

    knobs.compilation.listener = note


def keep_in(folder: str) -> None:
    """Let this process keep what it compiles in another folder than the others."""
    knobs.cache.dir = folder


def use_redis(port: int, folder: str, key: str) -> None:
    """Keep what is compiled in Redis, signed with the key, and in a folder of this process."""
    from tilewright.runtime.cache import redis, remote
    from tilewright.runtime.cache.redis import RedisRemoteCacheBackend
    from tilewright.runtime.cache.remote import RemoteCacheManager

    remote.SLOW = remote.PATIENCE = redis.DEADLINE = 60.0  # the machine of a test may be busy
    knobs.cache.dir = f"{folder}-{os.getpid()}"
    knobs.redis.key_format = f"{folder.rpartition('-')[0]}:{{key}}:{{filename}}"
    knobs.cache.manager_class, knobs.cache.remote_manager_class = RemoteCacheManager, RedisRemoteCacheBackend
    knobs.redis.host, knobs.redis.port = "127.0.0.1", port
    knobs.tilewright.cache_key = key


def under(setup: Any, task: Any) -> Any:
    """Run a task in a process to which `setup` was done."""
    setup()
    return task()


def slowly(block: Any) -> Any:
    """A block that takes its time, so that something can happen to its worker."""
    time.sleep(0.2)
    return block
