"""The code of dots: instructions, memory traffic of the inner loop, refusals."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from dot_native import A_STRIDE, B_STRIDE, dot_text, make_spec

from tilewright.backends.cpu.dot import DotSpec, Prefetch, dot_workspace_bytes, operand_element_type
from tilewright.backends.cpu.dot.arithmetic import as_matrices, select_arithmetic
from tilewright.backends.cpu.dot.micro import Shape, micro_shape
from tilewright.backends.cpu.loop_builder import BYTES
from tilewright.backends.llvm.machine import Target, emit_assembly, host_target
from tilewright.ir.core import Block
from tilewright.ir.types import FLOATS, Type, bf16, f16, f32, f64, i1, i8, i16, i32

ZEN4, V3, V2, ARM, ARM_V2 = (
    host_target(name) for name in ("znver4", "x86-64-v3", "x86-64-v2", "aarch64", "neoverse-v2")
)
NEXT_A, NEXT_B = Block((BYTES, BYTES)).args


def inner_loop(cpu: str, operand: Type, acc: Type) -> str:
    """The hottest loop of a 64×64×32 dot."""
    target = host_target(cpu)
    return hottest_loop(target, make_spec((64, 64, 32), operand_element_type(operand, target), acc))


def hottest_loop(target: Target, spec: DotSpec) -> str:
    """The assembly between the label and the jump of the loop with most products."""
    blocks = re.split(r"^\.L\S+:$", emit_assembly(dot_text([spec], target), target), flags=re.MULTILINE)
    hottest = max(blocks, key=lambda block: len(re.findall(MULTIPLY, block)))
    return re.split(r"\s(?:jl|b\.lt)\s", hottest)[0]


MULTIPLY = r"\b(?:v?fmadd\w*|fmla|vdpbf16ps|vpdpbusd|v?pmaddwd|bfdot|sdot|bfmmla|smmla)\b"


@pytest.mark.parametrize(
    ("cpu", "operand", "acc", "instruction", "count"),
    [
        ("znver4", f32, f32, "vfmadd231ps", 16),
        ("znver4", f64, f64, "vfmadd231pd", 16),
        ("znver4", bf16, f32, "vdpbf16ps", 16),
        ("znver4", i8, i32, "vpdpbusd", 16),
        ("x86-64-v4", i8, i32, "vpmaddwd", 16),
        ("x86-64-v3", f32, f32, "vfmadd231ps", 12),
        ("x86-64-v3", bf16, f32, "vfmadd231ps", 12),
        ("x86-64-v3", i8, i32, "vpmaddwd", 12),
        ("aarch64", f32, f32, "fmla", 16),
        ("aarch64", bf16, f32, "fmla", 16),
        ("neoverse-v2", bf16, f32, "bfmmla", 16),
        ("neoverse-v2", i8, i32, "smmla", 16),
        ("apple-m2", bf16, f32, "bfmmla", 16),
        ("apple-m2", i8, i32, "smmla", 16),
        ("neoverse-n1", i8, i32, "sdot", 16),
        ("neoverse-v1", f32, f32, r"fmla\s+z\d+\.s", 16),
        ("neoverse-v1", f64, f64, r"fmla\s+z\d+\.d", 16),
        ("neoverse-v1", bf16, f32, r"bfmmla\s+z\d+\.s", 16),
        ("neoverse-v1", i8, i32, r"smmla\s+z\d+\.s", 16),
        ("a64fx", f32, f32, r"fmla\s+z\d+\.s", 16),
        ("a64fx", bf16, f32, r"fmla\s+z\d+\.s", 16),
    ],
)
def test_inner_loop(cpu: str, operand: Type, acc: Type, instruction: str, count: int) -> None:
    body = inner_loop(cpu, operand, acc)
    assert len(re.findall(rf"\b{instruction}\b", body)) == count, body
    assert not re.search(r"sp\)|\[sp", body), "accumulators are spilled:\n" + body


@pytest.mark.parametrize("cpu", ["neoverse-v2", "apple-m2", "neoverse-v1"])
@pytest.mark.parametrize(("operand", "acc", "group"), [(bf16, f32, 4), (i8, i32, 8)])
@pytest.mark.parametrize("a_transposed", [False, True])
def test_matrices_of_two_by_two_load_pairs_of_rows(
    cpu: str, operand: Type, acc: Type, group: int, a_transposed: bool
) -> None:
    """Eight rows by two vectors of columns: four loads of B and four of A, whose pairs of rows lie side by side."""
    target = host_target(cpu)
    spec = make_spec((64, 64, 32), operand, acc, a_transposed=a_transposed)
    lanes = target.lanes(32)
    by = as_matrices(select_arithmetic(operand, acc, target), spec.m, spec.n, spec.k, target)
    assert (by.group, by.square, micro_shape(64, 64, by, target)) == (group, True, Shape(8, 2, lanes))
    body = hottest_loop(target, spec)
    loaded = 2 * len(re.findall(r"\bldp\b", body)) + len(re.findall(r"\b(?:ldr|ld1rq\w)\b", body))
    assert loaded == 8, body
    assert not re.search(r"\b(?:ins|zip\d|tbl)\b|sp\)|\[sp", body), body


@pytest.mark.parametrize("cpu", ["neoverse-v2", "neoverse-v1"])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("operand", "acc"), [(bf16, f32), (i8, i32)])
def test_nothing_of_a_product_of_matrices_goes_through_the_stack(
    cpu: str, operand: Type, acc: Type, transposed: bool
) -> None:
    """Neither packing nor sums: what is there are registers that the caller wants back."""
    target = host_target(cpu)
    spec = make_spec((64, 64, 32), operand, acc, a_transposed=transposed, b_transposed=transposed)
    stack = [line for line in emit_assembly(dot_text([spec], target), target).splitlines() if "[sp" in line]
    assert all(re.fullmatch(r"\s(?:stp|ldp|str|ldr)\s(?:d(?:8|9|1[0-5]), )+\[sp.*", line) for line in stack), stack


@pytest.mark.quick
@pytest.mark.parametrize(
    ("extents", "group"), [((1, 64, 32), 4), ((2, 64, 32), 8), ((64, 2, 32), 4), ((64, 64, 4), 4), ((2, 4, 8), 8)]
)
def test_small_tiles_have_no_matrices(extents: tuple[int, int, int], group: int) -> None:
    assert as_matrices(select_arithmetic(i8, i32, ARM_V2), *extents, ARM_V2).group == group


def test_no_library_calls_without_fma() -> None:
    spec = make_spec((16, 16, 16), f32, f32)
    assert "call" not in emit_assembly(dot_text([spec], V2), V2)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("m", "n", "target", "shape"),
    [
        (128, 128, ZEN4, Shape(8, 2, 16)),
        (64, 16, ZEN4, Shape(8, 1, 16)),
        (64, 8, ZEN4, Shape(8, 1, 8)),
        (4, 128, ZEN4, Shape(4, 2, 16)),
        (2, 128, ZEN4, Shape(2, 4, 16)),
        (1, 256, ZEN4, Shape(1, 8, 16)),
        (64, 64, V3, Shape(6, 2, 8)),
        (32, 64, V3, Shape(4, 2, 8)),
        (128, 128, V3, Shape(6, 2, 8)),
        (1, 64, V3, Shape(1, 8, 8)),
        (64, 64, ARM, Shape(4, 4, 4)),
        (64, 4, ARM_V2, Shape(16, 1, 4)),
        (64, 1, ZEN4, Shape(8, 1, 1)),
    ],
)
def test_block_shapes(m: int, n: int, target: object, shape: Shape) -> None:
    assert micro_shape(m, n, select_arithmetic(f32, f32, target), target) == shape


@pytest.mark.parametrize(("operand", "acc"), [(bf16, f32), (i8, i32)])
def test_blocks_of_grouped_words_are_wide(operand: Type, acc: Type) -> None:
    assert micro_shape(128, 128, select_arithmetic(operand, acc, ZEN4), ZEN4) == Shape(4, 4, 16)
    assert micro_shape(128, 128, select_arithmetic(i16, i32, V3), V3) == Shape(6, 2, 8)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("type", "target", "stored"),
    [
        (f16, ZEN4, f32),
        (f32, ZEN4, f32),
        (FLOATS["tf32"], ZEN4, f32),
        (f64, V2, f64),
        (bf16, ZEN4, bf16),
        (bf16, V3, f32),
        (bf16, ARM, f32),
        (bf16, ARM_V2, bf16),
        (FLOATS["f8E4M3FN"], ZEN4, bf16),
        (FLOATS["f8E5M2"], V3, f32),
        (i8, ZEN4, i8),
        (i8, V3, i16),
        (i8, ARM, i32),
        (i8, ARM_V2, i8),
        (i16, ARM_V2, i32),
        (i32, ZEN4, i32),
    ],
)
def test_operand_element_types(type: Type, target: object, stored: Type) -> None:
    assert operand_element_type(type, target) is stored


def test_types_without_a_dot_are_refused() -> None:
    with pytest.raises(ValueError, match="i1"):
        operand_element_type(i1, ZEN4)
    with pytest.raises(ValueError, match="bf16"):
        dot_text([make_spec((16, 16, 16), bf16, f32)], V3)
    with pytest.raises(ValueError, match="powers of two"):
        dot_workspace_bytes(make_spec((16, 24, 16), f32, f32), V3)


def test_plain_operands_need_no_workspace() -> None:
    assert dot_workspace_bytes(make_spec((64, 64, 64), f32, f32), ZEN4) == 0
    assert dot_workspace_bytes(make_spec((64, 64, 64), f32, f32, a_transposed=True), ZEN4) == 0


@pytest.mark.quick
@pytest.mark.parametrize("extents", [(32, 64, 64), (32, 32, 64), (64, 128, 64)])
def test_workspace_of_a_transposed_operand(extents: tuple[int, int, int]) -> None:
    _, n, k = extents
    assert dot_workspace_bytes(make_spec(extents, f32, f32, b_transposed=True), ZEN4) == k * n * 4


def test_a_transposed_operand_that_many_panels_read_is_copied() -> None:
    def workspace(columns: int, target: Target) -> int:
        spec = make_spec((64, columns, 32), f32, f32, a_transposed=True)
        return dot_workspace_bytes(replace(spec, a_stride=A_STRIDE), target)

    assert workspace(64, V3) == 64 * 32 * 4, "four panels"
    assert workspace(32, V3) == workspace(128, ZEN4) == 0, "two panels, wide vectors"


def test_rows_are_packed_in_long_pieces_in_front_of_the_blocks() -> None:
    spec = replace(make_spec((128, 128, 32), f32, f32), b_stride=B_STRIDE)
    blocks = re.split(r"\n(?=\w+:\n)", dot_text([spec], ZEN4))
    kernel = next(number for number, block in enumerate(blocks) if block.count("call <16 x float> @llvm.fma") == 16)
    packing = next(number for number, block in enumerate(blocks) if "load" in block)
    assert packing < kernel
    assert blocks[packing].count("store <16 x float>") == 8, "512 bytes of a row per trip, into four panels"


@pytest.mark.parametrize(("target", "pieces"), [(ZEN4, 16 * 4), (V3, 8 * 2)], ids=["whole lines", "half lines"])
def test_transposing_reads_long_pieces(target: Target, pieces: int) -> None:
    spec = replace(make_spec((64, 64, 32), f32, f32, b_transposed=True), b_stride=B_STRIDE)
    blocks = re.split(r"\n(?=\w+:\n)", dot_text([spec], target))
    packing = next(block for block in blocks if "load <4 x i32>" in block)
    assert packing.count("load <4 x i32>") == pieces, "16 bytes at a time, from every row of a vector of columns"


def test_b_is_prefetched_before_a() -> None:
    soon = [Prefetch(NEXT_A, 4096, 64, 128), Prefetch(NEXT_B, 8192, 32, 256, operand=1)]
    following = [(NEXT_A, "%next_a"), (NEXT_B, "%next_b")]
    text = dot_text([make_spec((64, 64, 32), f32, f32)], ZEN4, soon, following)
    first, then = text.rindex("ptr %next_b"), text.rindex("ptr %next_a")
    assert first < then, "the first half of the blocks fetches B"
    assert re.search(r"icmp slt i64 %\w+, 8\n", text), "half of 8 × 2 blocks"


def test_every_line_of_the_next_tile_is_prefetched() -> None:
    spec, soon = make_spec((8, 32, 32), f32, f32), [Prefetch(NEXT_A, 4096, 4, 128)]
    text = dot_text([spec], ZEN4, soon, [(NEXT_A, "%next")])
    assert text.count("call void @llvm.prefetch") == 4 * (2 + 1), "rows may start within a line"
    for offset in (64, 128, 4096, 3 * 4096):
        assert f"i64 {offset}\n" in text


def test_code_is_small(golden) -> None:
    text = dot_text([make_spec((64, 64, 32), f32, f32)], ZEN4)
    assert text.count("\n") < 180
    golden(text, "cpu/dot_f32_64x64x32.ll")


@pytest.mark.parametrize(("cpu", "adds_last"), [("znver4", False), ("znver5", True)])
@pytest.mark.parametrize("zero_init", [False, True])
def test_zen_5_reads_a_block_behind_its_last_step(cpu: str, adds_last: bool, zero_init: bool) -> None:
    """Its multiply-adds wait for the sums in front of the loop; where these begin with zeros, nobody reads them."""
    text = dot_text([make_spec((64, 64, 32), f32, f32, zero_init=zero_init)], host_target(cpu))
    blocks = re.split(r"^\w+:\n", text, flags=re.MULTILINE)
    at = next(number for number, block in enumerate(blocks) if "call <16 x float> @llvm.fma" in block)
    in_front, behind = blocks[at - 1], blocks[at + 1]
    assert ("load <16 x float>" in in_front) == (not zero_init and not adds_last)
    assert ("load <16 x float>" in behind) == ("fadd <16 x float>" in behind) == (not zero_init and adds_last)
