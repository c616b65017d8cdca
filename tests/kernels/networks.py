"""Kernels of neural networks, whose code is looked at for CPUs and for GPUs."""

import tilewright as tw
import tilewright.language as tl


@tw.jit
def normed(x, weight, out, n, ROWS: tl.constexpr, B: tl.constexpr):
    rows, columns = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, B)
    places, inside = rows[:, None] * n + columns[None, :], columns[None, :] < n
    tile = tl.load(x + places, mask=inside, other=0.0).to(tl.float32)
    centred = tl.where(inside, tile - (tl.sum(tile, 1) / n)[:, None], 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, 1) / n + 1e-5)
    gain = tl.load(weight + columns, mask=columns < n)
    tl.store(out + places, centred * scale[:, None] * gain[None, :], mask=inside)


@tw.jit
def attended(query, k, v, i, d, n, B: tl.constexpr, D: tl.constexpr):
    """Attention of `B` queries of `D` numbers, those of `d`, to `n` keys and values, `B` at a time, those of `i`."""
    largest, total = tl.full([B], -float("inf"), tl.float32), tl.zeros([B], tl.float32)
    mixed = tl.zeros([B, D], tl.float32)
    for start in range(0, n, B):
        scores = tl.dot(query, tl.load(k + (start + i)[None, :] * D + d[:, None]))
        larger = tl.maximum(largest, tl.max(scores, 1))
        raised = tl.exp(scores - larger[:, None])
        shrunk = tl.exp(largest - larger)
        total = total * shrunk + tl.sum(raised, 1)
        weights = raised.to(v.dtype.element_ty)
        mixed = tl.dot(weights, tl.load(v + (start + i)[:, None] * D + d[None, :]), mixed * shrunk[:, None])
        largest = larger
    return mixed / total[:, None]
