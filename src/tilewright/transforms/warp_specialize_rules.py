"""Canonical forms of `ttg.warp_specialize`: results nobody uses and captures no partition needs are removed.

ttg.warp_specialize(%a, %a, %b)     partition0(%x, %y, %z) { "use"(%x, %y) }
ttg.warp_specialize(%a)             partition0(%x) { "use"(%x, %x) }
"""

from __future__ import annotations

from tilewright.dialects.ttg_warp_specialize import WarpSpecialize, WarpSpecializePartitions, WarpYield
from tilewright.ir.core import Value
from tilewright.ir.rewriter import Rewriter, Rule
from tilewright.transforms.carried_values import drop_arguments, drop_results, without
from tilewright.transforms.control_flow_rules import replace_value


def unused_results(op: WarpSpecialize, rewriter: Rewriter) -> bool:
    """Results nobody uses are not yielded."""
    dropped = [i for i, result in enumerate(op.results) if not result.uses]
    if not dropped:
        return False
    for block in op.regions[0].blocks:
        end = block.terminator
        if isinstance(end, WarpYield):
            rewriter.set_operands(end, without(end.values, dropped))
    drop_results(op, dropped)
    return True


def unused_captures(op: WarpSpecializePartitions, rewriter: Rewriter) -> bool:
    """Captures that no partition uses, or that it has already, are dropped."""
    dropped: list[int] = []
    known: dict[Value, int] = {}
    for i, capture in enumerate(op.captures):
        if any(region.block.args[i].uses for region in op.regions):
            first = known.setdefault(capture, i)
            if first == i:
                continue
            for region in op.regions:
                replace_value(region.block.args[i], region.block.args[first], rewriter)
        dropped.append(i)
    if not dropped:
        return False
    for region in op.regions:
        drop_arguments(region.block, dropped)
    rewriter.set_operands(op, without(op.captures, dropped))
    return True


RULES: dict[str, tuple[Rule, ...]] = {
    "ttg.warp_specialize": (unused_results,),
    "ttg.warp_specialize.partitions": (unused_captures,),
}
