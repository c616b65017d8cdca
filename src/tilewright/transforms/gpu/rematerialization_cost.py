"""The cost of layout conversions and of computing things twice, in thousandths of a cycle of one multiprocessor.

conversion_cost(x, layout)          0 if each thread keeps its values; else a round trip through shared memory
is_worthwhile(conversion, slice)    whether to compute the slice again in the layout wanted instead
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from tilewright.analysis.value_flow import flows_into
from tilewright.dialects.arith import Constant
from tilewright.dialects.scf import For, If
from tilewright.dialects.tt_memory import Load
from tilewright.dialects.tt_reduce import Reduce
from tilewright.dialects.ttg_memory import LocalLoad
from tilewright.dialects.ttg_program import ConvertLayout
from tilewright.ir.core import Op, Value
from tilewright.ir.types import FloatType, IntType, TensorType
from tilewright.layouts.encodings import Distributed
from tilewright.layouts.queries import threads_per_warp, unique_elements_per_thread, warps_per_cta
from tilewright.transforms.gpu.conversion_slices import ConversionSlice
from tilewright.transforms.gpu.layout_transfer import free_between, tile_layout

_SLOW = (
    *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cos", "cosh", "ctlz", "ctpop", "cttz"),
    *("erf", "erfc", "exp", "exp2", "expm1", "log", "log10", "log1p", "log2", "powf", "rsqrt", "sin", "sinh", "sqrt"),
    *("tan", "tanh"),
)
SLOW = frozenset(("arith.divf", *(f"math.{name}" for name in _SLOW)))
"""Arithmetic of many instructions, or on the unit for special functions."""
SLOWNESS = 8
PER_CONVERTED_BYTE = 32
"""The cost of a byte that is converted: writing and reading shared memory, twice that for the barriers."""
PER_LOADED_BYTE = 8
"""The cost of a byte that is loaded, from the cache we hope."""
MIN_ELEMENTS, MIN_BITS = 32, 32
"""Min elements, and bits of each, that a conversion counts as: it keeps all banks busy, for a whole word each."""


def byte_count(value: Value, *, least_elements: int = 0, least_bits: int = 0) -> int:
    """The size of a tile of numbers; pointers count as nothing."""
    type = value.type
    elements = bits = 0
    if isinstance(type, TensorType):
        elements = prod(type.shape)
        bits = type.element.bits if isinstance(type.element, IntType | FloatType) else 0
    return (max(elements, least_elements) * max(bits, least_bits)) >> 3


def conversion_cost(value: Value, layout: Distributed) -> int:
    """The cost of a conversion of `value` to `layout`."""
    if free_between(value, layout):
        return 0
    return PER_CONVERTED_BYTE * byte_count(value, least_elements=MIN_ELEMENTS, least_bits=MIN_BITS)


def is_worthwhile(conversion: ConvertLayout, found: ConversionSlice, *, new_cost: int = 0) -> bool:
    """Whether computing the slice `found` in its layouts costs no more than `conversion`.

    Args:
        conversion: goes away.
        found: is computed, also if what it replaces has to stay; copies that are there already cost nothing.
        new_cost: of conversions that become necessary.
    """
    made = (value for value in found.values if found.copies.get(value) is None)
    ops = dict.fromkeys(op for value in made if (op := value.op) is not None)
    kept = _kept(conversion, found, ops)
    total = new_cost
    for op in ops:
        cost = _cost(op, found, stays=any(value in kept for value in op.results))
        if cost is None:
            return False
        total += cost
    layout = tile_layout(conversion.results[0])
    assert layout is not None, "conversions give tiles"
    return conversion_cost(conversion.source, layout) >= total


def _cost(op: Op, found: ConversionSlice, *, stays: bool) -> int | None:
    """The cost of the copy of `op`; None if it must not be copied."""
    if isinstance(op, Constant):
        return 0
    if op.name.startswith(("arith.", "math.")):
        each = SLOWNESS if op.name in SLOW else 1
        # In the new layout threads may have to do what others did before.
        factors = ((value, _growth(value, found.layouts.get(value)) - (not stays)) for value in op.results)
        return sum(each * byte_count(value) * factor for value, factor in factors)
    if not stays:
        return 0
    if isinstance(op, (Load, LocalLoad)):
        return sum(PER_LOADED_BYTE * byte_count(value) for value in op.results)
    return _reduction_cost(op) if isinstance(op, Reduce) else 0


def _growth(value: Value, layout: Distributed | None) -> int:
    """The factor by which each thread has more elements in `layout`."""
    before, shape = tile_layout(value), value.type.shape
    if before is None or layout is None or shape is None:
        return 1
    return max(1, unique_elements_per_thread(layout, shape) // unique_elements_per_thread(before, shape))


def _reduction_cost(op: Reduce) -> int | None:
    x, along = op.sources[0], op.axis
    layout, shape = tile_layout(x), x.type.shape
    assert layout is not None, "a reduction takes tiles with layouts"
    assert shape is not None, "a reduction takes tiles"
    # Two sums of the same numbers in different orders would differ.
    rounds = isinstance(x.type.scalar, FloatType) and shape[along] > 2
    if rounds and any(inner.name in ("arith.addf", "arith.mulf") for inner in op.walk()):
        return None
    return threads_per_warp(layout, shape)[along] + 8 * warps_per_cta(layout, shape)[along]


# --- what others need ---------------------------------------------------------------------------------------------


def _kept(conversion: Op, found: ConversionSlice, ops: dict[Op, None]) -> set[Value]:
    """The values of the slice that are needed elsewhere in their old layouts, directly or not."""
    waiting = [value for value in found.values if _is_needed_elsewhere(value, conversion, found, ops)]
    kept = set(waiting)
    while waiting:
        for source in _sources(waiting.pop()):
            if source in found.values and source not in kept:
                kept.add(source)
                waiting.append(source)
    return kept


def _is_needed_elsewhere(value: Value, conversion: Op, found: ConversionSlice, ops: dict[Op, None]) -> bool:
    for user in value.uses:
        if user is conversion or user in ops:
            continue
        for index, operand in enumerate(user.operands):
            if operand is value:
                targets = flows_into(user, index)
                if not targets or any(target.uses and target not in found.values for target in targets):
                    return True
    return False


def _sources(value: Value) -> Iterator[Value]:
    """The values that `value` is computed from, or is one of."""
    owner = value.owner
    op = owner if isinstance(owner, Op) else owner.region.op if owner.region is not None else None
    if op is None:
        return
    if isinstance(op, For):
        position = value.index if isinstance(owner, Op) else value.index - 1
        if position >= 0:
            yield op.inits[position]
            yield op.yielded[position]
    elif isinstance(op, If):
        for region in op.regions:
            yield region.block.terminator.operands[value.index]
    else:
        yield from op.operands
