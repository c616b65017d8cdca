"""The kernels that are tuned and timed on a device, beside the anchors: products, attention both ways, layer norm.

Triton reads this file, too: `rivals.py` has it compile the same text.
"""

from __future__ import annotations

import tilewright
import tilewright.language as tl


@tilewright.jit
def place_of_tile(tile, down, across, BAND: tl.constexpr):
    """Row and column of a tile: down each column of a band of tile rows, so that neighbours share factors."""
    first = tile // (BAND * across) * BAND
    height = tl.minimum(down - first, BAND)
    inside = tile % (BAND * across)
    return first + inside % height, inside // height


@tilewright.jit
def tile_of_product(
    a_ptr, b_ptr, row, column, end, N, K,
    TRANSPOSED: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    """The sum of products of the rows from `row` to `end` and the columns from `column` on."""
    rows = tl.minimum(row + tl.arange(0, BLOCK_M), end - 1)
    columns = (column + tl.arange(0, BLOCK_N)) % N
    depth = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + rows[:, None] * K + depth[None, :]
    if TRANSPOSED:
        b_ptrs = b_ptr + columns[None, :] * K + depth[:, None]
    else:
        b_ptrs = b_ptr + depth[:, None] * N + columns[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(tl.cdiv(K, BLOCK_K)):
        a = tl.load(a_ptrs, mask=depth[None, :] < K - k * BLOCK_K, other=0.0)
        b = tl.load(b_ptrs, mask=depth[:, None] < K - k * BLOCK_K, other=0.0)
        total = tl.dot(a, b, total)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K if TRANSPOSED else BLOCK_K * N
    return total


@tilewright.jit
def store_tile(c_ptr, total, row, column, end, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows, columns = row + tl.arange(0, BLOCK_M), column + tl.arange(0, BLOCK_N)
    mask = (rows[:, None] < end) & (columns[None, :] < N)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], total.to(c_ptr.dtype.element_ty), mask=mask)


@tilewright.jit
def product(
    a_ptr, b_ptr, c_ptr, M, N, K,
    TRANSPOSED: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, BAND: tl.constexpr,
):
    row, column = place_of_tile(tl.program_id(0), tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), BAND)
    row, column = row * BLOCK_M, column * BLOCK_N
    total = tile_of_product(a_ptr, b_ptr, row, column, M, N, K, TRANSPOSED, BLOCK_M, BLOCK_N, BLOCK_K)
    store_tile(c_ptr, total, row, column, M, N, BLOCK_M, BLOCK_N)


@tilewright.jit
def persistent_product(
    a_ptr, b_ptr, c_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, BAND: tl.constexpr,
):
    """Each program computes every n-th tile, n being the number of programs; tiles come and go by descriptors."""
    a_tiles = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_tiles = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [BLOCK_K, BLOCK_N])
    c_tiles = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    down, across = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    for tile in tl.range(tl.program_id(0), down * across, tl.num_programs(0)):
        row, column = place_of_tile(tile, down, across, BAND)
        total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(tl.cdiv(K, BLOCK_K)):
            a = a_tiles.load([row * BLOCK_M, k * BLOCK_K])
            b = b_tiles.load([k * BLOCK_K, column * BLOCK_N])
            total = tl.dot(a, b, total)
        c_tiles.store([row * BLOCK_M, column * BLOCK_N], total.to(c_ptr.dtype.element_ty))


@tilewright.jit
def grouped_product(
    a_ptr, b_ptr, c_ptr, starts_ptr, groups, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, BAND: tl.constexpr,
):
    """Rows `starts[g]` to `starts[g + 1]` of `a` times the g-th of the matrices `b`, in one launch.

    Each program computes every n-th tile of all groups, n being the number of programs.
    """
    tile, ahead = tl.program_id(0), 0
    across = tl.cdiv(N, BLOCK_N)
    for group in range(groups):
        start, end = tl.load(starts_ptr + group), tl.load(starts_ptr + group + 1)
        down = tl.cdiv(end - start, BLOCK_M)
        while tile < ahead + down * across:
            row, column = place_of_tile(tile - ahead, down, across, BAND)
            row, column = start + row * BLOCK_M, column * BLOCK_N
            b_of_group = b_ptr + group.to(tl.int64) * N * K
            total = tile_of_product(a_ptr, b_of_group, row, column, end, N, K, False, BLOCK_M, BLOCK_N, BLOCK_K)
            store_tile(c_ptr, total, row, column, end, N, BLOCK_M, BLOCK_N)
            tile += tl.num_programs(0)
        ahead += down * across


@tilewright.jit
def attention_forward(
    q_ptr, k_ptr, v_ptr, out_ptr, log_sums_ptr, scale, n_rows,
    CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, HEAD: tl.constexpr,
):
    """Attention that also stores the binary logarithm of each row's sum of weights, which the backward pass needs."""
    start, head = tl.program_id(0) * BLOCK_M, tl.program_id(1).to(tl.int64) * n_rows
    rows, others, depth = start + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N), tl.arange(0, HEAD)
    q = tl.load(q_ptr + (head + rows[:, None]) * HEAD + depth[None, :])
    k_ptrs = k_ptr + (head + others[None, :]) * HEAD + depth[:, None]
    v_ptrs = v_ptr + (head + others[:, None]) * HEAD + depth[None, :]
    largest = tl.full((BLOCK_M,), -float("inf"), dtype=tl.float32)
    weight = tl.zeros((BLOCK_M,), dtype=tl.float32)
    total = tl.zeros((BLOCK_M, HEAD), dtype=tl.float32)
    end = start + BLOCK_M if CAUSAL else n_rows
    for first in range(0, end, BLOCK_N):
        scores = tl.dot(q, tl.load(k_ptrs)) * (scale * 1.44269504)
        if CAUSAL:
            scores = tl.where(rows[:, None] >= first + others[None, :], scores, -float("inf"))
        larger = tl.maximum(largest, tl.max(scores, axis=1))
        p = tl.exp2(scores - larger[:, None])
        shrink = tl.exp2(largest - larger)
        weight = weight * shrink + tl.sum(p, axis=1)
        total = tl.dot(p.to(q_ptr.dtype.element_ty), tl.load(v_ptrs), total * shrink[:, None])
        largest = larger
        k_ptrs += BLOCK_N * HEAD
        v_ptrs += BLOCK_N * HEAD
    out = (total / weight[:, None]).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + (head + rows[:, None]) * HEAD + depth[None, :], out)
    tl.store(log_sums_ptr + head + rows, largest + tl.log2(weight))


@tilewright.jit
def attention_levels(out_ptr, grad_ptr, levels_ptr, BLOCK_M: tl.constexpr, HEAD: tl.constexpr):
    """The product of each row of the result with its gradient, for the backward pass."""
    rows, depth = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, HEAD)
    places = rows[:, None] * HEAD + depth[None, :]
    out, grad = tl.load(out_ptr + places).to(tl.float32), tl.load(grad_ptr + places).to(tl.float32)
    tl.store(levels_ptr + rows, tl.sum(out * grad, axis=1))


@tilewright.jit
def attention_keys(
    q_ptr, k_ptr, v_ptr, grad_ptr, log_sums_ptr, levels_ptr, k_grad_ptr, v_grad_ptr, scale, n_rows,
    CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, HEAD: tl.constexpr,
):
    """The gradients of a block of keys and values: the scores are turned round, a row for each key."""
    start, head = tl.program_id(0) * BLOCK_N, tl.program_id(1).to(tl.int64) * n_rows
    keys, depth = start + tl.arange(0, BLOCK_N), tl.arange(0, HEAD)
    places = (head + keys[:, None]) * HEAD + depth[None, :]
    k, v = tl.load(k_ptr + places), tl.load(v_ptr + places)
    k_total = tl.zeros((BLOCK_N, HEAD), dtype=tl.float32)
    v_total = tl.zeros((BLOCK_N, HEAD), dtype=tl.float32)
    for first in range(start // BLOCK_M * BLOCK_M if CAUSAL else 0, n_rows, BLOCK_M):
        rows = first + tl.arange(0, BLOCK_M)
        others = (head + rows[:, None]) * HEAD + depth[None, :]
        q, grad = tl.load(q_ptr + others), tl.load(grad_ptr + others)
        log_sums, levels = tl.load(log_sums_ptr + head + rows), tl.load(levels_ptr + head + rows)
        p = tl.exp2(tl.dot(k, tl.trans(q)) * (scale * 1.44269504) - log_sums[None, :])
        if CAUSAL:
            p = tl.where(rows[None, :] >= keys[:, None], p, 0.0)
        v_total = tl.dot(p.to(grad.dtype), grad, v_total)
        pull = p * (tl.dot(v, tl.trans(grad)) - levels[None, :])
        k_total = tl.dot(pull.to(q.dtype), q, k_total)
    tl.store(k_grad_ptr + places, (k_total * scale).to(k_grad_ptr.dtype.element_ty))
    tl.store(v_grad_ptr + places, v_total.to(v_grad_ptr.dtype.element_ty))


@tilewright.jit
def attention_queries(
    q_ptr, k_ptr, v_ptr, grad_ptr, log_sums_ptr, levels_ptr, q_grad_ptr, scale, n_rows,
    CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, HEAD: tl.constexpr,
):
    """The gradient of a block of queries."""
    start, head = tl.program_id(0) * BLOCK_M, tl.program_id(1).to(tl.int64) * n_rows
    rows, depth = start + tl.arange(0, BLOCK_M), tl.arange(0, HEAD)
    places = (head + rows[:, None]) * HEAD + depth[None, :]
    q, grad = tl.load(q_ptr + places), tl.load(grad_ptr + places)
    log_sums, levels = tl.load(log_sums_ptr + head + rows), tl.load(levels_ptr + head + rows)
    total = tl.zeros((BLOCK_M, HEAD), dtype=tl.float32)
    for first in range(0, start + BLOCK_M if CAUSAL else n_rows, BLOCK_N):
        keys = first + tl.arange(0, BLOCK_N)
        others = (head + keys[:, None]) * HEAD + depth[None, :]
        k, v = tl.load(k_ptr + others), tl.load(v_ptr + others)
        p = tl.exp2(tl.dot(q, tl.trans(k)) * (scale * 1.44269504) - log_sums[:, None])
        if CAUSAL:
            p = tl.where(rows[:, None] >= keys[None, :], p, 0.0)
        pull = p * (tl.dot(grad, tl.trans(v)) - levels[:, None])
        total = tl.dot(pull.to(k.dtype), k, total)
    tl.store(q_grad_ptr + places, (total * scale).to(q_grad_ptr.dtype.element_ty))


@tilewright.jit
def row_softmax(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    places, mask = tl.program_id(0).to(tl.int64) * columns + column, column < columns
    x = tl.load(x_ptr + places, mask=mask, other=-float("inf")).to(tl.float32)
    weights = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + places, (weights / tl.sum(weights, axis=0)).to(out_ptr.dtype.element_ty), mask=mask)


@tilewright.jit
def layer_norm(x_ptr, out_ptr, weight_ptr, bias_ptr, columns, epsilon, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    places, mask = tl.program_id(0).to(tl.int64) * columns + column, column < columns
    x = tl.load(x_ptr + places, mask=mask, other=0.0).to(tl.float32)
    centred = tl.where(mask, x - tl.sum(x, axis=0) / columns, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=0) / columns + epsilon)
    weight, bias = tl.load(weight_ptr + column, mask=mask), tl.load(bias_ptr + column, mask=mask)
    tl.store(out_ptr + places, (centred * scale * weight + bias).to(out_ptr.dtype.element_ty), mask=mask)
