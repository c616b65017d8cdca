"""Products with quantised operands, convolutions, grouped products, linear attention and attention over pages."""

from __future__ import annotations

import tilewright
import tilewright.language as tl
from gpu_library.problem import Row, types


@tilewright.jit
def product_int8(
    a_ptr,
    b_ptr,
    c_ptr,
    a_scale_ptr,
    b_scale_ptr,
    M,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.int32)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_ptr + rows[:, None] * K + k + inner[None, :], mask=(k + inner < K)[None, :], other=0)
        b = tl.load(b_ptr + columns[None, :] * K + k + inner[:, None], mask=(k + inner < K)[:, None], other=0)
        total = tl.dot(a, b, total)
    scales = tl.load(a_scale_ptr + rows)[:, None] * tl.load(b_scale_ptr + columns)[None, :]
    mask = (rows < M)[:, None] & (columns < N)[None, :]
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], total.to(tl.float32) * scales, mask=mask)


@tilewright.jit
def product_int4(
    a_ptr,
    b_ptr,
    c_ptr,
    scale_ptr,
    zero_ptr,
    M,
    N,
    K,
    GROUP: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    shift = (inner % 8) * 4
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_ptr + rows[:, None] * K + k + inner[None, :], mask=(rows < M)[:, None], other=0.0)
        packed = tl.load(b_ptr + ((k + inner) // 8)[:, None] * N + columns[None, :])
        group = k // GROUP
        scale = tl.load(scale_ptr + group * N + columns)
        zero = tl.load(zero_ptr + group * N + columns)
        b = (((packed >> shift[:, None]) & 15) - zero[None, :]).to(tl.float16) * scale[None, :]
        total = tl.dot(a, b, total)
    mask = (rows < M)[:, None] & (columns < N)[None, :]
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], total.to(tl.float16), mask=mask)


@tilewright.jit
def product_weights8(a_ptr, b_ptr, c_ptr, scale_ptr, N, K, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    columns = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_N, BLOCK_K), tl.float32)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_ptr + k + inner, mask=k + inner < K, other=0.0).to(tl.float32)
        b = tl.load(b_ptr + columns[:, None] * K + k + inner[None, :], mask=(k + inner < K)[None, :], other=0)
        total += b.to(tl.float32) * a[None, :]
    tl.store(c_ptr + columns, tl.sum(total, 1) * tl.load(scale_ptr + columns), mask=columns < N)


@tilewright.jit
def quantise_rows(x_ptr, q_ptr, scale_ptr, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    mask = columns < n
    x = tl.load(x_ptr + row * stride + columns, mask=mask, other=0.0).to(tl.float32)
    scale = tl.maximum(tl.max(tl.abs(x), 0), 1e-10) / 127
    scaled = x / scale
    q = tl.where(scaled >= 0, scaled + 0.5, scaled - 0.5).to(tl.int8)
    tl.store(q_ptr + row * stride + columns, q, mask=mask)
    tl.store(scale_ptr + row, scale)


@tilewright.jit
def grouped_product(
    a_ptr,
    b_ptr,
    c_ptr,
    token_ptr,
    expert_ptr,
    weight_ptr,
    padded,
    N,
    K,
    top,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    block, column_block = tl.program_id(0), tl.program_id(1)
    if block * BLOCK_M >= tl.load(padded):
        return
    place = block * BLOCK_M + tl.arange(0, BLOCK_M)
    token = tl.load(token_ptr + place)
    columns = (column_block * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    inner = tl.arange(0, BLOCK_K)
    expert = tl.load(expert_ptr + block).to(tl.int64)
    a_ptrs = a_ptr + (token // top)[:, None] * K + inner[None, :]
    b_ptrs = b_ptr + expert * N * K + columns[None, :] * K + inner[:, None]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(tl.cdiv(K, BLOCK_K)):
        left = K - k * BLOCK_K
        a = tl.load(a_ptrs, mask=(inner < left)[None, :], other=0.0)
        b = tl.load(b_ptrs, mask=(inner < left)[:, None], other=0.0)
        total = tl.dot(a, b, total)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K
    total *= tl.load(weight_ptr + token)[:, None]
    c_columns = column_block * BLOCK_N + tl.arange(0, BLOCK_N)
    tl.store(c_ptr + token[:, None] * N + c_columns[None, :], total.to(tl.bfloat16), mask=(c_columns < N)[None, :])


@tilewright.jit
def conv2d(
    x_ptr,
    w_ptr,
    y_ptr,
    batch,
    channels,
    height,
    width,
    filters,
    BLOCK_P: tl.constexpr,
    BLOCK_F: tl.constexpr,
    BLOCK_C: tl.constexpr,
    SIZE: tl.constexpr,
):
    point = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    column, row, image = point % width, (point // width) % height, point // (width * height)
    filter_ = tl.program_id(1) * BLOCK_F + tl.arange(0, BLOCK_F)
    channel = tl.arange(0, BLOCK_C)
    total = tl.zeros((BLOCK_P, BLOCK_F), tl.float32)
    for tap in range(SIZE * SIZE):
        y = row + tap // SIZE - SIZE // 2
        x = column + tap % SIZE - SIZE // 2
        inside = (y >= 0) & (y < height) & (x >= 0) & (x < width) & (image < batch)
        for start in range(0, channels, BLOCK_C):
            c = start + channel
            places = ((image * channels)[:, None] + c[None, :]) * height * width + (y * width + x)[:, None]
            a = tl.load(x_ptr + places, mask=inside[:, None] & (c < channels)[None, :], other=0.0)
            weights = (filter_[None, :] * channels + c[:, None]) * (SIZE * SIZE) + tap
            b = tl.load(w_ptr + weights, mask=(c < channels)[:, None] & (filter_ < filters)[None, :], other=0.0)
            total = tl.dot(a, b, total)
    places = (image * filters * height * width + row * width + column)[:, None] + filter_[None, :] * (height * width)
    tl.store(y_ptr + places, total, mask=(image < batch)[:, None] & (filter_ < filters)[None, :])


@tilewright.jit
def causal_conv1d(
    x_ptr, w_ptr, b_ptr, y_ptr, length, width, TAPS: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_D: tl.constexpr
):
    time = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    column = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    inside = column < width
    total = tl.zeros((BLOCK_T, BLOCK_D), tl.float32) + tl.load(b_ptr + column, mask=inside, other=0.0)[None, :]
    for tap in tl.static_range(TAPS):
        earlier = time - (TAPS - 1 - tap)
        mask = ((earlier >= 0) & (earlier < length))[:, None] & inside[None, :]
        x = tl.load(x_ptr + earlier[:, None] * width + column[None, :], mask=mask, other=0.0).to(tl.float32)
        total += x * tl.load(w_ptr + column * TAPS + tap, mask=inside, other=0.0).to(tl.float32)[None, :]
    y = total * tl.sigmoid(total)
    tl.store(y_ptr + time[:, None] * width + column[None, :], y, mask=(time < length)[:, None] & inside[None, :])


@tilewright.jit
def linear_attention(q_ptr, k_ptr, v_ptr, o_ptr, decay_ptr, length, CHUNK: tl.constexpr, D: tl.constexpr):
    head = tl.program_id(0)
    base = head * length * D
    place = tl.arange(0, CHUNK)
    column = tl.arange(0, D)
    log_decay = tl.load(decay_ptr + head)
    state = tl.zeros((D, D), tl.float32)
    distance = place[:, None] - place[None, :]
    within = tl.where(distance >= 0, tl.exp2(distance * log_decay), 0.0)
    from_before = tl.exp2((place + 1) * log_decay)
    to_end = tl.exp2((CHUNK - 1 - place) * log_decay)
    for start in range(0, length, CHUNK):
        offsets = base + (start + place)[:, None] * D + column[None, :]
        q, k, v = tl.load(q_ptr + offsets), tl.load(k_ptr + offsets), tl.load(v_ptr + offsets)
        scores = tl.dot(q, tl.trans(k)) * within
        o = tl.dot(q, state.to(q.dtype)) * from_before[:, None]
        o = tl.dot(scores.to(v.dtype), v, o)
        tl.store(o_ptr + offsets, o.to(q.dtype))
        state = state * tl.exp2(CHUNK * log_decay) + tl.dot(tl.trans((k * to_end[:, None]).to(k.dtype)), v)


@tilewright.jit
def paged_attention(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    table_ptr,
    length_ptr,
    scale,
    heads,
    pages,
    PAGE: tl.constexpr,
    D: tl.constexpr,
    GROUP: tl.constexpr,
):
    sequence, head = tl.program_id(0), tl.program_id(1)
    member = tl.arange(0, GROUP)
    column = tl.arange(0, D)
    length = tl.load(length_ptr + sequence)
    q_offsets = ((sequence * heads + head) * GROUP + member)[:, None] * D + column[None, :]
    q = tl.load(q_ptr + q_offsets)
    largest = tl.full((GROUP,), float("-inf"), tl.float32)
    weight = tl.zeros((GROUP,), tl.float32)
    total = tl.zeros((GROUP, D), tl.float32)
    for start in range(0, length, PAGE):
        page = tl.load(table_ptr + sequence * pages + start // PAGE).to(tl.int64)
        slot = tl.arange(0, PAGE)
        offsets = ((page * heads + head) * PAGE + slot)[:, None] * D + column[None, :]
        k = tl.load(k_ptr + offsets)
        scores = tl.dot(q, tl.trans(k)) * scale
        scores = tl.where((start + slot < length)[None, :], scores, float("-inf"))
        larger = tl.maximum(largest, tl.max(scores, 1))
        p = tl.exp2(scores - larger[:, None])
        factor = tl.exp2(largest - larger)
        weight = weight * factor + tl.sum(p, 1)
        total = total * factor[:, None]
        total = tl.dot(p.to(tl.float16), tl.load(v_ptr + offsets), total)
        largest = larger
    tl.store(out_ptr + q_offsets, (total / weight[:, None]).to(tl.float16))


@tilewright.jit
def merge_attention(out_ptr, lse_ptr, merged_ptr, splits, heads, D: tl.constexpr):
    token, head = tl.program_id(0), tl.program_id(1)
    column = tl.arange(0, D)
    largest = float("-inf")
    weight = 0.0
    total = tl.zeros((D,), tl.float32)
    for split in range(splits):
        place = (token * splits + split) * heads + head
        lse = tl.load(lse_ptr + place)
        larger = tl.maximum(largest, lse)
        factor, share = tl.exp(largest - larger), tl.exp(lse - larger)
        total = total * factor + share * tl.load(out_ptr + place * D + column)
        weight = weight * factor + share
        largest = larger
    tl.store(merged_ptr + (token * heads + head) * D + column, total / weight)


@tilewright.jit
def transpose_tiles(x_ptr, y_ptr, rows, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = (row < rows)[:, None] & (column < columns)[None, :]
    x = tl.load(x_ptr + row[:, None] * columns + column[None, :], mask=mask)
    tl.store(y_ptr + column[:, None] * rows + row[None, :], tl.trans(x), mask=tl.trans(mask))


def blocks(m: int, n: int, k: int) -> dict[str, int]:
    return {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k}


INT8 = "*i8 a_ptr b_ptr; *fp32 c_ptr a_scale_ptr b_scale_ptr; i32 M N K"
INT4 = "*fp16 a_ptr; *i32 b_ptr; *fp16 c_ptr scale_ptr; *i32 zero_ptr; i32 M N K"
GROUPED = "*bf16 a_ptr b_ptr c_ptr; *i32 token_ptr expert_ptr; *fp32 weight_ptr; *i32 padded; i32 N K top"
PAGED = "*fp16 q_ptr k_ptr v_ptr out_ptr; *i32 table_ptr length_ptr; fp32 scale; i32 heads pages"
CONV = "*fp16 x_ptr w_ptr; *fp32 y_ptr; i32 batch channels height width filters"
CONV_BLOCKS = {"BLOCK_P": 64, "BLOCK_F": 32, "BLOCK_C": 32, "SIZE": 3}
ROWS = (
    Row("product_int8", "product_int8", types(INT8), blocks(64, 64, 64)),
    Row("product_int4", "product_int4", types(INT4), {"GROUP": 128, **blocks(16, 64, 64)}),
    Row(
        "product_weights8",
        "product_weights8",
        types("*fp16 a_ptr; *i8 b_ptr; *fp32 c_ptr scale_ptr; i32 N K"),
        {"BLOCK_N": 16, "BLOCK_K": 256},
    ),
    Row(
        "quantise_rows",
        "quantise_rows",
        types("*bf16 x_ptr; *i8 q_ptr; *fp32 scale_ptr; i32 stride n"),
        {"BLOCK": 2048},
        8,
    ),
    Row("grouped_product", "grouped_product", types(GROUPED), blocks(64, 64, 32)),
    Row("conv2d", "conv2d", types(CONV), CONV_BLOCKS),
    Row(
        "causal_conv1d",
        "causal_conv1d",
        types("*fp16 x_ptr w_ptr b_ptr y_ptr; i32 length width"),
        {"TAPS": 4, "BLOCK_T": 16, "BLOCK_D": 128},
    ),
    Row(
        "linear_attention",
        "linear_attention",
        types("*fp16 q_ptr k_ptr v_ptr o_ptr; *fp32 decay_ptr; i32 length"),
        {"CHUNK": 64, "D": 64},
        4,
        2,
    ),
    Row("paged_attention", "paged_attention", types(PAGED), {"PAGE": 32, "D": 128, "GROUP": 16}, 4, 2),
    Row("merge_attention", "merge_attention", types("*fp32 out_ptr lse_ptr merged_ptr; i32 splits heads"), {"D": 128}),
    Row("transpose_tiles", "transpose_tiles", types("*fp32 x_ptr y_ptr; i32 rows columns"), {"BLOCK": 64}),
)
