"""Arguments and expected results of the anchors, also at sizes that are worth timing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from case_basics import RANDOM, SIZES, Array, Case, halves, large_halves


def add(anchor: Any) -> Case:
    n = 2000
    x, y = RANDOM.random((2, n), np.float32)
    return Case((2,), [x, y, np.zeros(n, np.float32), n], {2: x + y}, 0)


def softmax(anchor: Any) -> Case:
    columns = anchor.constants["BLOCK"] - 32
    x = RANDOM.random((2, columns), np.float32)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    expected = e / e.sum(axis=1, keepdims=True)
    return Case((2,), [np.zeros_like(x), x, columns, columns, columns], {0: expected}, 1e-6)


def factors(anchor: Any) -> tuple[Array, Array, Array, Array]:
    """Matrices of one whole block and a bit, three steps and a bit deep; and their product."""
    m, n = anchor.constants["BLOCK_M"] + 16, anchor.constants["BLOCK_N"]
    k = 3 * anchor.constants["BLOCK_K"] + 16
    a, b = halves(m, k), halves(k, n)
    return a, b, np.zeros((m, n), np.float16), a.astype(np.float32) @ b.astype(np.float32)


def matmul(anchor: Any) -> Case:
    a, b, c, expected = factors(anchor)
    (m, k), n = a.shape, b.shape[1]
    return Case((2, 1), [a, b, c, m, n, k, k, n, n], {2: expected}, 0.06)


def matmul_by_descriptors(anchor: Any) -> Case:
    a, b, c, expected = factors(anchor)
    return Case((2, 1), [a, b, c, *c.shape, a.shape[1]], {2: expected}, 0.06)


def attention(anchor: Any) -> Case:
    rows, head, scale = 256, anchor.constants["HEAD"], 0.125
    q, k, v = (halves(rows, head) for _ in range(3))
    scores = scale * (q.astype(np.float32) @ k.astype(np.float32).T)
    if anchor.constants["CAUSAL"]:
        scores = np.where(np.arange(rows)[:, None] >= np.arange(rows), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    expected = (weights / weights.sum(axis=1, keepdims=True)) @ v.astype(np.float32)
    return Case((2, 1), [q, k, v, np.zeros_like(q), scale, rows * head, head, rows], {3: expected}, 4e-3)


def power(anchor: Any) -> Case:
    dtype = np.dtype("f4" if anchor.types["x_ptr"] == "*fp32" else "f8")
    x, y = RANDOM.uniform(0.1, 9, (2, 1500)).astype(dtype)
    return Case((2,), [x, y, np.zeros_like(x), x.size], {2: x**y}, 0)


def cosine(anchor: Any) -> Case:
    dtype = np.dtype("f4" if anchor.types["x_ptr"] == "*fp32" else "f8")
    x = RANDOM.uniform(-4e5, 4e5, 1500).astype(dtype)
    return Case((2,), [x, np.zeros_like(x), x.size], {1: np.cos(x.astype(float))}, 1e-6)


def table(anchor: Any) -> Array:
    """One tile and a bit in both directions, by multiples of 16."""
    rows, columns = anchor.constants["ROWS"] // 16 * 16 + 16, anchor.constants["COLUMNS"] + 16
    return RANDOM.integers(-9, 9, (rows, columns if "LAST" in anchor.constants else columns - 32)).astype(np.float32)


def cosine_sums(anchor: Any) -> Case:
    x = RANDOM.uniform(-4e5, 4e5, (anchor.constants["ROWS"] // 16 * 16 + 16, 1040)).astype(np.float32)
    return Case((2,), [x, np.zeros(len(x), np.float32), *x.shape], {1: np.cos(x.astype(float)).sum(axis=1)}, 1e-3)


def argmax(anchor: Any) -> Case:
    x = table(anchor)
    return Case((2,), [x, np.zeros(len(x), np.int64), *x.shape], {1: x.argmax(axis=1)}, 0)


ANCHOR_CASES: dict[str, Callable[[Any], Case]] = {
    **{function.__name__: function for function in (add, softmax, matmul, matmul_by_descriptors, attention)},
    **{function.__name__: function for function in (power, cosine, cosine_sums, argmax)},
    "argmax_at_once": argmax,
}


# --- launches that are timed ----------------------------------------------------------------------------------


def _large_add(anchor: Any) -> Case:
    n = SIZES["elements"]
    arrays = [np.ones(n, np.float32) for _ in range(3)]
    return Case((n // anchor.constants["BLOCK"],), [*arrays, n], {}, moved=12.0 * n)


def _large_softmax(anchor: Any) -> Case:
    rows, columns = SIZES["softmax rows"], anchor.constants["BLOCK"]
    x = np.ones((rows, columns), np.float32)
    return Case((rows,), [np.empty_like(x), x, columns, columns, columns], {}, moved=2.0 * x.nbytes)


def _large_matmul(anchor: Any) -> Case:
    n = SIZES["side"]
    a, b = large_halves(n, n), large_halves(n, n)
    strides = [] if anchor.kernel == "matmul_by_descriptors" else [n, n, n]
    grid = (n // anchor.constants["BLOCK_M"], n // anchor.constants["BLOCK_N"])
    return Case(grid, [a, b, np.zeros((n, n), np.float16), n, n, n, *strides], {}, operations=2.0 * n**3)


def _large_attention(anchor: Any) -> Case:
    heads, rows, head = SIZES["heads"], SIZES["rows"], anchor.constants["HEAD"]
    q, k, v = (large_halves(heads, rows, head) for _ in range(3))
    grid = (rows // anchor.constants["BLOCK_M"], heads)
    operations = 4.0 * heads * rows * rows * head * (0.5 if anchor.constants["CAUSAL"] else 1.0)
    return Case(grid, [q, k, v, np.zeros_like(q), 0.125, rows * head, head, rows], {}, operations=operations)


LARGE_ANCHOR_CASES: dict[str, Callable[[Any], Case]] = {
    "add": _large_add,
    "attention": _large_attention,
    "matmul": _large_matmul,
    "matmul_by_descriptors": _large_matmul,
    "softmax": _large_softmax,
}
