"""Products and tensor memory in layouts that kernels rarely get, from TTGIR, in the simulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tile_programs import loaded, memdesc, program, run, stored, tensor

from tilewright.backends.nvidia.lower.dot.tcgen05 import form_of
from tilewright.layouts.conversion import to_linear_layout
from tilewright.layouts.encodings import Encoding, SharedLinear, TensorMemory, TensorMemoryScales
from tilewright.layouts.linear_layout import log2
from tilewright.layouts.tensor_memory import compatible_layouts, linear_memory

TENSOR_MEMORY = "#ttng.tensor_memory"
RNG = np.random.default_rng(0)


def mma(warps: tuple[int, int]) -> str:
    shape = f"warpsPerCTA = [{warps[0]}, {warps[1]}], instrShape = [16, 8]"
    return f"#ttg.nvidia_mma<{{versionMajor = 2, versionMinor = 0, {shape}}}>"


def multiplied(shape: tuple[int, int, int], element: str, width: int, warps: tuple[int, int]) -> Any:
    """The error of a product whose operands are loaded to the registers in which the instruction takes them."""
    m, n, k = shape
    sum = mma(warps)
    left, right = (f"#ttg.dot_op<{{opIdx = {index}, parent = {sum}, kWidth = {width}}}>" for index in (0, 1))
    types = f"{tensor((m, k), element, left)} * {tensor((k, n), element, right)} -> {tensor((m, n), 'f32', sum)}"
    lines = [
        *loaded("%a", "%p0", left, (m, k), element),
        *loaded("%b", "%p1", right, (k, n), element),
        *loaded("%c", "%p2", sum, (m, n), "f32"),
        f"%d = tt.dot %a, %b, %c, inputPrecision = tf32 : {types}",
        *stored("%d", "%p3", sum, (m, n), "f32"),
    ]
    count = warps[0] * warps[1]
    text = program(lines, elements=[element, element, "f32", "f32"], warps=count)
    dtype = {"f16": np.float16, "f32": np.float32}[element]
    # Numbers that tf32 holds exactly.
    a, b = (RNG.integers(-8, 8, extents).astype(dtype) for extents in ((m, k), (k, n)))
    c = RNG.standard_normal((m, n)).astype(np.float32)
    found = run(text, [a, b, c, np.zeros_like(c)], capability=80, warps=count)[3]
    return np.abs(found - (a.astype(np.float64) @ b.astype(np.float64) + c)).max()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "element", "width"),
    [
        ((16, 8, 32), "f16", 4),
        ((32, 16, 64), "f16", 8),
        ((16, 8, 16), "f16", 8),  # 16 elements for lanes that could have 32: half of the lanes have copies
        ((16, 16, 8), "f16", 8),
        ((16, 8, 8), "f16", 2),  # half of an instruction
        ((16, 8, 4), "f32", 1),
        ((16, 8, 16), "f32", 4),
        ((16, 8, 8), "f32", 4),
        ((8, 8, 16), "f16", 2),  # eight rows where the instruction has sixteen
    ],
)
@pytest.mark.parametrize("warps", [(1, 1), (2, 1), (1, 4)])
def test_groups_of_k_in_each_lane(
    shape: tuple[int, int, int], element: str, width: int, warps: tuple[int, int]
) -> None:
    assert multiplied(shape, element, width, warps) < 1e-4


def buffer(shape: tuple[int, int], element: str, layout: Encoding, whole: tuple[int, int] | None = None) -> str:
    tail = f", {whole[0]}x{whole[1]}" if whole else ""
    return f"!ttg.memdesc<{shape[0]}x{shape[1]}x{element}, {layout.text}, {TENSOR_MEMORY}, mutable{tail}>"


MEMORIES = [
    (TensorMemory(128, 64, 1), (128, 64), "f32", 4),
    (TensorMemory(128, 32, 1), (256, 64), "f32", 8),
    (TensorMemory(64, 32, 1), (64, 32), "f32", 4),
    (TensorMemory(64, 32, 1), (128, 64), "f32", 8),
    (TensorMemory(128, 64, 1), (128, 64), "f16", 4),
    (TensorMemory(128, 32, 2), (128, 32), "f16", 4),
    (TensorMemory(128, 64, 1), (128, 64), "i8", 4),
]


@pytest.mark.slow
@pytest.mark.parametrize(("memory", "shape", "element", "warps"), MEMORIES)
def test_tensor_memory_in_one_layout_and_out_in_another(
    memory: TensorMemory, shape: tuple[int, int], element: str, warps: int
) -> None:
    dtype = {"f32": np.float32, "f16": np.float16, "i8": np.int8}[element]
    layouts = compatible_layouts(memory, shape, bits=np.dtype(dtype).itemsize * 8, warps=warps)
    x = RNG.integers(-100, 100, shape).astype(dtype)
    type = buffer(shape, element, memory)
    for into, out in zip(layouts, [*layouts[1:], layouts[0]], strict=True):
        lines = [
            *loaded("%t", "%p0", into.text, shape, element),
            "%true = arith.constant true",
            f"%m = ttng.tmem_alloc : () -> {type}",
            f"ttng.tmem_store %t, %m, %true : {tensor(shape, element, into.text)} -> {type}",
            "ttg.barrier local",
            f"%u = ttng.tmem_load %m : {type} -> {tensor(shape, element, out.text)}",
            *stored("%u", "%p1", out.text, shape, element),
        ]
        text = program(lines, elements=[element, element], warps=warps)
        assert run(text, [x, np.zeros_like(x)], capability=100, warps=warps)[1].tolist() == x.tolist()


@pytest.mark.slow
def test_a_part_of_tensor_memory() -> None:
    memory, whole, shape = TensorMemory(128, 64, 1), (128, 64), (128, 32)
    (into, *_), (out, *_) = (compatible_layouts(memory, extents, bits=32, warps=4) for extents in (whole, shape))
    type, part = buffer(whole, "f32", memory), buffer(shape, "f32", memory, whole)
    lines = [
        *loaded("%t", "%p0", into.text, whole, "f32"),
        f"%m = ttng.tmem_alloc %t : ({tensor(whole, 'f32', into.text)}) -> {type}",
        f"%v = ttng.tmem_subslice %m {{N = 32 : i32}} : {type} -> {part}",
        f"%u = ttng.tmem_load %v : {part} -> {tensor(shape, 'f32', out.text)}",
        *stored("%u", "%p1", out.text, shape, "f32"),
    ]
    x = RNG.standard_normal(whole).astype(np.float32)
    text = program(lines, elements=["f32", "f32"])
    found = run(text, [x, np.zeros(shape, np.float32)], capability=100)[1]
    assert found.tolist() == x[:, 32:].tolist()


@pytest.mark.parametrize("number", [0, 1])
def test_a_choice_of_two_buffers_in_tensor_memory(number: int) -> None:
    """Branches and loops hand the address on."""
    memory, shape = TensorMemory(128, 64, 1), (128, 64)
    (layout, *_) = compatible_layouts(memory, shape, bits=32, warps=4)
    type, tile = buffer(shape, "f32", memory), tensor(shape, "f32", layout.text)
    lines = [
        *loaded("%t", "%p0", layout.text, shape, "f32"),
        f"%twice = arith.addf %t, %t : {tile}",
        f"%m0 = ttng.tmem_alloc %t : ({tile}) -> {type}",
        f"%m1 = ttng.tmem_alloc %twice : ({tile}) -> {type}",
        "%none = arith.constant 0 : i32",
        "%one = arith.constant 1 : i32",
        "%three = arith.constant 3 : i32",
        "%is = arith.cmpi eq, %n0, %one : i32",
        f"%m = scf.if %is -> ({type}) {{ scf.yield %m1 : {type} }} else {{ scf.yield %m0 : {type} }}",
        f"%turned:2 = scf.for %i = %none to %three step %one iter_args(%a = %m, %b = %m0) -> ({type}, {type}) : i32 {{",
        f"scf.yield %b, %a : {type}, {type} }}",
        f"%u = ttng.tmem_load %turned#1 : {type} -> {tile}",
        *stored("%u", "%p1", layout.text, shape, "f32"),
    ]
    x = RNG.standard_normal(shape).astype(np.float32)
    text = program(lines, elements=["f32", "f32"], numbers=["%n0"])
    found = run(text, [x, np.zeros(shape, np.float32)], number, capability=100)[1]
    assert found.tolist() == ((1 + number) * x).tolist()


BARRIER = "#ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>"
PIECES = (
    "#ttg.shared_linear<{offset = [[0, 1], [0, 2], [32, 0], [64, 0], [1, 0], [2, 0], [4, 0], [8, 0], [16, 0], "
    "[0, 4]]}, alignment = 1024>"
)
"""Scales of 128 rows as `tcgen05.cp` reads them: 32 rows of 16 bytes, each of which belongs to four rows."""


@pytest.mark.slow
def test_scales_copied_from_shared_memory() -> None:
    memory, shape, element = TensorMemoryScales(), (128, 8), "i8"
    (out, *_) = compatible_layouts(memory, shape, bits=8, warps=4)
    plain = "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [16, 2], warpsPerCTA = [4, 1], order = [1, 0]}>"
    type, source = buffer(shape, element, memory), memdesc(shape, element, PIECES)
    barrier = memdesc((1,), "i64", BARRIER, mutable=True)
    lines = [
        *loaded("%t", "%p0", plain, shape, element),
        f"%s = ttg.local_alloc %t : ({tensor(shape, element, plain)}) -> {source}",
        f"%b = ttg.local_alloc : () -> {barrier}",
        f"ttng.init_barrier %b, 1 : {barrier}",
        "ttng.fence_async_shared {bCluster = false}",
        "ttg.barrier local",
        "%zero = arith.constant 0 : i32",
        f"%m = ttng.tmem_alloc : () -> {type}",
        f"ttng.tmem_copy %s, %m, %b : {source}, {type}, {barrier}",
        f"ttng.wait_barrier %b, %zero : {barrier}",
        f"%u = ttng.tmem_load %m : {type} -> {tensor(shape, element, out.text)}",
        *stored("%u", "%p1", out.text, shape, element),
    ]
    x = RNG.integers(-100, 100, shape).astype(np.int8)
    found = run(program(lines, elements=[element, element]), [x, np.zeros_like(x)], capability=100)[1]
    assert found.tolist() == x.tolist()


@pytest.mark.quick
@pytest.mark.parametrize(
    ("memory", "shape", "bits", "name"),
    [
        (TensorMemoryScales(), (128, 8), 8, "32x128b.warpx4"),
        (TensorMemory(128, 32, 1), (128, 32), 32, "128x256b"),
        (TensorMemory(128, 4, 1), (128, 4), 32, "128x128b"),
    ],
)
def test_forms_of_copies(memory: Any, shape: tuple[int, int], bits: int, name: str) -> None:
    rows = SharedLinear(
        tuple((0, 1 << bit) for bit in range(log2(shape[1]))) + tuple((1 << bit, 0) for bit in range(7))
    )
    places = linear_memory(memory, shape, bits).invert_and_compose(to_linear_layout(rows, shape))
    assert form_of(places, bits).name == name


@pytest.mark.slow
@pytest.mark.parametrize("commits", [False, True])
@pytest.mark.parametrize("rows", [64, 128])
def test_a_left_factor_in_tensor_memory(rows: int, commits: bool) -> None:
    m, n, k = rows, 32, 64
    operand, sum = TensorMemory(rows, k, 1), TensorMemory(rows, n, 1)
    (left, *_), (out, *_) = (
        compatible_layouts(memory, shape, bits=bits, warps=4)
        for memory, shape, bits in ((operand, (m, k), 16), (sum, (m, n), 32))
    )
    plain = "#ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>"
    shared = "#ttg.nvmma_shared<{swizzlingByteWidth = 64, transposed = false, elementBitWidth = 16}>"
    a, b, d = buffer((m, k), "f16", operand), memdesc((k, n), "f16", shared), buffer((m, n), "f32", sum)
    barrier = memdesc((1,), "i64", BARRIER, mutable=True)

    def product(told: str) -> str:
        types = f"{a}, {b}, {d}{f', {barrier}' if told else ''}"
        return f"ttng.tc_gen5_mma %a, %b, %d, %false, %true{told} {{is_async}} : {types}"

    lines = [
        *loaded("%t", "%p0", left.text, (m, k), "f16"),
        *loaded("%u", "%p1", plain, (k, n), "f16"),
        f"%a = ttng.tmem_alloc %t : ({tensor((m, k), 'f16', left.text)}) -> {a}",
        f"%b = ttg.local_alloc %u : ({tensor((k, n), 'f16', plain)}) -> {b}",
        f"%d = ttng.tmem_alloc : () -> {d}",
        f"%r = ttg.local_alloc : () -> {barrier}",
        f"ttng.init_barrier %r, 1 : {barrier}",
        "ttng.fence_async_shared {bCluster = false}",
        "%false = arith.constant false",
        "%true = arith.constant true",
        "%zero = arith.constant 0 : i32",
        *(("ttg.barrier local", product(""), f"ttng.tc_gen5_commit %r : {barrier}") if commits else ()),
        *(() if commits else (product(", %r[%true]"),)),
        f"ttng.wait_barrier %r, %zero : {barrier}",
        f"%v = ttng.tmem_load %d : {d} -> {tensor((m, n), 'f32', out.text)}",
        *stored("%v", "%p2", out.text, (m, n), "f32"),
    ]
    x, y = (RNG.integers(-8, 8, shape).astype(np.float16) for shape in ((m, k), (k, n)))
    arrays = [x, y, np.zeros((m, n), np.float32)]
    found = run(program(lines, elements=["f16", "f16", "f32"]), arrays, capability=100)[2]
    assert found.tolist() == (x.astype(np.float32) @ y.astype(np.float32)).tolist()


@pytest.mark.slow
def test_several_buffers_in_one() -> None:
    memory, shape = TensorMemory(128, 32, 1), (128, 32)
    (layout, *_) = compatible_layouts(memory, shape, bits=32, warps=4)
    one = buffer(shape, "f32", memory)
    both = one.replace("128x32xf32", "2x128x32xf32", 1)
    tile = tensor(shape, "f32", layout.text)
    lines = [
        *loaded("%t", "%p0", layout.text, shape, "f32"),
        f"%u = arith.addf %t, %t : {tile}",
        "%true = arith.constant true",
        f"%m = ttng.tmem_alloc : () -> {both}",
        "%other = arith.constant 0 : i32",
        f"%v = ttg.memdesc_index %m[%n] : {both} -> {one}",
        f"%w = ttg.memdesc_index %m[%other] : {both} -> {one}",
        f"ttng.tmem_store %t, %v, %true : {tile} -> {one}",
        f"ttng.tmem_store %u, %w, %true : {tile} -> {one}",
        f"%a = ttng.tmem_load %v : {one} -> {tile}",
        f"%b = ttng.tmem_load %w : {one} -> {tile}",
        f"%c = arith.subf %b, %a : {tile}",
        *stored("%c", "%p1", layout.text, shape, "f32"),
    ]
    x = RNG.standard_normal(shape).astype(np.float32)
    text = program(lines, elements=["f32", "f32"], numbers=["%n"])
    assert run(text, [x, np.zeros_like(x)], 1, capability=100)[1].tolist() == x.tolist()
