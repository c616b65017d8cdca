"""How much code kernels become on each processor: ops by name, the numbers in them, LLVM's instructions.

A choice that changes (how much is unrolled, which version of a loop there is, what goes past the caches) shows here,
where results stay what they are. The texts of a few are in `test_passes.py` and `test_nest_loops.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import test_blocked_transpose as transposed
import test_nest_loops as nests
from networks import normed
from pass_kernels import CALLS

import tilewright as tw
import tilewright.language as tl
from code_counts import code_of, ttir
from tilewright.backends.llvm.machine import host_target

CPUS = ("x86-64-v2", "x86-64-v3", "znver4")
FLOATS, HALVES, BYTES = np.zeros(16, np.float32), np.zeros(16, np.float16), np.zeros(16, np.int8)


@tw.jit
def copied(x, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + i, tl.load(x + i))


@tw.jit
def dropped(x, out, n, seed, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    kept = tl.rand(seed, i) > 0.25
    tl.store(out + i, tl.where(kept, tl.load(x + i, mask=i < n), 0.0), mask=i < n)


@tw.jit
def counted(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    values = tl.load(x + i, mask=i < n, other=0)
    found = tl.histogram(values.to(tl.int32), 16)
    tl.atomic_add(out + tl.arange(0, 16), found.to(tl.float32))


@tw.jit
def mixed(a, b, out, n, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, k, c = tl.arange(0, BM), tl.arange(0, BK), tl.arange(0, BN)
    left = tl.load(a + m[:, None] * n + k[None, :], mask=k[None, :] < n, other=0.0)
    right = tl.load(b + c[None, :] * n + k[:, None], mask=k[:, None] < n, other=0.0)
    total = tl.dot(left, right)
    tl.store(out + m[:, None] * BN + c[None, :], tl.maximum(total, 0.0))


def transposes(name: str, *tile: int) -> tuple[Any, ...]:
    return transposed.KERNELS[name], (FLOATS, FLOATS, FLOATS, 64, 64), {"BM": tile[0], "BN": tile[1]}


KERNELS: dict[str, tuple[Any, tuple[Any, ...], dict[str, int]]] = {
    **CALLS,
    "copied": (copied, (FLOATS, FLOATS, 64), {"B": 4096}),
    "copied_bytes": (copied, (BYTES, BYTES, 64), {"B": 1024}),
    "normed": (normed, (FLOATS, FLOATS, FLOATS, 100), {"ROWS": 4, "B": 128}),
    "normed_halves": (normed, (HALVES, HALVES, HALVES, 1024), {"ROWS": 1, "B": 1024}),
    "dropped": (dropped, (FLOATS, FLOATS, 100, 7), {"B": 256}),
    "counted": (counted, (BYTES, FLOATS, 100), {"B": 256}),
    "mixed": (mixed, (FLOATS, FLOATS, FLOATS, 60), {"BM": 32, "BN": 16, "BK": 64}),
    "mixed_halves": (mixed, (HALVES, HALVES, FLOATS, 64), {"BM": 16, "BN": 32, "BK": 64}),
    "mixed_rows": (mixed, (FLOATS, FLOATS, FLOATS, 64), {"BM": 1, "BN": 64, "BK": 64}),
    **{f"across_{name}": transposes(name, 32, 16) for name in transposed.KERNELS},
    **{
        kernel.__name__: (kernel, (FLOATS, FLOATS, 2), {"BLOCK": nests.N})
        for kernel in dict.fromkeys(case[0] for case in nests.CASES)
        if kernel.__name__ != "softmax"
    },
}


def on_some() -> list[Any]:
    """Each kernel for each processor: `make check` leaves out one of them, in turn."""
    return [
        pytest.param(name, cpu, marks=pytest.mark.slow if place == number % len(CPUS) else ())
        for number, name in enumerate(KERNELS)
        for place, cpu in enumerate(CPUS)
    ]


@pytest.mark.quick
@pytest.mark.parametrize(("name", "cpu"), on_some())
def test_code(name: str, cpu: str, golden: Callable[[str, str], None]) -> None:
    kernel, arguments, constants = KERNELS[name]
    module = ttir(kernel, dict(zip(kernel.arg_names, arguments, strict=False)) | constants)
    golden(f"{code_of(module, host_target(cpu))}\n", f"cpu/counts/{cpu}/{name}.txt")
