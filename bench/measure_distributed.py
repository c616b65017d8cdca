"""The numbers of work that processes share: warm starts, autotuning by workers, and the costs of scheduling.

    python bench/measure_distributed.py             # a few minutes; the quietest of several rounds counts

Times are CPU times where the work of one process is meant, so that neighbours on the machine do not count; how much
faster several workers are is told by the wall clock, beside what CPU times alone would allow.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from distributed_costs import measured, modelled

import tilewright as tw
from tilewright.support.system import SYSTEM

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

import matmul

F32 = matmul.tl.float32
KERNELS, WORKERS = 200, 4
PRODUCT = (*[np.float32] * 3, *[256] * 3, *(256, 1) * 3)
"""Arguments of a product of matrices, as types where they are arrays."""

KERNEL = """
@tw.jit
def k{i}(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n) * {i}, mask=at < n)
"""

WORKER = """
import json, os, sys, time
import numpy as np
import many_kernels
from tilewright import knobs

hits = []
knobs.compilation.listener = lambda *, cache_hit, **_: hits.append(cache_hit)
first, count = map(int, sys.argv[1:])
x, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
for number in range(first, first + count):
    getattr(many_kernels, f"k{number}")[(1,)](x, out, 64, BLOCK=64)
    assert out[1] == number
print(json.dumps([time.process_time(), all(hits) and len(hits) == count]))
"""


def started(folder: Path, first: int, count: int) -> subprocess.Popen[str]:
    """A worker that launches some of the kernels; it prints its CPU time, imports included."""
    environment = {**os.environ, "TRITON_CACHE_DIR": str(folder / "cache"), "TILEWRIGHT_NUM_THREADS": "1"}
    command = [sys.executable, "worker.py", str(first), str(count)]
    return subprocess.Popen(command, env=environment, cwd=folder, stdout=subprocess.PIPE, text=True)


def ended(worker: subprocess.Popen[str]) -> float:
    seconds, is_warm = json.loads(worker.communicate()[0])
    return float(seconds) if is_warm else float("inf")


def warm_starts(rounds: int) -> None:
    """200 kernels on 4 workers, from the cache that they share, beside 50 on one."""
    each = KERNELS // WORKERS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        head = "import tilewright as tw\nimport tilewright.language as tl\n"
        (folder / "many_kernels.py").write_text(head + "".join(KERNEL.format(i=i) for i in range(KERNELS)))
        (folder / "worker.py").write_text(WORKER)
        cold = [started(folder, first, KERNELS // 2) for first in (0, KERNELS // 2)]
        for worker in cold:
            worker.wait()
        one, four, walls = [], [], []
        for _ in range(rounds):
            one.append(ended(started(folder, 0, each)))
            begin = time.perf_counter()
            crowd = [started(folder, number * each, each) for number in range(WORKERS)]
            four.append(max(map(ended, crowd)))
            walls.append(time.perf_counter() - begin)
    ratio = min(four) / min(one)
    print(f"warm start of {each} kernels on one worker: {min(one):.3f} s of CPU time")
    print(f"of {KERNELS} kernels on {WORKERS} workers, the slowest of them: {min(four):.3f} s; ratio {ratio:.2f}")
    print(f"    by the wall clock, on {SYSTEM.usable_cpus()} CPUs: {min(walls):.3f} s")


def tune_by(pool: Any) -> float:
    """Seconds of the first launch of an autotuned product with 24 configurations, nothing compiled."""
    tiles = product((16, 32, 64, 128), (32, 64, 128), (32, 64))
    configs = [tw.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP": 8}) for m, n, k in tiles]
    matmul.matmul_kernel.hash = None
    kernel = tw.autotune(configs, key=["M", "N", "K"])(matmul.matmul_kernel)
    a, b, c = (np.ones((256, 256), np.float32) for _ in range(3))

    def grid(meta: dict[str, int]) -> tuple[int]:
        return (tw.cdiv(256, meta["BLOCK_M"]) * tw.cdiv(256, meta["BLOCK_N"]),)

    begin = time.perf_counter()
    with tw.AsyncCompileMode(pool):
        kernel[grid](a, b, c, 256, 256, 256, *(256, 1) * 3, ACCUMULATOR=F32)
    return time.perf_counter() - begin


def prepare(cache: str) -> None:
    """Import what compiles, by compiling something, and keep what comes in the folder."""
    with tempfile.TemporaryDirectory() as other, tw.knobs.cache.scope():
        tw.knobs.cache.dir = other
        first_kernel.warmup(np.float32, grid=(1,))
    tw.knobs.cache.dir = cache


@tw.jit
def first_kernel(out):
    tw.language.store(out, tw.language.sum(tw.language.arange(0, 16)))


def cpu_seconds(pool: ProcessPoolExecutor) -> float:
    """CPU time of all workers so far."""
    stats = [Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split() for process in pool._processes]
    return sum(int(fields[11]) + int(fields[12]) for fields in stats) / os.sysconf("SC_CLK_TCK")


def in_turn(workers: int) -> tuple[float, float, float]:
    """The wall time of tuning by so many workers that are up; CPU time of this process, and of all workers."""
    context = get_context("spawn")
    with tempfile.TemporaryDirectory() as cache, tw.knobs.cache.scope():
        tw.knobs.cache.dir = cache
        with ProcessPoolExecutor(workers, mp_context=context, initializer=prepare, initargs=(cache,)) as pool:
            for ready in [pool.submit(time.sleep, 0.5) for _ in range(workers)]:
                ready.result()
            before, begin = cpu_seconds(pool), time.process_time()
            wall = tune_by(pool)
            return wall, time.process_time() - begin, cpu_seconds(pool) - before


def compiled_for(seconds: float) -> int:
    """How many products this process compiles meanwhile, one after the other, and keeps in no cache."""
    done, end = 0, time.perf_counter() + seconds
    with tw.knobs.compilation.scope():
        tw.knobs.compilation.always_compile = True
        while time.perf_counter() < end:
            matmul.matmul_kernel.device_caches.clear()
            matmul.matmul_kernel.warmup(
                *PRODUCT, BLOCK_M=32, BLOCK_N=32, BLOCK_K=32, GROUP=8, ACCUMULATOR=F32, grid=(1,)
            )
            done += 1
    return done


def machines_own() -> float:
    """How many times as much all CPUs compile as one: below their number where they share caches, clock or host."""
    cpus = SYSTEM.usable_cpus()
    with tempfile.TemporaryDirectory() as cache:
        context = get_context("spawn")
        with ProcessPoolExecutor(cpus, mp_context=context, initializer=prepare, initargs=(cache,)) as pool:
            for ready in [pool.submit(time.sleep, 0.5) for _ in range(cpus)]:
                ready.result()
            alone = pool.submit(compiled_for, 1.0).result()
            together = [pool.submit(compiled_for, 1.0) for _ in range(cpus)]
            return sum(count.result() for count in together) / alone


def tuning(rounds: int) -> None:
    """24 configurations on 4 workers beside one, in turns."""
    found: dict[int, list[tuple[float, float, float]]] = {1: [], WORKERS: []}
    limits = []
    for _ in range(rounds):
        limits.append(machines_own())
        for workers, times in found.items():
            times.append(in_turn(workers))
    one, four = (min(times) for times in found.values())
    pairs = sorted(a[0] / b[0] for a, b in zip(*found.values(), strict=True))
    walls = f"{one[0]:.2f} s with 1 worker, {four[0]:.2f} s with {WORKERS}"
    print(f"autotuning 24 configurations, by the wall clock: {walls}")
    print(f"    on {SYSTEM.usable_cpus()} CPUs: {one[0] / four[0]:.2f} times as fast")
    print(f"    round by round: {pairs[0]:.2f} to {pairs[-1]:.2f}")
    print(f"    these CPUs compile {max(limits):.2f} times as much as one ({min(limits):.2f} in the worst round)")
    shares = {}
    for workers, times in found.items():
        here, there = min(t[1] for t in times), min(t[2] for t in times)
        shares[workers] = here + there / min(workers, SYSTEM.usable_cpus())
        print(f"    CPU time with {workers}: {here:.2f} s here, {there:.2f} s in the workers")
    print(f"    so with nothing else to do: {shares[1] / shares[WORKERS]:.2f} times as fast")


def costs(_: int) -> None:
    """Messages and bytes, and what they make for 1,000 workers."""
    found = measured()
    for name, value in found._asdict().items():
        print(f"{name}: {value:.5f}" if isinstance(value, float) else f"{name}: {value}")
    for workers in (4, 100, 1000):
        print(f"{workers} workers, 200 kernels: {modelled(found, workers, 200)}")


PARTS: dict[str, Callable[[int], None]] = {"warm": warm_starts, "tuning": tuning, "costs": costs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=PARTS, help="one part")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    for name, part in PARTS.items():
        if arguments.only in (None, name):
            part(arguments.rounds)


if __name__ == "__main__":
    main()
