"""How much code kernels become on each generation of GPUs: ops and layouts of TTGIR, and instructions by name.

A choice that changes (layouts, matrix instructions, stages of pipelines, widths of accesses, exchanges between lanes)
shows here, where results stay what they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from networks import attended, normed

import tilewright as tw
import tilewright.language as tl
from code_counts import shown
from gpu_code import instructions
from tilewright.backends.nvidia.options import parse_options
from tilewright.backends.nvidia.pipeline import make_llir, make_ttgir, make_ttir
from tilewright.backends.nvidia.targets import find
from tilewright.runtime.compile import ASTSource

DEVICES = (75, 80, 90, 100, 120)


@tw.jit
def added(x, y, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


@tw.jit
def across(x, out, n, BM: tl.constexpr, BN: tl.constexpr):
    m, k = tl.arange(0, BM), tl.arange(0, BN)
    tile = tl.load(x + m[:, None] * n + k[None, :])
    tl.store(out + k[:, None] * n + m[None, :], tl.trans(tile))
    tl.store(out + n * n + tl.arange(0, BM), tl.cumsum(tl.max(tile, 1), 0))


@tw.jit
def sorted_and_counted(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    values = tl.load(x + i, mask=i < n, other=0)
    tl.store(out + i, tl.sort(values))
    tl.atomic_add(out + B + tl.arange(0, 16), tl.histogram(values, 16))
    tl.store(out + B + 16 + i, tl.gather(values, B - 1 - i, 0), mask=i % 3 == 0)


@tw.jit
def multiplied(a, b, c, n, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, k, i = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BK), tl.program_id(1) * BN + tl.arange(0, BN)
    left, right = a + m[:, None] * n + k[None, :], b + k[:, None] * n + i[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, n, BK):
        total = tl.dot(tl.load(left), tl.load(right), total)
        left += BK
        right += BK * n
    tl.store(c + m[:, None] * n + i[None, :], total.to(c.dtype.element_ty))


@tw.jit
def attention(q, k, v, out, n, B: tl.constexpr, D: tl.constexpr):
    i, d = tl.arange(0, B), tl.arange(0, D)
    query = tl.load(q + i[:, None] * D + d[None, :])
    tl.store(out + i[:, None] * D + d[None, :], attended(query, k, v, i, d, n, B, D))


@tw.jit
def moved(x, out, n, BM: tl.constexpr, BN: tl.constexpr):
    source = tl.make_tensor_descriptor(x, (n, n), (n, 1), (BM, BN))
    target = tl.make_tensor_descriptor(out, (n, n), (n, 1), (BM, BN))
    for row in range(0, n, BM):
        target.store([row, 0], source.load([row, 0]) * 2)


@tw.jit
def multiplied_tiles(a, b, c, n, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    left = tl.make_tensor_descriptor(a, (n, n), (n, 1), (BM, BK))
    right = tl.make_tensor_descriptor(b, (n, n), (n, 1), (BN, BK))
    to = tl.make_tensor_descriptor(c, (n, n), (n, 1), (BM, BN))
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, n, BK):
        total = tl.dot(left.load([0, k]), right.load([0, k]).T, total)
    to.store([0, 0], total.to(tl.float16))


@tw.jit
def scaled(a, a_scale, b, b_scale, c, n, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, k, i, g = tl.arange(0, BM), tl.arange(0, BK), tl.arange(0, BN), tl.arange(0, BK // 32)
    left, right = tl.load(a + m[:, None] * n + k[None, :]), tl.load(b + k[:, None] * n + i[None, :])
    scales = tl.load(a_scale + m[:, None] * n + g[None, :]), tl.load(b_scale + i[:, None] * n + g[None, :])
    found = tl.dot_scaled(left, scales[0], "e5m2", right, scales[1], "e5m2")
    tl.store(c + m[:, None] * n + i[None, :], found)


@tw.jit
def summed(x, out, n, B: tl.constexpr, R: tl.constexpr):
    rows, columns = tl.arange(0, R), tl.arange(0, B)
    total, best = tl.zeros((R,), tl.float32), tl.zeros((B,), tl.int32)
    for start in range(0, n, B):
        tile = tl.load(x + rows[:, None] * n + start + columns[None, :], mask=start + columns[None, :] < n, other=0.0)
        total += tl.sum(tile, 1)
        best = tl.maximum(best, tl.argmax(tile, 0))
    tl.store(out + rows, tl.associative_scan(total, 0, larger))
    tl.atomic_max(out + R + columns, best.to(tl.float32), mask=columns % 2 == 0)


@tw.jit
def larger(a, b):
    return tl.maximum(a, b)


KERNELS: dict[str, tuple[Any, str, dict[str, int], dict[str, int]]] = {
    "added": (added, "*fp32 *fp32 *fp32 i32", {"B": 1024}, {}),
    "added_halves": (added, "*fp16 *fp16 *fp32 i32", {"B": 512}, {"num_warps": 8}),
    "normed": (normed, "*fp16 *fp16 *fp16 i32", {"ROWS": 4, "B": 256}, {}),
    "across": (across, "*i32 *i32 i32", {"BM": 64, "BN": 32}, {}),
    "across_bytes": (across, "*i8 *i8 i32", {"BM": 32, "BN": 64}, {"num_warps": 2}),
    "sorted_and_counted": (sorted_and_counted, "*i32 *i32 i32", {"B": 64}, {"num_warps": 1}),
    "multiplied": (multiplied, "*fp16 *fp16 *fp16 i32", {"BM": 64, "BN": 64, "BK": 32}, {"num_stages": 3}),
    "multiplied_tf32": (multiplied, "*fp32 *fp32 *fp32 i32", {"BM": 128, "BN": 64, "BK": 32}, {"num_stages": 2}),
    "multiplied_eighths": (multiplied, "*fp8e5 *fp8e5 *fp32 i32", {"BM": 64, "BN": 32, "BK": 64}, {}),
    "attended": (attention, "*fp16 *fp16 *fp16 *fp32 i32", {"B": 64, "D": 64}, {}),
    "multiplied_tiles": (multiplied_tiles, "*fp16 *fp16 *fp16 i32", {"BM": 128, "BN": 64, "BK": 64}, {"num_stages": 3}),
    "multiplied_by_eight": (multiplied, "*bf16 *bf16 *fp32 i32", {"BM": 128, "BN": 128, "BK": 32}, {"num_warps": 8}),
    "scaled": (scaled, "*u8 *u8 *u8 *u8 *fp32 i32", {"BM": 128, "BN": 64, "BK": 128}, {}),
    "summed": (summed, "*fp32 *fp32 i32", {"B": 64, "R": 16}, {}),
    "summed_by_one": (summed, "*fp16 *fp32 i32", {"B": 32, "R": 8}, {"num_warps": 1}),
    "moved": (moved, "*fp32 *fp32 i32", {"BM": 16, "BN": 32}, {}),
}


class Made(NamedTuple):
    """Counts of a kernel: ops and layouts of TTGIR, LLVM IR before it is optimised, bytes of shared memory."""

    ops: Counter[str]
    layouts: list[str]
    llir: str
    shared: int


def made(name: str, capability: int) -> Made:
    kernel, arguments, constants, given = KERNELS[name]
    kinds = arguments.split()
    signature = dict(zip(kernel.arg_names, [*kinds, *["constexpr"] * len(constants)], strict=True))
    divisible = {(place,): [["tt.divisibility", 16]] for place in range(len(kinds))}
    device, options = find(capability), parse_options({**given, "debug_info": ""}, capability)
    facts: dict[str, Any] = {}
    module = ASTSource(kernel, signature, constants, divisible).make_ir(None, options)
    module = make_ttgir(make_ttir(module, facts, device), facts, options, device)
    ops = Counter(op.name for op in module.walk())
    types = {value.type for op in module.walk() for value in op.results}
    layouts = {getattr(type, "encoding", None) or "#ttg.slice" for type in types}
    chosen = sorted(text for text in layouts if not text.startswith("#ttg.slice"))
    return Made(ops, chosen, make_llir(module, facts, options, device), facts["shared"])


def on_some() -> list[Any]:
    """Each kernel for each generation: `make check` runs each kernel for one, in turn."""
    return [
        pytest.param(name, capability, marks=() if place == number % len(DEVICES) else pytest.mark.slow)
        for number, name in enumerate(KERNELS)
        for place, capability in enumerate(DEVICES)
    ]


@pytest.mark.quick
@pytest.mark.parametrize(("name", "capability"), on_some())
def test_code(name: str, capability: int, golden: Callable[[str, str], None]) -> None:
    found = made(name, capability)
    code = shown(found.ops), *found.layouts, shown(instructions(found.llir))
    golden("\n  ".join((f"{found.shared} bytes", *code)) + "\n", f"nvidia/counts/{capability}/{name}.txt")
