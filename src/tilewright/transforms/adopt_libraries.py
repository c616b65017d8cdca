"""Adopt libraries: calls of NVIDIA's and AMD's math libraries become ops and functions of Tilewright.

%y = tt.extern_elementwise %x {symbol = "__nv_isnanf"}      ->    %b = arith.cmpf une, %x, %x ; %y = arith.extui %b
%y = tt.extern_elementwise %x {symbol = "__nv_tanhf"}       ->    %y = math.tanh %x
%y = tt.extern_elementwise %x {symbol = "__ocml_exp_f32"}   ->    %y = math.exp %x

TTIR that Triton printed for a GPU calls these libraries, and so do Gluon's programs. NVIDIA's functions are those of
libdevice: they become the ops of the language's function of that name. A call without an equivalent keeps its name.
Powers with small constant exponents become products, as in TTIR: Gluon's programs have no other pass for that.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from tilewright import dialects
from tilewright.dialects.tile_semantics import LIBRARY
from tilewright.dialects.tt_elementwise import ExternElementwise
from tilewright.ir.builder import PlacedBuilder
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.declare import OPS
from tilewright.ir.types import TensorType, Type
from tilewright.layouts.encoding import encoding
from tilewright.semantics.active import emitting_into
from tilewright.semantics.casting import cast
from tilewright.semantics.distributed import distributed_type
from tilewright.semantics.layout_values import layout_of
from tilewright.semantics.tile import Tile
from tilewright.semantics.types import AnyType, dtype, shaped
from tilewright.transforms import power_rules
from tilewright.transforms.canonicalize import FOLDS
from tilewright.transforms.equations import by_op
from tilewright.transforms.functions import rewrite_functions

assert dialects, "declares the ops of `math`"
_AMDS = re.compile(r"__ocml_(?P<name>\w+?)_f(?:16|32|64)")
_RENAMED = {"fabs": "absf", "nearbyint": "rint"}
_OWN_PREFIX, _NVIDIAS_PREFIX = "__tw_", "__nv_"
_POWERS = by_op(power_rules.ROWS)
"""The rules for powers, which `combine` has for programs of the tile language."""


def adopt_libraries(module: Op) -> bool:
    """Replace calls of other libraries in `module` by functions of the same meaning, where there are any."""
    calls = module.ops_of(ExternElementwise)
    adopted = list(map(_adopt, calls))
    if any(adopted):
        rewrite_functions(module, _POWERS, folds=FOLDS)
    return any(adopted)


def _adopt(call: ExternElementwise) -> bool:
    if call.symbol.startswith(_NVIDIAS_PREFIX):
        return _written_out(call)
    match = _AMDS.fullmatch(call.symbol)
    return match is not None and _renamed(call, _RENAMED.get(match["name"], match["name"]))


def _renamed(call: ExternElementwise, name: str) -> bool:
    """Make of a call one of our function `name`, or the op of that name."""
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


def _written_out(call: ExternElementwise) -> bool:
    """Write the ops of the function of libdevice that has this symbol, if it has such arguments and such a result."""
    found = _functions().get(call.symbol)
    if found is None or call.block is None:
        return False
    name, form = found
    types, _, result = form.partition(" -> ")
    kinds = [_typed(call.results[0].type, kind) for kind in types.split(", ")]
    wanted = _typed(call.results[0].type, "int32" if result == "int1" else result)
    if [value.type for value in (*call.arguments, *call.results)] != [kind.ir for kind in (*kinds, wanted)]:
        return False
    block = Block()
    builder = PlacedBuilder(block)
    builder.location = call.location
    with emitting_into(builder):
        tiles = map(_tile, call.arguments, kinds)
        value = cast(_library()[name](*tiles), wanted)
    for op in list(block):
        op.unlink()
        call.block.insert(op, before=call)
    call.replace([value.handle])
    return True


def _tile(value: Value, kind: AnyType) -> Tile:
    from tilewright.language.tensors import tensor

    return tensor(value, kind)


def _typed(like: Type, kind: str) -> AnyType:
    """The type in the language of values of this kind that have the shape and layout of `like`."""
    if not isinstance(like, TensorType):
        return dtype(kind)
    if like.encoding is None:
        return shaped(dtype(kind), like.shape)
    return distributed_type(dtype(kind), like.shape, layout_of(encoding(like.encoding), like.shape))


def _library() -> dict[str, Any]:
    """The functions of libdevice, by name."""
    from tilewright.language.extra import libdevice

    return {name: getattr(libdevice, name) for name in libdevice.__all__}


@cache
def _functions() -> dict[str, tuple[str, str]]:
    """The function and the form that each symbol of NVIDIA's library stands for."""
    from tilewright.language.extra.forms import nvidia_symbol

    library = _library().items()
    forms = [(name, function.forms, form) for name, function in library for form in function.forms]
    return {nvidia_symbol(name, form.partition(" -> ")[0], others): (name, form) for name, others, form in forms}
