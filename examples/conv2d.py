"""Convolution of images as a matrix product whose left matrix is never built. `python examples/conv2d.py`

Row r of that matrix belongs to one output pixel (image, y, x), column k to one weight position (channel, ky, kx); its
element is the input pixel under that weight, or zero outside the image. Programs load tiles of it straight from the
images.
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
    images, channels, height, width,
    filters, out_height, out_width,
    x_image, x_channel, x_row, x_column,
    out_image, out_filter, out_row, out_column,
    STRIDE: tl.constexpr, PADDING: tl.constexpr, DILATION: tl.constexpr,
    KERNEL_Y: tl.constexpr, KERNEL_X: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    pixel = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    filter_index = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    image = pixel // (out_height * out_width)
    out_y = pixel // out_width % out_height
    out_x = pixel % out_width
    is_pixel = image < images
    depth = channels * KERNEL_Y * KERNEL_X
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, depth, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        channel = k // (KERNEL_Y * KERNEL_X)
        y = out_y[:, None] * STRIDE - PADDING + (k // KERNEL_X % KERNEL_Y)[None, :] * DILATION
        x = out_x[:, None] * STRIDE - PADDING + (k % KERNEL_X)[None, :] * DILATION
        inside = (y >= 0) & (y < height) & (x >= 0) & (x < width) & is_pixel[:, None] & (k < depth)[None, :]
        at = image[:, None] * x_image + channel[None, :] * x_channel + y * x_row + x * x_column
        pixels = tl.load(x_ptr + at, mask=inside, other=0.0)
        is_weight = (k < depth)[:, None] & (filter_index < filters)[None, :]
        weights = tl.load(weight_ptr + filter_index[None, :] * depth + k[:, None], mask=is_weight, other=0.0)
        acc = tl.dot(pixels, weights, acc, input_precision="ieee")
    to = (image * out_image + out_y * out_row + out_x * out_column)[:, None] + (filter_index * out_filter)[None, :]
    tl.store(out_ptr + to, acc, mask=is_pixel[:, None] & (filter_index < filters)[None, :])


def conv2d(
    x: Array,
    weight: Array,
    *,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    tile: tuple[int, int, int] = (64, 32, 32),
    **options: Any,
) -> Array:
    """Cross-correlate images with filters, as neural networks do.

    Args:
        x: images × channels × height × width, any strides.
        weight: filters × channels × kernel height × kernel width, contiguous.
        stride, padding, dilation: the same along both axes.
        tile: output pixels and filters per program, and the step along the weights.
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
    conv2d_kernel[(tw.cdiv(images * out_height * out_width, block_m), tw.cdiv(filters, block_n))](
        x, weight, out, images, channels, height, width, filters, out_height, out_width, *strides(x), *strides(out),
        STRIDE=stride, PADDING=padding, DILATION=dilation, KERNEL_Y=kernel_y, KERNEL_X=kernel_x,
        BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, **options,
    )  # fmt: skip
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
