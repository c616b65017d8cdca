"""The kernels of the table "GPU code": what they are compiled with, and the anchors, which name kernel and device.

Both compilers read this file: `gpu_static_triton.py` has Triton read it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tilewright
import tilewright.language as tl
from tilewright.language.extra import libdevice


@tilewright.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask), mask=mask)


@tilewright.jit
def softmax(out_ptr, in_ptr, in_stride, out_stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    mask = columns < n_cols
    x = tl.load(in_ptr + row * in_stride + columns, mask=mask, other=-float("inf"))
    exponentials = tl.exp(x - tl.max(x, axis=0))
    y = exponentials / tl.sum(exponentials, axis=0)
    tl.store(out_ptr + row * out_stride + columns, y, mask=mask)


@tilewright.jit
def matmul(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    stride_am,
    stride_bk,
    stride_cm,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    row, column = tl.program_id(0), tl.program_id(1)
    rows = (row * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    columns = (column * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    inner = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + rows[:, None] * stride_am + inner[None, :]
    b_ptrs = b_ptr + inner[:, None] * stride_bk + columns[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(tl.cdiv(K, BLOCK_K)):
        a = tl.load(a_ptrs, mask=inner[None, :] < K - k * BLOCK_K, other=0.0)
        b = tl.load(b_ptrs, mask=inner[:, None] < K - k * BLOCK_K, other=0.0)
        total = tl.dot(a, b, total)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * stride_bk
    c_rows = row * BLOCK_M + tl.arange(0, BLOCK_M)
    c_columns = column * BLOCK_N + tl.arange(0, BLOCK_N)
    c_ptrs = c_ptr + stride_cm * c_rows[:, None] + c_columns[None, :]
    tl.store(c_ptrs, total.to(tl.float16), mask=(c_rows[:, None] < M) & (c_columns[None, :] < N))


@tilewright.jit
def matmul_by_descriptors(
    a_ptr, b_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    a_tiles = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_tiles = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [BLOCK_K, BLOCK_N])
    c_tiles = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    row, column = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(tl.cdiv(K, BLOCK_K)):
        a = a_tiles.load([row, k * BLOCK_K])
        b = b_tiles.load([k * BLOCK_K, column])
        total = tl.dot(a, b, total)
    c_tiles.store([row, column], total.to(tl.float16))


@tilewright.jit
def attention(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    scale,
    stride_head,
    stride_row,
    n_rows,
    CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    HEAD: tl.constexpr,
):
    start = tl.program_id(0) * BLOCK_M
    base = tl.program_id(1) * stride_head
    rows = start + tl.arange(0, BLOCK_M)
    others = tl.arange(0, BLOCK_N)
    depth = tl.arange(0, HEAD)
    q = tl.load(q_ptr + base + rows[:, None] * stride_row + depth[None, :], mask=rows[:, None] < n_rows, other=0.0)
    k_ptrs = k_ptr + base + others[None, :] * stride_row + depth[:, None]
    v_ptrs = v_ptr + base + others[:, None] * stride_row + depth[None, :]
    largest = tl.full((BLOCK_M,), -float("inf"), dtype=tl.float32)
    weight = tl.zeros((BLOCK_M,), dtype=tl.float32)
    total = tl.zeros((BLOCK_M, HEAD), dtype=tl.float32)
    end = start + BLOCK_M if CAUSAL else n_rows
    for first in range(0, end, BLOCK_N):
        k = tl.load(k_ptrs + first * stride_row)
        scores = tl.dot(q, k) * (scale * 1.44269504)
        if CAUSAL:
            scores = tl.where(rows[:, None] >= first + others[None, :], scores, -float("inf"))
        larger = tl.maximum(largest, tl.max(scores, axis=1))
        p = tl.exp2(scores - larger[:, None])
        shrink = tl.exp2(largest - larger)
        weight = weight * shrink + tl.sum(p, axis=1)
        total = total * shrink[:, None]
        v = tl.load(v_ptrs + first * stride_row)
        total = tl.dot(p.to(tl.float16), v, total)
        largest = larger
    total = total / weight[:, None]
    out_ptrs = out_ptr + base + rows[:, None] * stride_row + depth[None, :]
    tl.store(out_ptrs, total.to(tl.float16), mask=rows[:, None] < n_rows)


@tilewright.jit
def power(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x, y = tl.load(x_ptr + offsets, mask=mask), tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, libdevice.pow(x, y), mask=mask)


@tilewright.jit
def cosine(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, libdevice.cos(tl.load(x_ptr + offsets, mask=mask)), mask=mask)


@tilewright.jit
def cosine_sums(x_ptr, out_ptr, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    total = tl.full((ROWS, COLUMNS), 0, tl.float32)
    for start in range(0, columns, COLUMNS):
        column = start + tl.arange(0, COLUMNS)[None, :]
        mask = (column < columns) & (row < rows)
        x = tl.load(x_ptr + row * columns + column, mask, eviction_policy="evict_first", other=0.0)
        total = tl.where(mask, total + tl.cos(x), total)
    tl.store(out_ptr + row, tl.sum(total, 1)[:, None], row < rows)


@tilewright.jit
def larger(a, a_index, b, b_index):
    """The larger of two values, NaN above all, and of equal ones the first."""
    a_is_nan, b_is_nan = a != a, b != b
    is_first = (a > b) | (a_is_nan & (b_is_nan == 0))
    is_first |= ((a == b) | (a_is_nan & b_is_nan)) & (a_index < b_index)
    return tl.where(is_first, a, b), tl.where(is_first, a_index, b_index)


@tilewright.jit
def argmax(x_ptr, out_ptr, rows, columns, LAST: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    best = tl.full((ROWS, COLUMNS), float("-inf"), tl.float32)
    place = tl.full((ROWS, COLUMNS), LAST, tl.int64 if LAST > 2147483647 else tl.int32)
    for start in range(0, columns, COLUMNS):
        column = start + tl.arange(0, COLUMNS)[None, :]
        mask = (column < columns) & (row < rows)
        x = tl.load(x_ptr + row * columns + column, mask, eviction_policy="evict_first", other=0.0)
        next_best, next_place = larger(best, place, x, column)
        best = tl.where(mask, next_best, best)
        place = tl.where(mask, next_place, place)
    best, place = tl.reduce((best, place), 1, larger)
    tl.store(out_ptr + row, place[:, None], row < rows)


@tilewright.jit
def argmax_at_once(x_ptr, out_ptr, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, COLUMNS)[None, :]
    mask = (column < columns) & (row < rows)
    x = tl.where(mask, tl.load(x_ptr + row * columns + column, mask, other=0.0), float("-inf"))
    _, place = tl.reduce((x, tl.broadcast_to(column, (ROWS, COLUMNS))), 1, larger)
    tl.store(out_ptr + row, place[:, None], row < rows)


class Anchor(NamedTuple):
    """One row of the table.

    Attributes:
        name: `mm128x128x64_w8s3_80`: kernel and blocks, warps and stages, compute capability.
        kernel: the function's name.
        types: of its run-time arguments.
        constants: values of the others.
        aligned: the arguments that are multiples of 16.
        warps, stages, capability: whom it is compiled for, and how.
    """

    name: str
    kernel: str
    types: dict[str, str]
    constants: dict[str, Any]
    aligned: tuple[str, ...]
    warps: int
    stages: int
    capability: int


HALF, SINGLE, DOUBLE, LONG = "*fp16", "*fp32", "*fp64", "*i64"
ADD = {"x_ptr": SINGLE, "y_ptr": SINGLE, "out_ptr": SINGLE, "n": "i32"}
SOFTMAX = {"out_ptr": SINGLE, "in_ptr": SINGLE, **dict.fromkeys(("in_stride", "out_stride", "n_cols"), "i32")}
FACTORS = dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), HALF) | dict.fromkeys("MNK", "i32")
MATMUL = {**FACTORS, **dict.fromkeys(("stride_am", "stride_bk", "stride_cm"), "i32")}
ATTENTION = {
    **dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "out_ptr"), HALF),
    "scale": "fp32",
    **dict.fromkeys(("stride_head", "stride_row", "n_rows"), "i32"),
}


def _blocks(m: int, n: int, k: int) -> dict[str, int]:
    return {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k}


def _attention(head: int, *, causal: bool) -> dict[str, Any]:
    return {"CAUSAL": causal, "BLOCK_M": 128, "BLOCK_N": 64, "HEAD": head}


def _pointwise(pointer: str, *names: str) -> dict[str, str]:
    return {**dict.fromkeys((*names, "out_ptr"), pointer), "n": "i32"}


def _rows(result: str) -> dict[str, str]:
    return {"x_ptr": SINGLE, "out_ptr": result, "rows": "i32", "columns": "i32"}


def _tile(rows: int, columns: int) -> dict[str, int]:
    return {"ROWS": rows, "COLUMNS": columns}


def _both(capability: int) -> list[Anchor]:
    """The rows that stand for two devices each."""

    def anchor(name: str, kernel: str, types: dict[str, str], constants: dict[str, Any], **given: Any) -> Anchor:
        shape = {"aligned": tuple(types), "warps": 4, "stages": 3, **given}
        return Anchor(f"{name}_{capability}", kernel, types, constants, capability=capability, **shape)

    pointers = tuple(name for name, kind in SOFTMAX.items() if kind == SINGLE)
    return [
        anchor("add1024_w4", "add", ADD, {"BLOCK": 1024}),
        anchor("add1024_nodiv", "add", ADD, {"BLOCK": 1024}, aligned=()),
        anchor("softmax1024_w4", "softmax", SOFTMAX, {"BLOCK": 1024}, aligned=pointers),
        anchor("softmax1024div_w4", "softmax", SOFTMAX, {"BLOCK": 1024}),
        anchor("softmax4096_w8", "softmax", SOFTMAX, {"BLOCK": 4096}, aligned=pointers, warps=8),
        anchor("mm128x128x64_w8s3", "matmul", MATMUL, _blocks(128, 128, 64), warps=8),
        anchor("mm128x128x32_w4s4", "matmul", MATMUL, _blocks(128, 128, 32), stages=4),
        anchor("mm64x64x32_w4s3", "matmul", MATMUL, _blocks(64, 64, 32)),
        anchor("mm128x256x64_w8s3", "matmul", MATMUL, _blocks(128, 256, 64), warps=8),
        anchor("fa128x64d64_w4s3", "attention", ATTENTION, _attention(64, causal=False)),
        anchor("fa128x64d128c_w8s3", "attention", ATTENTION, _attention(128, causal=True), warps=8),
        anchor("pow1024_w4", "power", _pointwise(SINGLE, "x_ptr", "y_ptr"), {"BLOCK": 1024}),
        anchor("pow1024f64_w4", "power", _pointwise(DOUBLE, "x_ptr", "y_ptr"), {"BLOCK": 1024}),
        anchor("cos1024_w4", "cosine", _pointwise(SINGLE, "x_ptr"), {"BLOCK": 1024}),
        anchor("cos1024f64_w4", "cosine", _pointwise(DOUBLE, "x_ptr"), {"BLOCK": 1024}),
        anchor("cossum8x512_w8s1", "cosine_sums", _rows(SINGLE), _tile(8, 512), warps=8, stages=1),
        anchor("argmax8x512_w8s1", "argmax", _rows(LONG), {"LAST": 2**63 - 1} | _tile(8, 512), warps=8, stages=1),
        anchor("argmax16x2048_w8s1", "argmax", _rows(LONG), {"LAST": 2**31 - 1} | _tile(16, 2048), warps=8, stages=1),
        anchor("argmax32x1024_w8s1", "argmax_at_once", _rows(LONG), _tile(32, 1024), warps=8, stages=1),
    ]


ANCHORS = (
    *_both(80),
    *_both(90),
    Anchor(
        "mmtma128x128x64_w8s3_90", "matmul_by_descriptors", FACTORS, _blocks(128, 128, 64), tuple(FACTORS), 8, 3, 90
    ),
    Anchor("mm128x128x64_w4s3_100", "matmul", MATMUL, _blocks(128, 128, 64), tuple(MATMUL), 4, 3, 100),
    Anchor("mm128x128x32_w4s3_120", "matmul", MATMUL, _blocks(128, 128, 32), tuple(MATMUL), 4, 3, 120),
)
