"""Layer norm, attention and running sums: kernels whose programs work together, or run long loops."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from arrays import largest_error, numpy_of
from flash_attention import attention
from flash_attention import reference as attention_reference
from layer_norm import layer_norm, layer_norm_backward, reference, reference_backward
from prefix_sum import prefix_sum


def wide(*arrays: Any) -> list[np.ndarray]:
    return [np.asarray(array).astype(np.float64) for array in arrays]


@pytest.mark.parametrize("shape", [(1, 1), (5, 2), (37, 130), (64, 1024), (9, 3001)], ids=str)
def test_layer_norm(shape: tuple[int, int], to_array: Any, num_threads: int, rng: Any) -> None:
    x, (weight, bias) = rng.standard_normal(shape), rng.standard_normal((2, shape[1]))
    x, weight, bias = (array.astype(np.float32) for array in (x, weight, bias))
    out, mean, scale = layer_norm(to_array(x), to_array(weight), to_array(bias), num_threads=num_threads)
    assert largest_error(out, reference(*wide(x, weight, bias))) < 1e-5
    assert largest_error(mean, x.mean(axis=1)) < 1e-6
    assert largest_error(numpy_of(scale) * np.sqrt(wide(x)[0].var(axis=1) + 1e-5), np.ones(shape[0])) < 1e-5


def test_layer_norm_of_numbers_far_from_zero(rng: Any) -> None:
    x = (rng.standard_normal((4, 999)) + 1000).astype(np.float32)
    ones = np.ones(999, np.float32)
    assert largest_error(layer_norm(x, ones, 0 * ones)[0], reference(*wide(x, ones, 0 * ones))) < 1e-3


def test_layer_norm_in_place(rng: Any) -> None:
    x = rng.standard_normal((6, 500)).astype(np.float32)
    weight, bias = rng.standard_normal((2, 500)).astype(np.float32)
    expected = reference(*wide(x, weight, bias))
    layer_norm(x, weight, bias, out=x)
    assert largest_error(x, expected) < 1e-5


@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 5e-3), (ml_dtypes.bfloat16, 4e-2)])
def test_layer_norm_of_short_floats(dtype: Any, tolerance: float, rng: Any) -> None:
    x = rng.standard_normal((12, 700)).astype(dtype)[::3, 100:600]
    weight, bias = rng.standard_normal((2, 500)).astype(dtype)
    assert largest_error(layer_norm(x, weight, bias)[0], reference(*wide(x, weight, bias))) < tolerance


@pytest.mark.parametrize("shape", [(1, 1), (151, 113), (40, 1130)], ids=str)
@pytest.mark.parametrize("groups", [1, 8])
def test_gradients_of_layer_norm(
    shape: tuple[int, int], groups: int, to_array: Any, num_threads: int, rng: Any
) -> None:
    x, grad = rng.standard_normal((2, *shape)).astype(np.float32)
    weight, bias = rng.standard_normal((2, shape[1])).astype(np.float32)
    arrays = [to_array(array) for array in (x, grad, weight)]
    _, mean, scale = layer_norm(arrays[0], arrays[2], to_array(bias))
    gradients = layer_norm_backward(*arrays, mean, scale, groups=groups, num_threads=num_threads)
    for found, expected in zip(gradients, reference_backward(*wide(x, grad, weight)), strict=True):
        assert largest_error(found, expected) < 1e-4


@pytest.mark.spared
@pytest.mark.needs_torch
def test_gradients_of_layer_norm_agree_with_torch() -> None:
    import torch

    x, weight, bias = (torch.randn(shape, requires_grad=True) for shape in ((33, 300), (300,), (300,)))
    grad = torch.randn(33, 300)
    torch.nn.functional.layer_norm(x, (300,), weight, bias).backward(grad)
    plain = x.detach(), weight.detach(), bias.detach()
    _, mean, scale = layer_norm(*plain)
    gradients = layer_norm_backward(plain[0], grad, plain[1], mean, scale)
    for found, expected in zip(gradients, (x.grad, weight.grad, bias.grad), strict=True):
        assert largest_error(found, expected) < 1e-4


@pytest.mark.parametrize("features", [32, 64, 128])
@pytest.mark.parametrize("is_causal", [False, True], ids=["full", "causal"])
def test_attention(features: int, is_causal: bool, to_array: Any, num_threads: int, rng: Any) -> None:
    q, k, v = rng.standard_normal((3, 3, 201, features)).astype(np.float32)
    out = attention(*map(to_array, (q, k, v)), is_causal=is_causal, num_threads=num_threads)
    assert largest_error(out, attention_reference(*wide(q, k, v), is_causal=is_causal)) < 1e-5


@pytest.mark.parametrize("length", [1, 15, 64, 65, 300])
@pytest.mark.parametrize("tile", [(16, 16), (32, 64), (128, 32)], ids=str)
@pytest.mark.parametrize("is_causal", [False, True], ids=["full", "causal"])
def test_attention_of_any_length(length: int, tile: tuple[int, int], is_causal: bool, rng: Any) -> None:
    q, k, v = rng.standard_normal((3, 2, length, 32)).astype(np.float32)
    out = attention(q, k, v, is_causal=is_causal, tile=tile)
    assert largest_error(out, attention_reference(*wide(q, k, v), is_causal=is_causal)) < 1e-5


def test_attention_to_other_positions(rng: Any) -> None:
    q = rng.standard_normal((2, 40, 64)).astype(np.float32)
    k, v = rng.standard_normal((2, 2, 150, 64)).astype(np.float32)
    assert largest_error(attention(q, k, v), attention_reference(*wide(q, k, v))) < 1e-5


def test_attention_of_heads_stored_side_by_side(rng: Any) -> None:
    q, k, v = rng.standard_normal((3, 100, 4, 32)).astype(np.float32).transpose(0, 2, 1, 3)
    out = attention(q, k, v, is_causal=True)
    assert largest_error(out, attention_reference(*wide(q, k, v), is_causal=True)) < 1e-5


@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 4e-3), (ml_dtypes.bfloat16, 4e-2)])
def test_attention_of_short_floats(dtype: Any, tolerance: float, rng: Any) -> None:
    q, k, v = rng.standard_normal((3, 2, 130, 64)).astype(dtype)
    assert largest_error(attention(q, k, v), attention_reference(*wide(q, k, v))) < tolerance


@pytest.mark.needs_torch
def test_attention_agrees_with_torch(num_threads: int) -> None:
    import torch

    q, k, v = torch.randn(3, 4, 190, 64)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert largest_error(attention(q, k, v, is_causal=True, num_threads=num_threads), expected) < 1e-5


@pytest.mark.parametrize("n", [0, 1, 128, 129, 20_001])
def test_prefix_sum(n: int, to_array: Any, num_threads: int, rng: Any) -> None:
    x = rng.integers(-100, 100, n, np.int32)
    out = prefix_sum(to_array(x), block=128, num_threads=num_threads)
    assert np.array_equal(numpy_of(out, "int64"), np.cumsum(x, dtype=np.int64))


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-2), ("float64", 1e-10), ("int64", 0.0)])
def test_prefix_sum_of_other_types(dtype: str, tolerance: float, num_threads: int, rng: Any) -> None:
    x = (rng.standard_normal(50_000) * 10).astype(dtype)
    out = prefix_sum(x, block=256, num_threads=num_threads)
    assert largest_error(out, np.cumsum(x.astype(np.float64))) <= tolerance


@pytest.mark.slow
def test_prefix_sum_while_programs_wait_for_each_other(rng: Any) -> None:
    x = rng.integers(-100, 100, 300_000, np.int64)
    expected = np.cumsum(x)
    for _ in range(30):
        assert np.array_equal(prefix_sum(x, block=64, num_threads=2), expected)
