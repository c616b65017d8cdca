"""Products by tile registers: which are, that they are right, and that nothing beside the operands is touched."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from dot_native import A_STRIDE, make_spec
from guarded_memory import between_guards

import tilewright as tw
import tilewright.language as tl
from machine_levels import compiled_for, run_here
from tilewright.backends.cpu.dot.plan import plan_of
from tilewright.backends.llvm.machine import host_target
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.parser import parse_module
from tilewright.ir.types import Type, bf16, f32, i8, i32
from tilewright.runtime.drivers.cpu.standalone import kernel_object, launcher_object
from tilewright.transforms.functions import functions_of

CPU = "sapphirerapids"
TYPES = {"bf16": (ml_dtypes.bfloat16, np.float32, tl.float32), "i8": (np.int8, np.int32, tl.int32)}
has_tiles = pytest.mark.skipif(
    "amx-tile" not in host_target(CPU).features, reason="kernels ask Linux on x86-64 for tile registers"
)
runs_tiles = pytest.mark.skipif(
    not ({CPU} & {*run_here(CPU)} and "amx-tile" in host_target(CPU).features),
    reason="this host does not run sapphirerapids code",
)


@tw.jit
def product(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SUM: tl.constexpr):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM)[:, None], tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    total = tl.zeros((BM, BN), SUM)
    for first in range(0, K, BK):
        k = first + tl.arange(0, BK)
        left = tl.load(a + m * K + k[None, :], (m < M) & (k < K)[None, :], 0)
        total = tl.dot(left, tl.load(b + k[:, None] * N + n, (k < K)[:, None] & (n < N), 0), total, out_dtype=SUM)
    tl.store(c + m * N + n, total, (m < M) & (n < N))


def factors(m: int, n: int, k: int, kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Factors of small integers, whose sums are exact, and room for the result; all between guards."""
    dtype, total, _ = TYPES[kind]
    rng = np.random.default_rng((m, n, k))
    arrays = [between_guards(extent, dtype)[1] for extent in (m * k, k * n)]
    for array in arrays:
        array[:] = rng.integers(-8, 9, array.size).astype(dtype)
    return arrays[0].reshape(m, k), arrays[1].reshape(k, n), between_guards(m * n, total)[1].reshape(m, n)


def multiplied(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype(np.int64) @ b.astype(np.int64)


SHAPES = [(64, 64, 64), (128, 32, 192), (16, 16, 64), (17, 33, 64), (100, 90, 70), (1, 50, 130), (95, 31, 129)]
SHAPES += [(45, 70, 714)]
TILES = [(64, 64, 64), (32, 32, 64), (16, 16, 64), (16, 64, 128), (128, 16, 64)]


@runs_tiles
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("tile", TILES)
def test_products_of_ragged_matrices(tile: tuple[int, int, int], kind: str) -> None:
    with compiled_for(CPU):
        for m, n, k in SHAPES:
            a, b, c = factors(m, n, k, kind)
            grid = (tw.cdiv(m, tile[0]), tw.cdiv(n, tile[1]))
            kernel = product[grid](a, b, c, m, n, k, *tile, TYPES[kind][2])
            np.testing.assert_array_equal(c, multiplied(a, b))
    assert "amx.tile_mul" in kernel.asm["loops"]


@runs_tiles
@pytest.mark.parametrize("num_threads", [1, 2])
def test_nans_and_infinities_reach_their_rows_and_columns_only(num_threads: int) -> None:
    m, n, k = 100, 70, 130
    a, b, c = factors(m, n, k, "bf16")
    a[3, 5], a[40, 129], b[7, 9] = np.nan, np.inf, -np.inf
    with compiled_for(CPU):
        product[(4, 3)](a, b, c, m, n, k, 32, 32, 64, tl.float32, num_threads=num_threads)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


@has_tiles
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize(("m", "n", "k"), [(70, 40, 100), (32, 32, 128), (5, 64, 64), (45, 33, 340)])
def test_loops_of_tiles_are_executed_anywhere(m: int, n: int, k: int, kind: str) -> None:
    """The interpreter refuses every address outside the arrays."""
    element, sums = ("bf16", "fp32") if kind == "bf16" else ("i8", "i32")
    signature = {"a": f"*{element}", "b": f"*{element}", "c": f"*{sums}", "M": "i32", "N": "i32", "K": "i32"}
    constants = {"BM": 32, "BN": 32, "BK": 64, "SUM": TYPES[kind][2]}
    source = tw.ASTSource(product, {**signature, **dict.fromkeys(constants, "constexpr")}, constants)
    module = parse_module(tw.compile(source, target=tw.GPUTarget("cpu", CPU, 0)).asm["loops"])
    a, b, c = factors(m, n, k, kind)
    given: dict[str, Any] = {"a": a, "b": b, "c": c, "M": m, "N": n, "K": k}
    parameters = functions_of(module)[0].body.args
    run_ir(module, [given[parameter.name or ""] for parameter in parameters], (tw.cdiv(m, 32), tw.cdiv(n, 32)))
    np.testing.assert_array_equal(c, multiplied(a, b))


@has_tiles
@pytest.mark.quick
@pytest.mark.parametrize(
    ("extents", "type", "more", "wanted"),
    [
        ((16, 16, 32), bf16, {}, True),
        ((16, 16, 16), bf16, {}, False),
        ((8, 16, 32), bf16, {}, False),
        ((16, 8, 32), bf16, {}, False),
        ((16, 16, 64), i8, {}, True),
        ((16, 16, 32), i8, {}, False),
        ((64, 64, 64), bf16, {"b_transposed": True}, True),
        ((64, 64, 64), bf16, {"a_transposed": True}, False),
        ((64, 64, 64), f32, {}, False),
    ],
)
def test_products_of_whole_tiles_whose_left_matrix_lies_by_rows_use_them(
    extents: tuple[int, int, int], type: Type, more: dict[str, bool], wanted: bool
) -> None:
    spec = replace(make_spec(extents, type, i32 if type is i8 else f32), a_stride=A_STRIDE, **more)
    for cpu, expected in ((CPU, wanted), ("znver5", False)):
        plan = plan_of(spec, host_target(cpu))
        assert plan is not None
        assert plan.by.tiles == expected


@has_tiles
def test_products_of_tiles_prefetch_nothing() -> None:
    """Those of fp32 in the same kernel do, into L2; loads under masks prefetch into L1."""
    signature = {"a": "*bf16", "b": "*bf16", "c": "*fp32", "M": "i32", "N": "i32", "K": "i32"}
    constants = {"BM": 64, "BN": 64, "BK": 64, "SUM": tl.float32}
    for element, expected in (("bf16", False), ("fp32", True)):
        types = signature | {"a": f"*{element}", "b": f"*{element}"}
        source = tw.ASTSource(product, {**types, **dict.fromkeys(constants, "constexpr")}, constants)
        loops = tw.compile(source, target=tw.GPUTarget("cpu", CPU, 0)).asm["loops"]
        assert bool(re.search(r"vector\.prefetch .*locality = 2 ", loops)) == expected


@has_tiles
@pytest.mark.parametrize(("depth", "asks"), [(64, True), (16, False)])
def test_kernels_with_tiles_ask_for_them_on_entry(depth: int, asks: bool) -> None:
    """Whoever runs the object later, on whatever thread, has not asked himself."""
    signature = {"a": "*bf16", "b": "*bf16", "c": "*fp32", "M": "i32", "N": "i32", "K": "i32"}
    constants = {"BM": 32, "BN": 32, "BK": depth, "SUM": tl.float32}
    source = tw.ASTSource(product, {**signature, **dict.fromkeys(constants, "constexpr")}, constants)
    text = tw.compile(source, target=tw.GPUTarget("cpu", CPU, 0)).asm["llir"]
    assert text.count('asm sideeffect "syscall"') == asks


@runs_tiles
def test_other_threads_use_tiles() -> None:
    a, b, c = factors(128, 64, 64, "bf16")

    def launch() -> None:
        product[(4, 1)](a, b, c, 128, 64, 64, 32, 64, 64, tl.float32, num_threads=4)

    with compiled_for(CPU):
        thread = Thread(target=launch)
        thread.start()
        thread.join()
    np.testing.assert_array_equal(c, multiplied(a, b))


ALONE = """
import ctypes, sys
kernel, launcher = (ctypes.CDLL(path) for path in sys.argv[1:])
a, b = ((ctypes.c_int8 * 2048)(*[i % count - count // 2 for i in range(2048)]) for count in (7, 5))
c, extents = (ctypes.c_int32 * 1024)(), [ctypes.c_int32(n) for n in (32, 32, 64)]
places = (ctypes.c_void_p * 10)(*map(ctypes.addressof, (a, b, c, *extents)), *[None] * 4)
code = ctypes.cast(kernel.the_kernel, ctypes.c_void_p)
launcher.run_from_nativert(*map(ctypes.c_uint32, (1, 1, 1)), 1, places, code)
wanted = [sum(a[64 * i + k] * b[32 * k + j] for k in range(64)) for i in range(32) for j in range(32)]
assert list(c) == wanted
"""
"""A program without Tilewright, which has not asked for tile registers."""


@runs_tiles
def test_kernels_use_tiles_in_processes_that_never_asked(tmp_path: Path) -> None:
    types = {"a": "*i8", "b": "*i8", "c": "*i32", "M": "i32", "N": "i32", "K": "i32"}
    constants = {"BM": 32, "BN": 32, "BK": 64, "SUM": tl.int32}
    source = tw.ASTSource(product, {**types, **dict.fromkeys(constants, "constexpr")}, constants)
    target = tw.GPUTarget("cpu", CPU, 0)
    kernel = tw.compile(source, target=target)
    assert "amx.tile_muli" in kernel.asm["loops"]
    files = tmp_path / "kernel.so", tmp_path / "launcher.so"
    files[0].write_bytes(kernel_object(kernel.asm["obj"], entry=kernel.metadata.entry, name="the_kernel"))
    given = (*types.values(), *["constexpr"] * len(constants))
    files[1].write_bytes(launcher_object(given, scratch_bytes=kernel.scratch_bytes, target=host_target(CPU)))
    subprocess.run([sys.executable, "-I", "-S", "-c", ALONE, *map(str, files)], check=True, timeout=60)
