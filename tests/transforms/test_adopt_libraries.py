"""Calls of other libraries' mathematics, as text in and text out."""

from __future__ import annotations

import pytest

from tilewright import dialects
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify
from tilewright.transforms.adopt_libraries import adopt_libraries

assert dialects

TEXT = """tt.func @f(%x: tensor<4xKIND>, %y: tensor<4xKIND>) -> tensor<4xKIND> {
  %z = tt.extern_elementwise OPERANDS {libname = "", libpath = "", pure = true, symbol = "SYMBOL"} : (TYPES) -> tensor<4xKIND>
  tt.return %z : tensor<4xKIND>
}"""  # noqa: E501 - one line of IR


@pytest.mark.parametrize(
    ("symbol", "kind", "expected"),
    [
        (
            "__nv_tanhf",
            "f32",
            '%z = tt.extern_elementwise %x {libname = "", libpath = "", pure = true, symbol = "__tw_tanh"}',
        ),
        ("__nv_tanh", "f64", 'symbol = "__tw_tanh"}'),
        ("__nv_powf", "f32", '%x, %y {libname = "", libpath = "", pure = true, symbol = "__tw_pow"}'),
        ("__nv_erff", "f32", "%z = math.erf %x : tensor<4xf32>"),
        ("__nv_erf", "f64", "%z = math.erf %x : tensor<4xf64>"),
        ("__nv_fabsf", "f32", "%z = math.absf %x : tensor<4xf32>"),
        ("__nv_fast_expf", "f32", "%z = math.exp %x : tensor<4xf32>"),
        ("__ocml_log1p_f32", "f32", 'symbol = "__tw_log1p"}'),
        ("__ocml_exp2_f64", "f64", "%z = math.exp2 %x : tensor<4xf64>"),
        ("__nv_j0f", "f32", 'symbol = "__nv_j0f"}'),
        ("my_function", "f32", 'symbol = "my_function"}'),
        ("__tw_pow", "f32", 'symbol = "__tw_pow"}'),
    ],
)
def test_names(symbol: str, kind: str, expected: str) -> None:
    operands = "%x, %y" if "pow" in symbol else "%x"
    types = ", ".join(["tensor<4xKIND>"] * (operands.count(",") + 1))
    text = TEXT.replace("OPERANDS", operands).replace("TYPES", types).replace("KIND", kind).replace("SYMBOL", symbol)
    module = parse_module(text)
    changed = adopt_libraries(module)
    verify(module)
    assert expected in print_op(module)
    assert changed == (symbol not in print_op(module))
