"""The findings of torch's analysis of kernels: the tensors that each of these stores to, as JSON by kernel.

torch asks for the TTIR of a kernel and walks over it. Where anything about that fails, it takes every tensor for
changed.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
import triton
import triton.language as tl
from torch._higher_order_ops import triton_kernel_wrap


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


@triton.jit
def in_place(x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


@triton.jit
def reads_only(x, y):
    tl.device_assert(tl.load(x) == tl.load(y))


@triton.jit
def optional(x, bias, out, HAS_BIAS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i)
    if HAS_BIAS:
        v += tl.load(bias + i)
    tl.store(out + i, v)


@triton.jit
def indirect(indices, x, out, BLOCK: tl.constexpr):
    i = tl.load(indices + tl.arange(0, BLOCK))
    tl.store(out + i, tl.load(x + i))


@triton.jit
def counted(x, counts, locks, BLOCK: tl.constexpr):
    v = tl.load(x + tl.arange(0, BLOCK)).to(tl.int32)
    tl.atomic_add(counts + v, 1.0)
    tl.atomic_cas(locks, 0, 1)


@triton.jit
def stored(pointer, value):
    tl.store(pointer, value)


@triton.jit
def chosen(pointer, other, value):
    stored(pointer, value)
    return other + 1


@triton.jit
def through_helpers(x, y, z, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    next_one = chosen(x + i, y + i, 1.0)
    tl.store(next_one, tl.load(z + i))


@triton.jit
def in_loops(x, out, again, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    to = out + i
    for _ in range(n):
        total += tl.load(x + i)
        tl.store(to, total)
        to += BLOCK
        x += BLOCK
    while n > 0:
        tl.store(again + n + i, total)
        n -= 1


@triton.jit
def in_branches(x, y, z, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    if n > 3:
        p = x + i
        tl.store(p, 1.0)
    else:
        tl.store(y + i, tl.load(z + i))


@triton.jit
def returns_early(x, y, n):
    if n == 0:
        return
    tl.store(x, tl.load(y))


@triton.jit
def larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def reduced(x, sums, prefixes, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i)
    tl.store(sums, tl.reduce(v, 0, larger) + tl.sum(v, 0) + tl.argmax(v, 0))
    tl.store(prefixes + i, tl.associative_scan(v, 0, larger) + tl.sort(v))


@triton.jit
def block_pointers(x, out, n, BLOCK: tl.constexpr):
    source = tl.make_block_ptr(x, (n, n), (n, 1), (0, 0), (BLOCK, BLOCK), (1, 0))
    target = tl.make_block_ptr(out, (n, n), (n, 1), (0, 0), (BLOCK, BLOCK), (1, 0))
    for _ in range(0, n, BLOCK):
        v = tl.load(source, boundary_check=(0, 1))
        tl.store(target, tl.dot(v, v), boundary_check=(0, 1))
        source, target = tl.advance(source, (0, BLOCK)), tl.advance(target, (0, BLOCK))


@triton.jit
def device_descriptors(x, out, n, BLOCK: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [n, n], [n, 1], [BLOCK, BLOCK])
    target = tl.make_tensor_descriptor(out, [n, n], [n, 1], [BLOCK, BLOCK])
    target.store([0, 0], source.load([0, 0]).T)


@triton.jit
def pure_assembly(x, out):
    shifted = tl.inline_asm_elementwise("shl.b32 $0, $1, 3;", "=r,r", [tl.load(x)], tl.int32, is_pure=True, pack=1)
    tl.store(out, shifted)


@triton.jit
def random_numbers(out, seed, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.rand(seed, i))


tuned = triton.autotune([triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 32})], key=["n"])(add)


def floats(*shape: int) -> torch.Tensor:
    return torch.zeros(*shape or (64,))


def ints() -> torch.Tensor:
    return torch.zeros(64, dtype=torch.int32)


TILE = {"n": 16, "BLOCK": 16}
SQUARE = {"x": floats(32, 32), "out": floats(32, 32), "n": 32, "BLOCK": 16}
CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "add": (add, {"x": floats(), "y": floats(), "out": floats(), **TILE}),
    "autotuned": (tuned, {"x": floats(), "y": floats(), "out": floats(), "n": 16}),
    "block_pointers": (block_pointers, SQUARE),
    "counted": (counted, {"x": floats(), "counts": floats(), "locks": ints(), "BLOCK": 16}),
    "device_descriptors": (device_descriptors, SQUARE),
    "in_branches": (in_branches, {"x": floats(), "y": floats(), "z": floats(), "n": 5, "BLOCK": 16}),
    "in_loops": (in_loops, {"x": floats(), "out": floats(), "again": floats(), "n": 2, "BLOCK": 16}),
    "in_place": (in_place, {"x": floats(), **TILE}),
    "indirect": (indirect, {"indices": ints(), "x": floats(), "out": floats(), "BLOCK": 16}),
    "optional": (optional, {"x": floats(), "bias": None, "out": floats(), "HAS_BIAS": False, "BLOCK": 16}),
    "optional_given": (optional, {"x": floats(), "bias": floats(), "out": floats(), "HAS_BIAS": True, "BLOCK": 16}),
    "pure_assembly": (pure_assembly, {"x": ints(), "out": ints()}),
    "random_numbers": (random_numbers, {"out": floats(), "seed": 7, "BLOCK": 16}),
    "reads_only": (reads_only, {"x": floats(), "y": floats()}),
    "reduced": (reduced, {"x": floats(), "sums": floats(), "prefixes": floats(), "BLOCK": 16}),
    "returns_early": (returns_early, {"x": floats(), "y": floats(), "n": 1}),
    "through_helpers": (through_helpers, {"x": floats(), "y": floats(), "z": floats(), "BLOCK": 16}),
}


def written(kernel: Any, arguments: dict[str, Any]) -> list[str]:
    """The names of the tensors that torch takes for changed."""
    if not hasattr(triton_kernel_wrap, "identify_accessed_tensors"):  # in older torches
        return sorted(triton_kernel_wrap.identify_mutated_tensors(kernel, arguments, {}))
    accesses = triton_kernel_wrap.identify_accessed_tensors(kernel, arguments, {})
    return sorted(access.name for access in accesses.read_writes.writes)


if __name__ == "__main__":
    answers = {name: written(kernel, dict(arguments)) for name, (kernel, arguments) in CASES.items()}
    sys.stdout.write(json.dumps(answers))
