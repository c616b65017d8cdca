"""Arithmetic of libdevice that rounds as its names say: _rn to nearest, _rz towards zero, _rd down, _ru up.

add_rd(x, y)      tt.extern_elementwise {symbol = "__tw_add_rd"}

Each rounds once, subnormal results and signs of zeros included, and never becomes a part of a fused operation.
"""

from __future__ import annotations

from typing import Any

from tilewright.language.extra.forms import FLOATS_1, FLOATS_2, FLOATS_3, takes
from tilewright.language.math import rsqrt
from tilewright.language.operations import cast
from tilewright.semantics.math import extern
from tilewright.semantics.types import float32, float64

OPERATIONS = {"add": "x + y", "sub": "x - y", "mul": "x * y", "div": "x / y", "fma": "x * y + z", "sqrt": "√x"}
MODES = {"rn": "to nearest", "rz": "towards zero", "rd": "down", "ru": "up"}


def _directed(operation: str, mode: str) -> Any:
    name = f"{operation}_{mode}"
    function: Any
    if operation == "fma":
        forms = FLOATS_3

        def function(arg0: Any, arg1: Any, arg2: Any) -> Any:
            return extern(f"__tw_{name}", (arg0, arg1, arg2))
    elif operation == "sqrt":
        forms = FLOATS_1

        def function(arg0: Any) -> Any:
            return extern(f"__tw_{name}", (arg0,))
    else:
        forms = FLOATS_2

        def function(arg0: Any, arg1: Any) -> Any:
            return extern(f"__tw_{name}", (arg0, arg1))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{OPERATIONS[operation]}, rounded {MODES[mode]}."
    return takes(*forms)(function)


def _reciprocal(mode: str) -> Any:
    def function(arg0: Any) -> Any:
        return extern(f"__tw_div_{mode}", (1.0, arg0))

    function.__name__ = function.__qualname__ = f"rcp_{mode}"
    function.__doc__ = f"1 / x, rounded {MODES[mode]}."
    return takes(*FLOATS_1)(function)


add_rn, add_rz, add_rd, add_ru = (_directed("add", mode) for mode in MODES)
sub_rn, sub_rz, sub_rd, sub_ru = (_directed("sub", mode) for mode in MODES)
mul_rn, mul_rz, mul_rd, mul_ru = (_directed("mul", mode) for mode in MODES)
div_rn, div_rz, div_rd, div_ru = (_directed("div", mode) for mode in MODES)
fma_rn, fma_rz, fma_rd, fma_ru = (_directed("fma", mode) for mode in MODES)
sqrt_rn, sqrt_rz, sqrt_rd, sqrt_ru = (_directed("sqrt", mode) for mode in MODES)
rcp_rn, rcp_rz, rcp_rd, rcp_ru = (_reciprocal(mode) for mode in MODES)


@takes("fp32 -> fp32")
def rsqrt_rn(arg0: Any) -> Any:
    """1 / √x, rounded to nearest."""
    return cast(rsqrt(cast(arg0, float64)), float32)
