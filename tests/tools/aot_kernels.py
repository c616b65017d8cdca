"""Kernels that test_aot.py compiles ahead of time, in another process."""

import tilewright as tw
import tilewright.language as tl


@tw.jit
def square(x):
    return x * x


@tw.jit
def matmul(
    C, A, B, M, N, K,
    stride_cm, stride_cn, stride_am, stride_ak, stride_bk, stride_bn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    rows = (tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    columns = (tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    k = tl.arange(0, BLOCK_K)
    a_ptrs = A + rows[:, None] * stride_am + k[None, :] * stride_ak
    b_ptrs = B + k[:, None] * stride_bk + columns[None, :] * stride_bn
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in range(tl.cdiv(K, BLOCK_K)):
        a = tl.load(a_ptrs, mask=k[None, :] < K - step * BLOCK_K, other=0.0)
        b = tl.load(b_ptrs, mask=k[:, None] < K - step * BLOCK_K, other=0.0)
        total += tl.dot(a, b)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    c_ptrs = C + stride_cm * rows[:, None] + stride_cn * columns[None, :]
    tl.store(c_ptrs, square(total), mask=(rows[:, None] < M) & (columns[None, :] < N))


@tw.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    total = tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside)
    tl.store(out_ptr + offsets, total, mask=inside)


@tw.jit
def everything(out_ptr, default, a, b, c, d, e, f, g, h, HALF: tl.constexpr):
    """Each type of scalar, a name that C keeps for itself, a constant that is no whole number."""
    values = (default, a, b, c, d, e, f, g, h)
    for i in tl.static_range(len(values)):
        tl.store(out_ptr + i, values[i])
    tl.store(out_ptr + len(values), HALF)


@tw.jit
def nothing():
    pass


@tw.jit
def talking(n, x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.device_print('begins "100%"')
    tl.device_print("n", n)
    values = tl.load(x + i)
    tl.device_print("both", values, (values * 3).to(tl.uint8), hex=True)
    tl.device_print("tile", tl.reshape(values.to(tl.bfloat16), (BLOCK // 2, 2)), (i - 2).to(tl.int64))


@tw.jit
def checking(x):
    tl.device_assert(tl.load(x) > 0, "positive")
