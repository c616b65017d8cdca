"""Layer norm, forward and backward. `python examples/layer_norm.py`

Backward has two kernels. The first computes the gradient of one row of `x` per program, and adds the row's share of the
gradients of weight and bias to one of GROUPS partial sums; a spin lock per partial sum makes that addition safe
without atomic floating-point operations. The second adds up the partial sums.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from arrays import Array, empty_like, largest_error, require, strides, zeros_like

import tilewright as tw
import tilewright.language as tl


@tw.jit
def forward_kernel(
    x_ptr, out_ptr, weight_ptr, bias_ptr, mean_ptr, scale_ptr, x_row, out_row, columns, epsilon, BLOCK: tl.constexpr
):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    x = tl.load(x_ptr + row * x_row + column, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / columns
    centred = tl.where(inside, x - mean, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=0) / columns + epsilon)
    weight = tl.load(weight_ptr + column, mask=inside)
    bias = tl.load(bias_ptr + column, mask=inside)
    tl.store(out_ptr + row * out_row + column, centred * scale * weight + bias, mask=inside)
    tl.store(mean_ptr + row, mean)
    tl.store(scale_ptr + row, scale)


@tw.jit
def acquire(lock):
    """Wait until the lock is 0, and make it 1."""
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass


@tw.jit
def release(lock):
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@tw.jit
def backward_kernel(
    x_ptr, grad_ptr, weight_ptr, mean_ptr, scale_ptr,
    x_grad_ptr, weight_sums_ptr, bias_sums_ptr, locks_ptr,
    x_row, grad_row, x_grad_row, columns,
    GROUPS: tl.constexpr, BLOCK: tl.constexpr,
):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    x = tl.load(x_ptr + row * x_row + column, mask=inside, other=0.0).to(tl.float32)
    grad = tl.load(grad_ptr + row * grad_row + column, mask=inside, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + column, mask=inside, other=0.0).to(tl.float32)
    scale = tl.load(scale_ptr + row)
    normal = tl.where(inside, (x - tl.load(mean_ptr + row)) * scale, 0.0)
    pull = grad * weight
    along = tl.sum(normal * pull, axis=0) / columns
    level = tl.sum(pull, axis=0) / columns
    tl.store(x_grad_ptr + row * x_grad_row + column, (pull - normal * along - level) * scale, mask=inside)

    group = row % GROUPS
    weight_sums = weight_sums_ptr + group * columns + column
    bias_sums = bias_sums_ptr + group * columns + column
    acquire(locks_ptr + group)
    tl.store(weight_sums, tl.load(weight_sums, mask=inside) + grad * normal, mask=inside)
    tl.store(bias_sums, tl.load(bias_sums, mask=inside) + grad, mask=inside)
    release(locks_ptr + group)


@tw.jit
def add_up_kernel(sums_ptr, out_ptr, groups, columns, BLOCK_ROWS: tl.constexpr, BLOCK: tl.constexpr):
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK_ROWS, BLOCK), dtype=tl.float32)
    for start in range(0, groups, BLOCK_ROWS):
        row = start + tl.arange(0, BLOCK_ROWS)
        inside = (row[:, None] < groups) & (column[None, :] < columns)
        total += tl.load(sums_ptr + row[:, None] * columns + column[None, :], mask=inside, other=0.0)
    tl.store(out_ptr + column, tl.sum(total, axis=0), mask=column < columns)


def layer_norm(
    x: Array, weight: Array, bias: Array, *, epsilon: float = 1e-5, out: Array | None = None, **options: Any
) -> tuple[Array, Array, Array]:
    """Normalise each row of `x`, then scale by `weight` and shift by `bias`.

    Args:
        x: a matrix with contiguous rows; a row must fit into one block.
        weight, bias: one number per column.
        epsilon: added to the variance.
        out: where the result goes; by default a new matrix.
        options: compile and launch options, such as `num_threads`.

    Returns: the result, and per row the mean and the reciprocal standard deviation, which backward needs.
    """
    require(x.ndim == 2 and strides(x)[1] == 1, "layer_norm wants a matrix with contiguous rows")
    rows, columns = x.shape
    out = empty_like(x) if out is None else out
    mean, scale = empty_like(x, (rows,), "float32"), empty_like(x, (rows,), "float32")
    forward_kernel[(rows,)](
        x, out, weight, bias, mean, scale, strides(x)[0], strides(out)[0], columns, epsilon,
        BLOCK=tw.next_power_of_2(columns), **options,
    )
    return out, mean, scale


def layer_norm_backward(
    x: Array, grad: Array, weight: Array, mean: Array, scale: Array, *, groups: int = 8, **options: Any
) -> tuple[Array, Array, Array]:
    """The gradients of `x`, `weight` and `bias`.

    Args:
        x, weight: as given to `layer_norm`.
        grad: the gradient of its result, a matrix with contiguous rows.
        mean, scale: as it returned them.
        groups: partial sums of the gradients of weight and bias.
        options: compile and launch options, such as `num_threads`.
    """
    rows, columns = x.shape
    x_grad = empty_like(x)
    weight_sums, bias_sums = (zeros_like(x, (groups, columns), "float32") for _ in range(2))
    backward_kernel[(rows,)](
        x, grad, weight, mean, scale, x_grad, weight_sums, bias_sums, zeros_like(x, (groups,), "int32"),
        strides(x)[0], strides(grad)[0], strides(x_grad)[0], columns,
        GROUPS=groups, BLOCK=tw.next_power_of_2(columns), **options,
    )
    weight_grad, bias_grad = empty_like(weight), empty_like(weight)
    for sums, out in ((weight_sums, weight_grad), (bias_sums, bias_grad)):
        add_up_kernel[(tw.cdiv(columns, 128),)](sums, out, groups, columns, BLOCK_ROWS=8, BLOCK=128, **options)
    return x_grad, weight_grad, bias_grad


def reference(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, *, epsilon: float = 1e-5) -> np.ndarray:
    """Forward with NumPy."""
    centred = x - x.mean(axis=1, keepdims=True)
    return np.asarray(centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + epsilon) * weight + bias)


def reference_backward(
    x: np.ndarray, grad: np.ndarray, weight: np.ndarray, *, epsilon: float = 1e-5
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Backward with NumPy."""
    normal = reference(x, np.ones(1), np.zeros(1), epsilon=epsilon)
    scale = 1 / np.sqrt(x.var(axis=1, keepdims=True) + epsilon)
    pull = grad * weight
    level = pull.mean(axis=1, keepdims=True) + normal * (pull * normal).mean(axis=1, keepdims=True)
    return (pull - level) * scale, (grad * normal).sum(axis=0), grad.sum(axis=0)


def main() -> None:
    rng = np.random.default_rng(0)
    x, grad = rng.standard_normal((2, 151, 1130)).astype(np.float32)
    weight, bias = rng.standard_normal((2, 1130)).astype(np.float32)
    out, mean, scale = layer_norm(x, weight, bias)
    errors = [largest_error(out, reference(*(array.astype(np.float64) for array in (x, weight, bias))))]
    gradients = layer_norm_backward(x, grad, weight, mean, scale)
    expected = reference_backward(*(array.astype(np.float64) for array in (x, grad, weight)))
    errors += [largest_error(*pair) for pair in zip(gradients, expected, strict=True)]
    print("layer norm, 151×1130: largest errors of out, dx, dw, db", *(f"{error:.1e}" for error in errors))
    assert max(errors) < 1e-4


if __name__ == "__main__":
    main()
