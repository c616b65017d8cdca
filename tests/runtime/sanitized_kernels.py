"""Kernels with and without mistakes, for the tests of the sanitizer."""

import tilewright as tw
import tilewright.language as tl


@tw.jit
def copy_kernel(x_ptr, out_ptr, first, end, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK) + first
    inside = offsets < end
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=inside), mask=inside)


@tw.jit
def copy_2d_kernel(x_ptr, out_ptr, rows, columns, x_row, out_row, x_column, out_column, BLOCK: tl.constexpr):
    row, column = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    inside = (row < rows) & (column < columns)
    x = tl.load(x_ptr + row * x_row + column * x_column, mask=inside)
    tl.store(out_ptr + row * out_row + column * out_column, x, mask=inside)


@tw.jit
def block_pointer_kernel(x_ptr, out_ptr, rows, columns, BLOCK: tl.constexpr, CHECK: tl.constexpr):
    start = (tl.program_id(0) * BLOCK, 0)
    x = tl.make_block_ptr(x_ptr, (rows, columns), (columns, 1), start, (BLOCK, BLOCK), (1, 0))
    out = tl.make_block_ptr(out_ptr, (rows, columns), (columns, 1), start, (BLOCK, BLOCK), (1, 0))
    for _ in range(0, columns, BLOCK):
        tl.store(out, tl.load(x, boundary_check=(0, 1)), boundary_check=CHECK)
        x, out = tl.advance(x, (0, BLOCK)), tl.advance(out, (0, BLOCK))


@tw.jit
def gather_kernel(x_ptr, indices_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    indices = tl.load(indices_ptr + offsets, mask=offsets < n, other=0)
    tl.store(out_ptr + offsets, tl.load(x_ptr + indices, mask=offsets < n), mask=offsets < n)


@tw.jit
def count_kernel(values_ptr, counts_ptr, BLOCK: tl.constexpr):
    values = tl.load(values_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    tl.atomic_add(counts_ptr + values, 1)


@tw.jit
def claim_kernel(owners_ptr, place):
    tl.atomic_cas(owners_ptr + place, 0, 1)


@tw.jit
def scalar_kernel(x_ptr, out_ptr, place):
    tl.store(out_ptr + place, tl.load(x_ptr) + 1)


@tw.jit
def helper(ptr, value):
    tl.store(ptr, value)


@tw.jit
def all_to_one_kernel(out_ptr):
    helper(out_ptr, tl.program_id(0))


@tw.jit
def neighbours_kernel(x_ptr, n, BLOCK: tl.constexpr):
    """Each program reads one element of the next block."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets + 1, mask=offsets + 1 < n, other=0)
    tl.store(x_ptr + offsets, x, mask=offsets < n)


@tw.jit
def read_then_write_kernel(x_ptr):
    """Programs 0 to 2 read what program 3 writes."""
    program = tl.program_id(0)
    if program == 3:
        tl.store(x_ptr, 1)
    else:
        tl.store(x_ptr + 1 + program, tl.load(x_ptr))


@tw.jit
def atomic_and_plain_kernel(x_ptr, out_ptr):
    tl.atomic_add(x_ptr, 1, sem="relaxed")
    tl.store(out_ptr + tl.program_id(0), tl.load(x_ptr))


@tw.jit
def locked_kernel(total_ptr, locks_ptr, LOCKS: tl.constexpr, RELEASE_LATE: tl.constexpr):
    lock = locks_ptr + tl.program_id(0) % LOCKS
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    if not RELEASE_LATE:
        tl.atomic_xchg(lock, 0)
    tl.store(total_ptr, tl.load(total_ptr) + 1)
    if RELEASE_LATE:
        tl.atomic_xchg(lock, 0)


@tw.jit
def last_one_adds_kernel(x_ptr, sums_ptr, out_ptr, done_ptr, BLOCK: tl.constexpr, PROGRAMS: tl.constexpr):
    """Partial sums, added up by the program that comes last."""
    program = tl.program_id(0)
    tl.store(sums_ptr + program, tl.sum(tl.load(x_ptr + program * BLOCK + tl.arange(0, BLOCK)), axis=0))
    if tl.atomic_add(done_ptr, 1) == PROGRAMS - 1:
        tl.store(out_ptr, tl.sum(tl.load(sums_ptr + tl.arange(0, PROGRAMS)), axis=0))


@tw.jit
def choose_kernel(a_ptr, b_ptr, out_ptr, which, n, BLOCK: tl.constexpr):
    ptr = a_ptr if which > 0 else b_ptr
    offsets = tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.load(ptr + offsets, mask=offsets < n), mask=offsets < n)


@tw.jit
def from_address_kernel(address, out_ptr):
    tl.store(out_ptr, tl.load(address.to(tl.pointer_type(tl.float32))))


@tw.jit
def poke_kernel(address):
    tl.store(address.to(tl.pointer_type(tl.int32)), 7)


@tw.jit
def dot_kernel(a_ptr, b_ptr, out_ptr, K, BLOCK: tl.constexpr):
    row, column = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, K, BLOCK):
        a = tl.load(a_ptr + row * K + k + column)
        b = tl.load(b_ptr + (k + row) * BLOCK + column)
        total = tl.dot(a, b, total)
    tl.store(out_ptr + row * BLOCK + column, total)


@tw.jit(noinline=True)
def add_to(ptr, value):
    tl.store(ptr, tl.load(ptr) + value)


@tw.jit
def calls_kernel(x_ptr, place):
    add_to(x_ptr + place, 1)
    tl.device_assert(place < 100)


@tw.jit
def swapped_pointers_kernel(x_ptr, y_ptr, n, steps, BLOCK: tl.constexpr):
    """Tiles of pointers that a loop carries and exchanges."""
    a, b = x_ptr + tl.arange(0, BLOCK), y_ptr + tl.arange(0, BLOCK)
    for _ in range(steps):
        tl.store(b, tl.load(a, mask=tl.arange(0, BLOCK) < n) + 1, mask=tl.arange(0, BLOCK) < n)
        a, b = b, a


@tw.jit
def descriptor_kernel(x_ptr, out_ptr, rows, columns, BLOCK: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, (rows, columns), (columns, 1), (BLOCK, BLOCK))
    out = tl.make_tensor_descriptor(out_ptr, (rows, columns), (columns, 1), (BLOCK, BLOCK))
    for column in range(0, columns, BLOCK):
        out.store((tl.program_id(0) * BLOCK, column), x.load((tl.program_id(0) * BLOCK, column)) * 2)


@tw.jit
def bytes_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """The bytes of an array of larger elements."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr.to(tl.pointer_type(tl.int8)) + offsets, mask=offsets < n)
    tl.store(out_ptr.to(tl.pointer_type(tl.int8)) + offsets, x, mask=offsets < n)


@tw.jit
def remainder_kernel(x_ptr, out_ptr, n, START: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + START + (n - at) % 8))
