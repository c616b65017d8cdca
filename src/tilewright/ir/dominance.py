"""Dominance: which blocks of a region always run before which others, and which values are known where."""

from __future__ import annotations

from tilewright.ir.core import Block, Op, Region, Value


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
    order = _reverse_post_order(region.block)
    rank = {block: i for i, block in enumerate(order)}
    before = predecessors(region)
    parent: dict[Block, Block] = {region.block: region.block}

    def common(a: Block, b: Block) -> Block:
        while a is not b:
            if rank[a] > rank[b]:
                a = parent[a]
            else:
                b = parent[b]
        return a

    changed = True
    while changed:
        changed = False
        for block in order[1:]:
            known = [p for p in before[block] if p in parent]
            nearest = known[0]
            for other in known[1:]:
                nearest = common(nearest, other)
            if parent.get(block) is not nearest:
                parent[block] = nearest
                changed = True
    children: dict[Block, list[Block]] = {block: [] for block in order}
    for block in order[1:]:
        children[parent[block]].append(block)
    return children


def _reverse_post_order(entry: Block) -> list[Block]:
    finished: list[Block] = []
    seen = {entry}
    stack = [(entry, iter(successors(entry)))]
    while stack:
        block, following = stack[-1]
        target = next(following, None)
        if target is None:
            finished.append(block)
            stack.pop()
        elif target not in seen:
            seen.add(target)
            stack.append((target, iter(successors(target))))
    return finished[::-1]


def dominates(value: Value, op: Op) -> bool:
    """Whether `value` is known wherever `op` may stand: made before it, or an argument of a block around it."""
    owner = value.owner
    block = owner.block if isinstance(owner, Op) else owner
    if block is None or block.region is None:
        return False
    around: Op | None = op
    while around is not None and (around.block is None or around.block.region is not block.region):
        around = around.parent
    if around is None:
        return False
    if around.block is block:
        return not isinstance(owner, Op) or _stands_before(owner, around)
    return around.block in _below(block, block.region)


def _stands_before(op: Op, later: Op) -> bool:
    following = op.next
    while following is not None and following is not later:
        following = following.next
    return following is later


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
