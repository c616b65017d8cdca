"""Tensor descriptors that kernels make, and copies through them, on the simulator."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.nvidia.simulated import compiled, launch

import tilewright
import tilewright.language as tl
from tilewright.backends.nvidia.options import parse_options
from tilewright.backends.nvidia.pipeline import make_llir, make_ptx, make_ttgir
from tilewright.backends.nvidia.targets import find
from tilewright.backends.ptxsim import DeviceMemory, Launch, load
from tilewright.backends.ptxsim.tensor_maps import TensorMap
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.parser import parse_module
from tilewright.support.diagnostics import CompilationError, Unsupported

Array = np.ndarray[Any, Any]
slow = pytest.mark.slow


@tilewright.jit
def add_one(a, b, M, N, BM: tl.constexpr, BN: tl.constexpr):
    source = tl.make_tensor_descriptor(a, [M, N], [N, 1], [BM, BN])
    target = tl.make_tensor_descriptor(b, [M, N], [N, 1], [BM, BN])
    i, j = tl.program_id(0) * BM, tl.program_id(1) * BN
    target.store([i, j], source.load([i, j]) + 1)


@pytest.mark.parametrize(
    ("capability", "shape", "block", "dtype"),
    [
        (90, (100, 96), (32, 64), "f4"),
        *(
            pytest.param(capability, *case, marks=slow)
            for capability in (90, 100, 120)
            for case in [
                ((64, 64), (64, 64), "f2"),
                ((128, 512), (64, 256), "f2"),
                ((40, 32), (16, 16), "i1"),
                ((17, 64), (8, 32), "f8"),
            ]
        ),
    ],
)
def test_blocks_are_moved_and_cut_off_at_the_edges(
    capability: int, shape: tuple[int, int], block: tuple[int, int], dtype: str
) -> None:
    x = (np.arange(np.prod(shape)) % 100).astype(dtype).reshape(shape)
    given = [x, np.zeros_like(x), *shape]
    made = compiled(add_one, given, capability=capability, BM=block[0], BN=block[1])
    _, found = launch(made, tuple(-(-a // b) for a, b in zip(shape, block, strict=True)), given)
    np.testing.assert_array_equal(found, x + 1)
    assert len(re.findall(r"cp\.async\.bulk\.tensor\.2d", made.asm["ptx"])) == 2
    assert "elect.sync" in made.asm["ptx"], "the device chooses the thread"
    assert "nanosleep" not in made.asm["ptx"], "threads wait without polling"


@slow
@pytest.mark.parametrize("capability", [90, 100])
@pytest.mark.parametrize("blocks", [2, 4])
def test_blocks_of_a_cluster_move_their_parts(blocks: int, capability: int) -> None:
    x = np.arange(100 * 256, dtype="f4").reshape(100, 256)
    given = [x, np.zeros_like(x), *x.shape]
    made = compiled(add_one, given, capability=capability, BM=64, BN=64, num_ctas=blocks)
    _, found = launch(made, (2, 4), given)
    np.testing.assert_array_equal(found, x + 1)


@tilewright.jit
def product(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    left = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b, [K, N], [N, 1], [BK, BN])
    out = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        total = tl.dot(left.load([m, k]), right.load([k, n]), total)
    out.store([m, n], total.to(tl.float16))


@slow
@pytest.mark.parametrize("capability", [90, 100, 120])
@pytest.mark.parametrize(("block", "warps"), [((128, 128, 64), 8), ((64, 64, 32), 4)])
def test_pipelined_products(capability: int, block: tuple[int, int, int], warps: int) -> None:
    m, n, k = 128, 128, 160
    random = np.random.default_rng(0)
    a, b = random.standard_normal((m, k)).astype("f2"), random.standard_normal((k, n)).astype("f2")
    given = [a, b, np.zeros((m, n), "f2"), m, n, k]
    made = compiled(
        product, given, capability=capability, BM=block[0], BN=block[1], BK=block[2], num_warps=warps, num_stages=3
    )
    *_, found = launch(made, (m // block[0], n // block[1]), given)
    np.testing.assert_allclose(found, a.astype("f4") @ b.astype("f4"), atol=0.03)


@tilewright.jit
def product_with_odd_steps_twice(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    left = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    out = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = left.load([0, k])
        if k // BK % 2 == 1:
            total = tl.dot(x, right.load([0, k]).T, total)
        total = tl.dot(x, right.load([0, k]).T, total)
    out.store([0, 0], total)


@pytest.mark.parametrize("capability", [90, 100])
@pytest.mark.parametrize("stages", [2, 3])
def test_a_branch_that_reads_a_copy_waits_for_it(stages: int, capability: int) -> None:
    """The copy behind the branch has a barrier of its own: one for both would be waited for behind the branch."""
    m, n, k, block = 64, 64, 320, 64
    random = np.random.default_rng(5)
    a, b = (random.integers(-3, 4, shape).astype(np.float16) for shape in ((m, k), (n, k)))
    arguments = [a, b, np.zeros((m, n), np.float32), m, n, k]
    constants = {"BM": m, "BN": n, "BK": block, "num_stages": stages}
    kernel = compiled(product_with_odd_steps_twice, arguments, capability=capability, **constants)
    left, right = (x.astype(np.float32).reshape(64, k // block, block) for x in (a, b))
    left[:, 1::2] *= 2
    np.testing.assert_array_equal(launch(kernel, (1,), arguments)[2], np.einsum("isk,jsk->ij", left, right))


OTHER_BLOCKS = [pytest.param(block, marks=slow) for block in ((256, 64, 32), (64, 128, 32))]


@pytest.mark.parametrize("block", [(128, 128, 16), *OTHER_BLOCKS], ids=str)
@pytest.mark.parametrize("capability", [90, *(pytest.param(device, marks=slow) for device in (100, 120))])
def test_blocks_of_a_cluster_copy_the_factors_that_they_multiply(capability: int, block: tuple[int, ...]) -> None:
    (m, n, k), (bm, bn, bk) = (256, 128, 64), block
    random = np.random.default_rng(1)
    a, b = (random.integers(-3, 4, shape).astype("f2") for shape in ((m, k), (k, n)))
    given = [a, b, np.zeros((m, n), "f2"), m, n, k]
    made = compiled(product, given, capability=capability, BM=bm, BN=bn, BK=bk, num_warps=8, num_ctas=2)
    *_, found = launch(made, (m // bm, n // bn), given)
    np.testing.assert_array_equal(found, a.astype("f4") @ b.astype("f4"))
    assert ("wgmma" in made.asm["ptx"]) == (capability == 90), "64 rows stay together"


@tilewright.jit
def square(a, c, N, B: tl.constexpr):
    source = tl.make_tensor_descriptor(a, [N, N], [N, 1], [B, B])
    i, j = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
    total = tl.zeros((B, B), tl.float32)
    for k in range(0, N, B):
        total = tl.dot(source.load([0, k]), source.load([k, 0]), total)
    tl.store(c + i * B + j, total)


def test_factors_of_one_descriptor_of_which_blocks_want_different_parts() -> None:
    """A descriptor has one box: a conversion brings what a block multiplies and another one has copied."""
    a = np.random.default_rng(2).integers(-3, 4, (128, 128)).astype("f2")
    given = [a, np.zeros((128, 128), "f4"), 128]
    made = compiled(square, given, capability=90, B=128, num_ctas=2)
    np.testing.assert_array_equal(launch(made, (1,), given)[1], a.astype("f4") @ a.astype("f4"))


@tilewright.jit
def double_boxes(a, b, A, B, C, BA: tl.constexpr, BB: tl.constexpr, BC: tl.constexpr):
    source = tl.make_tensor_descriptor(a, [A, B, C], [B * C, C, 1], [BA, BB, BC])
    target = tl.make_tensor_descriptor(b, [A, B, C], [B * C, C, 1], [BA, BB, BC])
    for i in range(0, A, BA):
        for j in range(0, B, BB):
            target.store([i, j, 0], source.load([i, j, 0]) * 2)


@slow
@pytest.mark.parametrize(
    ("dtype", "shape", "block"),
    [("f2", (4, 16, 64), (2, 8, 64)), ("f4", (3, 20, 32), (1, 16, 32)), ("i1", (8, 8, 64), (4, 4, 64))],
)
def test_three_dimensions(dtype: str, shape: tuple[int, ...], block: tuple[int, ...]) -> None:
    x = (np.arange(np.prod(shape)) % 50).astype(dtype).reshape(shape)
    given = [x, np.zeros_like(x), *shape]
    made = compiled(double_boxes, given, capability=90, BA=block[0], BB=block[1], BC=block[2])
    _, found = launch(made, (1,), given)
    np.testing.assert_array_equal(found, x * 2)


@tilewright.jit
def in_turns(a, b, M, N, BM: tl.constexpr, BN: tl.constexpr):
    for row in range(0, M, BM):
        source = tl.make_tensor_descriptor(a + row * N, [BM, N], [N, 1], [BM, BN])
        target = tl.make_tensor_descriptor(b + row * N, [BM, N], [N, 1], [BM, BN])
        for column in range(0, N, BN):
            target.store([0, column], source.load([0, column]) + 1)


@slow
@pytest.mark.parametrize("capability", [90, 100])
def test_descriptors_made_in_a_loop_by_several_programs(capability: int) -> None:
    x = np.arange(128 * 128, dtype="f4").reshape(128, 128)
    given = [x, np.zeros_like(x), 128, 128]
    made = compiled(in_turns, given, capability=capability, BM=32, BN=32)
    _, found = launch(made, (2, 2), given)
    np.testing.assert_array_equal(found, x + 1)
    assert made.metadata.global_scratch_size >= 2 * 128  # a tensor map for each descriptor that is in use


GIVEN = """module {
  tt.func public @move(%from: TYPE, %n: i32, %m: i32, %s: i64, %t: i64, %to: TYPE, %o: i32, %p: i32, %u: i64, %v: i64) {
    %start = arith.constant 8 : i32
    %x = tt.descriptor_load %from[%start, %start] : TYPE -> tensor<64x64xf16>
    %y = arith.addf %x, %x : tensor<64x64xf16>
    tt.descriptor_store %to[%start, %start], %y : TYPE, tensor<64x64xf16>
    tt.return
  }
}"""


@slow
@pytest.mark.parametrize("capability", [90, 120])
def test_descriptors_that_the_host_made(capability: int) -> None:
    x = (np.arange(128 * 64) % 1000).astype("f2").reshape(128, 64)
    memory = DeviceMemory()
    places = [memory.copy_in(array) for array in (x, np.zeros_like(x))]
    maps = [TensorMap(place, "f16", shape=(64, 128), strides=(128,), box=(64, 64), swizzle=128) for place in places]
    options, device = parse_options({"debug_info": ""}, capability), find(capability)
    facts: dict[str, Any] = {}
    module = parse_module(GIVEN.replace("TYPE", "!tt.tensordesc<tensor<64x64xf16>>"))
    module = make_ttgir(module, facts, options, device)
    ptx = make_ptx(make_llir(module, facts, options, device), facts, options, device)
    shape = (128, 64, 64, 1)
    arguments = [maps[0].encode(), *shape, maps[1].encode(), *shape, 0, 0]
    Launch(load(ptx), threads=128, shared=facts["shared"]).run(memory, arguments)
    wanted = np.zeros_like(x)
    wanted[8:72, 8:] = 2 * x[8:72, 8:]
    np.testing.assert_array_equal(memory.copy_out(places[1], x.shape, x.dtype), wanted)


TTIR = """module {
  tt.func public @move(%a: !tt.ptr<ELEMENT> ALIGNED, %b: !tt.ptr<ELEMENT> ALIGNED, %n: !tt.ptr<i32> ALIGNED) {
    %rows = arith.constant 128 : i32
    %columns = arith.constant 256 : i32
    %stride = arith.constant 256 : i64
    %one = arith.constant 1 : i64
    %zero = arith.constant 0 : i32
    %start = arith.constant 32 : i32
    %from = tt.make_tensor_descriptor %a, [%rows, %columns], [%stride, %one] : !tt.ptr<ELEMENT>, DESCRIPTOR
    %to = tt.make_tensor_descriptor %b, [%rows, %columns], [%stride, %one] : !tt.ptr<ELEMENT>, DESCRIPTOR
    BODY
    tt.return
  }
}"""
ROWS = """%r = tt.make_range {end = COUNT : i32, start = 0 : i32} : tensor<COUNTxi32>
    %np = tt.splat %n : !tt.ptr<i32> -> tensor<COUNTx!tt.ptr<i32>>
    %nq = tt.addptr %np, %r : tensor<COUNTx!tt.ptr<i32>>, tensor<COUNTxi32>
    %x = tt.load %nq : tensor<COUNTx!tt.ptr<i32>>
    %v = tt.descriptor_gather %from[%x, %start] : (DESCRIPTOR, tensor<COUNTxi32>, i32) -> tensor<COUNTxWIDTHxELEMENT>
    tt.descriptor_scatter %to[%x, %zero], %v : DESCRIPTOR, tensor<COUNTxi32>, i32, tensor<COUNTxWIDTHxELEMENT>"""
SUMS = """%v = tt.descriptor_load %from[%start, %start] : DESCRIPTOR -> tensor<BLOCKxELEMENT>
    tt.descriptor_reduce add, %to[%zero, %zero], %v : DESCRIPTOR, tensor<BLOCKxELEMENT>"""


def moved(body: str, x: Array, numbers: Array, capability: int, **names: Any) -> tuple[Array, str]:
    """The result of a program of TTIR for zeros, and its PTX."""
    text = TTIR.replace("BODY", body)
    names = {"DESCRIPTOR": "!tt.tensordesc<tensor<BLOCKxELEMENT>>", "ALIGNED": "{tt.divisibility = 16 : i32}", **names}
    for name, value in names.items():
        text = text.replace(name, str(value))
    facts: dict[str, Any] = {}
    options, device = parse_options({"debug_info": ""}, capability), find(capability)
    module = make_ttgir(parse_module(text), facts, options, device)
    ptx = make_ptx(make_llir(module, facts, options, device), facts, options, device)
    memory = DeviceMemory()
    places = [memory.copy_in(array) for array in (x, np.zeros_like(x), numbers)]
    scratch = memory.allocate(facts["global_scratch_size"])
    Launch(load(ptx), threads=128, shared=facts["shared"]).run(memory, [*places, scratch, 0])
    return memory.copy_out(places[1], x.shape, x.dtype), ptx


@slow
@pytest.mark.parametrize(("count", "width", "element"), [(32, 64, "f16"), (8, 32, "f32"), (64, 128, "f16")])
def test_rows_by_number(count: int, width: int, element: str) -> None:
    x = (np.arange(128 * 256) % 1000).astype({"f16": "f2", "f32": "f4"}[element]).reshape(128, 256)
    numbers = np.random.default_rng(0).permutation(128)[:count].astype("i4")
    names = {"COUNT": count, "WIDTH": width, "BLOCK": f"1x{width}", "ELEMENT": element}
    found, ptx = moved(ROWS, x, numbers, 100, **names)
    wanted = np.zeros_like(x)
    wanted[numbers, :width] = x[numbers, 32 : 32 + width]
    np.testing.assert_array_equal(found, wanted)
    assert "tile::gather4" in ptx
    assert "tile::scatter4" in ptx


@slow
@pytest.mark.parametrize("capability", [90, 120])
def test_sums_in_memory(capability: int) -> None:
    x = np.arange(128 * 256, dtype="i4").reshape(128, 256)
    found, ptx = moved(SUMS, x, x, capability, BLOCK="32x64", ELEMENT="i32")
    np.testing.assert_array_equal(found[:32, :64], x[32:64, 32:96])
    assert "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add" in ptx


@tilewright.jit
def moved_row(x, out):
    tl.store(out + tl.arange(0, 4), tl.make_tensor_descriptor(x, [16], [1], [4]).load([0]))


def test_rows_that_a_cluster_leaves_too_short_are_refused() -> None:
    x = np.zeros(16, np.int32)
    assert "cp.async.bulk.tensor.1d" in compiled(moved_row, [x, x], capability=90).asm["ptx"]
    with pytest.raises(Unsupported, match="has 8: take wider blocks, or num_ctas=1"):
        compiled(moved_row, [x, x], capability=90, num_ctas=2)


@tilewright.jit
def narrowed(x, low, high, M, N, BM: tl.constexpr, BN: tl.constexpr):
    i, j = tl.program_id(0) * BM, tl.program_id(1) * BN
    block = tl.make_tensor_descriptor(x, [M, N], [N, 1], [BM, BN]).load([i, j])
    tl.make_tensor_descriptor(low, [M, N], [N, 1], [BM, BN]).atomic_min([i, j], block)
    tl.make_tensor_descriptor(high, [M, N], [N, 1], [BM, BN]).atomic_max([i, j], block)


@slow
@pytest.mark.parametrize("capability", [90, 100])
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_minima_and_maxima_of_16_bit_floats_in_memory(dtype: Any, capability: int) -> None:
    """The engine reduces in memory; what it changes beyond the edges would be seen in the next row."""
    rng = np.random.default_rng(5)
    x, low, high = (rng.standard_normal((20, 40)).astype(dtype) for _ in range(3))
    given = [x, low, high, 20, 40]
    made = compiled(narrowed, given, capability=capability, BM=16, BN=32)
    _, smallest, largest = launch(made, (2, 2), given)
    assert (smallest == np.minimum(low, x)).all()
    assert (largest == np.maximum(high, x)).all()
    assert made.asm["ptx"].count("cp.reduce.async.bulk.tensor.2d.global.shared::cta") == 2
    arrays = {"x": x.copy(), "low": low.copy(), "high": high.copy(), "M": 20, "N": 40}
    run_ir(parse_module(made.asm["ttir"]), arrays, (2, 2))
    assert (arrays["low"] == smallest).all()
    assert (arrays["high"] == largest).all()
    assert made.metadata.stored == [1, 2]


def test_what_only_the_engine_combines_is_refused_by_name() -> None:
    x = np.zeros((20, 40), np.float16)
    with pytest.raises(CompilationError, match=r"16-bit floats on GPUs since 9\.0"):
        compiled(narrowed, [x, x, x, 20, 40], capability=80, BM=16, BN=32)
    with pytest.raises(CompilationError, match=r"16-bit floats on GPUs since 9\.0"):
        narrowed[(2, 2)](x, x, x, 20, 40, BM=16, BN=32)
