"""The examples do nothing wrong: with all checks on, on one thread and two, they report nothing and compute the same.

The slow tests run the scripts as they are; the others one small problem of each.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from arrays import largest_error
from batched_gemm import batched_matmul
from conv2d import conv2d
from dropout import dropout
from flash_attention import attention
from histogram import histogram
from layer_norm import layer_norm, layer_norm_backward
from matmul import matmul
from prefix_sum import prefix_sum
from softmax import softmax
from vector_add import add

EXAMPLES = Path(__file__).parents[2] / "examples"
ALL = "bounds,races,uninit"
Example = Callable[..., Any]


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


def gradients(rows: int = 37, columns: int = 130, **options: Any) -> Any:
    x, grad, weight = normal(rows, columns), normal(rows, columns), normal(columns)
    _, mean, scale = layer_norm(x, weight, weight)
    return layer_norm_backward(x, grad, weight, mean, scale, groups=4, **options)[1]


CASES: dict[str, Example] = {
    "batched_gemm": lambda **options: batched_matmul(normal(3, 70, 45), normal(3, 45, 50), **options),
    "conv2d": lambda **options: conv2d(normal(1, 5, 12, 14), normal(6, 5, 3, 3), padding=1, **options),
    "dropout": lambda **options: dropout(normal(3000), 0.3, 1, **options),
    "flash_attention": lambda **options: attention(*normal(3, 2, 90, 32), is_causal=True, **options),
    "gradients": gradients,
    "histogram": lambda **options: histogram(np.arange(5000, dtype=np.int32) % 70, 64, **options),
    "layer_norm": lambda **options: layer_norm(normal(37, 130), normal(130), normal(130), **options)[0],
    "matmul": lambda **options: matmul(normal(101, 47), normal(47, 83), **options),
    "prefix_sum": lambda **options: prefix_sum(np.arange(9000, dtype=np.int32) % 9, **options),
    "softmax": lambda **options: softmax(normal(23, 81), **options),
    "vector_add": lambda **options: add(normal(3001), normal(3001), **options),
}


LARGE: dict[str, Example] = {
    "gradients": partial(gradients, rows=1000, columns=1000),
    "matmul": partial(matmul, normal(500, 400), normal(400, 300)),
    "softmax": partial(softmax, normal(1000, 1000)),
}


def seconds(work: Example) -> float:
    start = time.thread_time()
    work()
    return time.thread_time() - start


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_reported(name: str, num_threads: int) -> None:
    expected = CASES[name](num_threads=num_threads)
    assert largest_error(CASES[name](sanitize=ALL, num_threads=num_threads), expected) < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_checks_take_less_than_ten_times_as_long(name: str) -> None:
    """They take 1.4 to 5 times as long, when nobody else uses the machine."""
    plain, checked = partial(LARGE[name], num_threads=1), partial(LARGE[name], num_threads=1, sanitize=ALL)
    pairs = [(seconds(plain), seconds(checked)) for _ in range(12)]
    assert min(pair[1] for pair in pairs[2:]) < 10 * min(pair[0] for pair in pairs[2:])


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem != "demo"))
def test_scripts_report_nothing(name: str, num_threads: int) -> None:
    environment = {**os.environ, "TILEWRIGHT_SANITIZE": ALL, "TILEWRIGHT_NUM_THREADS": str(num_threads)}
    command = [sys.executable, str(EXAMPLES / f"{name}.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
