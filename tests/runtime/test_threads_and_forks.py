"""Many threads that compile and launch, and processes that fork while they do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from fresh_caches import cache_without_kernels
from long_runs import LONG
from tilewright import knobs

THREADS = 32
FACTOR = tl.constexpr(2)


def scale_source(x, out, n, ADDED: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + offsets, FACTOR * tl.load(x + offsets, mask=offsets < n) + ADDED, mask=offsets < n)


def check(kernel: Any, added: int, *, n: int = 300, **options: Any) -> Any:
    """One launch, and whether its result is right."""
    x, out = np.arange(n, dtype=np.float32), np.full(n, -1, np.float32)
    compiled = kernel[(tw.cdiv(n, 64),)](x, out, n, ADDED=added, BLOCK=64, **options)
    assert np.array_equal(out, 2 * x + added)
    return compiled


def in_threads(work: Callable[[int], None]) -> None:
    """Runs `work(0)` … at the same time; raises what one of them raised."""
    errors: list[BaseException] = []
    barrier = threading.Barrier(THREADS)

    def body(number: int) -> None:
        try:
            barrier.wait(60)
            work(number)
        except BaseException as error:  # noqa: BLE001 - reported by the main thread
            errors.append(error)

    threads = [threading.Thread(target=body, args=(number,), daemon=True) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    if errors:
        raise errors[0]


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The digests of what the compiler is asked for."""
    found: list[str] = []
    late = sys.modules["tilewright.runtime.lazy_imports"]
    compile_kernel = late.compile_kernel

    def counted(*args: Any, **request: Any) -> Any:
        found.append(request["digest"])
        return compile_kernel(*args, **request)

    monkeypatch.setattr(late, "compile_kernel", counted)
    return found


@pytest.fixture
def fresh_cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))


@pytest.mark.usefixtures("fresh_cache")
def test_threads_launch_one_kernel_that_compiles_once(compiled: list[str]) -> None:
    kernel, results = tw.jit(scale_source), []
    in_threads(lambda number: results.extend(check(kernel, 1) for _ in range(20)))
    assert len(compiled) == len(set(results)) == 1


@pytest.mark.usefixtures("fresh_cache")
def test_threads_launch_the_same_and_other_specialisations(compiled: list[str]) -> None:
    kernels = [tw.jit(scale_source) for _ in range(2)]

    def work(number: int) -> None:
        for step in range(12):
            check(kernels[number % 2], (number + step) % 3, n=300 + 4 * (step % 2))

    in_threads(work)
    assert len(set(compiled)) == 6


def test_threads_launch_while_hooks_come_and_go() -> None:
    kernel, seen = tw.jit(scale_source), []
    check(kernel, 0)

    def work(number: int) -> None:
        def hook(metadata: Any) -> None:
            seen.append(metadata.get()["name"])

        for step in range(20):
            if number % 8 == 0:
                knobs.runtime.launch_enter_hook.add(hook)
            if number == 1 and step % 5 == 0:
                kernel.device_caches[0][0].clear()
            check(kernel, step % 2)
            knobs.runtime.launch_enter_hook.remove(hook)

    in_threads(work)
    assert set(seen) == {"scale_source"}
    assert knobs.runtime.launch_enter_hook.calls == []
    check(kernel, 0)


def test_a_hook_that_raises_in_one_thread_leaves_the_others_alone() -> None:
    kernel = tw.jit(scale_source)
    victim: list[int] = []

    def hook(metadata: Any) -> None:
        if threading.get_ident() in victim:
            raise ArithmeticError("not you")

    def work(number: int) -> None:
        if number == 0:
            victim.append(threading.get_ident())
            for _ in range(20):
                with pytest.raises(ArithmeticError, match="not you"):
                    check(kernel, 0)
        else:
            for _ in range(20):
                check(kernel, 0)

    knobs.runtime.launch_enter_hook.add(hook)
    try:
        in_threads(work)
    finally:
        knobs.runtime.launch_enter_hook.remove(hook)


def in_child(work: Callable[[], None]) -> int:
    """The exit status of a forked child that does `work`; it is killed if it hangs."""
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        try:
            work()
        except BaseException:  # noqa: BLE001 - the parent must not run twice
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def work_for_the_pool(kernel: Any, added: int) -> None:
    for _ in range(20):
        check(kernel, added, n=300_000, num_threads=2)


def test_a_forked_child_launches_natively_compiles_and_uses_the_pool() -> None:
    kernel = tw.jit(scale_source)
    work_for_the_pool(kernel, 1)
    bound = kernel[(5,)]

    def work() -> None:
        work_for_the_pool(kernel, 1)
        x, out = np.arange(300, dtype=np.float32), np.zeros(300, np.float32)
        bound(x, out, 300, ADDED=1, BLOCK=64)
        assert np.array_equal(out, 2 * x + 1)
        work_for_the_pool(kernel, 7)  # another constant: compiled here
        work_for_the_pool(tw.jit(scale_source), 1)

    assert in_child(work) == 0
    work_for_the_pool(kernel, 1)


def test_a_fork_of_a_fork() -> None:
    kernel = tw.jit(scale_source)
    work_for_the_pool(kernel, 3)

    def work() -> None:
        work_for_the_pool(kernel, 3)
        assert in_child(lambda: work_for_the_pool(kernel, 4)) == 0

    assert in_child(work) == 0


@pytest.mark.slow
def test_forks_while_other_threads_compile_and_launch() -> None:
    kernel = tw.jit(scale_source)
    check(kernel, 0)
    is_over, failures = threading.Event(), []

    def busy(number: int) -> None:
        added = 0
        while not is_over.is_set():
            added += 1
            try:
                check(kernel, 1000 * number + added, num_threads=2)
            except BaseException as error:  # noqa: BLE001 - reported by the main thread
                failures.append(error)
                return

    threads = [threading.Thread(target=busy, args=(number,), daemon=True) for number in (1, 2)]
    for thread in threads:
        thread.start()
    try:
        statuses = [in_child(lambda: work_for_the_pool(kernel, 0)) for _ in range(6)]
    finally:
        is_over.set()
        for thread in threads:
            thread.join(60)
    assert statuses == [0] * 6
    assert not failures


def test_a_child_that_is_forked_while_a_key_is_computed() -> None:
    """The locks that another thread holds, and what it had half done, do not exist in the child."""
    kernel = tw.jit(scale_source)
    hashing = sys.modules["tilewright.runtime.dependencies"].hashing
    held, let_go = threading.Event(), threading.Event()

    def hold() -> None:
        with hashing, kernel._compiling:
            held.set()
            let_go.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(60)
    try:
        assert in_child(lambda: check(kernel, 5)) == 0
    finally:
        let_go.set()
        thread.join()
    check(kernel, 5)


@pytest.mark.spared
@pytest.mark.parametrize("count", [8, pytest.param(200, marks=LONG)])
def test_forks_while_another_thread_compiles_for_the_first_time(count: int, tmp_path: Path) -> None:
    """The child must not wait for a module that a thread which it does not have was importing."""
    program = Path(__file__).with_name("first_compilations.py")
    environment = {**os.environ, "TRITON_CACHE_DIR": str(cache_without_kernels(tmp_path / "cache"))}
    command = [sys.executable, str(program), str(count)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=3000)
    assert (result.stdout, result.stderr) == ("[]", "")
