"""Matrix products on matrix instructions: which instruction, which layouts, and that the product stays what it was."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tilewright.dialects
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify
from tilewright.layouts.encodings import NvidiaMma
from tilewright.transforms.gpu.accelerate_matmul import accelerate_matmul, forced_orders
from tilewright.transforms.gpu.coalesce import coalesce
from tilewright.transforms.gpu.convert_to_ttgir import ConvertOptions, convert_to_ttgir
from tilewright.transforms.gpu.tile_ops import layout_of

assert tilewright.dialects.__all__


def product(m: int, n: int, k: int, element: str, result: str = "f32", *, precision: str = "", extra: str = "") -> str:
    def pointers(name: str, rows: int, columns: int, type: str) -> str:
        return f"""
        %{name}r = tt.make_range {{start = 0 : i32, end = {rows} : i32}} : tensor<{rows}xi32>
        %{name}c = tt.make_range {{start = 0 : i32, end = {columns} : i32}} : tensor<{columns}xi32>
        %{name}r1 = tt.expand_dims %{name}r {{axis = 1 : i32}} : tensor<{rows}xi32> -> tensor<{rows}x1xi32>
        %{name}c1 = tt.expand_dims %{name}c {{axis = 0 : i32}} : tensor<{columns}xi32> -> tensor<1x{columns}xi32>
        %{name}w = arith.constant dense<{columns}> : tensor<{rows}x1xi32>
        %{name}s = arith.muli %{name}r1, %{name}w : tensor<{rows}x1xi32>
        %{name}rb = tt.broadcast %{name}s : tensor<{rows}x1xi32> -> tensor<{rows}x{columns}xi32>
        %{name}cb = tt.broadcast %{name}c1 : tensor<1x{columns}xi32> -> tensor<{rows}x{columns}xi32>
        %{name}o = arith.addi %{name}rb, %{name}cb : tensor<{rows}x{columns}xi32>
        %{name}b = tt.splat %{name} : !tt.ptr<{type}> -> tensor<{rows}x{columns}x!tt.ptr<{type}>>
        %{name}p = tt.addptr %{name}b, %{name}o : tensor<{rows}x{columns}x!tt.ptr<{type}>>, tensor<{rows}x{columns}xi32>
        """

    zero = "0" if result.startswith("i") else "0.0"
    types = f"tensor<{m}x{k}x{element}> * tensor<{k}x{n}x{element}> -> tensor<{m}x{n}x{result}>"
    pairs = zip("abd", (element, element, result), strict=True)
    signature = ", ".join(f"%{name}: !tt.ptr<{type}>" for name, type in pairs)
    return f"""
    tt.func public @f({signature}) {{
        {pointers("a", m, k, element)}{pointers("b", k, n, element)}{pointers("d", m, n, result)}
        %x = tt.load %ap : tensor<{m}x{k}x!tt.ptr<{element}>>
        %y = tt.load %bp : tensor<{k}x{n}x!tt.ptr<{element}>>
        %c = arith.constant dense<{zero}> : tensor<{m}x{n}x{result}>
        %z = tt.dot %x, %y, %c{precision} : {types}
        {extra}
        tt.store %dp, %z : tensor<{m}x{n}x!tt.ptr<{result}>>
        tt.return
    }}
    """


def accelerated(text: str, capability: int, warps: int = 4) -> Op:
    module = parse_module(text)
    convert_to_ttgir(module, ConvertOptions(f"cuda:{capability}", warps))
    coalesce(module)
    verify(module)
    accelerate_matmul(module)
    verify(module)
    return module


def instruction(module: Op) -> NvidiaMma | None:
    dot = next(op for op in module.walk() if op.name in ("tt.dot", "ttng.warp_group_dot"))
    layout = layout_of(dot.results[0])
    return layout if isinstance(layout, NvidiaMma) else None


@pytest.mark.quick
@pytest.mark.parametrize(
    ("shape", "element", "capability", "warps", "expected"),
    [
        ((64, 64, 32), "f16", 80, 4, (2, (2, 2), (16, 8))),
        ((128, 32, 32), "bf16", 80, 8, (2, (4, 2), (16, 8))),
        ((64, 64, 32), "f16", 90, 4, (3, (4, 1), (16, 64, 16))),
        ((128, 256, 64), "f16", 90, 8, (3, (8, 1), (16, 256, 16))),
        ((64, 256, 32), "f16", 90, 8, (3, (4, 2), (16, 128, 16))),
        ((32, 64, 32), "f16", 90, 4, (2, (1, 4), (16, 8))),
        ((64, 64, 64), "i8", 90, 4, (3, (4, 1), (16, 64, 32))),
        ((64, 64, 8), "f16", 90, 4, (2, (2, 2), (16, 8))),
    ],
)
def test_instruction_and_warps(
    shape: tuple[int, int, int], element: str, capability: int, warps: int, expected: tuple[object, ...]
) -> None:
    layout = instruction(accelerated(product(*shape, element, "i32" if element == "i8" else "f32"), capability, warps))
    assert layout is not None
    assert (layout.version_major, layout.warps_per_cta, layout.instr_shape) == expected


def test_short_rows_of_bytes_have_no_instruction() -> None:
    assert instruction(accelerated(product(16, 16, 16, "i8", "i32"), 80)) is None
    assert instruction(accelerated(product(16, 16, 32, "i8", "i32"), 80)) is not None
    assert instruction(accelerated(product(16, 16, 16, "f8E5M2", "f32"), 89)) is None
    assert instruction(accelerated(product(16, 16, 16, "f8E5M2", "f32"), 90)) is not None, "widened to fp16"


def test_floats_need_permission() -> None:
    assert instruction(accelerated(product(64, 64, 32, "f32"), 80)) is None
    assert instruction(accelerated(product(64, 64, 32, "f32", precision=", inputPrecision = tf32"), 80)) is not None


@pytest.mark.quick
@pytest.mark.parametrize(
    ("capability", "element", "expected"),
    [
        *((capability, "f8E5M2", "f16") for capability in (80, 86, 90, 110)),
        *((capability, "f8E5M2", "f8E5M2") for capability in (89, 120, 121)),
        *((capability, "f16", "f16") for capability in (80, 89, 120)),
        *((70, element, "f32") for element in ("f8E5M2", "f16", "f32")),
        (70, "i8", "i32"),
    ],
)
def test_operands_that_no_instruction_reads_are_widened(capability: int, element: str, expected: str) -> None:
    """Half the rows that `wgmma` and `tcgen05` need, so that it is `mma.sync`, or on 70 nothing."""
    result = "i32" if element == "i8" else "f32"
    module = accelerated(product(32, 32, 32, element, result), capability)
    (dot,) = (op for op in module.walk() if op.name == "tt.dot")
    assert [value.type.scalar.text for value in dot.operands] == [expected, expected, result]


@pytest.mark.parametrize("capability", [80, 90, 100])
def test_golden(capability: int, golden: Callable[[str, str], None]) -> None:
    module = accelerated(product(64, 64, 32, "f16"), capability)
    golden(print_op(module), f"transforms/accelerate_matmul/sm_{capability}.ttgir")


@pytest.mark.parametrize("capability", [80, 90, 100])
def test_the_product_stays_what_it_was(capability: int) -> None:
    text = product(64, 64, 32, "f16")
    generator = np.random.default_rng(0)
    a, b = (generator.standard_normal(shape).astype(np.float16) for shape in ((64, 32), (32, 64)))
    before, after = np.zeros((64, 64), np.float32), np.zeros((64, 64), np.float32)
    run_ir(parse_module(text), {"a": a, "b": b, "d": before})
    run_ir(accelerated(text, capability), {"a": a, "b": b, "d": after})
    assert before.any()
    np.testing.assert_array_equal(after, before)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("element", "capability", "turned"), [("f32", 80, []), ("f32", 90, ["operand 1"]), ("f16", 90, [])]
)
def test_rows_that_an_instruction_reads_as_columns(element: str, capability: int, turned: list[str]) -> None:
    """Products of warp groups read tf32 along the common dimension only; elements of 16 bits in any order."""
    module = parse_module(product(64, 64, 32, element, precision=", inputPrecision = tf32"))
    convert_to_ttgir(module, ConvertOptions(f"cuda:{capability}", num_warps=4))
    coalesce(module)
    said = [text for _, text in forced_orders(module)]
    assert [text[text.index("operand") :][:9] for text in said] == turned
