"""Launches of `timed_kernels.py`: small ones with expected results, and ones as large as is timed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from case_basics import SIZES, Array, Case, numbers, widened

SCALE, EPSILON, BINARY = 0.125, 1e-5, 1 / np.log(2)
ROUNDING = {"fp16": 0.06, "bf16": 0.3}
"""The error allowed for a sum of a few hundred products, by the type that it is stored in."""
LOOSE_SUMS = 0.3
"""The same for 8-bit factors, whose sums some devices keep with 14 bits."""


def _element(entry: Any, name: str) -> str:
    return str(entry.types[name]).removeprefix("*")


# --- products -------------------------------------------------------------------------------------------------


def _operands(entry: Any, m: int, n: int, k: int, matrices: int = 1) -> tuple[Array, Array]:
    """`a` and so many matrices `b`, which lie on their side where the kernel wants them so."""
    element = _element(entry, "a_ptr")
    shape = (n, k) if entry.constants.get("TRANSPOSED") else (k, n)
    return numbers(element, m, k), numbers(element, matrices, *shape)


def _wide_operands(entry: Any, a: Array, b: Array) -> tuple[Array, Array]:
    """The operands as float32, upright."""
    element = _element(entry, "a_ptr")
    b = widened(b, element)
    return widened(a, element), b.swapaxes(1, 2) if entry.constants.get("TRANSPOSED") else b


def _result(entry: Any, m: int, n: int) -> Array:
    return np.zeros((m, n), np.uint16 if _element(entry, "c_ptr") == "bf16" else np.float16)


def _product_error(entry: Any) -> float:
    return LOOSE_SUMS if _element(entry, "a_ptr").startswith("fp8") else ROUNDING[_element(entry, "c_ptr")]


def _tiles(entry: Any, m: int, n: int) -> int:
    return -(-m // entry.constants["BLOCK_M"]) * -(-n // entry.constants["BLOCK_N"])


def product(entry: Any) -> Case:
    """Two tiles in both directions, the second one mostly empty; three steps and a bit deep."""
    blocks = entry.constants
    m, n, k = blocks["BLOCK_M"] + 16, blocks["BLOCK_N"] + 16, 3 * blocks["BLOCK_K"] + 16
    a, b = _operands(entry, m, n, k)
    wide, other = _wide_operands(entry, a, b)
    is_persistent = entry.kernel == "persistent_product"
    return Case(
        (3 if is_persistent else 4,),  # fewer programs than tiles
        [a, b[0], _result(entry, m, n), m, n, k],
        {2: wide @ other[0]},
        _product_error(entry),
        elements={2: _element(entry, "c_ptr")},
    )


def _large_product(entry: Any) -> Case:
    n = SIZES["side"]
    a, b = _operands(entry, n, n, n)
    grid, is_persistent = (_tiles(entry, n, n),), entry.kernel == "persistent_product"
    arguments = [a, b[0], _result(entry, n, n), n, n, n]
    return Case(grid, arguments, {}, operations=2.0 * n**3, persistent=is_persistent)


def grouped_product(entry: Any) -> Case:
    """Three groups, one of them empty, none of them whole tiles."""
    blocks = entry.constants
    n, k = blocks["BLOCK_N"] + 16, blocks["BLOCK_K"] + 16
    starts = np.array([0, blocks["BLOCK_M"] + 16, blocks["BLOCK_M"] + 16, blocks["BLOCK_M"] + 64], np.int32)
    a, b = _operands(entry, int(starts[-1]), n, k, 3)
    wide, other = _wide_operands(entry, a, b)
    pieces = [wide[starts[group] : starts[group + 1]] @ other[group] for group in range(3)]
    arguments = [a, b, _result(entry, len(a), n), starts, 3, n, k]
    return Case((5,), arguments, {2: np.concatenate(pieces)}, _product_error(entry))


def _large_grouped_product(entry: Any) -> Case:
    """Groups of different sizes, multiples of 64 rows."""
    groups, rows, side = SIZES["groups"], SIZES["grouped rows"], SIZES["grouped side"]
    shares = np.arange(1, groups + 1) / (groups * (groups + 1) / 2)
    starts = np.concatenate([[0], np.cumsum(shares * rows / 64).astype(np.int32) * 64]).astype(np.int32)
    starts[-1] = rows
    a, b = _operands(entry, rows, side, side, groups)
    arguments = [a, b, _result(entry, rows, side), starts, groups, side, side]
    return Case((_tiles(entry, rows, side),), arguments, {}, operations=2.0 * rows * side * side, persistent=True)


# --- attention ------------------------------------------------------------------------------------------------


def _scores(entry: Any, heads: int, rows: int) -> tuple[list[Array], Array]:
    """Queries, keys, values and a gradient; and the logarithms of weights, in float64."""
    inputs = [numbers("fp16", heads, rows, entry.constants["HEAD"]) for _ in range(4)]
    q, k, *_ = (array.astype(float) for array in inputs)
    scores = SCALE * (q @ k.swapaxes(1, 2))
    if entry.constants.get("CAUSAL"):
        scores = np.where(np.arange(rows)[:, None] >= np.arange(rows), scores, -np.inf)
    return inputs, scores


def _log_sums(scores: Array) -> Array:
    largest = scores.max(axis=2)
    found: Array = largest + np.log(np.exp(scores - largest[..., None]).sum(axis=2))
    return found


SMALL_HEADS, SMALL_ROWS = 2, 256


def attention_forward(entry: Any) -> Case:
    (q, k, v, _), scores = _scores(entry, SMALL_HEADS, SMALL_ROWS)
    log_sums = _log_sums(scores)
    out = np.exp(scores - log_sums[..., None]) @ v.astype(float)
    grid = (SMALL_ROWS // entry.constants["BLOCK_M"], SMALL_HEADS)
    arguments = [q, k, v, np.zeros_like(q), np.zeros(log_sums.shape, np.float32), SCALE, SMALL_ROWS]
    return Case(grid, arguments, {3: out, 4: log_sums * BINARY}, 6e-3)


def attention_levels(entry: Any) -> Case:
    out, grad = (numbers("fp16", SMALL_ROWS, entry.constants["HEAD"]) for _ in range(2))
    levels = (out.astype(float) * grad.astype(float)).sum(axis=1)
    arguments = [out, grad, np.zeros(SMALL_ROWS, np.float32)]
    return Case((SMALL_ROWS // entry.constants["BLOCK_M"],), arguments, {2: levels}, 1e-3)


def _attention_backward(entry: Any) -> tuple[list[Array], list[Array]]:
    """The inputs of the backward kernels, and the gradients of queries, keys and values."""
    inputs, scores = _scores(entry, SMALL_HEADS, SMALL_ROWS)
    q, k, v, grad = (array.astype(float) for array in inputs)
    log_sums = _log_sums(scores)
    weights = np.exp(scores - log_sums[..., None])
    levels = ((weights @ v) * grad).sum(axis=2)
    pull = SCALE * weights * (grad @ v.swapaxes(1, 2) - levels[..., None])
    given = [*inputs, (log_sums * BINARY).astype(np.float32), levels.astype(np.float32)]
    return given, [pull @ k, pull.swapaxes(1, 2) @ q, weights.swapaxes(1, 2) @ grad]


def attention_keys(entry: Any) -> Case:
    given, (_, keys, values) = _attention_backward(entry)
    grid = (SMALL_ROWS // entry.constants["BLOCK_N"], SMALL_HEADS)
    results = [np.zeros_like(given[1]) for _ in range(2)]
    return Case(grid, [*given, *results, SCALE, SMALL_ROWS], {6: keys, 7: values}, 2e-2)


def attention_queries(entry: Any) -> Case:
    given, (queries, *_) = _attention_backward(entry)
    grid = (SMALL_ROWS // entry.constants["BLOCK_M"], SMALL_HEADS)
    return Case(grid, [*given, np.zeros_like(given[0]), SCALE, SMALL_ROWS], {6: queries}, 2e-2)


PRODUCTS_OF = {"attention_forward": 2, "attention_keys": 3, "attention_queries": 2}
"""Products of rows by rows by head that count: the way back has five, and its scores are computed twice."""
RESULTS_OF = {"attention_forward": 1, "attention_keys": 2, "attention_queries": 1}


def _large_attention(entry: Any) -> Case:
    heads, rows, head = SIZES["heads"], SIZES["rows"], entry.constants["HEAD"]
    inputs = [numbers("fp16", heads, rows, head) for _ in range(3 if entry.kernel == "attention_forward" else 4)]
    results = [np.zeros_like(inputs[0]) for _ in range(RESULTS_OF[entry.kernel])]
    log_sums = [np.full((heads, rows), 12, np.float32) for _ in range(2 if len(inputs) == 4 else 1)]
    block = entry.constants["BLOCK_N" if entry.kernel == "attention_keys" else "BLOCK_M"]
    between = [*results, *log_sums] if entry.kernel == "attention_forward" else [*log_sums, *results]
    share = 0.5 if entry.constants["CAUSAL"] else 1.0
    operations = share * 2.0 * PRODUCTS_OF[entry.kernel] * heads * rows * rows * head
    return Case((rows // block, heads), [*inputs, *between, SCALE, rows], {}, operations=operations)


def _large_attention_levels(entry: Any) -> Case:
    rows, head = SIZES["heads"] * SIZES["rows"], entry.constants["HEAD"]
    arguments = [*(numbers("fp16", rows, head) for _ in range(2)), np.zeros(rows, np.float32)]
    return Case((rows // entry.constants["BLOCK_M"],), arguments, {})


# --- rows -----------------------------------------------------------------------------------------------------


def _columns(entry: Any) -> int:
    return int(entry.constants["BLOCK"]) - 48


def row_softmax(entry: Any) -> Case:
    x = numbers("fp32", 3, _columns(entry))
    weights = np.exp(x - x.max(axis=1, keepdims=True))
    return Case((3,), [x, np.zeros_like(x), x.shape[1]], {1: weights / weights.sum(axis=1, keepdims=True)}, 1e-6)


def layer_norm(entry: Any) -> Case:
    x, columns = numbers("fp16", 3, _columns(entry)), _columns(entry)
    weight, bias = numbers("fp16", columns), numbers("fp16", columns)
    wide = x.astype(float)
    normal = (wide - wide.mean(axis=1, keepdims=True)) / np.sqrt(wide.var(axis=1, keepdims=True) + EPSILON)
    arguments = [x, np.zeros_like(x), weight, bias, columns, EPSILON]
    return Case((3,), arguments, {1: normal * weight + bias}, 4e-3)


def _large_row_softmax(entry: Any) -> Case:
    rows, columns = SIZES["softmax rows"], entry.constants["BLOCK"]
    x = numbers("fp32", rows, columns)
    return Case((rows,), [x, np.empty_like(x), columns], {}, moved=2.0 * x.nbytes)


def _large_layer_norm(entry: Any) -> Case:
    rows, columns = SIZES["normalized rows"], entry.constants["BLOCK"]
    x, weight = numbers("fp16", rows, columns), numbers("fp16", columns)
    return Case((rows,), [x, np.empty_like(x), weight, weight, columns, EPSILON], {}, moved=2.0 * x.nbytes)


def _named(functions: Iterable[Callable[[Any], Case]]) -> dict[str, Callable[[Any], Case]]:
    return {function.__name__: function for function in functions}


TIMED_CASES: dict[str, Callable[[Any], Case]] = {
    **_named((product, grouped_product, attention_forward, attention_levels, attention_keys, attention_queries)),
    **_named((row_softmax, layer_norm)),
    "persistent_product": product,
}
LARGE_TIMED_CASES: dict[str, Callable[[Any], Case]] = {
    **dict.fromkeys(("product", "persistent_product"), _large_product),
    "grouped_product": _large_grouped_product,
    **dict.fromkeys(PRODUCTS_OF, _large_attention),
    "attention_levels": _large_attention_levels,
    "row_softmax": _large_row_softmax,
    "layer_norm": _large_layer_norm,
}
