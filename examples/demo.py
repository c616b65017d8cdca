"""A tour: what kernels become, that they are right, and what they cost next to NumPy. `make demo`

The first call compiles. The other times are the best of several runs on one thread, in CPU time, so that other programs
do not count. Where NumPy is as fast, the row says what the machine allows: how long the bytes take at the bandwidth,
and the operations at the rate of multiply-adds, that are measured here.
"""

from __future__ import annotations

import os

os.environ["TILEWRIGHT_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"
os.environ["TRITON_ALWAYS_COMPILE"] = "1"

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "bench"))

import numpy as np
from arrays import empty_like, largest_error, strides
from conv2d import conv2d
from conv2d import reference as conv2d_reference
from dropout import dropout
from flash_attention import attention
from flash_attention import reference as attention_reference
from fma_peak import Peak
from histogram import histogram
from layer_norm import layer_norm, layer_norm_backward
from layer_norm import reference as layer_norm_reference
from layer_norm import reference_backward as layer_norm_reference_backward
from matmul import matmul
from prefix_sum import prefix_sum
from softmax import reference as softmax_reference
from softmax import softmax
from vector_add import add, add_kernel

import tilewright as tw
import tilewright.language as tl

RNG = np.random.default_rng(0)


@dataclass(frozen=True)
class Case:
    """One line of the comparison: two functions that do the same work.

    Attributes:
        megabytes, operations: what has to be moved between memory and processor, and computed (in millions), at least.
        kind: of the operations, as `bench/fma_peak.py` names them.
        is_random: they draw different numbers, so that only their times compare.
    """

    name: str
    ours: Callable[[], Any]
    numpy: Callable[[], Any]
    megabytes: float
    operations: float
    tolerance: float = 1e-4
    kind: str = "fp32"
    is_random: bool = False


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def cases() -> list[Case]:
    x, y = normal(2, 1_000_003)
    rows, weight, bias = normal(1023, 1000), *normal(2, 1000)
    a, b = normal(500, 700), normal(700, 600)
    small = RNG.integers(-100, 100, (2, 384, 384)).astype(np.int8)
    q, k, v = normal(3, 4, 500, 64)
    images, filters = normal(4, 16, 40, 50), normal(32, 16, 3, 3)
    values = RNG.integers(0, 256, 1_000_003, np.int32)
    _, mean, scale = layer_norm(rows, weight, bias)
    gradient = normal(1023, 1000)
    batched = normal(20, 100, 80), normal(20, 80, 90)
    return [
        Case("vector add, 1 000 003", partial(add, x, y), lambda: x + y, 12, 1),
        Case("softmax, 1023×1000", partial(softmax, rows), partial(softmax_reference, rows), 8.2, 5),
        Case("matmul fp32, 500×700×600", partial(matmul, a, b, tile=(128, 64, 64)), lambda: a @ b, 4.3, 420, 1e-3),
        Case("matmul int8, 384³", partial(matmul, *small),
             lambda: np.matmul(*small, dtype=np.int32), 0.9, 113, 0, "int8"),
        Case("batched matmul, 20 of 100×80×90", partial(one_by_one, *batched), lambda: np.matmul(*batched), 1.9, 28.8),
        Case("layer norm, 1023×1000", lambda: layer_norm(rows, weight, bias)[0],
             partial(layer_norm_reference, rows, weight, bias), 8.2, 8),
        Case("its gradients", lambda: layer_norm_backward(rows, gradient, weight, mean, scale)[0],
             lambda: layer_norm_reference_backward(rows, gradient, weight)[0], 12.3, 16),
        Case("attention, 4 heads of 500×64", partial(attention, q, k, v),
             partial(attention_reference, q, k, v), 2, 256),
        Case("causal attention", partial(attention, q, k, v, is_causal=True),
             partial(attention_reference, q, k, v, is_causal=True), 2, 128),
        Case("conv2d 3×3, 4×16×40×50 → 32", partial(conv2d, images, filters, padding=1),
             partial(conv2d_reference, images, filters, padding=1), 1.6, 73.7, 1e-3),
        Case("histogram of 1 000 003", partial(histogram, values, 256),
             lambda: np.bincount(values, minlength=256), 4, 1, 0),
        Case("prefix sum of 1 000 003", partial(prefix_sum, values),
             lambda: np.cumsum(values, dtype=np.int32), 8, 1, 0),
        Case("dropout of 1 000 003", partial(dropout, x, 0.3, 1), partial(dropped, x, 0.3), 8, 1, is_random=True),
    ]


@tw.jit
def batched_kernel(
    a_ptr, b_ptr, c_ptr,
    M, N, K,
    a_batch, a_row, a_column,
    b_batch, b_row, b_column,
    c_batch, c_row, c_column,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    batch, steps = tl.program_id(2).to(tl.int64), tl.arange(0, BLOCK_K)
    rows = (tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M))[:, None]
    columns = (tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N))[None, :]
    a_ptrs = a_ptr + batch * a_batch + rows * a_row + steps[None, :] * a_column
    b_ptrs = b_ptr + batch * b_batch + steps[:, None] * b_row + columns * b_column
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_ptrs, mask=(steps[None, :] < K - k) & (rows < M), other=0)
        b = tl.load(b_ptrs, mask=(steps[:, None] < K - k) & (columns < N), other=0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
        a_ptrs += BLOCK_K * a_column
        b_ptrs += BLOCK_K * b_row
    c_ptrs = c_ptr + batch * c_batch + rows * c_row + columns * c_column
    tl.store(c_ptrs, acc, mask=(rows < M) & (columns < N))


def one_by_one(a: Any, b: Any, *, tile: tuple[int, int, int] = (128, 64, 16)) -> Any:
    """`a[i] @ b[i]` for each i, each program a tile of one of them."""
    (batches, m, k), n = a.shape, b.shape[2]
    out = empty_like(a, (batches, m, n))
    grid = (tw.cdiv(n, tile[1]), tw.cdiv(m, tile[0]), batches)
    batched_kernel[grid](a, b, out, m, n, k, *strides(a), *strides(b), *strides(out), *tile)
    return out


def dropped(x: np.ndarray, probability: float) -> np.ndarray:
    """Dropout with NumPy's generator."""
    return np.where(RNG.random(x.size, np.float32) > probability, x / np.float32(1 - probability), 0)


def best_seconds(*functions: Callable[[], object], rounds: int = 15) -> list[float]:
    """In turns, so that whatever else the machine does meets all of them."""
    best = [float("inf")] * len(functions)
    for _ in range(rounds):
        for number, function in enumerate(functions):
            start = time.thread_time()
            function()
            best[number] = min(best[number], time.thread_time() - start)
    return best


@cache
def bandwidth(megabytes: float) -> float:
    """Bytes per second that this thread moves, of so many: the faster of a copy and a sum."""
    size = int(megabytes * 1e6) // 12
    x, y, out = np.ones((3, size), np.float32)
    copying, adding = best_seconds(lambda: np.copyto(out, x), lambda: np.add(x, y, out=out), rounds=40)
    return max(8 * size / copying, 12 * size / adding)


@cache
def operations_per_second(kind: str) -> float:
    """The rate at which this thread multiplies and adds in registers."""
    peak = Peak()
    return max(peak.sample(kind) for _ in range(20))


def limit(case: Case, ours: float, numpy: float) -> str:
    """The limits of this machine: how long bytes and operations take here, and how near both come."""
    rate, speed = bandwidth(case.megabytes), operations_per_second(case.kind)
    moving, computing = case.megabytes * 1e6 / rate, case.operations * 1e6 / speed
    if moving > computing:
        what = f"{case.megabytes:g} MB at {rate / 1e9:.0f} GB/s"
    else:
        what = f"{case.operations:g} million operations at {speed / 1e9:.0f} billion per second"
    least = max(moving, computing)
    reached = f"this reaches {least / ours:.0%} of that, NumPy {least / numpy:.0%}"
    return f"limit: {what} take {least * 1e3:.3f} ms; {reached}"


def print_sizes(stages: Mapping[str, str | bytes]) -> None:
    for name, stage in stages.items():
        size = f"{len(stage)} bytes" if isinstance(stage, bytes) else f"{len(stage.splitlines())} lines"
        print(f"  {name:7} {size}")


def show_gpu() -> None:
    """The same kernel for a GPU, which need not be there."""
    x, out = np.ones(1000, np.float32), np.empty(1000, np.float32)
    with tw.simulate("cuda:90"):
        kernel = add_kernel[(4,)](x, x, out, 1000, BLOCK=256)
    assert (out == 2).all()
    print("The same kernel for an NVIDIA GPU, run by the simulator (right, and no races):")
    print_sizes(kernel.asm)
    print()


def show_stages() -> None:
    """One kernel, from Python to machine code."""
    x, out = np.ones(1000, np.float32), np.empty(1000, np.float32)
    kernel = add_kernel[(1,)](x, x, out, 1000, BLOCK=1024)
    print("One kernel at each stage of compilation (kernel.asm):")
    print_sizes(kernel.asm)
    print("\n" + str(kernel.asm["ttir"]).rstrip())
    lines = str(kernel.asm["asm"]).splitlines()
    additions = [text.split() for text in lines if "\tvaddps" in text or "\tfadd\t" in text]
    print("\nWhat `x + y` became:", *(additions[0] if additions else ["see kernel.asm['asm']"]), "\n")


def compare(case: Case) -> str:
    start = time.perf_counter()
    result = case.ours()
    first = time.perf_counter() - start
    error = 0.0 if case.is_random else largest_error(result, case.numpy())
    assert error <= case.tolerance, f"{case.name}: wrong by {error}"
    ours, numpy = best_seconds(case.ours, case.numpy)
    times = f"{first * 1e3:9.1f} ms {ours * 1e3:9.3f} ms {numpy * 1e3:9.3f} ms {numpy / ours:8.2f}"
    row = f"{case.name:34}{'-' if case.is_random else f'{error:.1e}':>9} {times}"
    return row if numpy > ours else f"{row}  {limit(case, ours, numpy)}"


def main() -> None:
    show_stages()
    show_gpu()
    print(f"{'problem':34}{'error':>9} {'first call':>12} {'then':>12} {'NumPy':>12} {'ratio':>8}")
    for case in cases():
        print(compare(case), flush=True)


if __name__ == "__main__":
    main()
