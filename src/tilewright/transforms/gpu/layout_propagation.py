"""Layout propagation: important layouts spread forward to all dependent values.

    %x = tt.load %p : … #blocked                    %x = tt.load %p : … #blocked
    %y = ttg.convert_layout %x : … -> #other        %z = arith.addf %x, %x : … #blocked
    %z = arith.addf %y, %y : … #other         ->    %w = ttg.convert_layout %z : … -> #other
    "use"(%z) : … #other                            "use"(%w) : … #other

Large memory accesses, matrix products, atomics and arguments of functions keep their layouts. These propagate through
ops, branches and loops to dependent values. If several reach a value, one is chosen; then everything is rewritten in
place, with conversions for ops that need the old layout.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from tilewright.analysis.live_ranges import inner_first
from tilewright.analysis.value_flow import flows_into
from tilewright.dialects.scf import Condition, For, If, While, Yield
from tilewright.dialects.traits import LayoutAnchor, PointerAccess
from tilewright.dialects.tt_memory import Load
from tilewright.dialects.tt_program import Assert
from tilewright.dialects.tt_reduce import Reduce
from tilewright.dialects.tt_shape import Gather, Reshape
from tilewright.dialects.ttg_program import ConvertLayout
from tilewright.dialects.ttng_mma import WarpGroupDotWait
from tilewright.ir.core import Op, Region, Value
from tilewright.layouts.encodings import Blocked, Distributed
from tilewright.transforms.gpu.layout_transfer import (
    MATRIX,
    VIEWS,
    can_give,
    has_chosen_layout,
    is_expensive_access,
    keeps_layout,
    layout_of_operands,
    layout_of_results,
    tile_layout,
)
from tilewright.transforms.gpu.tile_ops import converted_after, with_layout
from tilewright.transforms.matching import uses_of

Candidates = dict[Value, dict[Distributed, None]]
SPREADING = (*VIEWS, Reduce, ConvertLayout)
"""Ops that layouts go through, besides those that keep them."""


def propagate_layouts(function: Op) -> None:
    """Let the layouts that matter decide those of everything computed from them in `function`."""
    candidates = anchors(function)
    spread(candidates)
    chosen = {value: _preferred(value, candidates) for value in candidates}
    _Rewriting(chosen).rewrite(function.regions[0])


# --- which layouts matter -----------------------------------------------------------------------------------------


def is_anchor(op: Op) -> bool:
    """Whether the layout that `op` has was chosen with care."""
    match op:
        case Load():
            return is_expensive_access(op)
        case Gather():
            return has_chosen_layout(op)
        case Reshape():
            # Its result can have any layout, so none gets there; what comes after it needs one to start from.
            return op.allow_reorder
    return isinstance(op, LayoutAnchor)


def anchors(function: Op) -> Candidates:
    """The values whose layouts matter, with these layouts."""
    values = list(function.regions[0].block.args)
    for op in inner_first(function):
        if is_anchor(op):
            values += op.results
    return {value: {layout: None} for value in values if (layout := tile_layout(value)) is not None}


# --- how they spread ----------------------------------------------------------------------------------------------


def spread(candidates: Candidates) -> None:
    """Add to `candidates` all values that layouts reach, with these layouts."""
    waiting = list(candidates)
    while waiting:
        value = waiting.pop()
        layouts = list(candidates[value])
        for user, index in reversed(uses_of(value)):  # in doubt the first layout to arrive wins
            for target in _reached(user, index):
                if tile_layout(target) is not None and _add(candidates, target, user, layouts):
                    waiting.append(target)


def _add(candidates: Candidates, target: Value, user: Op, layouts: list[Distributed]) -> bool:
    known = candidates.get(target)
    before = 0 if known is None else len(known)
    for layout in layouts:
        found = layout if isinstance(user, ConvertLayout) else layout_of_results(user, layout)
        if found is not None:
            known = candidates.setdefault(target, {})
            known[found] = None
    return known is not None and len(known) > before


def _reached(user: Op, index: int) -> list[Value]:
    """The values whose layout follows from that of operand `index` of `user`."""
    if keeps_layout(user):
        return user.results
    match user:
        case For() | While() | Yield() | Condition():
            return flows_into(user, index)
        case WarpGroupDotWait():
            return [user.results[index]]
        case Gather():
            return user.results if index == 1 and not has_chosen_layout(user) else []
    return user.results if isinstance(user, SPREADING) else []


def _preferred(value: Value, candidates: Candidates) -> Distributed:
    """The preferred one of several layouts: a blocked one for memory accesses, else that of matrix instructions.

    A conversion has the one that its source prefers, so that nothing has to be converted.
    """
    op, layouts = value.op, candidates[value]
    if isinstance(op, ConvertLayout) and op.source in candidates:
        return _preferred(op.source, candidates)
    wanted = Blocked if isinstance(op, PointerAccess) else MATRIX
    return next((layout for layout in layouts if isinstance(layout, wanted)), next(iter(layouts)))


# --- rewriting ----------------------------------------------------------------------------------------------------


class _Rewriting:
    """Gives values the layouts that were `chosen` for them; others keep theirs."""

    def __init__(self, chosen: Mapping[Value, Distributed]) -> None:
        self.chosen = chosen
        self.before: dict[Value, Distributed] = {}
        """The old layouts of values that have a new one."""

    def rewrite(self, region: Region) -> None:
        waiting = deque([region])
        while waiting:
            for block in waiting.popleft().blocks:
                for op in block:
                    self._visit(op)
                    waiting.extend(op.regions)

    def _visit(self, op: Op) -> None:
        if any(value in self.chosen and tile_layout(value) is not self.chosen[value] for value in op.results):
            self._change(op)
        elif isinstance(op, Yield):
            self._give(op, 0, _wanted_from_yield(op))
        elif isinstance(op, Condition) and op.parent is not None:
            self._give(op, 1, op.parent.results)
        elif isinstance(op, Reduce) and op.result.type.shape is None:
            self._take_new(op, op.sources)
        elif isinstance(op, Assert):
            self._take_new(op, [op.condition])
        else:
            self._take_old(op)

    def _change(self, op: Op) -> None:
        """Give the results of `op` their new layouts."""
        if isinstance(op, For):
            self._change_for(op)
        elif isinstance(op, While):
            self._change_while(op)
        elif isinstance(op, If):
            for value in op.results:
                if value in self.chosen:
                    self._set(value, self.chosen[value])
        else:
            layout = self.chosen[op.result]
            if can_give(op, layout):
                self._set(op.result, layout)
            else:
                self._change_computation(op, layout)

    def _change_for(self, op: For) -> None:
        for i, (init, argument, result) in enumerate(zip(op.inits, op.carried, op.results, strict=True)):
            layout = self.chosen.get(result)
            if layout is not None:
                op.set_operand(i + 3, self._as(init, layout))
                self._set(argument, layout)
                self._set(result, layout)

    def _change_while(self, op: While) -> None:
        for i, argument in enumerate(op.before.args):
            layout = self.chosen.get(argument)
            if layout is not None:
                op.set_operand(i, self._as(op.operands[i], layout))
                self._set(argument, layout)
        for argument, result in zip(op.after.args, op.results, strict=True):
            layout = self.chosen.get(result)
            if layout is not None:
                self._set(argument, layout)
                self._set(result, layout)

    def _change_computation(self, op: Op, layout: Distributed) -> None:
        operand_layouts = (self.chosen.get(value) for value in op.operands)
        fitting = (found for found in operand_layouts if found and layout_of_results(op, found) is layout)
        needed = next(fitting, None) or layout_of_operands(op, layout)
        assert needed is not None or not op.operands, f"{op.name} got a layout that it cannot give"
        for i, value in enumerate(op.operands):
            if needed is not None:
                op.set_operand(i, self._as(value, needed))
        for value in op.results:
            if tile_layout(value) is not None:
                self._set(value, layout)

    def _give(self, op: Op, first: int, targets: list[Value]) -> None:
        """Let the operands of `op` from `first` on have the layouts of `targets`."""
        for i, (value, target) in enumerate(zip(op.operands[first:], targets, strict=False), first):
            layout = tile_layout(target)
            if layout is not None:
                op.set_operand(i, self._as(value, layout))

    def _take_new(self, op: Op, deciding: list[Value]) -> None:
        """The layout of the operands of `op` does not matter, so that of the first with a new one is as good as any."""
        layout = next((self.chosen[value] for value in deciding if value in self.chosen), None)
        if layout is not None:
            for i, value in enumerate(op.operands[: len(deciding)]):
                op.set_operand(i, self._as(value, layout))

    def _take_old(self, op: Op) -> None:
        for i, value in enumerate(op.operands):
            layout = self.before.get(value)
            if layout is not None:
                op.set_operand(i, self._as(value, layout))

    def _set(self, value: Value, layout: Distributed) -> None:
        old = tile_layout(value)
        if old is not None:
            self.before.setdefault(value, old)
        value.type = with_layout(value.type, layout)

    def _as(self, value: Value, layout: Distributed) -> Value:
        """`value` in `layout`."""
        if tile_layout(value) in (layout, None):
            return value
        return converted_after(value, layout)


def _wanted_from_yield(op: Yield) -> list[Value]:
    parent = op.parent
    assert parent is not None, "a yield is in a region"
    return parent.before.args if isinstance(parent, While) else parent.results
