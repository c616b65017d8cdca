"""Scaled products: tensor memory of sm_100, mma.sync of sm_120, and products of scaled operands for all others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import tilewright.dialects
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify
from tilewright.layouts.encodings import Blocked, NvmmaShared, encoding
from tilewright.tools.opt_passes import find_passes
from tilewright.tools.opt_run import run_requests
from tilewright.transforms.gpu.accelerate_matmul import accelerate_matmul
from tilewright.transforms.gpu.matrix_instructions import MatmulOptions
from tilewright.transforms.gpu.tcgen05 import blocked_access, scales_access

assert tilewright.dialects.__all__

PAIR = "#ttg.blocked<{sizePerThread = [1, 2], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>"


def scaled(
    capability: int,
    left: str,
    right: str,
    *,
    kinds: tuple[str, str],
    scales: tuple[bool, bool] = (True, True),
    extent: tuple[int, int, int] = (128, 32, 64),
    flags: str = "",
) -> str:
    """A function that loads everything row by row and stores `c + (a * s) @ (b * t)`."""
    m, n, k = extent
    packed = [2 if kind == "e2m1" else 1 for kind in kinds]
    shapes = {"a": (m, k // packed[0], left), "b": (k // packed[1], n, right)}
    shapes |= {name: (rows, k // 32, "i8") for name, rows, used in zip("st", (m, n), scales, strict=True) if used}
    loads, parts = "", {}
    for name, (rows, columns, type) in {**shapes, "d": (m, n, "f32")}.items():
        tile = f"tensor<{rows}x{columns}x"
        loads += f"""
        %{name}r = tt.make_range {{start = 0 : i32, end = {rows} : i32}} : tensor<{rows}xi32, #rows>
        %{name}c = tt.make_range {{start = 0 : i32, end = {columns} : i32}} : tensor<{columns}xi32, #columns>
        %{name}r1 = tt.expand_dims %{name}r {{axis = 1 : i32}} : tensor<{rows}xi32, #rows> -> tensor<{rows}x1xi32, #l>
        %{name}c1 = tt.expand_dims %{name}c {{axis = 0 : i32}} : tensor<{columns}xi32, #columns> -> tensor<1x{columns}xi32, #l>
        %{name}w = arith.constant dense<{columns}> : tensor<{rows}x1xi32, #l>
        %{name}s = arith.muli %{name}r1, %{name}w : tensor<{rows}x1xi32, #l>
        %{name}rb = tt.broadcast %{name}s : tensor<{rows}x1xi32, #l> -> {tile}i32, #l>
        %{name}cb = tt.broadcast %{name}c1 : tensor<1x{columns}xi32, #l> -> {tile}i32, #l>
        %{name}o = arith.addi %{name}rb, %{name}cb : {tile}i32, #l>
        %{name}b = tt.splat %{name} : !tt.ptr<{type}> -> {tile}!tt.ptr<{type}>, #l>
        %{name}p = tt.addptr %{name}b, %{name}o : {tile}!tt.ptr<{type}>, #l>, {tile}i32, #l>
        """  # noqa: E501 - lines of IR
        if name != "d":
            loads += f"%{name}v = tt.load %{name}p : {tile}!tt.ptr<{type}>, #l>"
        parts[name] = f"{tile}{type}, #l>"
    values = [f"%{x}v" + (f" scale %{y}v" if y in shapes else "") for x, y in (("a", "s"), ("b", "t"))]
    types = [parts[x] + (f", {parts[y]}" if y in parts else "") for x, y in (("a", "s"), ("b", "t"))]
    signature = ", ".join(f"%{name}: !tt.ptr<{type}>" for name, (*_, type) in {**shapes, "d": (m, n, "f32")}.items())
    return f"""#l = {PAIR}
#rows = #ttg.slice<{{dim = 1, parent = #l}}>
#columns = #ttg.slice<{{dim = 0, parent = #l}}>
    module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:{capability}",
                       "ttg.threads-per-warp" = 32 : i32}} {{
    tt.func public @f({signature}) {{
        {loads}
        %c = arith.constant dense<1.0> : tensor<{m}x{n}xf32, #l>
        %x = tt.dot_scaled {values[0]}, {values[1]}, %c lhs = {kinds[0]} rhs = {kinds[1]} {{fastMath = false{flags}}}
          : {types[0]} * {types[1]} -> tensor<{m}x{n}xf32, #l>
        tt.store %dp, %x : tensor<{m}x{n}x!tt.ptr<f32>, #l>
        tt.return
    }}
    }}
    """


def accelerated(text: str) -> Op:
    module = parse_module(text)
    verify(module)
    accelerate_matmul(module)
    verify(module)
    return module


def names(module: Op) -> set[str]:
    return {op.name for op in module.walk()}


def arguments(text: str, extent: tuple[int, int, int] = (128, 32, 64)) -> dict[str, np.ndarray]:
    """Bytes that are finite numbers in every format, and scales between 1 / 8 and 8."""
    generator = np.random.default_rng(1)
    m, n, k = extent
    found = {}
    for name, count in (("a", m * k), ("b", k * n), ("s", m * k // 32), ("t", n * k // 32), ("d", m * n)):
        if f"%{name}: !tt.ptr<f32>" in text:
            found[name] = np.zeros(count, np.float32)
        elif f"%{name}: !tt.ptr<bf16>" in text or f"%{name}: !tt.ptr<f16>" in text:
            kind = "bf16" if f"%{name}: !tt.ptr<bf16>" in text else "f16"
            numbers = generator.integers(-8, 8, count).astype(np.float32) / 4
            found[name] = (
                (numbers.view(np.uint32) >> 16).astype(np.uint16).view(np.int16)
                if kind == "bf16"
                else (numbers.astype(np.float16))
            )
        elif name in "st" and f"%{name}: " in text:
            found[name] = generator.integers(124, 131, count).astype(np.int16).astype(np.int8)
        elif f"%{name}: " in text:
            found[name] = (
                (generator.integers(0, 2, count) * 128 + generator.integers(40, 80, count))
                .astype(np.uint8)
                .view(np.int8)
            )
    return found


CASES = {
    "tensor memory": (100, "i8", "i8", {"kinds": ("e4m3", "e4m3")}, "ttng.tc_gen5_mma_scaled"),
    "tensor memory, 4 bits": (100, "i8", "i8", {"kinds": ("e2m1", "e2m1")}, "ttng.tc_gen5_mma_scaled"),
    "tensor memory, mixed": (100, "f8E5M2", "i8", {"kinds": ("e5m2", "e2m1")}, "ttng.tc_gen5_mma_scaled"),
    "mma.sync": (120, "i8", "i8", {"kinds": ("e4m3", "e5m2")}, "tt.dot_scaled"),
    "parts": (90, "i8", "f8E4M3FN", {"kinds": ("e2m1", "e4m3")}, "ttng.warp_group_dot"),
    "parts of bytes": (80, "i8", "i8", {"kinds": ("e4m3", "e4m3")}, "tt.dot"),
    "f16": (80, "i8", "f16", {"kinds": ("e2m1", "fp16"), "scales": (True, False)}, "tt.dot"),
    "only right": (90, "bf16", "i8", {"kinds": ("bf16", "e2m1"), "scales": (False, True)}, "tt.dot"),
    "small": (100, "i8", "i8", {"kinds": ("e4m3", "e4m3"), "extent": (64, 32, 64)}, "ttng.tc_gen5_mma"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_product_stays_what_it_was(case: str) -> None:
    capability, left, right, options, expected = CASES[case]
    text = scaled(capability, left, right, **options)
    extent = options.get("extent", (128, 32, 64))
    before, after = arguments(text, extent), arguments(text, extent)
    run_ir(parse_module(text), before)
    module = accelerated(text)
    assert expected in names(module)
    assert (expected == "tt.dot_scaled") == ("tt.dot_scaled" in names(module))
    run_ir(module, after)
    assert np.unique(before["d"]).size > 100
    np.testing.assert_array_equal(after["d"], before["d"])


@pytest.mark.quick
@pytest.mark.parametrize(
    ("case", "padded"),
    [
        ("tensor memory", [False, False]),
        ("tensor memory, 4 bits", [False, False]),
        ("tensor memory, mixed", [False, True]),
    ],
)
def test_elements_of_four_bits_are_padded_beside_others(case: str, padded: list[bool]) -> None:
    capability, left, right, options, name = CASES[case]
    product = next(op for op in accelerated(scaled(capability, left, right, **options)).walk() if op.name == name)
    layouts = [encoding(value.type.encoding) for value in product.operands[:2]]
    assert [layout.fp4_padded for layout in layouts if isinstance(layout, NvmmaShared)] == padded


def test_the_operand_with_scales_is_the_left_one() -> None:
    """Both operands are turned around if only the right one has scales."""
    module = accelerated(scaled(90, "bf16", "i8", kinds=("bf16", "e2m1"), scales=(False, True)))
    (product,) = (op for op in module.walk() if op.name == "tt.dot")
    assert product.result.type.shape == (32, 128)


def test_nan_scales() -> None:
    text = scaled(80, "i8", "i8", kinds=("e4m3", "e4m3"))
    before, after = arguments(text), arguments(text)
    for given in (before, after):
        given["s"][3] = -1  # 255: the second group of row 1
    run_ir(parse_module(text), before)
    run_ir(accelerated(text), after)
    assert np.isnan(before["d"].reshape(128, 32)[1]).all()
    assert np.isfinite(before["d"].reshape(128, 32)[2:]).all()
    np.testing.assert_array_equal(after["d"], before["d"])


@pytest.mark.quick
@pytest.mark.parametrize("case", ["tensor memory", "mma.sync", "parts"])
def test_golden(case: str, golden: Callable[[str, str], None]) -> None:
    capability, left, right, options, _ = CASES[case]
    text = print_op(accelerated(scaled(capability, left, right, **options)))
    golden(text, f"transforms/scaled_products/{case.replace(' ', '_').replace('.', '_')}.ttgir")


def test_warning_about_forced_orders() -> None:
    """The right operand has rows in its registers; packed elements of 4 bits must follow each other in memory."""
    module = parse_module(scaled(100, "i8", "i8", kinds=("e4m3", "e2m1")))
    said = run_requests(module, find_passes("accelerate_matmul"))
    assert [(remark.kind, remark.op.name) for remark in said] == [("warning", "tt.dot_scaled")]
    assert "operand 1" in said[0].text


OLDER = MatmulOptions(16, blocked_accumulators=True)


@pytest.mark.parametrize("options", [OLDER, MatmulOptions(sixteen_rows=True), replace(OLDER, sixteen_rows=True)])
@pytest.mark.parametrize("case", ["tensor memory", "small"])
def test_choices_of_other_versions(case: str, options: MatmulOptions) -> None:
    """Layouts differ; the product does not."""
    capability, left, right, facts, _ = CASES[case]
    text = scaled(capability, left, right, **facts)
    before, after = (arguments(text, facts.get("extent", (128, 32, 64))) for _ in range(2))
    run_ir(parse_module(text), before)
    module = parse_module(text)
    accelerate_matmul(module, options)
    verify(module)
    assert ("unpacked" in print_op(module)) == options.blocked_accumulators
    run_ir(module, after)
    np.testing.assert_array_equal(after["d"], before["d"])


def test_blocked_access() -> None:
    """Accumulators and scales are divided among warps as Triton 3.5 does."""
    assert blocked_access((128, 256), (128, 256), warps=4).text == Blocked((1, 256), (32, 1), (4, 1), (0, 1)).text
    assert blocked_access((128, 128), (128, 128), warps=8).text == Blocked((1, 64), (32, 1), (4, 2), (0, 1)).text
    assert blocked_access((128, 128), (256, 128), warps=8).text == Blocked((1, 128), (32, 1), (8, 1), (0, 1)).text
    assert blocked_access((64, 256), (64, 256), warps=4).text == Blocked((1, 128), (16, 2), (4, 1), (0, 1)).text
    assert scales_access((128, 8), warps=4).register == ((0, 1), (0, 2), (32, 0), (64, 0), (0, 4))
    assert scales_access((128, 8), warps=8).warp == ((0, 0), (0, 0), (0, 4))
