"""Dominance of blocks and values, and the order of ops within a block."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from functools import reduce
from typing import TypeVar

from tilewright.ir.core import Block, Op, Region, Value

Node = TypeVar("Node", bound=Hashable)


def successors(block: Block) -> tuple[Block, ...]:
    """The blocks that may run next."""
    return tuple(block.last.successors) if block.last is not None else ()


def predecessors(region: Region) -> dict[Block, list[Block]]:
    """The blocks that jump to each block, each once, in block order."""
    found: dict[Block, list[Block]] = {block: [] for block in region.blocks}
    for block in region.blocks:
        for target in dict.fromkeys(successors(block)):
            found.setdefault(target, []).append(block)
    return found


def dominator_children(region: Region) -> dict[Block, list[Block]]:
    """The dominator tree: per reachable block the blocks it immediately dominates."""
    order = reverse_post_order(region.block, successors)
    parent = immediate_dominators(order, predecessors(region))
    children: dict[Block, list[Block]] = {block: [] for block in order}
    for block in order[1:]:
        children[parent[block]].append(block)
    return children


def reverse_post_order(entry: Node, successors: Callable[[Node], Iterable[Node]]) -> list[Node]:
    """The nodes that can be reached from `entry`; without cycles, each stands before those that it leads to."""
    finished: list[Node] = []
    seen = {entry}
    stack = [(entry, iter(successors(entry)))]
    while stack:
        node, following = stack[-1]
        target = next((target for target in following if target not in seen), None)
        if target is None:
            finished.append(node)
            stack.pop()
        else:
            seen.add(target)
            stack.append((target, iter(successors(target))))
    return finished[::-1]


def immediate_dominators(order: Sequence[Node], before: Mapping[Node, Iterable[Node]]) -> dict[Node, Node]:
    """Per node the last other one on all ways to it from the first, which has itself.

    Args:
        order: the nodes in reverse post-order.
        before: where each can be reached from; nodes that are not in `order` do not count.
    """
    rank = {node: number for number, node in enumerate(order)}
    parent = {order[0]: order[0]}
    changed = True
    while changed:
        changed = False
        for node in order[1:]:
            nearest = reduce(
                lambda a, b: common_dominator(a, b, parent, rank), (p for p in before[node] if p in parent)
            )
            changed |= parent.get(node) != nearest
            parent[node] = nearest
    return parent


def common_dominator(a: Node, b: Node, parent: Mapping[Node, Node], rank: Mapping[Node, int]) -> Node:
    """The last node on all ways to both."""
    while a != b:
        if rank[a] > rank[b]:
            a = parent[a]
        else:
            b = parent[b]
    return a


def dominates(value: Value, op: Op) -> bool:
    """Whether `value` is known wherever `op` may stand: made before it, or an argument of a block around it."""
    owner, block = value.owner, value.block
    if block is None or block.region is None:
        return False
    around = around_in(op, block.region)
    if around is None:
        return False
    if around.block is block:
        return not isinstance(owner, Op) or follows(around, owner)
    return around.block in _below(block, block.region)


def around_in(op: Op, region: Region | None) -> Op | None:
    """`op` or the op around it that stands directly in a block of `region`; None if there is none."""
    around: Op | None = op
    while around is not None and (around.block is None or around.block.region is not region):
        around = around.parent
    return around


def _below(block: Block, region: Region) -> set[Block]:
    """The blocks that `block` dominates."""
    children = dominator_children(region)
    found: set[Block] = set()
    waiting = list(children.get(block, ()))
    while waiting:
        below = waiting.pop()
        found.add(below)
        waiting += children[below]
    return found


def is_under(op: Op, block: Block) -> bool:
    """Whether `op` is in `block`, or in a region of an op there."""
    here: Op | None = op
    while here is not None and here.block is not block:
        here = here.parent
    return here is not None


def follows(op: Op, other: Op) -> bool:
    """Whether `op` comes after `other` in one block. Ops of different blocks do not."""
    if op.block is not other.block:
        return False
    step = other.next
    while step is not None and step is not op:
        step = step.next
    return step is op


def in_order(values: Collection[Value], end: Op) -> list[Value]:
    """`values`, results of ops that stand before `end` in its block, in program order."""
    waiting, found, op = set(values), list[Value](), end.previous
    while len(waiting) > 1 and op is not None:
        found += [result for result in reversed(op.results) if result in waiting]
        waiting.difference_update(op.results)
        op = op.previous
    return [*waiting, *reversed(found)]
