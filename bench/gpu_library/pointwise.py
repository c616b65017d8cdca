"""Activations, rotary embeddings, dropout and optimiser steps: no sums across elements."""

from __future__ import annotations

import tilewright
import tilewright.language as tl
from gpu_library.problem import Row, types
from tilewright.language.extra import libdevice


@tilewright.jit
def swiglu(gate_ptr, up_ptr, out_ptr, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    mask = columns < n
    gate = tl.load(gate_ptr + row * stride + columns, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(up_ptr + row * stride + columns, mask=mask, other=0.0)
    tl.store(out_ptr + row * stride + columns, (gate * tl.sigmoid(gate)).to(up.dtype) * up, mask=mask)


@tilewright.jit
def swiglu_gradient(dc_ptr, gate_ptr, up_ptr, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    mask = columns < n
    offsets = row * stride + columns
    dc = tl.load(dc_ptr + offsets, mask=mask, other=0.0)
    gate = tl.load(gate_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(up_ptr + offsets, mask=mask, other=0.0)
    sigmoid = tl.sigmoid(gate)
    silu = gate * sigmoid
    tl.store(gate_ptr + offsets, dc * (silu * (1 - sigmoid) + sigmoid) * up, mask=mask)
    tl.store(up_ptr + offsets, dc * silu, mask=mask)


@tilewright.jit
def geglu_tanh(x_ptr, out_ptr, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = columns < n
    gate = tl.load(x_ptr + row * stride + columns, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(x_ptr + row * stride + n + columns, mask=mask, other=0.0).to(tl.float32)
    inner = 0.7978845608 * (gate + 0.044715 * gate * gate * gate)
    tl.store(out_ptr + row * n + columns, 0.5 * gate * (1 + libdevice.tanh(inner)) * up, mask=mask)


@tilewright.jit
def gelu_erf(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n).to(tl.float32)
    tl.store(y_ptr + offsets, 0.5 * x * (1 + tl.erf(x * 0.7071067811865476)), mask=offsets < n)


@tilewright.jit
def mish(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(y_ptr + offsets, x * libdevice.tanh(libdevice.log1p(libdevice.exp(x))), mask=offsets < n)


@tilewright.jit
def rotary(q_ptr, cos_ptr, sin_ptr, out_ptr, length, heads, stride, HALF: tl.constexpr, HEADS: tl.constexpr):
    position = tl.program_id(0)
    head = tl.program_id(1) * HEADS + tl.arange(0, HEADS)
    column = tl.arange(0, HALF)
    cos = tl.load(cos_ptr + (position % length) * HALF + column)
    sin = tl.load(sin_ptr + (position % length) * HALF + column)
    offsets = position * stride + head[:, None] * (2 * HALF) + column[None, :]
    mask = (head < heads)[:, None]
    first = tl.load(q_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    second = tl.load(q_ptr + offsets + HALF, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + offsets, first * cos - second * sin, mask=mask)
    tl.store(out_ptr + offsets + HALF, second * cos + first * sin, mask=mask)


@tilewright.jit
def rotary_computed(x_ptr, positions_ptr, out_ptr, stride, base, heads, HALF: tl.constexpr, HEADS: tl.constexpr):
    token = tl.program_id(0)
    column = tl.arange(0, HALF)
    position = tl.load(positions_ptr + token).to(tl.float32)
    angle = position * libdevice.pow(base, -column.to(tl.float32) / HALF)
    cos, sin = tl.cos(angle)[None, :], tl.sin(angle)[None, :]
    head = tl.arange(0, HEADS)
    offsets = token * stride + head[:, None] * (2 * HALF) + column[None, :]
    mask = (head < heads)[:, None]
    first = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    second = tl.load(x_ptr + offsets + HALF, mask=mask, other=0.0)
    tl.store(out_ptr + offsets, first * cos - second * sin, mask=mask)
    tl.store(out_ptr + offsets + HALF, second * cos + first * sin, mask=mask)


@tilewright.jit
def dropout(x_ptr, residual_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    kept = tl.rand(seed, offsets) > p
    y = tl.where(kept, x / (1 - p), 0.0) + tl.load(residual_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, y, mask=mask)


@tilewright.jit
def adam(p_ptr, g_ptr, m_ptr, v_ptr, n, rate, beta1, beta2, eps, decay, step, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    p = tl.load(p_ptr + offsets, mask=mask).to(tl.float32)
    g = tl.load(g_ptr + offsets, mask=mask).to(tl.float32)
    m = beta1 * tl.load(m_ptr + offsets, mask=mask) + (1 - beta1) * g
    v = beta2 * tl.load(v_ptr + offsets, mask=mask) + (1 - beta2) * g * g
    tl.store(m_ptr + offsets, m, mask=mask)
    tl.store(v_ptr + offsets, v, mask=mask)
    m_unbiased = m / (1 - libdevice.pow(beta1, step))
    v_unbiased = v / (1 - libdevice.pow(beta2, step))
    p = p * (1 - rate * decay) - rate * m_unbiased / (tl.sqrt(v_unbiased) + eps)
    tl.store(p_ptr + offsets, p, mask=mask)


@tilewright.jit
def embedding(indices_ptr, weight_ptr, out_ptr, n, width, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr):
    place = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    column = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    mask = (place < n)[:, None] & (column < width)[None, :]
    index = tl.load(indices_ptr + place, mask=place < n, other=0)
    rows = tl.load(weight_ptr + index[:, None] * width + column[None, :], mask=mask, other=0.0)
    tl.store(out_ptr + place[:, None] * width + column[None, :], rows, mask=mask)


@tilewright.jit
def embedding_gradient(dy_ptr, indices_ptr, dw_ptr, n, width, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr):
    place = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    column = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    mask = (place < n)[:, None] & (column < width)[None, :]
    index = tl.load(indices_ptr + place, mask=place < n, other=0)
    dy = tl.load(dy_ptr + place[:, None] * width + column[None, :], mask=mask, other=0.0)
    tl.atomic_add(dw_ptr + index[:, None] * width + column[None, :], dy, mask=mask)


GLU = "*bf16 {}; i32 stride n"
ADAM = "*bf16 p_ptr g_ptr; *fp32 m_ptr v_ptr; i32 n; fp32 rate beta1 beta2 eps decay step"
TABLES = "*fp16 q_ptr; *fp32 cos_ptr sin_ptr; *fp16 out_ptr; i32 length heads stride"
COMPUTED = "*fp32 x_ptr; *i64 positions_ptr; *fp32 out_ptr; i32 stride; fp32 base; i32 heads"
ROWS = (
    Row("swiglu", "swiglu", types(GLU.format("gate_ptr up_ptr out_ptr")), {"BLOCK": 4096}, 8),
    Row("swiglu_gradient", "swiglu_gradient", types(GLU.format("dc_ptr gate_ptr up_ptr")), {"BLOCK": 2048}, 8),
    Row("geglu_tanh", "geglu_tanh", types("*fp16 x_ptr out_ptr; i32 stride n"), {"BLOCK": 1024}),
    Row("gelu_erf", "gelu_erf", types("*fp16 x_ptr y_ptr; i32 n"), {"BLOCK": 1024}),
    Row("mish", "mish", types("*fp32 x_ptr y_ptr; i32 n"), {"BLOCK": 1024}),
    Row("rotary", "rotary", types(TABLES), {"HALF": 64, "HEADS": 8}),
    Row("rotary_computed", "rotary_computed", types(COMPUTED), {"HALF": 64, "HEADS": 16}),
    Row("dropout", "dropout", types("*fp16 x_ptr residual_ptr out_ptr; i32 n; fp32 p; i32 seed"), {"BLOCK": 1024}),
    Row("adam", "adam", types(ADAM), {"BLOCK": 1024}),
    Row(
        "embedding",
        "embedding",
        types("*i64 indices_ptr; *fp16 weight_ptr out_ptr; i32 n width"),
        {"BLOCK_N": 16, "BLOCK_D": 128},
    ),
    Row(
        "embedding_gradient",
        "embedding_gradient",
        types("*fp32 dy_ptr; *i64 indices_ptr; *fp32 dw_ptr; i32 n width"),
        {"BLOCK_N": 16, "BLOCK_D": 128},
    ),
)
