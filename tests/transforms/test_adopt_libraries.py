"""Calls of other libraries' mathematics, as text in and text out."""

from __future__ import annotations

import pytest

from tilewright import dialects
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify
from tilewright.language.extra import libdevice
from tilewright.language.extra.forms import ABSENT, nvidia_symbol
from tilewright.transforms.adopt_libraries import adopt_libraries

assert dialects

TEXT = """tt.func @f(%x: tensor<4xKIND>, %y: tensor<4xKIND>) -> tensor<4xKIND> {
  %z = tt.extern_elementwise OPERANDS {libname = "", libpath = "", pure = true, symbol = "SYMBOL"} : (TYPES) -> tensor<4xKIND>
  tt.return %z : tensor<4xKIND>
}"""  # noqa: E501 - one line of IR


@pytest.mark.quick
@pytest.mark.parametrize(
    ("symbol", "kind", "expected"),
    [
        ("__nv_tanhf", "f32", "%z = math.tanh %x : tensor<4xf32>"),
        ("__nv_tanh", "f64", "%z = math.tanh %x : tensor<4xf64>"),
        ("__nv_log1pf", "f32", '%z = tt.extern_elementwise %x {libname = "libdevice", libpath = "", pure = true, '),
        ("__nv_powf", "f32", '%x, %y {libname = "libdevice", libpath = "", pure = true, symbol = "__tw_pow"}'),
        ("__nv_erff", "f32", "%z = math.erf %x : tensor<4xf32>"),
        ("__nv_erf", "f64", "%z = math.erf %x : tensor<4xf64>"),
        ("__nv_fabsf", "f32", "%z = math.absf %x : tensor<4xf32>"),
        ("__nv_fast_expf", "f32", "%z = math.exp %x : tensor<4xf32>"),
        ("__ocml_log1p_f32", "f32", 'symbol = "__tw_log1p"}'),
        ("__ocml_exp2_f64", "f64", "%z = math.exp2 %x : tensor<4xf64>"),
        ("__nv_copysign", "f32", 'symbol = "__nv_copysign"}'),
        ("__nv_float2half_rn", "f32", 'symbol = "__nv_float2half_rn"}'),
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


@pytest.mark.parametrize(
    ("kind", "exponent", "left"), [("f32", "2.0", 0), ("f32", "2.5", 1), ("i32", "2", 0), ("i32", "7", 1)]
)
def test_powers_with_small_constant_exponents_are_products(kind: str, exponent: str, left: int) -> None:
    symbol = "__nv_powf" if kind == "f32" else "__nv_powif"
    module = parse_module(f"""tt.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {{
      %y = arith.constant dense<{exponent}> : tensor<4x{kind}>
      %z = tt.extern_elementwise %x, %y {{libname = "", libpath = "", pure = true, symbol = "{symbol}"}} : (tensor<4xf32>, tensor<4x{kind}>) -> tensor<4xf32>
      tt.return %z : tensor<4xf32>
    }}""")  # noqa: E501 - one line of IR
    assert adopt_libraries(module)
    verify(module)
    assert (print_op(module).count("__tw_pow"), print_op(module).count("arith.mulf")) == (left, 1 - left)


SYMBOLS = [
    (nvidia_symbol(name, form.partition(" -> ")[0], function.forms), form)
    for name, function in ((name, getattr(libdevice, name)) for name in libdevice.__all__)
    for form in function.forms
    if name not in ABSENT
]
LAYOUT = "#ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>"
IN_THE_IR = {
    "fp32": "f32",
    "fp64": "f64",
    "int32": "i32",
    "uint32": "i32",
    "int64": "i64",
    "uint64": "i64",
    "int1": "i32",
}


@pytest.mark.parametrize("tile", ["tensor<4xKIND>", f"tensor<128xKIND, {LAYOUT}>", "KIND"])
def test_every_symbol_of_libdevice_is_written_out(tile: str) -> None:
    for called, form in SYMBOLS:
        module = parse_module(call_of(called, form, tile))
        assert adopt_libraries(module), called
        verify(module)
        assert "__nv_" not in print_op(module)


def call_of(called: str, form: str, tile: str) -> str:
    """A function that calls one of NVIDIA's."""
    names, _, result = form.partition(" -> ")
    *types, returned = [tile.replace("KIND", IN_THE_IR[name]) for name in (*names.split(", "), result)]
    arguments = [f"%a{place}" for place in range(len(types))]
    return f"""tt.func @f({", ".join(map("{}: {}".format, arguments, types))}) -> {returned} {{
  %z = tt.extern_elementwise {", ".join(arguments)} {{libname = "", libpath = "", pure = true, symbol = "{called}"}}
    : ({", ".join(types)}) -> {returned}
  tt.return %z : {returned}
}}"""


def test_symbols_are_told_apart() -> None:
    assert len({called for called, _ in SYMBOLS}) == len(SYMBOLS)
