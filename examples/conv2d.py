"""Convolution of images as a matrix product whose right matrix is never built. `python examples/conv2d.py`

Row k of that matrix belongs to one weight position (channel, ky, kx), column x to one output pixel of a row; its
element is the input pixel under that weight, or zero outside the image. Programs load tiles of it straight from the
images, where the pixels of a row lie side by side.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from arrays import Array, empty_like, largest_error, require, strides

import tilewright as tw
import tilewright.language as tl


@tw.jit
def conv2d_kernel(
    x_ptr, weight_ptr, out_ptr,
    channels, height, width,
    filters, out_height, out_width,
    x_image, x_channel, x_row, x_column,
    out_image, out_filter, out_row, out_column,
    STRIDE: tl.constexpr, PADDING: tl.constexpr, DILATION: tl.constexpr,
    KERNEL_Y: tl.constexpr, KERNEL_X: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    image, out_y = tl.program_id(0) // out_height, tl.program_id(0) % out_height
    out_x = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    filter_index = tl.program_id(2) * BLOCK_M + tl.arange(0, BLOCK_M)
    depth = channels * KERNEL_Y * KERNEL_X
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, depth, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        channel = k // (KERNEL_Y * KERNEL_X)
        y = out_y * STRIDE - PADDING + k // KERNEL_X % KERNEL_Y * DILATION
        x = (k % KERNEL_X * DILATION)[:, None] + (out_x * STRIDE - PADDING)[None, :]
        inside = ((y >= 0) & (y < height) & (k < depth))[:, None] & (x >= 0) & (x < width)
        at = (image * x_image + channel * x_channel + y * x_row)[:, None] + x * x_column
        pixels = tl.load(x_ptr + at, mask=inside, other=0.0)
        is_weight = (filter_index < filters)[:, None] & (k < depth)[None, :]
        weights = tl.load(weight_ptr + filter_index[:, None] * depth + k[None, :], mask=is_weight, other=0.0)
        acc = tl.dot(weights, pixels, acc, input_precision="ieee")
    to = image * out_image + out_y * out_row + (filter_index * out_filter)[:, None] + (out_x * out_column)[None, :]
    tl.store(out_ptr + to, acc, mask=(filter_index < filters)[:, None] & (out_x < out_width)[None, :])


def conv2d(
    x: Array,
    weight: Array,
    *,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    tile: tuple[int, int, int] = (32, 32, 16),
    **options: Any,
) -> Array:
    """Cross-correlate images with filters, as neural networks do.

    Args:
        x: images × channels × height × width, any strides.
        weight: filters × channels × kernel height × kernel width, contiguous.
        stride, padding, dilation: the same along both axes.
        tile: filters and output pixels per program, and the step along the weights.
        options: compile and launch options, such as `num_threads`.

    Returns: images × filters × output height × output width.
    """
    require(x.ndim == weight.ndim == 4 and x.shape[1] == weight.shape[1], "conv2d wants two 4-D arrays, equal channels")
    images, channels, height, width = x.shape
    filters, _, kernel_y, kernel_x = weight.shape
    out_height, out_width = (
        (extent + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
        for extent, kernel in ((height, kernel_y), (width, kernel_x))
    )
    out = empty_like(x, (images, filters, out_height, out_width))
    block_m, block_n, block_k = tile
    conv2d_kernel[(images * out_height, tw.cdiv(out_width, block_n), tw.cdiv(filters, block_m))](
        x, weight, out, channels, height, width, filters, out_height, out_width, *strides(x), *strides(out),
        STRIDE=stride, PADDING=padding, DILATION=dilation, KERNEL_Y=kernel_y, KERNEL_X=kernel_x,
        BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, **options,
    )
    return out


def reference(x: np.ndarray, weight: np.ndarray, *, stride: int = 1, padding: int = 0, dilation: int = 1) -> np.ndarray:
    """The same with NumPy."""
    padded = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    reach = [dilation * (kernel - 1) + 1 for kernel in weight.shape[2:]]
    windows = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=(2, 3))
    windows = windows[:, :, ::stride, ::stride, ::dilation, ::dilation]
    return np.einsum("ncyxij,fcij->nfyx", windows, weight, optimize=True)


def main() -> None:
    rng = np.random.default_rng(0)
    x, weight = (rng.standard_normal(shape).astype(np.float32) for shape in ((2, 5, 23, 31), (37, 5, 3, 3)))
    for arguments in ({}, {"stride": 2, "padding": 1}, {"dilation": 2, "padding": 2}):
        expected = reference(x.astype(np.float64), weight.astype(np.float64), **arguments)
        error = largest_error(conv2d(x, weight, **arguments), expected)
        print(f"conv2d, {expected.shape} {arguments}: largest error {error:.1e}")
        assert error < 1e-4


if __name__ == "__main__":
    main()
