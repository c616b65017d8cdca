"""Products of matrices in all shapes, strides and types; batched products; convolutions."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from arrays import largest_error
from batched_gemm import batched_matmul
from conv2d import conv2d, reference
from matmul import matmul

SHAPES = [(1, 1, 1), (16, 16, 16), (64, 64, 32), (65, 63, 33), (100, 3, 257), (3, 130, 70), (200, 197, 203)]
TILES = [(16, 16, 16), (32, 64, 32), (64, 64, 32), (128, 128, 64)]


def check_product(a: Any, b: Any, out: Any, tolerance: float) -> None:
    wide = [np.asarray(array).astype(np.float64) for array in (a, b)]
    expected = wide[0] @ wide[1]
    scale = max(1.0, np.abs(expected).max(initial=0.0))
    assert largest_error(out, expected) <= tolerance * scale


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_product_of_any_shape(shape: tuple[int, int, int], to_array: Any, num_threads: int, rng: Any) -> None:
    m, n, k = shape
    a, b = rng.standard_normal((m, k)).astype(np.float32), rng.standard_normal((k, n)).astype(np.float32)
    check_product(a, b, matmul(to_array(a), to_array(b), num_threads=num_threads), 1e-5)


@pytest.mark.parametrize("tile", TILES, ids=str)
def test_product_with_any_tile(tile: tuple[int, int, int], rng: Any) -> None:
    a, b = rng.standard_normal((150, 140)).astype(np.float32), rng.standard_normal((140, 170)).astype(np.float32)
    for group in (1, 3):
        check_product(a, b, matmul(a, b, tile=tile, group=group), 1e-5)


@pytest.mark.parametrize("k", [0, 1, 31, 32, 33])
def test_product_along_few_elements(k: int, rng: Any) -> None:
    a, b = rng.standard_normal((70, k)).astype(np.float32), rng.standard_normal((k, 50)).astype(np.float32)
    check_product(a, b, matmul(a, b), 1e-5)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("float64", 1e-14), ("float32", 1e-6), ("float16", 1e-3), (ml_dtypes.bfloat16, 8e-3)]
)
@pytest.mark.parametrize("tile", [(32, 32, 32), (64, 128, 64)], ids=str)
def test_product_of_any_type(dtype: Any, tolerance: float, tile: tuple[int, int, int], rng: Any) -> None:
    a, b = rng.standard_normal((101, 87)).astype(dtype), rng.standard_normal((87, 93)).astype(dtype)
    out = matmul(a, b, tile=tile)
    assert out.dtype == a.dtype
    check_product(a, b, out, tolerance)


@pytest.mark.parametrize("tile", [(32, 32, 32), (64, 128, 64)], ids=str)
def test_product_of_bytes_is_exact(tile: tuple[int, int, int], rng: Any) -> None:
    a, b = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((101, 300), (300, 93)))
    out = matmul(a, b, tile=tile)
    assert np.array_equal(out, a.astype(np.int32) @ b.astype(np.int32))


@pytest.mark.parametrize(("dtype", "tolerance"), [("bfloat16", 8e-3), ("float16", 1e-3)])
@pytest.mark.needs_torch
def test_product_of_short_floats_of_torch(dtype: str, tolerance: float, num_threads: int) -> None:
    import torch

    a, b = (torch.randn(shape, generator=torch.Generator().manual_seed(1)) for shape in ((77, 130), (130, 55)))
    a, b = a.to(getattr(torch, dtype)), b.to(getattr(torch, dtype))
    out = matmul(a, b, num_threads=num_threads)
    assert out.dtype == a.dtype
    expected = a.double() @ b.double()
    assert largest_error(out, expected) <= tolerance * float(expected.abs().max())


LAYOUTS = {
    "transposed": lambda array: np.ascontiguousarray(array.T).T,
    "every second column": lambda array: np.repeat(array, 2, axis=1)[:, ::2],
    "every third row": lambda array: np.repeat(array, 3, axis=0)[::3],
    "backwards": lambda array: np.ascontiguousarray(array[::-1, ::-1])[::-1, ::-1],
    "inside a larger one": lambda array: np.pad(array, ((1, 2), (5, 3)))[1:-2, 5:-3],
}


@pytest.mark.parametrize("left", LAYOUTS)
@pytest.mark.parametrize("right", LAYOUTS)
def test_product_with_any_strides(left: str, right: str, rng: Any) -> None:
    a, b = rng.standard_normal((90, 75)).astype(np.float32), rng.standard_normal((75, 66)).astype(np.float32)
    out = np.zeros((66, 90), np.float32).T
    matmul(LAYOUTS[left](a), LAYOUTS[right](b), out=out)
    check_product(a, b, out, 1e-5)


def test_product_leaves_what_surrounds_it_alone(rng: Any) -> None:
    a, b = rng.standard_normal((2, 50, 50)).astype(np.float32)
    around = np.full((70, 80), -7, np.float32)
    matmul(a, b, out=around[10:60, 20:70])
    check_product(a, b, around[10:60, 20:70], 1e-5)
    around[10:60, 20:70] = -7
    assert (around == -7).all()


def test_product_wants_fitting_matrices() -> None:
    with pytest.raises(ValueError, match="M×K"):
        matmul(np.ones((2, 3), np.float32), np.ones((2, 3), np.float32))


@pytest.mark.slow
def test_product_of_large_matrices(num_threads: int, rng: Any) -> None:
    a, b = rng.standard_normal((1000, 1003)).astype(np.float32), rng.standard_normal((1003, 997)).astype(np.float32)
    for tile in TILES:
        check_product(a, b, matmul(a, b, tile=tile, num_threads=num_threads), 1e-5)


@pytest.mark.parametrize("shape", [(0, 8, 8, 8), (1, 16, 16, 16), (3, 33, 31, 65), (5, 70, 45, 90)], ids=str)
def test_batched_product(shape: tuple[int, ...], to_array: Any, num_threads: int, rng: Any) -> None:
    batches, m, k, n = shape
    a = rng.standard_normal((batches, m, k)).astype(np.float32)
    b = rng.standard_normal((batches, k, n)).astype(np.float32)
    check_product(a, b, batched_matmul(to_array(a), to_array(b), num_threads=num_threads), 1e-5)


def test_batched_product_of_permuted_arrays(rng: Any) -> None:
    a = rng.standard_normal((40, 3, 50)).astype(np.float32).transpose(1, 0, 2)
    b = rng.standard_normal((30, 50, 3)).astype(np.float32).transpose(2, 1, 0)
    check_product(a, b, batched_matmul(a, b), 1e-5)


@pytest.mark.parametrize("tile", [(1, 32, 32, 16), (4, 16, 16, 32)], ids=str)
@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 1e-3), (ml_dtypes.bfloat16, 8e-3)])
def test_batched_product_of_short_floats(tile: tuple[int, ...], dtype: Any, tolerance: float, rng: Any) -> None:
    a, b = rng.standard_normal((3, 40, 50)).astype(dtype), rng.standard_normal((3, 50, 20)).astype(dtype)
    check_product(a, b, batched_matmul(a, b, tile=tile), tolerance)


@pytest.mark.parametrize(
    "arguments",
    [{}, {"stride": 2}, {"padding": 1}, {"dilation": 2}, {"stride": 3, "padding": 2, "dilation": 2}],
    ids=str,
)
@pytest.mark.parametrize("kernel", [(1, 1), (3, 3), (2, 5)], ids=str)
def test_convolution(arguments: dict[str, int], kernel: tuple[int, int], to_array: Any, rng: Any) -> None:
    x = rng.standard_normal((2, 3, 13, 17)).astype(np.float32)
    weight = rng.standard_normal((9, 3, *kernel)).astype(np.float32)
    expected = reference(x.astype(np.float64), weight.astype(np.float64), **arguments)
    assert largest_error(conv2d(to_array(x), to_array(weight), **arguments), expected) < 1e-4


def test_convolution_of_images_with_channels_last(num_threads: int, rng: Any) -> None:
    x = rng.standard_normal((3, 20, 21, 10)).astype(np.float32).transpose(0, 3, 1, 2)
    weight = rng.standard_normal((40, 10, 3, 3)).astype(np.float32)
    expected = reference(x.astype(np.float64), weight.astype(np.float64), padding=1)
    assert largest_error(conv2d(x, weight, padding=1, num_threads=num_threads), expected) < 1e-4


@pytest.mark.needs_torch
def test_convolution_agrees_with_torch(num_threads: int) -> None:
    import torch

    x, weight = torch.randn(2, 8, 30, 25), torch.randn(16, 8, 3, 3)
    expected = torch.nn.functional.conv2d(x, weight, stride=2, padding=1)
    assert largest_error(conv2d(x, weight, stride=2, padding=1, num_threads=num_threads), expected) < 1e-4
