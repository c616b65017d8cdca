"""Kernels of the conformance sample: each goes through a part of the language, with the operation as a constant."""

from __future__ import annotations

from typing import NamedTuple

import tilewright as tw
import tilewright.language as tl
from tilewright.language.extra import libdevice


@tw.jit
def two_operands(x_ptr, y_ptr, out_ptr, OPERATION: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    x, y = tl.load(x_ptr + i), tl.load(y_ptr + i)
    if OPERATION == "add":
        z = x + y
    elif OPERATION == "subtract":
        z = x - y
    elif OPERATION == "multiply":
        z = x * y
    elif OPERATION == "divide":
        z = x / y
    elif OPERATION == "floor divide":
        z = x // y
    elif OPERATION == "remainder":
        z = x % y
    elif OPERATION == "bits":
        z = (x & y) | (x ^ 5) | ~y
    elif OPERATION == "shifts":
        z = (x << (y & 7)) ^ (x >> (y & 3))
    elif OPERATION == "high bits":
        z = tl.umulhi(x, y)
    elif OPERATION == "rounded divide":
        z = tl.div_rn(x, y)
    else:
        z = tl.fma(x, y, x)
    tl.store(out_ptr + i, z)


@tw.jit
def two_compared(x_ptr, y_ptr, out_ptr, OPERATION: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    x, y = tl.load(x_ptr + i), tl.load(y_ptr + i)
    if OPERATION == "compare":
        z = (x < y) + 2 * (x <= y) + 4 * (x == y) + 8 * (x != y) + 16 * (x > y) + 32 * (x >= y)
    elif OPERATION == "extremes":
        z = tl.where(x != x, tl.minimum(x, y), tl.maximum(x, y)) + tl.clamp(x, -1.0, 1.0)
    else:
        every: tl.constexpr = tl.PropagateNan.ALL
        z = tl.minimum(x, y, propagate_nan=every) - tl.maximum(x, y, propagate_nan=every)
    tl.store(out_ptr + i, z)


@tw.jit
def one_operand(x_ptr, out_ptr, FUNCTION: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, FUNCTION(tl.load(x_ptr + i)))


@tw.jit
def from_library(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x, y = tl.load(x_ptr + i), tl.load(y_ptr + i)
    tl.store(out_ptr + i, libdevice.atan2(x, y) + libdevice.hypot(x, y))
    tl.store(out_ptr + N + i, libdevice.cbrt(x) + libdevice.expm1(x) * libdevice.log1p(libdevice.abs(y)))
    tl.store(out_ptr + 2 * N + i, libdevice.nearbyint(x * 4) + libdevice.fmod(x, y) + libdevice.copysign(x, y))
    tl.store(out_ptr + 3 * N + i, libdevice.tgamma(libdevice.abs(x) + 1) + libdevice.erfinv(y / 8))


@tw.jit
def converted(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.load(x_ptr + i).to(out_ptr.dtype.element_ty))


@tw.jit
def same_bits(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.load(x_ptr + i).to(tl.int32, bitcast=True) ^ 0x5A)


@tw.jit
def masked(x_ptr, out_ptr, n, CACHE: tl.constexpr, EVICTION: tl.constexpr, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    x = tl.load(x_ptr + i, mask=i < n, other=-7, cache_modifier=CACHE, eviction_policy=EVICTION)
    tl.store(out_ptr + i, x + 1, mask=(i < n + 3) & (i % 5 != 0))


@tw.jit
def gathered_and_scattered(x_ptr, places_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    places = tl.load(places_ptr + i)
    tl.store(out_ptr + places, tl.load(x_ptr + N - 1 - places))


@tw.jit
def block_pointers(x_ptr, out_ptr, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    place = tl.program_id(0) * ROWS
    x = tl.make_block_ptr(x_ptr, (rows, columns), (columns, 1), (place, 0), (ROWS, COLUMNS), (1, 0))
    out = tl.make_block_ptr(out_ptr, (rows, columns), (columns, 1), (place, 0), (ROWS, COLUMNS), (1, 0))
    for _ in range(tl.cdiv(columns, COLUMNS)):
        tl.store(out, tl.load(x, boundary_check=(0, 1), padding_option="zero") * 2, boundary_check=(0, 1))
        x, out = tl.advance(x, (0, COLUMNS)), tl.advance(out, (0, COLUMNS))


@tw.jit
def described(x_ptr, out_ptr, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [rows, columns], [columns, 1], [ROWS, COLUMNS])
    out = tl.make_tensor_descriptor(out_ptr, [rows, columns], [columns, 1], [ROWS, COLUMNS])
    row, column = tl.program_id(0) * ROWS, tl.program_id(1) * COLUMNS
    out.store([row, column], x.load([row, column]) + 1)


@tw.jit
def largest_size(a, b):
    """Among numbers of one size the positive one is taken, so that the order does not matter."""
    return tl.where((tl.abs(a) > tl.abs(b)) | ((tl.abs(a) == tl.abs(b)) & (a > b)), a, b)


@tw.jit
def reduced(x_ptr, out_ptr, OPERATION: tl.constexpr, AXIS: tl.constexpr, A: tl.constexpr, B: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, A)[:, None] * B + tl.arange(0, B)[None, :])
    if OPERATION == "sum":
        y = tl.sum(x, AXIS)
    elif OPERATION == "max":
        y = tl.max(x, AXIS)
    elif OPERATION == "min":
        y = tl.min(x, AXIS)
    elif OPERATION == "argmax":
        y = tl.argmax(x, AXIS)
    elif OPERATION == "argmin":
        y = tl.argmin(x, AXIS)
    elif OPERATION == "xor":
        y = tl.xor_sum(x, AXIS)
    elif OPERATION == "both":
        largest, place = tl.max(x, AXIS, return_indices=True)
        y = largest * 1000 + place
    else:
        y = tl.reduce(x, AXIS, largest_size)
    tl.store(out_ptr + tl.arange(0, B if AXIS == 0 else A), y)


@tw.jit
def reduced_to_one(x_ptr, out_ptr, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    i, j, k = tl.arange(0, A)[:, None, None], tl.arange(0, B)[None, :, None], tl.arange(0, C)[None, None, :]
    x = tl.load(x_ptr + (i * B + j) * C + k)
    tl.store(out_ptr, tl.sum(x))
    tl.store(out_ptr + 1 + (i * B + j), tl.max(x, 2, keep_dims=True))


@tw.jit
def affine(a, b, c, d):
    return a * c, b * c + d


@tw.jit
def scanned(
    x_ptr, out_ptr, OPERATION: tl.constexpr, AXIS: tl.constexpr, REVERSE: tl.constexpr, A: tl.constexpr, B: tl.constexpr
):
    places = tl.arange(0, A)[:, None] * B + tl.arange(0, B)[None, :]
    x = tl.load(x_ptr + places)
    if OPERATION == "sum":
        y = tl.cumsum(x, AXIS, reverse=REVERSE)
    elif OPERATION == "product":
        y = tl.cumprod(x, AXIS, reverse=REVERSE)
    else:
        _, y = tl.associative_scan((x & 3, x), AXIS, affine, reverse=REVERSE)
    tl.store(out_ptr + places, y)


@tw.jit
def ordered(x_ptr, out_ptr, OPERATION: tl.constexpr, A: tl.constexpr, B: tl.constexpr):
    rows, columns = tl.arange(0, A)[:, None], tl.arange(0, B)[None, :]
    x = tl.load(x_ptr + rows * B + columns)
    if OPERATION == "sort":
        tl.store(out_ptr + rows * B + columns, tl.sort(x))
    elif OPERATION == "sort down":
        tl.store(out_ptr + rows * B + columns, tl.sort(x, descending=True))
    elif OPERATION == "flip":
        tl.store(out_ptr + rows * B + columns, tl.flip(x, 1))
    else:
        tl.store(out_ptr + rows * 4 + tl.arange(0, 4)[None, :], tl.topk(x, 4))


@tw.jit
def counted(x_ptr, out_ptr, N: tl.constexpr, BINS: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(out_ptr + tl.arange(0, BINS), tl.histogram(x, BINS, mask=x % 3 != 0))


@tw.jit
def picked(x_ptr, places_ptr, out_ptr, AXIS: tl.constexpr, A: tl.constexpr, B: tl.constexpr):
    places = tl.arange(0, A)[:, None] * B + tl.arange(0, B)[None, :]
    tl.store(out_ptr + places, tl.gather(tl.load(x_ptr + places), tl.load(places_ptr + places), AXIS))


@tw.jit
def shaped(x_ptr, out_ptr, OPERATION: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    if OPERATION == "transpose":
        y = tl.ravel(tl.trans(tl.reshape(x, [N // 8, 8])))
    elif OPERATION == "permute":
        y = tl.ravel(tl.permute(tl.reshape(x, [4, N // 16, 4]), [2, 0, 1]))
    elif OPERATION == "split":
        low, high = tl.split(tl.reshape(x, [N // 2, 2]))
        y = tl.interleave(high, low * 2)
    elif OPERATION == "join":
        y = tl.ravel(tl.join(tl.sum(tl.reshape(x, [N // 2, 2]), 1), tl.max(tl.reshape(x, [N // 2, 2]), 1)))
    elif OPERATION == "broadcast":
        row = tl.sum(tl.reshape(x, [N // 8, 8]), 0)
        y = tl.ravel(tl.broadcast_to(row[None, :], [N // 8, 8])) + x
    else:
        y = tl.ravel(tl.expand_dims(tl.reshape(x, [N // 4, 4]), 1) + tl.zeros([N // 4, 1, 4], x.dtype))
    tl.store(out_ptr + i, y)


@tw.jit
def multiplied(
    a_ptr, b_ptr, c_ptr, PRECISION: tl.constexpr, SUMS: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr
):
    i, j, k = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :], tl.arange(0, K)
    a, b = tl.load(a_ptr + i * K + k[None, :]), tl.load(b_ptr + k[:, None] * N + j)
    c = tl.dot(a, b, tl.full((M, N), 1, SUMS), input_precision=PRECISION, out_dtype=SUMS)
    tl.store(c_ptr + i * N + j, c)


@tw.jit
def multiplied_in_batches(a_ptr, b_ptr, c_ptr, BATCH: tl.constexpr, N: tl.constexpr):
    batch, i, j = tl.arange(0, BATCH)[:, None, None], tl.arange(0, N)[None, :, None], tl.arange(0, N)[None, None, :]
    places = (batch * N + i) * N + j
    tl.store(c_ptr + places, tl.dot(tl.load(a_ptr + places), tl.load(b_ptr + places)))


@tw.jit
def multiplied_scaled(
    a_ptr,
    a_scale_ptr,
    b_ptr,
    b_scale_ptr,
    c_ptr,
    FORMAT: tl.constexpr,
    PACKED: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    k, groups = tl.arange(0, K // PACKED), tl.arange(0, K // 32)[None, :]
    a, b = tl.load(a_ptr + i * (K // PACKED) + k[None, :]), tl.load(b_ptr + k[:, None] * N + j)
    a_scale, b_scale = tl.load(a_scale_ptr + i * (K // 32) + groups), tl.load(b_scale_ptr + i * (K // 32) + groups)
    tl.store(c_ptr + i * N + j, tl.dot_scaled(a, a_scale, FORMAT, b, b_scale, FORMAT))


@tw.jit
def pipelined(a_ptr, b_ptr, c_ptr, steps, STAGES: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    total = tl.zeros((N, N), tl.float32)
    for step in tl.range(0, steps, num_stages=STAGES):
        a = tl.load(a_ptr + (step * N + i) * N + j)
        b = tl.load(b_ptr + (step * N + i) * N + j)
        total = tl.dot(a, b, total)
        if step % 2 == 1:
            total = total * 0.5
    tl.store(c_ptr + i * N + j, total)


@tw.jit
def random_numbers(out_ptr, seed, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.rand(seed, i))
    tl.store(out_ptr + N + i, tl.randn(seed, i))
    tl.store(out_ptr + 2 * N + i, (tl.randint(seed, i) & 1023).to(tl.float32))


@tw.jit
def added_atomically(x_ptr, out_ptr, OPERATION: tl.constexpr, SEM: tl.constexpr, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    x = tl.load(x_ptr + i)
    if OPERATION == "add":
        tl.atomic_add(out_ptr + i % 8, x, mask=i % 3 != 1, sem=SEM)
    elif OPERATION == "max":
        tl.atomic_max(out_ptr + i % 8, x, mask=i % 3 != 1, sem=SEM)
    elif OPERATION == "min":
        tl.atomic_min(out_ptr + i % 8, x, mask=i % 3 != 1, sem=SEM)
    elif OPERATION == "and":
        tl.atomic_and(out_ptr + i % 8, x | 1, mask=i % 3 != 1, sem=SEM)
    elif OPERATION == "or":
        tl.atomic_or(out_ptr + i % 8, x, mask=i % 3 != 1, sem=SEM)
    else:
        tl.store(x_ptr + i, tl.atomic_xchg(out_ptr + i, x, sem=SEM))


@tw.jit
def swapped_if_equal(x_ptr, expected_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.atomic_cas(x_ptr + i, tl.load(expected_ptr + i), i))


@tw.jit(noinline=True)
def outlined(x, y):
    if x > y:
        return x - y
    return y * 2


@tw.jit
def control(x_ptr, out_ptr, n):
    program = tl.program_id(0)
    x, total = tl.load(x_ptr + program), 0
    if x < 0:
        return
    while x > 1 and total < 50:
        x = x // 2 if x % 2 == 0 else 3 * x + 1
        total += 1
    for i in range(n):
        if i % 3 == 0:
            total += outlined(i, program)
    tl.store(out_ptr + program, total)


class Pair(NamedTuple):
    first: tl.tensor
    second: tl.tensor


@tw.jit
def exchanged(pair, times: tl.constexpr):
    for _ in tl.static_range(times):
        pair = Pair(pair.second, pair.first + 1)
    return pair


@tw.jit
def tuples(x_ptr, out_ptr, numbers, N: tl.constexpr):
    i = tl.arange(0, N)
    pair = exchanged(Pair(tl.load(x_ptr + i), i), 3)
    tl.static_assert(len(numbers) == 3)
    tl.store(out_ptr + i, pair.first * numbers[0] + pair.second * numbers[1] - numbers[2])


@tw.jit
def assembled(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x, y = tl.load(x_ptr + i), tl.load(y_ptr + i)
    z = tl.inline_asm_elementwise("lop3.b32 $0, $1, $2, 21, 0x96;", "=r,r,r", [x, y], tl.int32, is_pure=True, pack=1)
    tl.store(out_ptr + i, z)


@tw.jit
def programs(out_ptr):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    place = (z * tl.num_programs(1) + y) * tl.num_programs(0) + x
    tl.store(out_ptr + place, x + 10 * y + 100 * z)


@tw.jit
def hints(x_ptr, out_ptr, n, N: tl.constexpr):
    n = tl.multiple_of(n, 16)
    i = tl.max_contiguous(tl.multiple_of(tl.arange(0, N), 16), N)
    tl.assume(n > 0)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n, other=0.0) + tl.cdiv(n, 16), mask=i < n)
