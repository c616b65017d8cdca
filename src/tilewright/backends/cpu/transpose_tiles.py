"""Tiles the other way round where memory lies along their first axis, as in sums over the rows of a matrix.

    %x = tt.load %p : tensor<64x4x!tt.ptr<f32>>                 %x = tt.load %p : tensor<4x64x!tt.ptr<f32>>
    %s = tt.reduce(%x) {axis = 1} : … -> tensor<64xf32>    →    %s = tt.reduce(%x) {axis = 0} : … -> tensor<64xf32>

Vectors run along the last axis. Where neighbours of that axis lie far apart in memory, each lane is a load of its own.
All tiles of two axes change, so no element has to be moved: every op of a function has to be one that does not care.
"""

from __future__ import annotations

from tilewright.analysis.axis_info import HINTS
from tilewright.backends.cpu.strides import lies_transposed, steps_along
from tilewright.dialects.arith import Constant
from tilewright.dialects.tt_elementwise import InlineAsm
from tilewright.dialects.tt_function import Func
from tilewright.dialects.tt_memory import Load, Store
from tilewright.dialects.tt_reduce import Fold, MapElementwise
from tilewright.dialects.tt_shape import Broadcast, ExpandDims, Splat
from tilewright.ir.attributes import Attribute, Dense, Number
from tilewright.ir.core import Op, Value
from tilewright.ir.types import Type, with_shape
from tilewright.transforms.functions import functions_of

TURNED = (Broadcast, Constant, ExpandDims, Fold, Load, Splat, Store)
"""Ops that give the same elements where their tiles are the other way round and their `axis` is the other one."""
IN_ORDER = (InlineAsm, MapElementwise)
"""Ops on elements that may take several neighbours at a time."""
CONTROL = ("scf.", "cf.")
"""Dialects whose ops pass on what they are given."""
FEWEST_NEIGHBOURS = 8
"""Min extent of the first axis: half a vector."""


def transpose_tiles(module: Op) -> bool:
    """Turn the tiles of each function whose accesses go along the first axis; returns whether there is one."""
    found = [function for function in functions_of(module) if _gains(function)]
    for function in found:
        ops = [op for op in function.walk() if op is not function]
        for op in ops:  # which look at the types of their operands
            if _has_matrix(op):
                op.attributes.update({name: _turned_attribute(name, value) for name, value in op.attributes.items()})
        for op in ops:
            inner = (arg for region in op.regions for block in region.blocks for arg in block.args)
            for value in (*op.results, *inner):
                value.type = _turned(value.type)
    return bool(found)


def _gains(function: Func) -> bool:
    """Whether some accesses of tiles go along the first axis, none along the last, and all ops allow it."""
    pointers = [op.pointer for op in function.ops_of((Load, Store)) if len(_shape(op.pointer)) == 2]
    across = [each for each in pointers if _shape(each)[0] >= FEWEST_NEIGHBOURS and lies_transposed(each)]
    if not across or any(_shape(each)[1] > 1 and steps_along(each).get(1) == 1 for each in pointers):
        return False
    return all(_may_turn(op) for op in function.walk() if op is not function)


def _may_turn(op: Op) -> bool:
    """Whether an op has no tile of two axes or more, or does not care which of two is the first."""
    ranks = {len(_shape(value)) for value in (*op.operands, *op.results)}
    if max(ranks, default=0) < 2:
        return True
    has_elements = isinstance(op, Constant) and isinstance(op.value, Dense)
    if max(ranks) > 2 or has_elements or isinstance(op, IN_ORDER):
        return False
    return isinstance(op, TURNED) or op.definition.elementwise or op.name.startswith(CONTROL)


def _has_matrix(op: Op) -> bool:
    return any(len(_shape(value)) == 2 for value in (*op.operands, *op.results))


def _turned_attribute(name: str, attribute: Attribute) -> Attribute:
    """An axis as the other one, a hint for each axis in the other order, the literal of a tile in its other shape."""
    match attribute:
        case Number(axis) if name == "axis":
            return attribute._replace(value=1 - axis)
        case Number():
            return attribute._replace(type=_turned(attribute.type))
        case Dense((first, second)) if name in HINTS:
            return attribute._replace(values=(second, first))
        case _:
            return attribute


def _turned(type: Type) -> Type:
    return with_shape(type, type.shape[::-1]) if type.shape and len(type.shape) == 2 else type


def _shape(value: Value) -> tuple[int, ...]:
    return value.type.shape or ()
