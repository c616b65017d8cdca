"""Computing tiles a second time in another layout, where that costs less than converting them.

%r = tt.make_range … : #x                           %r = tt.make_range … : #x
%s = arith.addi %r, %c : #x                         %t = tt.make_range … : #y
"use"(%s) : #x                              ->      %s = arith.addi %r, %c : #x
%t = ttg.convert_layout %s : … -> #y                %u = arith.addi %t, %d : #y
"use"(%t) : #y                                      "use"(%s) : #x
                                                    "use"(%u) : #y
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.dialects.arith import Constant
from tilewright.dialects.scf import For, If, Yield
from tilewright.dialects.ttg_program import ConvertLayout
from tilewright.ir.core import Op, Value
from tilewright.ir.dominance import dominates
from tilewright.ir.types import TensorType
from tilewright.layouts.encodings import Distributed, DotOperand
from tilewright.transforms.gpu.conversion_slices import ConversionSlice, Stop, Use, can_recompute, never, trace
from tilewright.transforms.gpu.layout_transfer import tile_layout
from tilewright.transforms.gpu.relayout import with_layout
from tilewright.transforms.gpu.rematerialization_cost import is_worthwhile


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
        """The values that must be computed so that the operand `use` has `layout`.

        Args:
            use: the operand.
            layout: what it should have.
            known: what will be computed anyway; stays as it is.
            stop: ops at which the search ends.

        Returns:
            `known` and what is needed besides; None if that is not possible.
        """
        found = ConversionSlice() if known is None else known.copy()
        if not trace(use, layout, found, self.copies, stop) or not found.values:
            return None
        ops = (value.op for value in found.values)
        return found if all(op is None or can_recompute(op) for op in ops) else None

    def rewrite(self, found: ConversionSlice, conversion: ConvertLayout, mapping: dict[Value, Value]) -> None:
        """Compute the slice `found` in its layouts, and let the users of `conversion` take that.

        Args:
            found: what must be computed.
            conversion: is erased.
            mapping: what was made already, by what it takes the place of; learns the rest.
        """
        made = _Remaking(self, found, mapping)
        made.remake()
        conversion.replace((mapping[conversion.source],))


class _Remaking:
    """Makes the values of a slice anew; loops and branches get more results in place."""

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
                        self._learn(result, _add_result(op, self._type(result)))
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
                type = self._type(argument)
                loop.set_operands([*loop.operands, start])
                new_result = _add_result(loop, type)
                self.mapping[result] = new_result
                self.work.copies[result, self.found.layouts[argument]] = new_result
                self._learn(argument, loop.body.add_argument(type))

    def _convert_constant(self, op: Constant) -> None:
        """Folded later, if it is one number; else the conversion is of something small."""
        assert op.block is not None, "an op of a function is in a block"
        same = op.block.insert(op.clone(), op)
        types = (self._type(op.result),)
        new = Op.create("ttg.convert_layout", same.results, types, location=op.location)
        self._learn(op.result, op.block.insert(new, op).result)

    def _clone(self, op: Op) -> None:
        assert op.block is not None, "an op of a function is in a block"
        new = op.block.insert(op.clone(self.mapping), op)
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


def _add_result(op: Op, type: TensorType) -> Value:
    result = Value(type, op, len(op.results))
    op.results.append(result)
    return result
