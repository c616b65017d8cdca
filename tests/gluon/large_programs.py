"""Programs of Gluon for sm_90, as large as those that people write: `python large_programs.py attention` runs one.

It prints what that costs on a simulated GPU, compilation included: seconds of a processor, and the MiB that the
process has needed at most. Results are compared with NumPy's.
"""

from __future__ import annotations

import json
import resource
import sys
import time

import numpy as np
from descriptors import aligned, described

import tilewright as tw
from tilewright import gluon
from tilewright.gluon import language as gl
from tilewright.language.gluon.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

LAYOUT = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)
LOG2_E = 1.4426950408889634


@gluon.jit
def load_block(k, v, row, step, keys, values, bars, BLOCK: gl.constexpr):
    """Have the keys and values of a step brought to the buffers that are its turn."""
    slot = step % 2
    mbarrier.expect(bars.index(slot), k.block_type.nbytes + v.block_type.nbytes)
    tma.async_load(k, [row + step * BLOCK, 0], bars.index(slot), keys.index(slot))
    tma.async_load(v, [row + step * BLOCK, 0], bars.index(slot), values.index(slot))


@gluon.jit
def attention(q, k, v, out, scale, n, M: gl.constexpr, N: gl.constexpr, HEAD: gl.constexpr):
    """Flash attention: M queries of a head, its keys in blocks of N; two blocks are on their way at a time."""
    sums: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [gl.num_warps(), 1], [16, HEAD, 16])
    scores: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [gl.num_warps(), 1], [16, N, 16])
    rows: gl.constexpr = gl.SliceLayout(1, scores)
    weights: gl.constexpr = gl.DotOperandLayout(0, sums, 2)
    queries = gl.allocate_shared_memory(q.dtype, [M, HEAD], q.layout)
    keys = gl.allocate_shared_memory(k.dtype, [2, N, HEAD], k.layout)
    values = gl.allocate_shared_memory(v.dtype, [2, N, HEAD], v.layout)
    bars = gl.allocate_shared_memory(gl.int64, [3, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(3):
        mbarrier.init(bars.index(i), count=1)
    first, row = gl.program_id(1) * n, gl.program_id(1) * n + gl.program_id(0) * M
    mbarrier.expect(bars.index(2), q.block_type.nbytes)
    tma.async_load(q, [row, 0], bars.index(2), queries)
    for step in gl.static_range(2):
        load_block(k, v, first, step, keys, values, bars, N)
    peak = gl.full([M], float("-inf"), gl.float32, layout=rows)
    total = gl.zeros([M], gl.float32, layout=rows)
    result = gl.zeros([M, HEAD], gl.float32, layout=sums)
    mbarrier.wait(bars.index(2), 0)
    for step in range(n // N):
        slot = step % 2
        mbarrier.wait(bars.index(slot), step // 2 & 1)
        nothing = gl.zeros([M, N], gl.float32, layout=scores)
        running = warpgroup_mma(queries, keys.index(slot).permute((1, 0)), nothing, use_acc=False, is_async=True)
        score = warpgroup_mma_wait(0, deps=(running,)) * scale
        higher = gl.maximum(peak, gl.max(score, axis=1))
        weight = gl.exp2(score - higher[:, None])
        shrink = gl.exp2(peak - higher)
        total = total * shrink + gl.sum(weight, axis=1)
        result = result * gl.convert_layout(shrink, gl.SliceLayout(1, sums))[:, None]
        peak = higher
        operand = gl.convert_layout(weight.to(v.dtype), weights)
        running = warpgroup_mma(operand, values.index(slot), result, is_async=True)
        result = warpgroup_mma_wait(0, deps=(running,))
        gl.barrier()
        if step + 2 < n // N:
            load_block(k, v, first, step + 2, keys, values, bars, N)
    result = result / gl.convert_layout(total, gl.SliceLayout(1, sums))[:, None]
    queries.store(result.to(out.dtype))
    fence_async_shared()
    tma.async_store(out, [row, 0], queries)
    tma.store_wait(0)


@gluon.jit
def load_tile(a, b, row, column, step, x, y, bars, BLOCK: gl.constexpr, STAGES: gl.constexpr):
    """Have the blocks of a step brought to the buffers that are its turn; steps count through a program's tiles."""
    slot, at = step % STAGES, step % (a.shape[1] // BLOCK) * BLOCK
    mbarrier.expect(bars.index(slot), a.block_type.nbytes + b.block_type.nbytes)
    tma.async_load(a, [row, at], bars.index(slot), x.index(slot))
    tma.async_load(b, [at, column], bars.index(slot), y.index(slot))


@gluon.jit
def persistent_product(a, b, c, TILE: gl.constexpr, BLOCK: gl.constexpr, STAGES: gl.constexpr):
    """Each program computes tiles of the product one after the other, with STAGES blocks of each operand at hand."""
    sums: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [gl.num_warps(), 1], [16, TILE, 16])
    x = gl.allocate_shared_memory(a.dtype, [STAGES, TILE, BLOCK], a.layout)
    y = gl.allocate_shared_memory(b.dtype, [STAGES, BLOCK, TILE], b.layout)
    out = gl.allocate_shared_memory(c.dtype, [TILE, TILE], c.layout)
    bars = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(bars.index(i), count=1)
    across, steps, done = c.shape[1] // TILE, a.shape[1] // BLOCK, 0
    for tile in range(gl.program_id(0), c.shape[0] // TILE * across, gl.num_programs(0)):
        row, column = tile // across * TILE, tile % across * TILE
        for step in gl.static_range(STAGES - 1):
            load_tile(a, b, row, column, done + step, x, y, bars, BLOCK, STAGES)
        total = gl.zeros([TILE, TILE], gl.float32, layout=sums)
        for step in range(steps):
            slot = done % STAGES
            mbarrier.wait(bars.index(slot), done // STAGES & 1)
            running = warpgroup_mma(x.index(slot), y.index(slot), total, is_async=True)
            total = warpgroup_mma_wait(0, deps=(running,))
            gl.barrier()
            if step + STAGES - 1 < steps:
                load_tile(a, b, row, column, done + STAGES - 1, x, y, bars, BLOCK, STAGES)
            done += 1
        tma.store_wait(0)
        gl.barrier()
        out.store(total.to(c.dtype))
        fence_async_shared()
        tma.async_store(c, [row, column], out)
    tma.store_wait(0)


def random(*shape: int) -> np.ndarray:
    found = aligned(shape, np.float16)
    found[...] = np.random.default_rng(sum(shape)).standard_normal(shape)
    return found


def run_attention() -> None:
    """One head of 256 queries and keys of 64 numbers."""
    n, head, tile = 256, 64, 64
    q, k, v = random(n, head), random(n, head)[::-1].copy(), random(n, head) * np.float16(0.5)
    out = aligned((n, head), np.float16)
    described_arrays = [described(array, [tile, head], LAYOUT) for array in (q, *map(_moved, (k, v)), out)]
    attention[(n // tile, 1)](*described_arrays, LOG2_E / head**0.5, n, M=tile, N=tile, HEAD=head)
    score = q.astype(np.float64) @ k.astype(np.float64).T / head**0.5
    weight = np.exp(score - score.max(axis=1, keepdims=True))
    np.testing.assert_allclose(out, weight / weight.sum(axis=1, keepdims=True) @ v, atol=4e-3)


def _moved(array: np.ndarray) -> np.ndarray:
    """The same at an address that descriptors take."""
    found = aligned(array.shape, np.float16)
    found[...] = array
    return found


def run_product() -> None:
    """512³ on four programs, each of which has four tiles."""
    n, tile, block = 512, 128, 64
    a, b, c = random(n, n), _moved(random(n, n).T), aligned((n, n), np.float16)
    blocks = (a, [tile, block]), (b, [block, tile]), (c, [tile, tile])
    persistent_product[(4,)](*[described(*pair, LAYOUT) for pair in blocks], TILE=tile, BLOCK=block, STAGES=3)
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32), atol=0.1, rtol=2e-3)


PROGRAMS = {"attention": run_attention, "product": run_product}


def main() -> None:
    run = PROGRAMS[sys.argv[1]]
    begin = time.process_time()
    with tw.simulate("cuda:90"):
        run()
    seconds = time.process_time() - begin
    mebibytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sys.stdout.write(json.dumps({"seconds": round(seconds, 1), "mebibytes": round(mebibytes)}))


if __name__ == "__main__":
    main()
