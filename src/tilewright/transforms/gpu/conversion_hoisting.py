"""Layout conversions are moved to where they cost less.

    of a smaller tile         convert(broadcast(x))  ->  broadcast(convert(x));   convert(extf(x))  ->  extf(convert(x))
    where it runs less often  convert(if c {x} else {y}), y recomputed  ->  if c {convert(x)} else {y}
    next to a load            convert(f(load)) for a matrix product  ->  f(convert(load)), which can be pipelined

The ops between the new position and the old one are computed in the new layout.
"""

from __future__ import annotations

from tilewright.analysis.live_ranges import ancestor_in
from tilewright.dialects.arith import EXTENSIONS, Constant
from tilewright.dialects.scf import For, If
from tilewright.dialects.traits import DotLike
from tilewright.dialects.tt_elementwise import FpToFp
from tilewright.dialects.tt_shape import Broadcast, ExpandDims
from tilewright.dialects.ttg_program import ConvertLayout, Fp4ToFp
from tilewright.ir.core import Op, Value
from tilewright.ir.effects import is_pure
from tilewright.layouts.encodings import Distributed, DotOperand
from tilewright.transforms.gpu.conversion_slices import ConversionSlice, Use, trace
from tilewright.transforms.gpu.layout_transfer import MATRIX, VIEWS, layout_of_operands, tile_layout
from tilewright.transforms.gpu.rematerialization import Rematerialization, conversion_cost, is_worthwhile, wanted_layout
from tilewright.transforms.gpu.shared_operands import LOADS
from tilewright.transforms.gpu.tile_ops import converted_after, with_layout
from tilewright.transforms.matching import is_after

STAYING = (*VIEWS, Broadcast, Fp4ToFp, ConvertLayout)
"""Ops that move nothing between threads, besides elementwise ones."""


def hoist_conversions(function: Op) -> None:
    """Move conversions of `function` to cheaper places."""
    for rule in (hoist_above_growth, hoist_into_branch, hoist_to_loads):
        Rematerialization(function).for_each_conversion(rule)


# --- above ops that make tiles larger -----------------------------------------------------------------------------


def hoist_above_growth(work: Rematerialization, conversion: ConvertLayout) -> bool:
    """Convert what a broadcast or a widening takes, if there is just one on the way."""
    layout = wanted_layout(conversion)
    if isinstance(layout, DotOperand):
        return False
    found = work.slice((conversion, 0), layout, stop=makes_larger)
    grown = None if found is None else _only_growth(work, found)
    if grown is None:
        return False
    found, op = grown
    needed = layout_of_operands(op, found.layouts[op.result])
    if needed is None:
        return False
    (source,) = op.operands
    if not is_worthwhile(conversion, found, new_cost=conversion_cost(source, needed)):
        return False
    new = op.clone()
    converted = _convert_before(op, source, needed, conversion)
    assert op.block is not None, "an op of a function is in a block"
    op.block.insert(new, op)
    new.set_operand(0, converted)
    new.result.type = with_layout(op.result.type, found.layouts[op.result])
    found.values.pop(op.result, None)
    work.rewrite(found, conversion, {op.result: new.result})
    return True


def makes_larger(op: Op) -> bool:
    """Whether the result of `op` has more bytes than its operand, or as many."""
    if isinstance(op, FpToFp):
        return op.operand.type.bits < op.result.type.bits
    return isinstance(op, (Broadcast, ExpandDims)) or op.name in EXTENSIONS


def _only_growth(work: Rematerialization, found: ConversionSlice) -> tuple[ConversionSlice, Op] | None:
    """The op that makes the tile larger and whose operand cannot be recomputed, if there is just one.

    It comes with the slice that has what the others need.
    """
    only: Op | None = None
    for value in list(found.values):
        op = value.op
        if op is None or not makes_larger(op):
            continue
        needed = layout_of_operands(op, found.layouts[value])
        if needed is None:
            return None
        whole = work.slice((op, 0), needed, known=found)
        if whole is not None:
            found = whole
        elif only is not None:
            return None
        else:
            only = op
    return None if only is None else (found, only)


def _convert_before(place: Op, value: Value, layout: Distributed, conversion: Op) -> Value:
    """`value` in `layout`, converted before `place`."""
    new = Op.create("ttg.convert_layout", (value,), (with_layout(value.type, layout),), location=conversion.location)
    assert place.block is not None, "an op of a function is in a block"
    return place.block.insert(new, place).result


# --- into branches ------------------------------------------------------------------------------------------------


def is_branch(op: Op) -> bool:
    """Whether `op` is an `scf.if`."""
    return isinstance(op, If)


def hoist_into_branch(work: Rematerialization, conversion: ConvertLayout) -> bool:
    """Convert in one arm of an `scf.if` in a loop, if the other arm can compute its value in the layout wanted."""
    found = work.slice((conversion, 0), wanted_layout(conversion), stop=is_branch)
    if found is None:
        return False
    edges: list[tuple[Value, Use]] = []
    ends: list[Value] = []
    values = list(found.values)
    for value in values:  # grows
        branch = value.op
        if not isinstance(branch, If):
            continue
        grown = _into_arms(work, found, value, edges)
        if grown is None:
            ends.append(value)
            continue
        found = grown
        known = set(values)
        values += [other for other in found.values if other not in known]
    if not edges:
        return False
    _convert_at(work, conversion, found, edges, ends)
    return True


def _into_arms(
    work: Rematerialization, found: ConversionSlice, value: Value, edges: list[tuple[Value, Use]]
) -> ConversionSlice | None:
    """The slice with what the arms of the branch that gives `value` compute; None if the search ends here."""
    branch = value.op
    assert branch is not None, "the result of a branch"
    layout = found.layouts[value]
    uses = [(region.block.terminator, value.index) for region in branch.regions]
    grown, failed = found, []
    for use in uses:
        whole = work.slice(use, layout, known=grown, stop=is_branch)
        if whole is None:
            failed.append(use)
        else:
            grown = whole
    # In a loop an arm runs less often than the loop does.
    in_loop = isinstance(branch.parent, For)
    if len(failed) == 2 or (failed and not in_loop):
        return None
    edges += [(value, use) for use in failed]
    return grown


def _convert_at(
    work: Rematerialization,
    conversion: ConvertLayout,
    found: ConversionSlice,
    edges: list[tuple[Value, Use]],
    ends: list[Value],
) -> None:
    mapping: dict[Value, Value] = {}
    for value in ends:
        mapping[value] = converted_after(value, found.layouts[value])
        found.values.pop(value, None)
    for result, (terminator, index) in edges:
        value = terminator.operands[index]
        mapping[value] = _convert_before(terminator, value, found.layouts[result], conversion)
        found.values.pop(value, None)
    work.rewrite(found, conversion, mapping)


# --- to loads that feed matrix products ---------------------------------------------------------------------------


def hoist_to_loads(work: Rematerialization, conversion: ConvertLayout) -> bool:
    """Convert what is loaded instead of what a matrix product takes, through ops that move nothing."""
    if not _feeds_product(conversion):
        return False
    found = ConversionSlice()
    if not trace((conversion, 0), wanted_layout(conversion), found, work.copies, _moves):
        return False
    loaded: list[Value] = []
    for value in found.values:
        op = value.op
        if op is None or not (isinstance(op, (*LOADS, Constant)) or not _moves(op)):
            return False
        if isinstance(op, LOADS):
            loaded.append(value)
    if len(loaded) == len(found.values):
        return False
    mapping = {}
    for value in loaded:
        mapping[value] = converted_after(value, found.layouts[value])
        del found.values[value]
    work.rewrite(found, conversion, mapping)
    return True


def _moves(op: Op) -> bool:
    return not isinstance(op, STAYING) and not (op.definition.elementwise and is_pure(op))


def _feeds_product(conversion: ConvertLayout) -> bool:
    """Whether a matrix product on registers stands behind `conversion` on every way."""
    parent = conversion.parent
    assert parent is not None, "a conversion is in a function"
    return any(_takes_registers(op) and _comes_after(op, conversion) for op in parent.walk() if isinstance(op, DotLike))


def _takes_registers(dot: DotLike) -> bool:
    layout = tile_layout(dot.a)
    return isinstance(layout, DotOperand) and isinstance(layout.parent, MATRIX)


def _comes_after(op: Op, earlier: Op) -> bool:
    """Whether `op` stands behind `earlier`, or what that is in, in the same block."""
    around = ancestor_in(earlier, op.block)
    return around is not None and is_after(op, around)
