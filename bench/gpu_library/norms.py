"""Norms and their gradients, a row of the input per program."""

from __future__ import annotations

import tilewright
import tilewright.language as tl
from gpu_library.problem import Row, types


@tilewright.jit
def layer_norm(x_ptr, w_ptr, b_ptr, y_ptr, mean_ptr, rstd_ptr, stride, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    mask = columns < n
    x = tl.load(x_ptr + row * stride + columns, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, 0) / n
    centred = tl.where(mask, x - mean, 0.0)
    rstd = 1 / tl.sqrt(tl.sum(centred * centred, 0) / n + eps)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    w = tl.load(w_ptr + columns, mask=mask).to(tl.float32)
    b = tl.load(b_ptr + columns, mask=mask).to(tl.float32)
    tl.store(y_ptr + row * stride + columns, centred * rstd * w + b, mask=mask)


@tilewright.jit
def layer_norm_looped(x_ptr, w_ptr, b_ptr, y_ptr, stride, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x_ptr += row * stride
    sums = tl.zeros((BLOCK,), tl.float32)
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + columns, mask=columns < n, other=0.0).to(tl.float32)
        sums += x
        squares += x * x
    mean = tl.sum(sums, 0) / n
    rstd = tl.rsqrt(tl.sum(squares, 0) / n - mean * mean + eps)
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        mask = columns < n
        x = tl.load(x_ptr + columns, mask=mask, other=0.0).to(tl.float32)
        y = (x - mean) * rstd * tl.load(w_ptr + columns, mask=mask) + tl.load(b_ptr + columns, mask=mask)
        tl.store(y_ptr + row * stride + columns, y, mask=mask)


@tilewright.jit
def layer_norm_gradient(
    dx_ptr,
    dy_ptr,
    dw_ptr,
    db_ptr,
    x_ptr,
    w_ptr,
    mean_ptr,
    rstd_ptr,
    stride,
    rows,
    n,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    program = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    mask = columns < n
    w = tl.load(w_ptr + columns, mask=mask, other=0.0).to(tl.float32)
    dw = tl.zeros((BLOCK,), tl.float32)
    db = tl.zeros((BLOCK,), tl.float32)
    for row in range(program * ROWS, min((program + 1) * ROWS, rows)):
        x = tl.load(x_ptr + row * stride + columns, mask=mask, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + row * stride + columns, mask=mask, other=0.0).to(tl.float32)
        rstd = tl.load(rstd_ptr + row)
        normed = (x - tl.load(mean_ptr + row)) * rstd
        scaled = w * dy
        along = tl.sum(tl.where(mask, normed * scaled, 0.0), 0) / n
        level = tl.sum(scaled, 0) / n
        tl.store(dx_ptr + row * stride + columns, (scaled - (normed * along + level)) * rstd, mask=mask)
        dw += dy * normed
        db += dy
    tl.store(dw_ptr + program * n + columns, dw, mask=mask)
    tl.store(db_ptr + program * n + columns, db, mask=mask)


@tilewright.jit
def rms_norm(x_ptr, w_ptr, y_ptr, rstd_ptr, stride, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    mask = columns < n
    x = tl.load(x_ptr + row * stride + columns, mask=mask, other=0.0)
    exact = x.to(tl.float32)
    rstd = tl.rsqrt(tl.sum(exact * exact, 0) / n + eps)
    tl.store(rstd_ptr + row, rstd)
    y = (exact * rstd).to(x.dtype) * tl.load(w_ptr + columns, mask=mask)
    tl.store(y_ptr + row * stride + columns, y, mask=mask)


@tilewright.jit
def add_rms_norm(x_ptr, residual_ptr, w_ptr, y_ptr, stride, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    mask = columns < n
    x = tl.load(x_ptr + row * stride + columns, mask=mask, other=0.0)
    x += tl.load(residual_ptr + row * stride + columns, mask=mask, other=0.0)
    tl.store(residual_ptr + row * stride + columns, x, mask=mask)
    exact = x.to(tl.float32)
    rstd = tl.rsqrt(tl.sum(exact * exact, 0) / n + eps)
    y = exact * rstd * (1.0 + tl.load(w_ptr + columns, mask=mask).to(tl.float32))
    tl.store(y_ptr + row * stride + columns, y, mask=mask)


@tilewright.jit
def rms_norm_gradient(
    dy_ptr, x_ptr, w_ptr, rstd_ptr, dx_ptr, dw_ptr, stride, n, rows, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    program = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    mask = columns < n
    w = tl.load(w_ptr + columns, mask=mask, other=0.0).to(tl.float32)
    dw = tl.zeros((BLOCK,), tl.float32)
    for step in range(ROWS):
        row = program * ROWS + step
        inside = mask & (row < rows)
        dy = tl.load(dy_ptr + row * stride + columns, mask=inside, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + row * stride + columns, mask=inside, other=0.0).to(tl.float32)
        rstd = tl.load(rstd_ptr + row, mask=row < rows, other=0.0)
        scaled = dy * w
        dx = rstd * (scaled - x * (rstd * rstd / n) * tl.sum(scaled * x, 0))
        tl.store(dx_ptr + row * stride + columns, dx, mask=inside)
        dw += dy * x * rstd
    tl.store(dw_ptr + program * n + columns, dw, mask=mask)


@tilewright.jit
def group_norm(x_ptr, w_ptr, b_ptr, y_ptr, channels, size, groups, eps, CHANNELS: tl.constexpr, BLOCK: tl.constexpr):
    batch = tl.program_id(0)
    group = tl.program_id(1)
    per_group = channels // groups
    channel = tl.arange(0, CHANNELS)
    first = (batch * channels + group * per_group) * size
    sums = tl.zeros((CHANNELS, BLOCK), tl.float32)
    squares = tl.zeros((CHANNELS, BLOCK), tl.float32)
    for start in range(0, size, BLOCK):
        place = start + tl.arange(0, BLOCK)
        mask = (channel < per_group)[:, None] & (place < size)[None, :]
        x = tl.load(x_ptr + first + channel[:, None] * size + place[None, :], mask=mask, other=0.0).to(tl.float32)
        sums += x
        squares += x * x
    count = per_group * size
    mean = tl.sum(sums) / count
    rstd = tl.rsqrt(tl.sum(squares) / count - mean * mean + eps)
    w = tl.load(w_ptr + group * per_group + channel, mask=channel < per_group, other=0.0).to(tl.float32)
    b = tl.load(b_ptr + group * per_group + channel, mask=channel < per_group, other=0.0).to(tl.float32)
    for start in range(0, size, BLOCK):
        place = start + tl.arange(0, BLOCK)
        mask = (channel < per_group)[:, None] & (place < size)[None, :]
        offsets = first + channel[:, None] * size + place[None, :]
        x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        tl.store(y_ptr + offsets, (x - mean) * rstd * w[:, None] + b[:, None], mask=mask)


NORM = "*fp16 x_ptr w_ptr b_ptr y_ptr; *fp32 mean_ptr rstd_ptr; i32 stride n; fp32 eps"
GRADIENT = "*bf16 dx_ptr dy_ptr; *fp32 dw_ptr db_ptr; *bf16 x_ptr w_ptr; *fp32 mean_ptr rstd_ptr; i32 stride rows n"
RMS = "*bf16 x_ptr w_ptr y_ptr; *fp32 rstd_ptr; i32 stride n; fp32 eps"
RMS_GRADIENT = "*bf16 dy_ptr x_ptr w_ptr; *fp32 rstd_ptr; *bf16 dx_ptr; *fp32 dw_ptr; i32 stride n rows"
GROUPS = "*fp16 x_ptr w_ptr b_ptr y_ptr; i32 channels size groups; fp32 eps"
ROWS = (
    Row("layer_norm", "layer_norm", types(NORM), {"BLOCK": 2048}, 8),
    Row(
        "layer_norm_looped",
        "layer_norm_looped",
        types("*fp32 x_ptr w_ptr b_ptr y_ptr; i32 stride n; fp32 eps"),
        {"BLOCK": 1024},
    ),
    Row("layer_norm_gradient", "layer_norm_gradient", types(GRADIENT), {"ROWS": 16, "BLOCK": 1024}, 8),
    Row("rms_norm", "rms_norm", types(RMS), {"BLOCK": 4096}, 8),
    Row(
        "add_rms_norm",
        "add_rms_norm",
        types("*fp16 x_ptr residual_ptr w_ptr y_ptr; i32 stride n; fp32 eps"),
        {"BLOCK": 2048},
    ),
    Row("rms_norm_gradient", "rms_norm_gradient", types(RMS_GRADIENT), {"ROWS": 8, "BLOCK": 1024}),
    Row("group_norm", "group_norm", types(GROUPS), {"CHANNELS": 8, "BLOCK": 256}),
)
