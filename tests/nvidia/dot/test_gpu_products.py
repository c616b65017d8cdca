"""Products on every device, run by the simulator with all its checks, against NumPy."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest
from simulated import compiled, launch

import tilewright as tw
import tilewright.language as tl
import tilewright.semantics.dot as semantics
from long_runs import LONG

E4, E5, BF16 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.bfloat16
INSTRUCTION = re.compile(r"mma\.sync\.aligned\.\S+|wgmma\.mma_async\S+|tcgen05\.mma\.\S+")


@tw.jit
def product(a, b, c, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + m[:, None] * K + k[None, :])
    y = tl.load(b + k[:, None] * N + n[None, :])
    z = tl.load(c + m[:, None] * N + n[None, :])
    found = tl.dot(x, y, z, input_precision=PRECISION, out_dtype=z.dtype)
    tl.store(out + m[:, None] * N + n[None, :], found)


class Case(NamedTuple):
    """Elements of operands and accumulator, the device, extents, warps; the instruction, how many; error allowed."""

    operand: Any
    sum: str
    capability: int
    shape: tuple[int, int, int]
    warps: int
    instruction: str
    count: int
    error: float = 1e-5
    precision: str = "tf32"


def numbers(rng: np.random.Generator, shape: tuple[int, ...], element: Any) -> Any:
    if element in ("i1", "i4"):
        return rng.integers(-100, 100, shape).astype(element)
    return rng.standard_normal(shape).astype(element)


def check(case: Case, blocks: int = 1) -> None:
    m, n, k = case.shape
    rng = np.random.default_rng(1)
    a, b = numbers(rng, (m, k), case.operand), numbers(rng, (k, n), case.operand)
    c = numbers(rng, (m, n), case.sum)
    arguments = [a, b, c, np.zeros_like(c)]
    sizes = {"M": m, "N": n, "K": k, "PRECISION": case.precision, "num_warps": case.warps, "num_ctas": blocks}
    made = compiled(product, arguments, capability=case.capability, **sizes)
    instructions = [found for found in INSTRUCTION.findall(made.asm["ptx"]) if "commit" not in found]
    assert set(instructions) == ({case.instruction} if case.instruction else set())
    assert len(instructions) == case.count
    found = launch(made, (1,), arguments)[3]
    wide = np.int64 if case.sum == "i4" else np.float64
    expected = a.astype(wide) @ b.astype(wide) + c.astype(wide)
    assert np.abs(found.astype(wide) - expected).max() <= case.error


MMA = "mma.sync.aligned."
WGMMA = "wgmma.mma_async.sync.aligned."
TCGEN05 = "tcgen05.mma.cta_group::1.kind::"
TF32_ERROR, HALF_ERROR = 0.03, 0.02


def test_mma_sync() -> None:
    check(Case("f2", "f4", 80, (32, 32, 32), 4, f"{MMA}m16n8k16.row.col.f32.f16.f16.f32", 4))


def test_wgmma() -> None:
    check(Case("f2", "f4", 90, (64, 16, 32), 4, f"{WGMMA}m64n16k16.f32.f16.f16", 2))


def test_tcgen05() -> None:
    check(Case("f2", "f4", 100, (64, 16, 32), 4, f"{TCGEN05}f16", 2))


ON_AMPERE = [
    Case("f2", "f4", 80, (64, 64, 64), 4, f"{MMA}m16n8k16.row.col.f32.f16.f16.f32", 32),
    Case("f2", "f2", 80, (64, 64, 64), 4, f"{MMA}m16n8k16.row.col.f16.f16.f16.f16", 32, HALF_ERROR),
    Case(BF16, "f4", 80, (64, 64, 64), 4, f"{MMA}m16n8k16.row.col.f32.bf16.bf16.f32", 32),
    Case("f4", "f4", 80, (64, 64, 64), 4, f"{MMA}m16n8k8.row.col.f32.tf32.tf32.f32", 64, TF32_ERROR),
    Case("f4", "f4", 80, (32, 32, 32), 4, f"{MMA}m16n8k8.row.col.f32.tf32.tf32.f32", 48, 1e-5, "tf32x3"),
    Case("f4", "f4", 80, (32, 32, 32), 4, f"{MMA}m16n8k16.row.col.f32.bf16.bf16.f32", 24, 2e-4, "bf16x3"),
    Case("i1", "i4", 80, (64, 64, 64), 4, f"{MMA}m16n8k32.row.col.satfinite.s32.s8.s8.s32", 16, 0),
    Case("f8", "f8", 80, (32, 32, 16), 4, f"{MMA}m8n8k4.row.col.f64.f64.f64.f64", 16, 1e-13),
    Case("f8", "f8", 90, (32, 32, 16), 4, f"{MMA}m16n8k16.row.col.f64.f64.f64.f64", 2, 1e-13),
    Case(E5, "f4", 80, (32, 32, 32), 4, f"{MMA}m16n8k16.row.col.f32.f16.f16.f32", 4),
    Case(E4, "f4", 89, (64, 64, 64), 4, f"{MMA}m16n8k32.row.col.f32.e4m3.e4m3.f32", 16),
    Case(E5, "f4", 120, (64, 64, 64), 4, f"{MMA}m16n8k32.row.col.f32.e5m2.e5m2.f32", 16),
    Case("f2", "f4", 80, (16, 16, 16), 1, f"{MMA}m16n8k16.row.col.f32.f16.f16.f32", 2),
    Case("f2", "f4", 80, (32, 8, 32), 4, f"{MMA}m16n8k16.row.col.f32.f16.f16.f32", 2),
    Case("i1", "i4", 120, (16, 64, 32), 8, f"{MMA}m16n8k32.row.col.satfinite.s32.s8.s8.s32", 1, 0),
]
ON_HOPPER = [
    Case("f2", "f4", 90, (64, 64, 64), 4, f"{WGMMA}m64n64k16.f32.f16.f16", 4),
    Case("f2", "f2", 90, (64, 64, 64), 4, f"{WGMMA}m64n64k16.f16.f16.f16", 4, HALF_ERROR),
    Case(BF16, "f4", 90, (64, 128, 32), 8, f"{WGMMA}m64n64k16.f32.bf16.bf16", 2),
    Case("f4", "f4", 90, (64, 64, 64), 4, f"{WGMMA}m64n64k8.f32.tf32.tf32", 8, TF32_ERROR),
    Case("f4", "f4", 90, (64, 32, 32), 4, f"{WGMMA}m64n32k8.f32.tf32.tf32", 12, 1e-5, "tf32x3"),
    Case("i1", "i4", 90, (128, 64, 64), 8, f"{WGMMA}m64n64k32.s32.s8.s8", 2, 0),
    Case(E4, "f4", 90, (64, 64, 64), 4, f"{WGMMA}m64n64k32.f32.e4m3.e4m3", 2),
    Case(E5, "f2", 90, (64, 64, 64), 4, f"{WGMMA}m64n64k32.f16.e5m2.e5m2", 2, HALF_ERROR),
    Case("f2", "f4", 90, (256, 64, 32), 4, f"{WGMMA}m64n64k16.f32.f16.f16", 8),
    Case("f2", "f4", 90, (64, 8, 16), 4, f"{WGMMA}m64n8k16.f32.f16.f16", 1),
    Case("f2", "f4", 90, (64, 256, 16), 4, f"{WGMMA}m64n256k16.f32.f16.f16", 1),
]
ON_BLACKWELL = [
    Case("f2", "f4", 100, (128, 64, 64), 4, f"{TCGEN05}f16", 4),
    Case("f2", "f2", 100, (128, 64, 64), 4, f"{TCGEN05}f16", 4, HALF_ERROR),
    Case("f4", "f4", 100, (128, 64, 32), 4, f"{TCGEN05}tf32", 4, TF32_ERROR),
    Case("i1", "i4", 100, (128, 64, 64), 4, f"{TCGEN05}i8", 2, 0),
    Case(E4, "f4", 100, (128, 64, 64), 8, f"{TCGEN05}f8f6f4", 2),
    Case("f2", "f4", 100, (256, 64, 32), 8, f"{TCGEN05}f16", 4),
    Case("f2", "f4", 100, (64, 128, 32), 8, f"{TCGEN05}f16", 2),
]
ON_TURING = [
    Case("f2", "f4", 75, (32, 32, 32), 4, f"{MMA}m16n8k8.row.col.f32.f16.f16.f32", 8),
    Case("f2", "f2", 75, (16, 32, 16), 2, f"{MMA}m16n8k8.row.col.f16.f16.f16.f16", 4, HALF_ERROR),
    Case("i1", "i4", 75, (32, 16, 32), 2, f"{MMA}m8n8k16.row.col.satfinite.s32.s8.s8.s32", 8, 0),
]
BY_FMA = [
    Case("f4", "f4", 80, (16, 16, 16), 1, "", 0, 1e-5, "ieee"),
    Case("f4", "f4", 90, (32, 16, 8), 4, "", 0, 1e-5, "ieee"),
    Case(BF16, "f4", 75, (16, 32, 16), 2, "", 0),
    Case("f4", "f4", 75, (16, 16, 16), 1, "", 0, 1e-5, "tf32x3"),
    Case("f8", "f8", 100, (16, 16, 4), 1, "", 0, 1e-13),
]
SHALLOW = [
    Case("f2", "f4", 80, (16, 16, 8), 1, f"{MMA}m16n8k16.row.col.f32.f16.f16.f32", 2),
    Case("f2", "f4", 80, (16, 16, 4), 1, f"{MMA}m16n8k16.row.col.f32.f16.f16.f32", 2),
    Case("i1", "i4", 75, (16, 16, 16), 1, "", 0, 0),
    Case("f4", "f4", 80, (4, 8, 2), 1, "", 0, 1e-5, "ieee"),
    Case(E5, "f4", 75, (16, 16, 16), 1, "", 0),
]
"""Products that the language refuses on GPUs; TTIR that comes from elsewhere may have them."""


@pytest.mark.slow
@pytest.mark.parametrize("case", [*ON_TURING, *ON_AMPERE, *ON_HOPPER, *ON_BLACKWELL, *BY_FMA], ids=str)
def test_products(case: Case) -> None:
    check(case)


@pytest.mark.slow
@pytest.mark.parametrize("case", SHALLOW, ids=str)
def test_shallow_products(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(semantics, "MIN_DEPTH", {})
    check(case)


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [2, 4])
@pytest.mark.parametrize(
    "case",
    [
        Case("f2", "f4", 90, (256, 64, 32), 4, f"{WGMMA}m64n64k16.f32.f16.f16", 2),
        Case("f2", "f4", 100, (256, 64, 32), 4, f"{TCGEN05}f16", 2),
    ],
    ids=str,
)
def test_blocks_that_share_a_product(case: Case, blocks: int) -> None:
    check(case._replace(count=case.count * (2 if blocks == 2 and case.capability == 90 else 1)), blocks)


@tw.jit
def steps(
    a,
    b,
    out,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    STEPS: tl.constexpr,
    TURNED: tl.constexpr,
    CHANGED: tl.constexpr,
    IMPRECISE: tl.constexpr,
):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    total = tl.zeros((M, N), tl.float32)
    for s in range(STEPS):
        if TURNED[0]:
            x = tl.trans(tl.load(a + (s * K + k)[:, None] * M + m[None, :]))
        else:
            x = tl.load(a + m[:, None] * (K * STEPS) + (s * K + k)[None, :])
        if TURNED[1]:
            y = tl.trans(tl.load(b + n[:, None] * (K * STEPS) + (s * K + k)[None, :]))
        else:
            y = tl.load(b + (s * K + k)[:, None] * N + n[None, :])
        if CHANGED:
            x = (x.to(tl.float32) * 2.0).to(x.dtype)
        total = tl.dot(x, y, total, max_num_imprecise_acc=IMPRECISE)
    tl.store(out + m[:, None] * N + n[None, :], total)


def check_steps(
    element: Any,
    capability: int,
    shape: tuple[int, int, int],
    warps: int = 4,
    *,
    turned: tuple[bool, bool] = (False, False),
    changed: bool = False,
    imprecise: int | None = None,
) -> str:
    """Three steps of a loop; the PTX."""
    (m, n, k), count = shape, 3
    rng = np.random.default_rng(2)
    a, b = numbers(rng, (m, k * count), element), numbers(rng, (k * count, n), element)
    arguments = [np.ascontiguousarray(x.T) if t else x for x, t in zip((a, b), turned, strict=True)]
    arguments.append(np.zeros((m, n), np.float32))
    sizes = {"M": m, "N": n, "K": k, "STEPS": count, "TURNED": turned, "CHANGED": changed, "IMPRECISE": imprecise}
    made = compiled(steps, arguments, capability=capability, num_warps=warps, **sizes)
    found = launch(made, (1,), arguments)[2]
    expected = (2 if changed else 1) * a.astype(np.float64) @ b.astype(np.float64)
    assert np.abs(found - expected).max() < (0.2 if element == "f4" else 1e-4)
    return str(made.asm["ptx"])


DIRECTIONS = [(False, False), (True, False), (False, True), (True, True)]


def loops() -> Iterator[Any]:
    """Devices, elements and directions: `make test` takes every two of them together."""
    axes = (80, 90, 100), ("f2", "f4", E4), DIRECTIONS
    for (i, capability), (j, element), (k, turned) in itertools.product(*map(enumerate, axes)):
        is_short = (i + j + k) % 3 == 0
        yield pytest.param(capability, element, turned, marks=pytest.mark.slow if is_short else LONG)


@pytest.mark.parametrize(("capability", "element", "turned"), [*loops()])
def test_loops_of_factors_in_both_directions(capability: int, element: Any, turned: tuple[bool, bool]) -> None:
    check_steps(element, capability, (64, 64, 32), turned=turned)


@pytest.mark.slow
@pytest.mark.parametrize("capability", [80, 90, 100, 120])
@pytest.mark.parametrize("element", ["f2", "f4", E4])
def test_loops_of_a_factor_from_registers(capability: int, element: Any) -> None:
    check_steps(element, capability, (64, 64, 32), changed=True)


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "warps"), [((64, 16, 16), 4), ((128, 64, 64), 8), ((128, 256, 16), 8)])
@pytest.mark.parametrize("capability", [80, 90, 100])
def test_loops_of_several_sizes(shape: tuple[int, int, int], warps: int, capability: int) -> None:
    check_steps("f2", capability, shape, warps)


@pytest.mark.slow
@pytest.mark.parametrize(("imprecise", "sums"), [(0, 0), (32, 2), (64, 1), (None, 0)])
def test_sums_of_fp8_are_exact_after_so_many_products(imprecise: int | None, sums: int) -> None:
    """On sm_90 the matrix unit adds with fewer bits, so the program adds its partial sums."""
    ptx = check_steps(E4, 90, (64, 16, 64), imprecise=imprecise)
    partial = re.findall(r"wgmma\.mma_async\S+ \{[^}]*\}, %rd\d+, %rd\d+, 0,", ptx)
    assert len(partial) in (sums, 3 * sums)  # from zero, in each step; LLVM may unroll the three
    assert ("wgmma" in ptx) == (imprecise != 0)


@pytest.mark.parametrize(("fuse", "name"), [(True, "add.f32"), (False, "add.rn.f32")])
@pytest.mark.parametrize(("imprecise", "sums"), [(32, 2), (64, 1), (None, 0)])
def test_partial_sums_are_added_one_by_one(imprecise: int | None, sums: int, fuse: bool, name: str) -> None:
    """One addition for each number of a thread and each sum; `add.f32` may be fused."""
    arguments = [np.zeros((64, 192), E4), np.zeros((192, 16), E4), np.zeros((64, 16), np.float32)]
    sizes = {"M": 64, "N": 16, "K": 64, "STEPS": 3, "TURNED": (False, False), "CHANGED": False, "IMPRECISE": imprecise}
    ptx = str(compiled(steps, arguments, capability=90, enable_fp_fusion=fuse, **sizes).asm["ptx"])
    assert len(re.findall(r"\badd\S*f32\b", ptx)) == ptx.count(name) == 8 * sums * (3 if "bra" not in ptx else 1)


@tw.jit
def batches(a, b, out, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    i = tl.arange(0, B)[:, None, None]
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + i * M * K + m[None, :, None] * K + k[None, None, :])
    y = tl.load(b + i * K * N + k[None, :, None] * N + n[None, None, :])
    tl.store(out + i * M * N + m[None, :, None] * N + n[None, None, :], tl.dot(x, y, input_precision="ieee"))


@pytest.mark.slow
@pytest.mark.parametrize(("element", "capability"), [("f2", 80), ("f2", 90), ("f4", 80), ("f2", 75)])
@pytest.mark.parametrize(("count", "warps"), [(4, 4), (2, 4)])
def test_batches(element: Any, capability: int, count: int, warps: int) -> None:
    rng = np.random.default_rng(3)
    a, b = numbers(rng, (count, 16, 16), element), numbers(rng, (count, 16, 32), element)
    arguments = [a, b, np.zeros((count, 16, 32), np.float32)]
    sizes = {"B": count, "M": 16, "N": 32, "K": 16, "num_warps": warps}
    made = compiled(batches, arguments, capability=capability, **sizes)
    found = launch(made, (1,), arguments)[2]
    assert np.abs(found - a.astype(np.float64) @ b.astype(np.float64)).max() < 1e-5
