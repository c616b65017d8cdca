"""Softmax, losses, samplers and scans: results that need a whole row."""

from __future__ import annotations

import tilewright
import tilewright.language as tl
from gpu_library.problem import Row, types


@tilewright.jit
def log_softmax(x_ptr, y_ptr, rows, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, BLOCK)
    offsets = row[:, None] * n + columns[None, :]
    mask = (row < rows)[:, None] & (columns < n)[None, :]
    x = tl.load(x_ptr + offsets, mask=mask, other=-float("inf")).to(tl.float32)
    x -= tl.max(x, 1)[:, None]
    tl.store(y_ptr + offsets, x - tl.log(tl.sum(tl.exp(x), 1))[:, None], mask=mask)


@tilewright.jit
def masked_softmax(x_ptr, mask_ptr, y_ptr, scale, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    inside = columns < n
    x = tl.load(x_ptr + row * stride + columns, mask=inside, other=-float("inf")).to(tl.float32) * scale
    seen = tl.load(mask_ptr + row * stride + columns, mask=inside, other=0)
    x = tl.where(seen != 0, x, -float("inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(y_ptr + row * stride + columns, e / tl.sum(e, 0), mask=inside)


@tilewright.jit
def cross_entropy(x_ptr, target_ptr, loss_ptr, lse_ptr, stride, n, smoothing, ignored, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * stride
    target = tl.load(target_ptr + row)
    if target == ignored:
        tl.store(loss_ptr + row, 0.0)
        return
    largest = float("-inf")
    weight = 0.0
    total = 0.0
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + columns, mask=columns < n, other=float("-inf")).to(tl.float32)
        larger = tl.maximum(largest, tl.max(x, 0))
        weight = weight * tl.exp(largest - larger) + tl.sum(tl.exp(x - larger), 0)
        total += tl.sum(tl.where(columns < n, x, 0.0), 0)
        largest = larger
    lse = largest + tl.log(weight)
    hit = tl.load(x_ptr + target).to(tl.float32)
    loss = (1 - smoothing) * (lse - hit) + smoothing * (lse - total / n)
    tl.store(lse_ptr + row, lse)
    tl.store(loss_ptr + row, loss)


@tilewright.jit
def cross_entropy_gradient(x_ptr, target_ptr, lse_ptr, dloss_ptr, dx_ptr, stride, n, smoothing, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = columns < n
    x = tl.load(x_ptr + row * stride + columns, mask=mask, other=float("-inf")).to(tl.float32)
    p = tl.exp(x - tl.load(lse_ptr + row)) - smoothing / n
    p = tl.where(columns == tl.load(target_ptr + row), p - (1 - smoothing), p)
    tl.store(dx_ptr + row * stride + columns, p * tl.load(dloss_ptr + row), mask=mask)


@tilewright.jit
def divergence(p_ptr, q_ptr, loss_ptr, stride, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        mask = columns < n
        p = tl.load(p_ptr + row * stride + columns, mask=mask, other=0.0)
        q = tl.load(q_ptr + row * stride + columns, mask=mask, other=0.0)
        total += q * (tl.log(tl.maximum(q, eps)) - p)
    tl.store(loss_ptr + row, tl.sum(total, 0))


@tilewright.jit
def sample_gumbel(logits_ptr, out_ptr, temperature_ptr, seed, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    temperature = tl.load(temperature_ptr + row).to(tl.float32)
    best = float("-inf")
    place = 0
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(logits_ptr + row * stride + columns, mask=columns < n, other=float("-inf")).to(tl.float32)
        uniform = tl.maximum(tl.rand(seed, row * n + columns), 1e-7)
        noisy = tl.where(columns < n, x / temperature - tl.log(-tl.log(uniform)), float("-inf"))
        value, index = tl.max(noisy, 0, return_indices=True)
        place = tl.where(value > best, start + index, place)
        best = tl.maximum(value, best)
    tl.store(out_ptr + row, place)


@tilewright.jit
def greedy(logits_ptr, out_ptr, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    x = tl.load(logits_ptr + row * stride + columns, mask=columns < n, other=float("-inf"))
    tl.store(out_ptr + row, tl.argmax(x, 0))


@tilewright.jit
def route(logits_ptr, weights_ptr, experts_ptr, rows, n, ROWS: tl.constexpr, EXPERTS: tl.constexpr, TOP: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    expert = tl.arange(0, EXPERTS)
    mask = (row < rows)[:, None] & (expert < n)[None, :]
    x = tl.load(logits_ptr + row[:, None] * n + expert[None, :], mask=mask, other=float("-inf")).to(tl.float32)
    x = tl.exp(x - tl.max(x, 1)[:, None])
    x = x / tl.sum(x, 1)[:, None]
    for k in tl.static_range(TOP):
        weight, chosen = tl.max(x, 1, return_indices=True)
        tl.store(weights_ptr + row * TOP + k, weight, mask=row < rows)
        tl.store(experts_ptr + row * TOP + k, chosen, mask=row < rows)
        x = tl.where(expert[None, :] == chosen[:, None], -1.0, x)


@tilewright.jit
def sums_before(x_ptr, y_ptr, stride, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    before = tl.zeros((ROWS,), tl.float32)
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        offsets = row[:, None] * stride + columns[None, :]
        mask = (columns < n)[None, :]
        x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        tl.store(y_ptr + offsets, tl.cumsum(x, 1) + before[:, None], mask=mask)
        before += tl.sum(x, 1)


@tilewright.jit
def first_order(a_left, b_left, a_right, b_right):
    return a_left * a_right, b_left * a_right + b_right


@tilewright.jit
def selective_scan(x_ptr, a_ptr, y_ptr, length, width, BLOCK_T: tl.constexpr, BLOCK_D: tl.constexpr):
    column = tl.program_id(0) * BLOCK_D + tl.arange(0, BLOCK_D)
    state = tl.zeros((BLOCK_D,), tl.float32)
    for start in range(0, length, BLOCK_T):
        time = start + tl.arange(0, BLOCK_T)
        offsets = time[:, None] * width + column[None, :]
        mask = (time < length)[:, None] & (column < width)[None, :]
        a = tl.load(a_ptr + offsets, mask=mask, other=1.0)
        x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
        decay, scanned = tl.associative_scan((a, x), 0, first_order)
        scanned += decay * state[None, :]
        tl.store(y_ptr + offsets, scanned, mask=mask)
        state = tl.sum(tl.where((tl.arange(0, BLOCK_T) == BLOCK_T - 1)[:, None], scanned, 0.0), 0)


@tilewright.jit
def sort_rows(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + columns, mask=columns < n, other=float("inf"))
    tl.store(y_ptr + row * n + columns, tl.sort(x), mask=columns < n)


ENTROPY = "*bf16 x_ptr; *i64 target_ptr; *fp32 loss_ptr lse_ptr; i32 stride n; fp32 smoothing; i32 ignored"
ENTROPY_GRADIENT = "*bf16 x_ptr; *i64 target_ptr; *fp32 lse_ptr dloss_ptr; *bf16 dx_ptr; i32 stride n; fp32 smoothing"
GUMBEL = "*fp16 logits_ptr; *i64 out_ptr; *fp32 temperature_ptr; i32 seed stride n"
ROWS = (
    Row("log_softmax", "log_softmax", types("*fp16 x_ptr y_ptr; i32 rows n"), {"ROWS": 4, "BLOCK": 512}),
    Row(
        "masked_softmax",
        "masked_softmax",
        types("*fp16 x_ptr; *i8 mask_ptr; *fp16 y_ptr; fp32 scale; i32 stride n"),
        {"BLOCK": 2048},
        8,
    ),
    Row("cross_entropy", "cross_entropy", types(ENTROPY), {"BLOCK": 4096}, 8),
    Row("cross_entropy_gradient", "cross_entropy_gradient", types(ENTROPY_GRADIENT), {"BLOCK": 1024}),
    Row("divergence", "divergence", types("*fp32 p_ptr q_ptr loss_ptr; i32 stride n; fp32 eps"), {"BLOCK": 2048}, 8),
    Row("sample_gumbel", "sample_gumbel", types(GUMBEL), {"BLOCK": 1024}),
    Row("greedy", "greedy", types("*fp32 logits_ptr; *i32 out_ptr; i32 stride n"), {"BLOCK": 4096}, 8),
    Row(
        "route",
        "route",
        types("*bf16 logits_ptr; *fp32 weights_ptr; *i32 experts_ptr; i32 rows n"),
        {"ROWS": 16, "EXPERTS": 64, "TOP": 2},
    ),
    Row("sums_before", "sums_before", types("*fp32 x_ptr y_ptr; i32 stride n"), {"ROWS": 4, "BLOCK": 256}),
    Row(
        "selective_scan",
        "selective_scan",
        types("*fp32 x_ptr a_ptr y_ptr; i32 length width"),
        {"BLOCK_T": 32, "BLOCK_D": 64},
    ),
    Row("sort_rows", "sort_rows", types("*fp32 x_ptr y_ptr; i32 n"), {"BLOCK": 512}),
)
