"""Kernels of Gluon, for Tilewright and for Triton: nothing in this file says which one imports it."""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("tilewright"):
    from tilewright import gluon
    from tilewright.gluon import language as gl
    from tilewright.language.extra import libdevice
    from tilewright.language.gluon.nvidia.blackwell import (
        TensorMemoryLayout,
        add2,
        allocate_tensor_memory,
        fma2,
        max2,
        min2,
        mul2,
        sub2,
        tcgen05_commit,
        tcgen05_mma,
        tcgen05_mma_barrier_count,
    )
    from tilewright.language.gluon.nvidia.hopper import (
        CachePolicy,
        FractionalEvictionPolicy,
        async_copy,
        fence_async_shared,
        mbarrier,
        mma_v2,
        tma,
        warpgroup_mma,
        warpgroup_mma_wait,
    )
else:
    from triton.experimental import gluon
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon.language.extra import libdevice
    from triton.experimental.gluon.language.nvidia.blackwell import (
        TensorMemoryLayout,
        add2,
        allocate_tensor_memory,
        fma2,
        max2,
        min2,
        mul2,
        sub2,
        tcgen05_commit,
        tcgen05_mma,
        tcgen05_mma_barrier_count,
    )
    from triton.experimental.gluon.language.nvidia.hopper import (
        CachePolicy,
        FractionalEvictionPolicy,
        async_copy,
        fence_async_shared,
        mbarrier,
        mma_v2,
        tma,
        warpgroup_mma,
        warpgroup_mma_wait,
    )


@gluon.jit
def copy(x, out, n, BLOCK: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    offsets = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=layout)
    gl.store(out + offsets, gl.load(x + offsets, mask=offsets < n), mask=offsets < n)


@gluon.jit
def row_sums(x, out, stride, M: gl.constexpr, N: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    rows = gl.arange(0, M, layout=gl.SliceLayout(1, layout))
    columns = gl.arange(0, N, layout=gl.SliceLayout(0, layout))
    tile = gl.load(x + rows[:, None] * stride + columns[None, :])
    gl.store(out + rows, gl.sum(tile, axis=1))


@gluon.jit
def automatic(x, out, M: gl.constexpr, N: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    offsets = gl.set_auto_layout(gl.arange(0, M)[:, None] * N + gl.arange(0, N)[None, :], layout)
    tile = gl.load(x + offsets)
    for _ in range(3):
        tile = tile * 2 + 1
    gl.store(out + offsets, tile)


@gluon.jit
def coalesced(x, out, n, BLOCK: gl.constexpr):
    offsets = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=gl.CoalescedLayout())
    tile = gl.load(x + offsets, mask=offsets < n, other=0.0)
    gl.store(out + offsets, gl.exp(tile) + 1, mask=offsets < n)


@gluon.jit
def transpose(x, out, M: gl.constexpr, N: gl.constexpr):
    rows_first: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    columns_first: gl.constexpr = gl.BlockedLayout([1, 1], [32, 1], [1, 4], [0, 1])
    shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 32, [1, 0])
    i = gl.arange(0, M, layout=gl.SliceLayout(1, rows_first))
    j = gl.arange(0, N, layout=gl.SliceLayout(0, rows_first))
    buffer = gl.allocate_shared_memory(gl.float32, [M, N], shared, gl.load(x + i[:, None] * N + j[None, :]))
    tile = buffer.load(columns_first)
    i = gl.arange(0, M, layout=gl.SliceLayout(1, columns_first))
    j = gl.arange(0, N, layout=gl.SliceLayout(0, columns_first))
    gl.store(out + i[:, None] + j[None, :] * M, tile)


@gluon.jit
def pipelined_copy(x, out, n, BLOCK: gl.constexpr, STAGES: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    buffers = gl.allocate_shared_memory(gl.float32, [STAGES, BLOCK], shared)
    offsets = gl.arange(0, BLOCK, layout=layout)
    count = gl.cdiv(n, BLOCK)
    for step in gl.static_range(STAGES - 1):
        places = step * BLOCK + offsets
        async_copy.async_load(buffers.index(step), x + places, mask=places < n)
        async_copy.commit_group()
    for step in range(count):
        places = (step + STAGES - 1) * BLOCK + offsets
        async_copy.async_load(buffers.index((step + STAGES - 1) % STAGES), x + places, mask=places < n)
        async_copy.commit_group()
        async_copy.wait_group(STAGES - 1)
        gl.barrier()
        tile = buffers.index(step % STAGES).load(layout)
        places = step * BLOCK + offsets
        gl.store(out + places, tile * 2, mask=places < n)
        gl.barrier()


@gluon.jit
def product_by_warps(a, b, c, M: gl.constexpr, N: gl.constexpr, K: gl.constexpr):
    loads: gl.constexpr = gl.BlockedLayout([1, 8], [8, 4], [4, 1], [1, 0])
    sums: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [2, 2], [16, 8])
    left: gl.constexpr = gl.DotOperandLayout(0, sums, 2)
    right: gl.constexpr = gl.DotOperandLayout(1, sums, 2)
    i = gl.arange(0, M, layout=gl.SliceLayout(1, loads))
    k = gl.arange(0, K, layout=gl.SliceLayout(0, loads))
    x = gl.convert_layout(gl.load(a + i[:, None] * K + k[None, :]), left)
    k = gl.arange(0, K, layout=gl.SliceLayout(1, loads))
    j = gl.arange(0, N, layout=gl.SliceLayout(0, loads))
    y = gl.convert_layout(gl.load(b + k[:, None] * N + j[None, :]), right)
    total = mma_v2(x, y, gl.zeros([M, N], gl.float32, layout=sums))
    i = gl.arange(0, M, layout=gl.SliceLayout(1, sums))
    j = gl.arange(0, N, layout=gl.SliceLayout(0, sums))
    gl.store(c + i[:, None] * N + j[None, :], total)


@gluon.jit
def copy_blocks(x, out, M, N, ROWS: gl.constexpr, COLUMNS: gl.constexpr, LAYOUT: gl.constexpr):
    source = tma.make_tensor_descriptor(x, [M, N], [N, 1], [ROWS, COLUMNS], LAYOUT)
    target = tma.make_tensor_descriptor(out, [M, N], [N, 1], [ROWS, COLUMNS], LAYOUT)
    buffer = gl.allocate_shared_memory(gl.float16, [ROWS, COLUMNS], LAYOUT)
    bar = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(bar, count=1)
    row, column = gl.program_id(0) * ROWS, gl.program_id(1) * COLUMNS
    mbarrier.expect(bar, ROWS * COLUMNS * 2)
    tma.async_load(source, [row, column], bar, buffer)
    mbarrier.wait(bar, 0)
    mbarrier.invalidate(bar)
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    buffer.store(buffer.load(layout) * 2)
    fence_async_shared()
    tma.async_store(target, [row, column], buffer)
    tma.store_wait(0)


@gluon.jit
def product_by_groups(a, b, c, K, BLOCK: gl.constexpr):
    dtype: gl.constexpr = a.dtype
    layout: gl.constexpr = a.layout
    sums: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    x = gl.allocate_shared_memory(dtype, [64, BLOCK], layout)
    y = gl.allocate_shared_memory(dtype, [BLOCK, 64], layout)
    bar = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(bar, count=1)
    row, column = gl.program_id(0) * 64, gl.program_id(1) * 64
    total = gl.zeros([64, 64], gl.float32, layout=sums)
    phase = 0
    for k in range(0, K, BLOCK):
        mbarrier.expect(bar, a.block_type.nbytes + b.block_type.nbytes)
        tma.async_load(a, [row, k], bar, x)
        tma.async_load(b, [k, column], bar, y)
        mbarrier.wait(bar, phase)
        running = warpgroup_mma(x, y, total, is_async=True)
        total = warpgroup_mma_wait(0, deps=(running,))
        gl.barrier()
        phase ^= 1
    mbarrier.invalidate(bar)
    out = gl.allocate_shared_memory(gl.float16, [64, 64], c.layout)
    out.store(total.to(gl.float16))
    fence_async_shared()
    tma.async_store(c, [row, column], out)
    tma.store_wait(0)


@gluon.jit
def load_blocks(x, buffers, full, empty, count, BLOCK: gl.constexpr, STAGES: gl.constexpr):
    for step in range(count):
        slot, phase = step % STAGES, step // STAGES & 1
        mbarrier.wait(empty.index(slot), phase ^ 1)
        mbarrier.expect(full.index(slot), BLOCK * 4)
        tma.async_load(x, [step * BLOCK], full.index(slot), buffers.index(slot))


@gluon.jit
def store_blocks(out, buffers, full, empty, count, BLOCK: gl.constexpr, STAGES: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [gl.num_warps()], [0])
    for step in range(count):
        slot, phase = step % STAGES, step // STAGES & 1
        mbarrier.wait(full.index(slot), phase)
        tile = buffers.index(slot).load(layout)
        mbarrier.arrive(empty.index(slot), count=1)
        gl.store(out + step * BLOCK + gl.arange(0, BLOCK, layout=layout), tile + 1)


@gluon.jit
def specialized(x, out, count, BLOCK: gl.constexpr, STAGES: gl.constexpr):
    buffers = gl.allocate_shared_memory(gl.float32, [STAGES, BLOCK], x.layout)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(empty.index(i), count=1)
    gl.warp_specialize(
        [
            (store_blocks, (out, buffers, full, empty, count, BLOCK, STAGES)),
            (load_blocks, (x, buffers, full, empty, count, BLOCK, STAGES)),
        ],
        [1],
        [24],
    )


@gluon.jit
def product_in_tensor_memory(a, b, c, K, BLOCK: gl.constexpr):
    x = gl.allocate_shared_memory(a.dtype, [128, BLOCK], a.layout)
    y = gl.allocate_shared_memory(b.dtype, [BLOCK, 128], b.layout)
    memory: gl.constexpr = TensorMemoryLayout([128, 128], col_stride=1)
    total = allocate_tensor_memory(gl.float32, [128, 128], memory)
    loaded = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    done = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(loaded, count=1)
    mbarrier.init(done, count=1)
    phase = 0
    for k in range(0, K, BLOCK):
        mbarrier.expect(loaded, a.block_type.nbytes + b.block_type.nbytes)
        tma.async_load(a, [0, k], loaded, x)
        tma.async_load(b, [k, 0], loaded, y)
        mbarrier.wait(loaded, phase)
        tcgen05_mma(x, y, total, use_acc=k > 0)
        tcgen05_commit(done)
        mbarrier.wait(done, phase)
        phase ^= 1
    mbarrier.invalidate(loaded)
    mbarrier.invalidate(done)
    tile = total.load(total.get_reg_layout())
    out = gl.allocate_shared_memory(gl.float16, [128, 128], c.layout)
    out.store(tile.to(gl.float16))
    fence_async_shared()
    tma.async_store(c, [0, 0], out)
    tma.store_wait(0)


@gluon.jit
def copy_to_all(a, b):
    """Every CTA of the cluster gets the whole block by one copy; `MULTICAST`."""
    buffer = gl.allocate_shared_memory(a.dtype, a.block_type.shape, a.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, a.nbytes_per_cta)
    tma.async_load(a, [0, 0], bar, buffer, multicast=True)
    mbarrier.wait(bar, 0)
    mbarrier.invalidate(bar)
    tma.async_store(b, [0, 0], buffer)
    tma.store_wait(0)


@gluon.jit
def product_by_pairs(a, b, c, K, BLOCK: gl.constexpr, TOTAL: gl.constexpr):
    """Pairs of CTAs multiply together; CTAs with the same operands get them by one copy."""
    x = gl.allocate_shared_memory(a.dtype, a.block_type.shape, a.layout)
    y = gl.allocate_shared_memory(b.dtype, b.block_type.shape, b.layout)
    total = allocate_tensor_memory(gl.float32, c.block_type.shape, TOTAL)
    loaded = mbarrier.allocate_mbarrier(two_ctas=True)
    done = mbarrier.allocate_mbarrier()
    mbarrier.init(loaded, count=1)
    mbarrier.init(done, count=tcgen05_mma_barrier_count([x, y], multicast=True, two_ctas=True))
    phase = 0
    for k in range(0, K, BLOCK):
        mbarrier.expect(loaded, a.nbytes_per_cta + b.nbytes_per_cta)
        tma.async_load(a, [0, k], loaded, x, multicast=True)
        tma.async_load(b, [k, 0], loaded, y, multicast=True)
        mbarrier.wait(loaded, phase, deps=[x, y])
        tcgen05_mma(x, y, total, use_acc=k > 0, multicast=True, mbarriers=[done])
        mbarrier.wait(done, phase, deps=[x, y])
        phase ^= 1
    mbarrier.invalidate(loaded)
    mbarrier.invalidate(done)
    out = gl.allocate_shared_memory(c.dtype, c.block_type.shape, c.layout)
    out.store(total.load().to(c.dtype))
    tma.async_store(c, [0, 0], out)
    tma.store_wait(0)


@gluon.jit
def copy_counted_by_others(a, b, FIRST: gl.constexpr):
    """Some CTAs say for others how many bytes come and that everybody may go on; FIRST is `from_cta`."""
    buffer = gl.allocate_shared_memory(a.dtype, [128, 32], a.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=3)
    mbarrier.expect(bar, a.nbytes_per_cta, from_cta=FIRST)
    mbarrier.arrive(bar, count=2, from_cta=FIRST)
    tma.async_load(a, [0, 0], bar, buffer)
    mbarrier.wait(bar, 0)
    tma.async_store(b, [0, 0], buffer)
    tma.store_wait(0)


@gluon.jit
def pairs(x, y, out, N: gl.constexpr, HALVES: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    places = gl.arange(0, N, layout=layout)
    a, b = gl.load(x + places), gl.load(y + places)
    found = fma2(add2(a, b), sub2(1.5, b), mul2(a, 2.0))
    if HALVES:
        found = max2(min2(found, b), a)
    gl.store(out + places, found)


@gluon.jit
def told_to_caches(x, out, MODIFIER: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    some: gl.constexpr = FractionalEvictionPolicy("evict_last", 0.3, "evict_first")
    places = gl.arange(0, 512, layout=layout)
    a = gl.load(x + places, cache_policy=gl.CachePolicy("none", "evict_first"))
    a += gl.load(x + places, cache_policy=CachePolicy(l1="no_allocate"))
    a += gl.load(x + places, cache_policy=CachePolicy(l1="evict_last", l2=some, l2_prefetch_size=128))
    a += gl.load(x + places, cache_policy=CachePolicy(MODIFIER, l2=some))
    gl.store(out + places, a, cache_policy=CachePolicy(l2=FractionalEvictionPolicy("evict_normal", 1)))
    buffer = gl.allocate_shared_memory(gl.float32, [512], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    async_copy.async_load(buffer, x + places, places < 500, cache_policy=CachePolicy(l2=some, l2_prefetch_size=256))
    async_copy.commit_group()
    async_copy.wait_group(0)
    gl.store(out + 512 + places, buffer.load(layout), cache_policy=gl.CachePolicy(".wt"))
    gl.barrier()
    async_copy.async_load(buffer, x + places, cache_policy=gl.CachePolicy("ca", "evict_last"))
    async_copy.commit_group()
    async_copy.wait_group(0)
    gl.store(out + 1024 + places, buffer.load(layout))


@gluon.jit
def copy_with_policies(a, b):
    buffer = gl.allocate_shared_memory(a.dtype, [64, 64], a.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, a.nbytes_per_cta)
    once: gl.constexpr = CachePolicy(l2=FractionalEvictionPolicy("evict_first", 1.0))
    tma.async_load(a, [0, 0], bar, buffer, cache_policy=once)
    mbarrier.wait(bar, 0)
    tma.async_store(b, [0, 0], buffer, cache_policy=gl.CachePolicy(eviction_policy="evict_last"))
    tma.store_wait(0)


@gluon.jit
def flattened(x, out):
    layout: gl.constexpr = gl.BlockedLayout([1, 1], [32, 1], [4, 1], [0, 1])
    rows = gl.arange(0, 128, layout=gl.SliceLayout(1, layout))
    gl.store(out + rows, gl.load(x + rows[:, None]).reshape([128]))


@gluon.jit
def library_functions(x, y, out, whole, scale, M: gl.constexpr, N: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    rows = gl.arange(0, M, layout=gl.SliceLayout(1, layout))
    columns = gl.arange(0, N, layout=gl.SliceLayout(0, layout))
    offsets = rows[:, None] * N + columns[None, :]
    a, b = gl.load(x + offsets), gl.load(y + columns)
    c = libdevice.fma(libdevice.abs(a), b[None, :], libdevice.log1p(libdevice.abs(scale)))
    c = gl.where(libdevice.isnan(a) | libdevice.isinf(a), libdevice.erfc(c), c)
    gl.store(out + offsets, libdevice.copysign(libdevice.pow(c, 2), a))
    gl.store(whole + offsets, libdevice.clz(libdevice.float2int_rd(c)) + libdevice.signbit(a))


ROWS = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)
LINE = gl.NVMMASharedLayout(swizzle_byte_width=0, element_bitwidth=32, rank=1)
QUARTERS = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=32, rank=2, cga_layout=[[1, 0], [2, 0]])
SAME = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2, cga_layout=[[0, 0]])
LEFT = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2, cga_layout=[[1, 0], [2, 0]])
RIGHT = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2, cga_layout=[[0, 1], [0, 0]])
TOTAL = TensorMemoryLayout([128, 128], col_stride=1, cga_layout=[[1, 0], [2, 0]], two_ctas=True)
CASES = {
    "copy": (80, {"x": "*fp32", "out": "*fp32", "n": "i32"}, {"BLOCK": 512}, {}),
    "row_sums": (80, {"x": "*fp32", "out": "*fp32", "stride": "i32"}, {"M": 64, "N": 32}, {}),
    "automatic": (80, {"x": "*fp32", "out": "*fp32"}, {"M": 64, "N": 32}, {}),
    "coalesced": (80, {"x": "*fp32", "out": "*fp32", "n": "i32"}, {"BLOCK": 512}, {}),
    "transpose": (80, {"x": "*fp32", "out": "*fp32"}, {"M": 64, "N": 32}, {}),
    "pipelined_copy": (80, {"x": "*fp32", "out": "*fp32", "n": "i32"}, {"BLOCK": 128, "STAGES": 3}, {}),
    "product_by_warps": (80, {"a": "*fp16", "b": "*fp16", "c": "*fp32"}, {"M": 64, "N": 64, "K": 32}, {}),
    "copy_blocks": (
        90,
        {"x": "*fp16", "out": "*fp16", "M": "i32", "N": "i32"},
        {"ROWS": 64, "COLUMNS": 64, "LAYOUT": ROWS},
        {},
    ),
    "product_by_groups": (
        90,
        {"K": "i32"},
        {"BLOCK": 64},
        {"a": ([64, 64], ROWS), "b": ([64, 64], ROWS), "c": ([64, 64], ROWS)},
    ),
    "specialized": (90, {"out": "*fp32", "count": "i32"}, {"BLOCK": 128, "STAGES": 2}, {"x": ([128], LINE)}),
    "product_in_tensor_memory": (
        100,
        {"K": "i32"},
        {"BLOCK": 64},
        {"a": ([128, 64], ROWS), "b": ([64, 128], ROWS), "c": ([128, 128], ROWS)},
    ),
    "copy_to_all": (90, {}, {}, {"a": ([128, 64], SAME), "b": ([128, 64], SAME)}),
    "copy_counted_by_others": (90, {}, {"FIRST": 0}, {"a": ([128, 32], QUARTERS), "b": ([128, 32], QUARTERS)}),
    "pairs": (100, {"x": "*fp16", "y": "*fp16", "out": "*fp16"}, {"N": 512, "HALVES": True}, {}),
    "flattened": (80, {"x": "*fp32", "out": "*fp32"}, {}, {}),
    "library_functions": (
        80,
        {"x": "*fp32", "y": "*fp32", "out": "*fp32", "whole": "*i32", "scale": "fp32"},
        {"M": 16, "N": 32},
        {},
    ),
    "told_to_caches": (90, {"x": "*fp32", "out": "*fp32"}, {"MODIFIER": "cg"}, {}),
    "copy_with_policies": (90, {}, {}, {"a": ([64, 64], ROWS), "b": ([64, 64], ROWS)}),
    "product_by_pairs": (
        100,
        {"K": "i32"},
        {"BLOCK": 64, "TOTAL": TOTAL},
        {"a": ([512, 64], LEFT), "b": ([64, 128], RIGHT), "c": ([512, 128], LEFT)},
    ),
}
"""By kernel: compute capability, types of arguments, constants, and blocks and layouts of descriptors."""
CTAS = {"copy_counted_by_others": 4, "copy_to_all": 2, "product_by_pairs": 4}
"""By kernel, where it has several: the CTAs of a cluster."""
CAPABILITIES = 80, 90, 100, 120
LAST = {"product_by_groups": 90, "product_in_tensor_memory": 100, "product_by_pairs": 100}
"""By kernel, where later devices do not have its instructions: the last compute capability."""


def capabilities_of(name: str) -> list[int]:
    """The compute capabilities that a kernel compiles for, the least first."""
    return [each for each in CAPABILITIES if CASES[name][0] <= each <= LAST.get(name, each)]


@gluon.jit
def product_onto_stored_sums(a, b, c):
    """c = 2 (c + a @ b) + a @ b, where threads store sums to tensor memory right in front of each product."""
    x = gl.allocate_shared_memory(a.dtype, [128, 64], a.layout)
    y = gl.allocate_shared_memory(b.dtype, [64, 128], b.layout)
    memory: gl.constexpr = TensorMemoryLayout([128, 128], col_stride=1)
    total = allocate_tensor_memory(gl.float32, [128, 128], memory)
    loaded = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    done = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(loaded, count=1)
    mbarrier.init(done, count=1)
    mbarrier.expect(loaded, a.block_type.nbytes + b.block_type.nbytes)
    tma.async_load(a, [0, 0], loaded, x)
    tma.async_load(b, [0, 0], loaded, y)
    mbarrier.wait(loaded, 0)
    layout: gl.constexpr = total.get_reg_layout()
    rows = gl.arange(0, 128, gl.SliceLayout(1, layout))
    columns = gl.arange(0, 128, gl.SliceLayout(0, layout))
    places = c + rows[:, None] * 128 + columns[None, :]
    total.store(gl.load(places))
    tcgen05_mma(x, y, total, use_acc=True)
    tcgen05_commit(done)
    mbarrier.wait(done, 0)
    total.store(2 * total.load(layout))
    tcgen05_mma(x, y, total, use_acc=True)
    tcgen05_commit(done)
    mbarrier.wait(done, 1)
    gl.store(places, total.load(layout))
