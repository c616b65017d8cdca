"""Changes of the values that loops carry or branches yield: results, block arguments, operands and yields together."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tilewright.dialects.scf import For, If
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.effects import is_pure
from tilewright.ir.types import Type


def without(values: Sequence[Value], dropped: Collection[int]) -> list[Value]:
    """`values` but those at the positions `dropped`."""
    return [value for i, value in enumerate(values) if i not in dropped]


def drop_results(op: Op, dropped: Collection[int]) -> None:
    """Remove unused results."""
    op.results = without(op.results, dropped)
    for i, value in enumerate(op.results):
        value.index = i


def drop_unused_results(branch: If) -> bool:
    """Let the arms of `branch` not yield what nobody uses; returns whether there was anything."""
    dropped = [i for i, result in enumerate(branch.results) if not result.uses]
    for arm in branch.arms if dropped else ():
        end = arm.block.terminator
        end.set_operands(without(end.operands, dropped))
    drop_results(branch, dropped)
    return bool(dropped)


def drop_arguments(block: Block, dropped: Collection[int]) -> None:
    """Remove unused block arguments."""
    block.args = without(block.args, dropped)
    for i, value in enumerate(block.args):
        value.index = i


def add_result(op: Op, type: Type) -> Value:
    """One more result of `op`."""
    op.results.append(Value(type, op, len(op.results)))
    return op.results[-1]


def add_carried(loop: For, start: Value) -> Value:
    """Let `loop` carry one more value; returns its argument. What the next step gets is still to be yielded."""
    loop.set_operands([*loop.operands, start])
    add_result(loop, start.type)
    return loop.body.add_argument(start.type)


def drop_carried(loop: For, dropped: Collection[int]) -> None:
    """Let `loop` no longer carry the values at these positions; only its terminator uses them."""
    end = loop.body.terminator
    end.set_operands(without(end.operands, dropped))
    loop.set_operands([*loop.bounds, *without(loop.inits, dropped)])
    drop_arguments(loop.body, [i + 1 for i in dropped])
    drop_results(loop, dropped)


def use_unchanged(loop: For, type: type[Type]) -> bool:
    """for iter_args(a = x) {… yield a}  ->  x instead of a and of the result, if it is of `type`."""
    found = []
    for i, (argument, start, next_value) in enumerate(zip(loop.carried, loop.inits, loop.yielded, strict=True)):
        if next_value is argument and isinstance(start.type, type):
            found.append(i)
            loop.results[i].replace_by(start)
            argument.replace_by(start)
    if found:
        drop_carried(loop, found)
    return bool(found)


def merge_alike(loop: For) -> bool:
    """for iter_args(a = x, b = x) {… yield f(a), f(b)}  ->  a instead of b; returns whether there were such values."""
    carried = loop.carried
    by_start: dict[Value, list[int]] = {}
    merged = []
    for i, value in enumerate(loop.inits):
        alike = by_start.setdefault(value, [])
        earlier = next((j for j in alike if _stay_equal(loop, j, i)), None)
        if earlier is None:
            alike.append(i)
        else:
            merged.append(i)
            carried[i].replace_by(carried[earlier])
            loop.results[i].replace_by(loop.results[earlier])
    if merged:
        terminator = loop.body.terminator
        terminator.set_operands(without(terminator.operands, merged))
        loop.set_operands(without(loop.operands, [i + 3 for i in merged]))
        drop_arguments(loop.body, [i + 1 for i in merged])
        drop_results(loop, merged)
    return bool(merged)


def _stay_equal(loop: For, i: int, j: int) -> bool:
    """Whether carried values i and j, which start equal, are equal in every step.

    They are, if from the assumption that they are equal it follows that their next values are; values it needs on the
    way may be carried ones too, which then start equal and are assumed to be equal as well.
    """
    block, initial, carried, following = loop.body, loop.inits, loop.carried, loop.yielded
    pending, assumed = [(following[i], following[j])], {(carried[i], carried[j])}
    while pending:
        a, b = pending.pop()
        if a is b or (a, b) in assumed:
            continue
        assumed.add((a, b))
        x, y = a.owner, b.owner
        if x is block and y is block:
            m, n = a.index - 1, b.index - 1
            if m < 0 or n < 0 or initial[m] is not initial[n]:
                return False
            pending.append((following[m], following[n]))
        elif isinstance(x, Op) and isinstance(y, Op) and a.index == b.index and _compute_alike(x, y, block):
            pending += zip(x.operands, y.operands, strict=True)
        else:
            return False
    return True


def _compute_alike(x: Op, y: Op, block: Block) -> bool:
    """Whether two ops of `block` compute the same if their operands are equal."""
    if x.name != y.name or x.block is not block or y.block is not block or x.regions or y.regions:
        return False
    if not is_pure(x) or x.attributes != y.attributes or len(x.operands) != len(y.operands):
        return False
    return all(a.type is b.type for a, b in zip(x.results, y.results, strict=True))
