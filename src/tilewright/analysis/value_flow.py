"""Where the value of an operand may turn up again: results, block arguments, what a loop carries.

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
from tilewright.ir.core import Op, Value

Fact = TypeVar("Fact", bound=Hashable)
Edge = tuple[Value, Value]


def flow_edges(op: Op) -> Iterator[Edge]:
    """Pairs of an operand of `op` and a value that it may turn up in."""
    parent = op.parent
    if op.name == "scf.for":
        yield from zip(op.operands[3:], op.regions[0].block.args[1:], strict=True)
        yield from zip(op.operands[3:], op.results, strict=True)
    elif op.name == "scf.while":
        yield from zip(op.operands, op.regions[0].block.args, strict=True)
    elif op.name == "scf.condition" and parent is not None:
        yield from zip(op.operands[1:], parent.results, strict=True)
        yield from zip(op.operands[1:], parent.regions[1].block.args, strict=True)
    elif op.name in ("scf.yield", "ttg.warp_yield") and parent is not None:
        yield from _yield_edges(op, parent)
    elif op.successors:
        for block, values in zip(op.successors, target_operands(op), strict=True):
            yield from zip(values, block.args, strict=True)
    elif op.name == "ttg.warp_specialize":
        yield from _capture_edges(op)
    else:
        inner = [argument for region in op.regions for block in region.blocks[:1] for argument in block.args]
        yield from product(op.operands, [*op.results, *inner])


def flows_into(user: Op, index: int) -> list[Value]:
    """The arguments and results that operand `index` of a loop, branch or yield becomes; none for all other ops."""
    match user.name:
        case "scf.for":
            return [user.regions[0].block.args[index - 2], user.results[index - 3]] if index > 2 else []
        case "scf.while":
            return [user.regions[0].block.args[index]]
        case "scf.condition":
            loop = user.parent
            assert loop is not None, "a condition is in a loop"
            return [loop.results[index - 1], loop.regions[1].block.args[index - 1]] if index else []
        case "scf.yield":
            parent = user.parent
            assert parent is not None, "a yield is in a region"
            if parent.name == "scf.while":
                return [parent.regions[0].block.args[index]]
            arguments = [parent.regions[0].block.args[index + 1]] if parent.name == "scf.for" else []
            return [parent.results[index], *arguments]
    return []


def _yield_edges(op: Op, parent: Op) -> Iterator[Edge]:
    if parent.name == "scf.while":
        yield from zip(op.operands, parent.regions[0].block.args, strict=True)
        return
    yield from zip(op.operands, parent.results, strict=True)
    if parent.name == "scf.for":
        yield from zip(op.operands, parent.regions[0].block.args[1:], strict=True)


def _capture_edges(op: Op) -> Iterator[Edge]:
    """Every partition gets the captures of `op` as its arguments."""
    for inner in op.walk():
        if inner.name == "ttg.warp_specialize.partitions":
            for region in inner.regions:
                yield from zip(op.operands or inner.operands, region.block.args, strict=True)


def propagate(
    ops: Iterable[Op],
    start: Mapping[Value, set[Fact]],
    edges: Callable[[Op], Iterable[Edge]] = flow_edges,
) -> dict[Value, set[Fact]]:
    """Spread sets of facts along `edges` until nothing changes.

    Args:
        ops: the ops whose edges count.
        start: what is known of some values.
        edges: the edges of one op.

    Returns:
        for each value the union of the facts of all values that flow into it (a `defaultdict`).
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
