"""The matrix instructions for a product, their shapes, and how warps share the result."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product as combinations

import pytest

import tilewright.dialects  # noqa: F401 - declares the ops
from tilewright.dialects.tt_dot import Dot
from tilewright.ir.parser import parse_module
from tilewright.ir.types import bf16, f16, f32, f64, i8
from tilewright.transforms.gpu.matrix_instructions import (
    balanced_warps,
    grouped_warps,
    instruction_shape,
    version_for,
    versions_on,
)
from tilewright.transforms.gpu.tile_ops import capability_of

CAPABILITIES = (70, 75, 80, 86, 89, 90, 100, 103, 110, 120)
EXTENTS = (16, 32, 64, 128, 256)
WIDTHS = {i8: (8, 16, 24, 32, *range(48, 225, 16)), f16: range(8, 257, 8)}
"""The values of N that `wgmma` has, as PTX ISA 8.8 lists them."""
NAMES = ("i8", "i32", "f16", "bf16", "f32", "f64", "f8E5M2", "f8E4M3FN", "f8E5M2FNUZ", "f8E4M3B11FNUZ")


def test_versions_of_devices() -> None:
    wanted = {74: (), 75: (2,), 80: (2,), 89: (2,), 90: (3, 2), 99: (3, 2), 100: (5, 2), 119: (5, 2), 120: (2,)}
    assert {capability: versions_on(capability) for capability in wanted} == wanted


@pytest.mark.parametrize("element", WIDTHS, ids=str)
def test_a_warp_groups_instruction_is_as_wide_as_there_is_work(element: object) -> None:
    """Warps that have no rows of their own share the columns."""
    for rows, columns, warps in combinations(EXTENTS, (8, *EXTENTS, 512), (4, 8, 16)):
        most = max(columns // max(warps * 16 // rows, 1), 8)
        fitting = [width for width in WIDTHS[element] if columns % width == 0 and width <= most]
        assert instruction_shape(3, (rows, columns), element, warps)[:2] == (16, max(fitting))


def test_other_instructions() -> None:
    assert [instruction_shape(3, (64, 64), element, 4)[2] for element in (i8, f16, bf16, f32)] == [32, 16, 16, 8]
    assert instruction_shape(2, (64, 64), f16, 4) == instruction_shape(2, (16, 8), i8, 1) == (16, 8)
    assert instruction_shape(2, (64, 64), f64, 4) == (8, 8)
    assert instruction_shape(2, (4, 64, 64), f16, 4) == (1, 16, 8)
    assert instruction_shape(5, (64, 16), f16, 4) == (64, 16, 16)
    assert instruction_shape(5, (128, 256), f32, 4) == (128, 256, 8)
    assert instruction_shape(5, (256, 512), i8, 8) == (128, 256, 32)


def test_warps_over_a_result(golden: Callable[[str, str], None]) -> None:
    lines = []
    for rows, columns, warps in combinations(EXTENTS, (8, *EXTENTS), (1, 2, 4, 8, 16)):
        balanced, grouped = balanced_warps((rows, columns), warps), grouped_warps((rows, columns), max(warps, 4))
        assert balanced[0] * balanced[1] == warps
        assert grouped[0] * grouped[1] == max(warps, 4)
        lines.append(f"{rows:3} x {columns:3}, {warps:2} warps: {balanced}  in groups {grouped}\n")
    assert balanced_warps((2, 64, 64), 8) == (8, 1, 1)
    golden("".join(lines), "gpu/warps_over_results.txt")


def dot(
    elements: tuple[str, str, str],
    shape: tuple[int, int, int] = (64, 64, 64),
    *,
    warps: int = 4,
    precision: str = "tf32",
    imprecise: int = 0,
    ctas: int = 1,
) -> Dot:
    """A product in blocked layouts."""
    (a, b, result), (m, n, k) = elements, shape
    parts = f"sizePerThread = [1, 1], threadsPerWarp = [4, 8], warpsPerCTA = [{warps}, 1], order = [1, 0]"
    split = ", CGALayout = [[1, 0]]" if ctas == 2 else ""
    operand = [f"#ttg.dot_op<{{opIdx = {index}, parent = #b}}>" for index in (0, 1)]
    types = f"tensor<{m}x{k}x{a}, {operand[0]}>", f"tensor<{k}x{n}x{b}, {operand[1]}>", f"tensor<{m}x{n}x{result}, #b>"
    options = f"inputPrecision = {precision} {{maxNumImpreciseAcc = {imprecise} : i32}}"
    text = f"""#b = #ttg.blocked<{{{parts}{split}}}>
    module attributes {{"ttg.num-warps" = {warps} : i32, "ttg.num-ctas" = {ctas} : i32}} {{
      tt.func @f(%a: {types[0]}, %b: {types[1]}, %c: {types[2]}) {{
        %d = tt.dot %a, %b, %c, {options} : {types[0]} * {types[1]} -> {types[2]}
        tt.return
      }}
    }}
    """
    (found,) = (op for op in parse_module(text).walk() if isinstance(op, Dot))
    return found


def versions(found: Dot) -> str:
    return " ".join(f"{capability}:{version_for(found, capability) or '-'}" for capability in CAPABILITIES)


def test_versions_for_products(golden: Callable[[str, str], None]) -> None:
    """All pairs of equal elements with all results, and mixed pairs of bytes."""
    pairs = [(name, name) for name in NAMES] + [("f8E5M2", "f8E4M3FN"), ("f16", "bf16"), ("i8", "f16")]
    lines = []
    for (a, b), result in combinations(pairs, ("i32", "f16", "f32", "f64")):
        lines.append(f"{a} * {b} -> {result}: {versions(dot((a, b, result)))}\n")
    golden("".join(lines), "gpu/versions_by_element.txt")


def test_versions_for_shapes(golden: Callable[[str, str], None]) -> None:
    """The decisions that follow from the extents, the warps and the options of a product."""
    halves, floats = ("f16", "f16", "f32"), ("f32", "f32", "f32")
    eighths, whole = ("f8E5M2", "f8E5M2", "f32"), ("i8", "i8", "i32")
    lines = []
    for shape in ((64, 8, 16), (32, 8, 16), (64, 4, 16), (128, 16, 8), (16, 64, 64), (256, 256, 32)):
        lines.append(f"{shape}: {versions(dot(halves, shape))}\n")
    for warps in (1, 2, 4, 8, 16):
        lines.append(f"{warps} warps: {versions(dot(halves, warps=warps))}\n")
    for k, elements in combinations((8, 16, 32), (floats, eighths, whole)):
        lines.append(f"K = {k}, {elements[0]}: {versions(dot(elements, (64, 64, k)))}\n")
    for precision in ("tf32", "ieee", "tf32x3"):
        found = [versions(dot(elements, precision=precision)) for elements in (floats, halves)]
        lines.append(f"{precision}: {' and '.join(found)}\n")
    for imprecise in (0, 31, 32, 33):
        lines.append(f"{imprecise} imprecise sums: {versions(dot(eighths, imprecise=imprecise))}\n")
    for rows in (64, 128):
        lines.append(f"{rows} rows on two CTAs: {versions(dot(halves, (rows, 64, 64), ctas=2))}\n")
    golden("".join(lines), "gpu/versions_by_shape.txt")


@pytest.mark.quick
@pytest.mark.parametrize(
    ("target", "expected"),
    [('"cuda:80"', 80), ('"cuda:120"', 120), ('"cuda:gfx942"', 0), ('"hip:942"', 0), ('"cuda"', 0), ("", 0)],
)
def test_the_capability_that_a_module_is_for(target: str, expected: int) -> None:
    attributes = f"attributes {{ttg.target = {target}}} " if target else ""
    assert capability_of(parse_module(f"module {attributes}{{\n}}")) == expected
