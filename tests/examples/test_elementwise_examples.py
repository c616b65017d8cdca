"""Vector addition, softmax, dropout and histogram, on ragged sizes, with one thread and two."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from arrays import largest_error, numpy_of
from dropout import dropout
from histogram import histogram
from softmax import reference, softmax
from vector_add import add


@pytest.mark.parametrize("n", [0, 1, 255, 256, 257, 10_007])
def test_sum_of_vectors_of_any_length(n: int, to_array: Any, num_threads: int, rng: Any) -> None:
    x, y = rng.standard_normal((2, n)).astype(np.float32)
    out = add(to_array(x), to_array(y), block=256, num_threads=num_threads)
    assert np.array_equal(numpy_of(out, "float32"), x + y)


@pytest.mark.parametrize("dtype", ["float64", "float16", "int8", "int16", "int64", "uint8", ml_dtypes.bfloat16])
def test_sum_of_vectors_of_any_type(dtype: Any, rng: Any) -> None:
    x, y = (rng.standard_normal((2, 1003)) * 100).astype(dtype)
    assert np.array_equal(add(x, y), x + y)


def test_sum_leaves_what_follows_alone(rng: Any) -> None:
    x = rng.standard_normal(100).astype(np.float32)
    out = np.full(128, -1, np.float32)
    add(x, x, out=out[:100])
    assert np.array_equal(out[:100], x + x)
    assert (out[100:] == -1).all()


def test_sum_in_place(rng: Any) -> None:
    x, y = rng.standard_normal((2, 3001)).astype(np.float32)
    expected = x + y
    add(x, y, out=x)
    assert np.array_equal(x, expected)


def test_sum_wants_equal_lengths() -> None:
    with pytest.raises(ValueError, match="one length"):
        add(np.ones(3, np.float32), np.ones(4, np.float32))


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (1, 1), (7, 2), (13, 781), (64, 1024), (3, 5000)])
def test_softmax_of_any_shape(shape: tuple[int, int], to_array: Any, num_threads: int, rng: Any) -> None:
    x = rng.standard_normal(shape).astype(np.float32)
    out = softmax(to_array(x), num_threads=num_threads)
    if x.size:
        assert largest_error(out, reference(x.astype(np.float64))) < 1e-6


def test_softmax_of_rows_with_gaps_between_them(rng: Any) -> None:
    wide = rng.standard_normal((9, 400)).astype(np.float32)
    x, out = wide[::2, 17:307], np.zeros((5, 512), np.float32)
    softmax(x, out=out[:, :290])
    assert largest_error(out[:, :290], reference(x.astype(np.float64))) < 1e-6
    assert (out[:, 290:] == 0).all()


@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 1e-3), (ml_dtypes.bfloat16, 1e-2)])
def test_softmax_of_short_floats(dtype: Any, tolerance: float, rng: Any) -> None:
    x = rng.standard_normal((21, 300)).astype(dtype)
    assert largest_error(softmax(x), reference(x.astype(np.float64))) < tolerance


def test_softmax_of_huge_numbers() -> None:
    x = np.array([[1e38, -1e38, 1e38, -np.inf], [-1e38, -1e38, -1e38, -1e38]], np.float32)
    assert np.array_equal(softmax(x), [[0.5, 0, 0.5, 0], [0.25] * 4])


@pytest.mark.parametrize("n", [0, 1, 1025, 40_001])
def test_dropout_draws_the_numbers_of_philox(n: int, to_array: Any, num_threads: int, rng: Any) -> None:
    x = rng.standard_normal(n).astype(np.float32)
    out = dropout(to_array(x), 0.4, 1234, num_threads=num_threads)
    is_kept = uniform(1234, np.arange(n, dtype=np.uint32)) > np.float32(0.4)
    expected = np.where(is_kept, x / np.float32(1 - np.float32(0.4)), 0)
    assert largest_error(out, expected) < 1e-6
    assert np.array_equal(numpy_of(out) != 0, is_kept)


def uniform(seed: int, counters: np.ndarray) -> np.ndarray:
    """The first number of Philox 4×32 with ten rounds per counter, in [0, 1)."""
    low = np.uint64(0xFFFFFFFF)
    words = [counters.astype(np.uint64)] + [np.zeros_like(counters, np.uint64)] * 3
    keys = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        a, b = words[0] * np.uint64(0xD2511F53), words[2] * np.uint64(0xCD9E8D57)
        words = [(b >> np.uint64(32)) ^ words[1] ^ np.uint64(keys[0]), b & low,
                 (a >> np.uint64(32)) ^ words[3] ^ np.uint64(keys[1]), a & low]
        keys = [(keys[0] + 0x9E3779B9) & 0xFFFFFFFF, (keys[1] + 0xBB67AE85) & 0xFFFFFFFF]
    signed = words[0].astype(np.uint32).view(np.int32)
    return np.where(signed < 0, -signed - 1, signed).astype(np.float32) * np.float32(4.6566127342e-10)


def test_dropout_of_everything_kept(rng: Any) -> None:
    x = rng.standard_normal(5000).astype(np.float32)
    assert np.mean(dropout(x, 0.0, 3) == x) > 0.999


@pytest.mark.parametrize("n", [0, 1, 1000, 33_333])
def test_histogram(n: int, to_array: Any, num_threads: int, rng: Any) -> None:
    values = rng.integers(-2, 260, n, np.int32)
    counts = histogram(to_array(values), 256, num_threads=num_threads)
    expected = np.bincount(values[(values >= 0) & (values < 256)], minlength=256)
    assert np.array_equal(numpy_of(counts, "int64"), expected)


def test_histogram_with_one_crowded_bin(num_threads: int) -> None:
    counts = histogram(np.full(100_003, 3, np.int32), 8, block=128, num_threads=num_threads)
    assert counts.tolist() == [0, 0, 0, 100_003, 0, 0, 0, 0]


@pytest.mark.parametrize("dtype", ["int8", "int16", "int64"])
def test_histogram_of_other_integers(dtype: str, rng: Any) -> None:
    values = rng.integers(0, 100, 5000).astype(dtype)
    assert np.array_equal(histogram(values, 100), np.bincount(values, minlength=100))
