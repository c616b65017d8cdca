"""One small problem of each example, ragged where sizes may be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
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
    "histogram": lambda **options: histogram(np.arange(3000, dtype=np.int32) % 70, 64, **options),
    "layer_norm": lambda **options: layer_norm(normal(37, 130), normal(130), normal(130), **options)[0],
    "matmul": lambda **options: matmul(normal(101, 47), normal(47, 83), **options),
    "prefix_sum": lambda **options: prefix_sum(np.arange(9000, dtype=np.int32) % 9, **options),
    "softmax": lambda **options: softmax(normal(23, 81), **options),
    "vector_add": lambda **options: add(normal(3001), normal(3001), **options),
}
