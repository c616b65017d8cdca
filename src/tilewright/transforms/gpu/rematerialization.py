"""Rematerialization: tiles are computed again in another layout, if that costs less than a conversion.

%r = tt.make_range … : #x                           %r = tt.make_range … : #x
%s = arith.addi %r, %c : #x                         %t = tt.make_range … : #y
"use"(%s) : #x                              ->      %s = arith.addi %r, %c : #x
%t = ttg.convert_layout %s : … -> #y                %u = arith.addi %t, %d : #y
"use"(%t) : #y                                      "use"(%s) : #x
                                                    "use"(%u) : #y

Costs are in thousandths of a cycle of one multiprocessor.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from math import prod

from tilewright.analysis.value_flow import flows_into, reachable
from tilewright.dialects.arith import Constant
from tilewright.dialects.scf import For, If, Yield
from tilewright.dialects.tt_memory import Load
from tilewright.dialects.tt_reduce import Reduce
from tilewright.dialects.ttg_memory import LocalLoad
from tilewright.dialects.ttg_program import ConvertLayout
from tilewright.ir.core import Op, Value
from tilewright.ir.dominance import dominates
from tilewright.ir.types import FloatType, IntType, TensorType
from tilewright.layouts.encodings import Distributed, DotOperand
from tilewright.layouts.queries import threads_per_warp, unique_elements_per_thread, warps_per_cta
from tilewright.transforms.carried_values import add_carried, add_result
from tilewright.transforms.gpu.conversion_slices import ConversionSlice, Stop, Use, can_recompute, never, trace
from tilewright.transforms.gpu.layout_transfer import free_between, tile_layout
from tilewright.transforms.gpu.tile_ops import with_layout
from tilewright.transforms.matching import uses_of
from tilewright.transforms.op_builder import OpBuilder

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


def _kept(conversion: Op, found: ConversionSlice, ops: dict[Op, None]) -> Container[Value]:
    """The values of the slice that are needed elsewhere in their old layouts, directly or not."""
    needed = (value for value in found.values if _is_needed_elsewhere(value, conversion, found, ops))
    return reachable(needed, lambda value: (source for source in _sources(value) if source in found.values))


def _is_needed_elsewhere(value: Value, conversion: Op, found: ConversionSlice, ops: dict[Op, None]) -> bool:
    for user, index in uses_of(value):
        if user is not conversion and user not in ops:
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


def rematerialize(function: Op) -> bool:
    """Replace conversions of `function` by computing what they convert once more; returns whether there were any."""
    return Rematerialization(function).for_each_conversion(replace_conversion)


def replace_conversion(work: Rematerialization, conversion: ConvertLayout) -> bool:
    """Compute what `conversion` converts in the layout wanted, if that is possible and costs no more."""
    layout = wanted_layout(conversion)
    if isinstance(layout, DotOperand):
        return False
    copy = work.copies.get((conversion.source, layout))
    if copy is not None and dominates(copy, conversion):
        conversion.replace((copy,))
        return True
    found = work.slice((conversion, 0), layout)
    if found is None or not is_worthwhile(conversion, found):
        return False
    work.rewrite(found, conversion, {})
    return True


def wanted_layout(conversion: ConvertLayout) -> Distributed:
    """The layout that `conversion` gives."""
    layout = tile_layout(conversion.result)
    assert layout is not None, "conversions give tiles"
    return layout


class Rematerialization:
    """Replaces conversions in one function.

    Attributes:
        copies: values that are the same as others, in another layout.
    """

    def __init__(self, function: Op) -> None:
        self.function = function
        self.copies: dict[tuple[Value, Distributed], Value] = {}

    def for_each_conversion(self, rule: Callable[[Rematerialization, ConvertLayout], bool]) -> bool:
        """Apply `rule`, which says whether it removed the conversion, to each; the others' results are known copies."""
        changed = False
        for conversion in [op for op in self.function.walk() if isinstance(op, ConvertLayout)]:
            if rule(self, conversion):
                changed = True
            else:
                self.copies[conversion.source, wanted_layout(conversion)] = conversion.result
        return changed

    def slice(
        self, use: Use, layout: Distributed, known: ConversionSlice | None = None, stop: Stop = never
    ) -> ConversionSlice | None:
        """The values that must be computed so that the operand `use` has `layout`, with those `known` already.

        The search ends at ops that `stop` accepts; None if that is not possible.
        """
        found = ConversionSlice() if known is None else known.copy()
        if not trace(use, layout, found, self.copies, stop) or not found.values:
            return None
        ops = (value.op for value in found.values)
        return found if all(op is None or can_recompute(op) for op in ops) else None

    def rewrite(self, found: ConversionSlice, conversion: ConvertLayout, mapping: dict[Value, Value]) -> None:
        """Compute the slice `found` in its layouts, let the users of `conversion` take that, and erase it.

        The mapping has what was made already, by what it takes the place of, and learns the rest.
        """
        made = _Remaking(self, found, mapping)
        made.remake()
        conversion.replace((mapping[conversion.source],))


class _Remaking:
    """Makes the values of a slice again; loops and branches get more results in place."""

    def __init__(self, work: Rematerialization, found: ConversionSlice, mapping: dict[Value, Value]) -> None:
        self.work = work
        self.found = found
        self.mapping = mapping
        self.fresh: dict[Value, None] = {}
        for value in found.values:
            copy = found.copies.get(value)
            if copy is None:
                self.fresh[value] = None
            else:
                mapping[value] = copy
        self.yielded: dict[Op, list[int]] = {}
        """The operands of yields that are yielded in a new layout, too."""

    def remake(self) -> None:
        ops = self._ops()
        # Outer before inner, as written: operands come first, and a yield comes after all that it yields.
        for op in list(self.work.function.walk()) if ops else ():
            if op in ops:
                self._remake(op)

    def _ops(self) -> set[Op]:
        found: set[Op] = set()
        for value in self.fresh:
            owner = value.owner
            if not isinstance(owner, Op):
                loop = owner.region.op if owner.region is not None else None
                assert loop is not None, "an argument of a loop"
                found.add(loop)
                self._note_yield(owner.terminator, value.index - 1, found)
                continue
            found.add(owner)
            if isinstance(owner, If):
                for region in owner.regions:
                    self._note_yield(region.block.terminator, value.index, found)
        return found

    def _note_yield(self, terminator: Op, index: int, found: set[Op]) -> None:
        self.yielded.setdefault(terminator, []).append(index)
        found.add(terminator)

    def _remake(self, op: Op) -> None:
        match op:
            case For():
                self._extend_loop(op)
            case If():
                for result in list(op.results):
                    if result in self.fresh:
                        self._learn(result, add_result(op, self._type(result)))
            case Yield():
                more = [self._now(op.operands[index]) for index in sorted(self.yielded[op])]
                op.set_operands([*op.operands, *more])
            case Constant():
                self._convert_constant(op)
            case _:
                self._clone(op)

    def _extend_loop(self, loop: For) -> None:
        for argument in loop.carried:
            if argument in self.fresh:
                result = loop.results[argument.index - 1]
                start = self._now(loop.inits[argument.index - 1])
                self._learn(argument, add_carried(loop, start))
                self.mapping[result] = loop.results[-1]
                self.work.copies[result, self.found.layouts[argument]] = loop.results[-1]

    def _convert_constant(self, op: Constant) -> None:
        """Folded later, if it is one number; else the conversion is of something small."""
        at = OpBuilder(op)
        same = at.insert(op.clone())
        self._learn(op.result, at.emit("ttg.convert_layout", same.results, self._type(op.result)))

    def _clone(self, op: Op) -> None:
        new = OpBuilder(op).insert(op.clone(self.mapping))
        for old, made in zip(op.results, new.results, strict=True):
            if old in self.found.layouts:
                made.type = self._type(old)
                self._learn(old, made)

    def _type(self, value: Value) -> TensorType:
        return with_layout(value.type, self.found.layouts[value])

    def _now(self, value: Value) -> Value:
        return self.mapping.get(value, value)

    def _learn(self, old: Value, new: Value) -> None:
        self.mapping[old] = new
        self.work.copies[old, self.found.layouts[old]] = new
