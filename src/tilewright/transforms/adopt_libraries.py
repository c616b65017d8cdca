"""Adopt libraries: calls of NVIDIA's and AMD's mathematics become ours.

%y = tt.extern_elementwise %x {symbol = "__nv_tanhf"}       ->    %y = tt.extern_elementwise %x {symbol = "__tw_tanh"}
%y = tt.extern_elementwise %x {symbol = "__ocml_exp_f32"}   ->    %y = math.exp %x

TTIR that Triton printed for a GPU names them; what has no equal here keeps its name.
"""

from __future__ import annotations

import re

from tilewright import dialects
from tilewright.dialects.tile_semantics import LIBRARY
from tilewright.dialects.tt_elementwise import ExternElementwise
from tilewright.ir.core import Op
from tilewright.ir.declare import OPS

assert dialects, "declares the ops of `math`"
_FOREIGN = re.compile(r"__nv_(?:fast_)?(?P<nv>\w+)|__ocml_(?P<ocml>\w+?)_f(?:16|32|64)")
_RENAMED = {"fabs": "absf", "nearbyint": "rint"}
_OWN_PREFIX = "__tw_"


def adopt_libraries(module: Op) -> bool:
    """Replace calls of other libraries in `module` where there is a function with the same meaning."""
    calls = module.ops_of(ExternElementwise)
    adopted = list(map(_adopt, calls))
    return any(adopted)


def _adopt(call: ExternElementwise) -> bool:
    for name in _names(call.symbol):
        if name in LIBRARY:
            call.attributes["symbol"] = _OWN_PREFIX + name
            return True
        if f"math.{name}" in OPS and call.block is not None:
            types = [result.type for result in call.results]
            made = Op.create(f"math.{name}", call.arguments, types, location=call.location)
            call.block.insert(made, before=call)
            call.replace(made.results)
            return True
    return False


def _names(symbol: str) -> list[str]:
    """The names that a foreign function may have here; NVIDIA's ends in `f` when it is for fp32."""
    match = _FOREIGN.fullmatch(symbol)
    if match is None:
        return []
    names = [match["nv"], match["nv"].removesuffix("f")] if match["nv"] else [match["ocml"]]
    return [_RENAMED.get(name, name) for name in names]
