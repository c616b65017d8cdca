"""A tour: what kernels become, that they are right, and what they cost next to NumPy. `make demo`

The first call compiles; the other times are the best of several runs, on one thread.
"""

from __future__ import annotations

import os

os.environ["TILEWRIGHT_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"
os.environ["TRITON_ALWAYS_COMPILE"] = "1"

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from arrays import largest_error
from batched_gemm import batched_matmul
from conv2d import conv2d
from conv2d import reference as conv2d_reference
from dropout import dropout
from flash_attention import attention
from flash_attention import reference as attention_reference
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

RNG = np.random.default_rng(0)


@dataclass(frozen=True)
class Case:
    """One line of the comparison: two functions that do the same work.

    `is_random`: they draw different numbers, so that only their times compare.
    """

    name: str
    ours: Callable[[], Any]
    numpy: Callable[[], Any]
    tolerance: float = 1e-4
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
        Case("vector add, 1 000 003", partial(add, x, y), lambda: x + y),
        Case("softmax, 1023×1000", partial(softmax, rows), partial(softmax_reference, rows)),
        Case("matmul fp32, 500×700×600", partial(matmul, a, b), lambda: a @ b, 1e-3),
        Case("matmul int8, 384³", partial(matmul, *small), lambda: np.matmul(*small, dtype=np.int32), 0),
        Case("batched matmul, 20 of 100×80×90", partial(batched_matmul, *batched), lambda: np.matmul(*batched)),
        Case("layer norm, 1023×1000", lambda: layer_norm(rows, weight, bias)[0],
             partial(layer_norm_reference, rows, weight, bias)),
        Case("its gradients", lambda: layer_norm_backward(rows, gradient, weight, mean, scale)[0],
             lambda: layer_norm_reference_backward(rows, gradient, weight)[0]),
        Case("attention, 4 heads of 500×64", partial(attention, q, k, v), partial(attention_reference, q, k, v)),
        Case("causal attention", partial(attention, q, k, v, is_causal=True),
             partial(attention_reference, q, k, v, is_causal=True)),
        Case("conv2d 3×3, 4×16×40×50 → 32", partial(conv2d, images, filters, padding=1),
             partial(conv2d_reference, images, filters, padding=1), 1e-3),
        Case("histogram of 1 000 003", partial(histogram, values, 256), lambda: np.bincount(values, minlength=256), 0),
        Case("prefix sum of 1 000 003", partial(prefix_sum, values), lambda: np.cumsum(values, dtype=np.int32), 0),
        Case("dropout of 1 000 003", partial(dropout, x, 0.3, 1), partial(dropped, x, 0.3), is_random=True),
    ]


def dropped(x: np.ndarray, probability: float) -> np.ndarray:
    """Dropout with NumPy's generator."""
    return np.where(RNG.random(x.size, np.float32) > probability, x / np.float32(1 - probability), 0)


def best_seconds(*functions: Callable[[], object], rounds: int = 9) -> list[float]:
    """In turns, so that whatever else the machine does meets all of them."""
    best = [float("inf")] * len(functions)
    for _ in range(rounds):
        for number, function in enumerate(functions):
            start = time.perf_counter()
            function()
            best[number] = min(best[number], time.perf_counter() - start)
    return best


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
    times = f"{first * 1e3:9.1f} ms {ours * 1e3:9.3f} ms {numpy * 1e3:9.3f} ms {numpy / ours:8.1f}"
    return f"{case.name:34}{'-' if case.is_random else f'{error:.1e}':>9} {times}"


def main() -> None:
    show_stages()
    show_gpu()
    print(f"{'problem':34}{'error':>9} {'first call':>12} {'then':>12} {'NumPy':>12} {'ratio':>8}")
    for case in cases():
        print(compare(case), flush=True)


if __name__ == "__main__":
    main()
