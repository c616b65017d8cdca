"""The places where the value of an operand may turn up again: results, block arguments, what a loop carries.

    %r = scf.for … iter_args(%x = %a) { … scf.yield %b }      %a -> %x, %a -> %r, %b -> %x, %b -> %r

Ops with regions or targets have exact edges; of any other op every operand counts as flowing into every result, and
analyses choose among those edges by the op's name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from itertools import product
from typing import TypeVar

from tilewright.dialects.cf import target_operands
from tilewright.dialects.scf import Condition, For, While, Yield
from tilewright.dialects.ttg_warp_specialize import WarpSpecialize, WarpSpecializePartitions, WarpYield
from tilewright.ir.core import Op, Value, enclosing

Fact = TypeVar("Fact", bound=Hashable)
Edge = tuple[Value, Value]


def flow_edges(op: Op) -> Iterator[Edge]:
    """Pairs of an operand of `op` and a value that it may turn up in."""
    if not (op.regions or op.successors or op.definition.terminator):  # nearly all ops
        yield from product(op.operands, op.results)
        return
    parent = op.parent
    if isinstance(op, For):
        yield from zip(op.inits, op.carried, strict=True)
        yield from zip(op.inits, op.results, strict=True)
    elif isinstance(op, While):
        yield from zip(op.inits, op.before.args, strict=True)
    elif isinstance(op, Condition) and isinstance(parent, While):
        yield from zip(op.values, parent.results, strict=True)
        yield from zip(op.values, parent.after.args, strict=True)
    elif isinstance(op, (Yield, WarpYield)) and parent is not None:
        yield from _yield_edges(op, parent)
    elif op.successors:
        for block, values in zip(op.successors, target_operands(op), strict=True):
            yield from zip(values, block.args, strict=True)
    elif isinstance(op, WarpSpecialize):
        yield from _capture_edges(op)
    else:
        inner = [argument for region in op.regions for block in region.blocks[:1] for argument in block.args]
        yield from product(op.operands, [*op.results, *inner])


def flows_into(user: Op, index: int) -> list[Value]:
    """The arguments and results that operand `index` of a loop, branch or yield becomes; none for all other ops."""
    if isinstance(user, For):
        return [user.carried[index - 3], user.results[index - 3]] if index > 2 else []
    if isinstance(user, While):
        return [user.before.args[index]]
    if isinstance(user, Condition):
        loop = enclosing(user, While)
        return [loop.results[index - 1], loop.after.args[index - 1]] if index else []
    return _yielded_into(user, index) if isinstance(user, Yield) else []


def _yielded_into(user: Yield, index: int) -> list[Value]:
    parent = user.parent
    assert parent is not None, "a yield is in a region"
    if isinstance(parent, While):
        return [parent.before.args[index]]
    return [parent.results[index], *([parent.carried[index]] if isinstance(parent, For) else [])]


def _yield_edges(op: Yield | WarpYield, parent: Op) -> Iterator[Edge]:
    if isinstance(parent, While):
        yield from zip(op.values, parent.before.args, strict=True)
        return
    yield from zip(op.values, parent.results, strict=True)
    if isinstance(parent, For):
        yield from zip(op.values, parent.carried, strict=True)


def _capture_edges(op: Op) -> Iterator[Edge]:
    """Every partition gets the captures of `op` as its arguments."""
    for inner in op.walk():
        if isinstance(inner, WarpSpecializePartitions):
            for region in inner.regions:
                yield from zip(op.operands or inner.captures, region.block.args, strict=True)


def propagate(
    ops: Iterable[Op],
    start: Mapping[Value, set[Fact]],
    edges: Callable[[Op], Iterable[Edge]] = flow_edges,
) -> dict[Value, set[Fact]]:
    """Spread sets of facts along the `edges` of `ops` until nothing changes.

    The result, a `defaultdict`, has for each value the union of the facts of all values that flow into it.
    """
    facts: dict[Value, set[Fact]] = defaultdict(set, {value: set(known) for value, known in start.items()})
    pairs = [pair for op in ops for pair in edges(op)]
    changed = True
    while changed:
        changed = False
        for source, target in pairs:
            if source in facts and not facts[source] <= facts[target]:
                facts[target] |= facts[source]
                changed = True
    return facts
