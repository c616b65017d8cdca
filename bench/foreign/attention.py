"""Attention of one new token per sequence over a cache in pages, and rotary positions."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from peers import jax, torch
from works import empty

import tilewright as tw
import tilewright.language as tl
from foreign.problem import RNG, Problem, Row, Shape, normal

PAGE, HEADS, SHARED, HEAD = 16, 8, 4, 64
"""Tokens per page, heads of queries, how many of them share a head of keys, features of a head."""


@tw.jit
def paged_kernel(
    out_ptr, q_ptr, k_ptr, v_ptr, table_ptr, lengths_ptr, scale,
    table_step: int, q_step: int, page_step: int, token_step: int, head_step: int,
    PAGE: tl.constexpr, SHARED: tl.constexpr, HEAD: tl.constexpr,
):
    """One sequence and one head of queries; products by broadcasting and sum."""
    sequence, head = tl.program_id(0), tl.program_id(1)
    length = tl.load(lengths_ptr + sequence)
    feature, token = tl.arange(0, HEAD), tl.arange(0, PAGE)
    q = tl.load(q_ptr + sequence * q_step + head * HEAD + feature)
    largest, total = float("-inf"), 0.0
    mixed = tl.zeros((HEAD,), tl.float32)
    for page in range(tl.cdiv(length, PAGE)):
        block = tl.load(table_ptr + sequence * table_step + page)
        at = block * page_step + head // SHARED * head_step + token[:, None] * token_step + feature[None, :]
        inside = page * PAGE + token < length
        k = tl.load(k_ptr + at, inside[:, None], 0.0)
        scores = tl.where(inside, tl.sum(q[None, :] * k, 1) * scale, float("-inf"))
        highest = tl.maximum(largest, tl.max(scores, 0))
        weights = tl.exp(scores - highest)
        shrunk = tl.exp(largest - highest)
        v = tl.load(v_ptr + at, inside[:, None], 0.0)
        mixed = mixed * shrunk + tl.sum(weights[:, None] * v, 0)
        total = total * shrunk + tl.sum(weights, 0)
        largest = highest
    tl.store(out_ptr + sequence * q_step + head * HEAD + feature, mixed / total)


@tw.jit
def paged_dot_kernel(
    out_ptr, q_ptr, k_ptr, v_ptr, table_ptr, lengths_ptr, scale,
    table_step: int, q_step: int, page_step: int, token_step: int, head_step: int,
    PAGE: tl.constexpr, SHARED: tl.constexpr, HEAD: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
):
    """All heads that share keys, in a tile of ROWS; tokens of several pages by BLOCK; products by dots."""
    sequence, group = tl.program_id(0), tl.program_id(1)
    length = tl.load(lengths_ptr + sequence)
    feature, row = tl.arange(0, HEAD)[None, :], tl.arange(0, ROWS)[:, None]
    q_at = sequence * q_step + (group * SHARED + row) * HEAD + feature
    q = tl.load(q_ptr + q_at, row < SHARED, 0.0)
    largest = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    mixed = tl.zeros((ROWS, HEAD), tl.float32)
    for start in range(0, length, BLOCK):
        token = start + tl.arange(0, BLOCK)
        block = tl.load(table_ptr + sequence * table_step + token // PAGE, token < length, 0)
        at = (block * page_step + token % PAGE * token_step + group * head_step)[:, None] + feature
        k = tl.load(k_ptr + at, (token < length)[:, None], 0.0)
        scores = tl.dot(q, tl.trans(k), allow_tf32=False) * scale
        scores = tl.where((token < length)[None, :], scores, float("-inf"))
        highest = tl.maximum(largest, tl.max(scores, 1))
        weights = tl.exp(scores - highest[:, None])
        shrunk = tl.exp(largest - highest)
        v = tl.load(v_ptr + at, (token < length)[:, None], 0.0)
        mixed = tl.dot(weights, v, mixed * shrunk[:, None], allow_tf32=False)
        total = total * shrunk + tl.sum(weights, 1)
        largest = highest
    tl.store(out_ptr + q_at, mixed / total[:, None], row < SHARED)


@tw.jit
def rope_kernel(x_ptr, cos_ptr, sin_ptr, out_ptr, tokens, heads, HALF: tl.constexpr, HEADS: tl.constexpr):
    """One token: its heads in a tile whose number of rows is a power of two."""
    token = tl.program_id(0).to(tl.int64)
    head, feature = tl.arange(0, HEADS)[:, None], tl.arange(0, HALF)[None, :]
    cos = tl.load(cos_ptr + token * HALF + feature)
    sin = tl.load(sin_ptr + token * HALF + feature)
    at = token * heads * HALF * 2 + head * HALF * 2 + feature
    first, second = tl.load(x_ptr + at, head < heads, 0.0), tl.load(x_ptr + at + HALF, head < heads, 0.0)
    tl.store(out_ptr + at, first * cos - second * sin, head < heads)
    tl.store(out_ptr + at + HALF, second * cos + first * sin, head < heads)


@tw.jit
def rope_pairs_kernel(x_ptr, cos_ptr, sin_ptr, out_ptr, n, heads, HALF: tl.constexpr, BLOCK: tl.constexpr):
    """Neighbours are turned; offsets are taken apart."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    feature, token = at % HALF, at // HALF // heads
    cos = tl.load(cos_ptr + token * HALF + feature, inside)
    sin = tl.load(sin_ptr + token * HALF + feature, inside)
    first, second = tl.load(x_ptr + 2 * at, inside), tl.load(x_ptr + 2 * at + 1, inside)
    tl.store(out_ptr + 2 * at, first * cos - second * sin, inside)
    tl.store(out_ptr + 2 * at + 1, second * cos + first * sin, inside)


def attend(namespace: Any, q: Any, k: Any, v: Any, table: Any, lengths: Any) -> Any:
    """The same with whole arrays: pages are gathered, then all scores of a sequence stand side by side."""
    sequences, pages = table.shape
    keys, values = (x[table].reshape(sequences, pages * PAGE, HEADS // SHARED, HEAD) for x in (k, v))
    grouped = q.reshape(sequences, HEADS // SHARED, SHARED, HEAD)
    scores = namespace.einsum("bgsd,btgd->bgst", grouped, keys) * HEAD**-0.5
    outside = namespace.arange(pages * PAGE)[None, :] >= lengths[:, None]
    scores = namespace.where(outside[:, None, None, :], np.float32(-1e30), scores)
    weights = namespace.exp(scores - namespace.amax(scores, -1)[..., None])
    weights = weights / weights.sum(-1)[..., None]
    return namespace.einsum("bgst,btgd->bgsd", weights, values).reshape(sequences, HEADS, HEAD)


def torch_attend(q: Any, k: Any, v: Any, table: Any, lengths: Any, out: Any) -> Any:
    """With torch's own attention for the second half."""
    sequences, pages = table.shape
    keys, values = (
        x[table].view(sequences, pages * PAGE, HEADS // SHARED, HEAD).transpose(1, 2) for x in (k, v)
    )
    inside = torch.arange(pages * PAGE)[None, None, None, :] < lengths[:, None, None, None]
    return torch.nn.functional.scaled_dot_product_attention(
        q[:, :, None], keys, values, attn_mask=inside, enable_gqa=True
    )[:, :, 0]


def paged(is_dot: bool, sequences: int, tokens: int) -> Problem:
    pages = tw.cdiv(tokens, PAGE)
    lengths = np.linspace(tokens // 2, tokens, sequences).astype(np.int32)
    table = RNG.permutation(sequences * pages).reshape(sequences, pages).astype(np.int32)
    q = normal(sequences, HEADS, HEAD)
    k, v = (normal(sequences * pages, PAGE, HEADS // SHARED, HEAD) for _ in range(2))
    wide = (pages, HEADS * HEAD, PAGE * HEADS // SHARED * HEAD, HEADS // SHARED * HEAD, HEAD)

    def launch(out: np.ndarray, threads: int) -> Any:
        arguments = (out, q, k, v, table, lengths, HEAD**-0.5, *wide, PAGE, SHARED, HEAD)
        if is_dot:
            return paged_dot_kernel[(sequences, HEADS // SHARED)](*arguments, BLOCK=64, ROWS=16, num_threads=threads)
        return paged_kernel[(sequences, HEADS)](*arguments, num_threads=threads)

    moved = int(lengths.sum()) * HEADS // SHARED * HEAD * 2 * 4
    return Problem(launch, empty(*q.shape), (q, k, v, table, lengths), partial(attend, np), {
        "torch": torch_attend,
        "jax": lambda *inputs: attend(jax.numpy, *inputs),
    }, moved=moved)


def turned(namespace: Any, x: Any, cos: Any, sin: Any) -> Any:
    half = x.shape[-1] // 2
    first, second, cos, sin = x[..., :half], x[..., half:], cos[:, None], sin[:, None]
    return namespace.concatenate((first * cos - second * sin, second * cos + first * sin), -1)


def turned_pairs(namespace: Any, x: Any, cos: Any, sin: Any) -> Any:
    first, second, cos, sin = x[..., ::2], x[..., 1::2], cos[:, None], sin[:, None]
    return namespace.stack((first * cos - second * sin, second * cos + first * sin), -1).reshape(x.shape)


def rope(is_paired: bool, tokens: int, heads: int) -> Problem:
    x, angles = normal(tokens, heads, HEAD), normal(tokens, HEAD // 2)
    cos, sin = np.cos(angles), np.sin(angles)
    n, work = x.size // 2, turned_pairs if is_paired else turned

    def launch(out: np.ndarray, threads: int) -> Any:
        if is_paired:
            return rope_pairs_kernel[(tw.cdiv(n, 1024),)](
                x, cos, sin, out, n, heads, HALF=HEAD // 2, BLOCK=1024, num_threads=threads
            )
        rows = tw.next_power_of_2(heads)
        return rope_kernel[(tokens,)](
            x, cos, sin, out, tokens, heads, HALF=HEAD // 2, HEADS=rows, num_threads=threads
        )

    return Problem(launch, empty(*x.shape), (x, cos, sin), partial(work, np), {
        "torch": lambda x, cos, sin, out: work(torch, x, cos, sin),
        "jax": lambda x, cos, sin: work(jax.numpy, x, cos, sin),
    })


CACHES: tuple[Shape, Shape, Shape] = (1, 16), (4, 256), (16, 8192)
TOKENS: tuple[Shape, Shape, Shape] = (4, 6), (256, 12), (8192, 32)

ROWS = (
    Row("paged attention by sums", partial(paged, False), CACHES),
    Row("paged attention by dots", partial(paged, True), CACHES),
    Row("rope of halves", partial(rope, False), TOKENS),
    Row("rope of pairs, // and %", partial(rope, True), TOKENS),
)
