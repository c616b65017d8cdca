"""Changing which values go round a loop or leave an `if`: results, block arguments, operands and yields in step."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tilewright.ir.core import Block, Op, Value
from tilewright.ir.effects import is_pure


def without(values: Sequence[Value], dropped: Collection[int]) -> list[Value]:
    """`values` but those at the positions `dropped`."""
    return [value for i, value in enumerate(values) if i not in dropped]


def drop_results(op: Op, dropped: Collection[int]) -> None:
    """Remove results nobody uses."""
    op.results = without(op.results, dropped)
    for i, value in enumerate(op.results):
        value.index = i


def drop_arguments(block: Block, dropped: Collection[int]) -> None:
    """Remove block arguments nobody uses."""
    block.args = without(block.args, dropped)
    for i, value in enumerate(block.args):
        value.index = i


def merge_alike(loop: Op) -> None:
    """for iter_args(a = x, b = x) {… yield f(a), f(b)}  ->  a instead of b, in an `scf.for`"""
    block = loop.regions[0].block
    first: dict[Value, int] = {}
    merged = []
    for i, value in enumerate(loop.operands[3:]):
        earlier = first.setdefault(value, i)
        if earlier != i and _step_alike(block, earlier, i):
            block.args[i + 1].replace_by(block.args[earlier + 1])
            loop.results[i].replace_by(loop.results[earlier])
            merged.append(i)
    if merged:
        terminator = block.terminator
        terminator.set_operands(without(terminator.operands, merged))
        loop.set_operands(without(loop.operands, [i + 3 for i in merged]))
        drop_arguments(block, [i + 1 for i in merged])
        drop_results(loop, merged)


def _step_alike(block: Block, i: int, j: int) -> bool:
    """Whether carried values i and j get their next values in the same way, each from itself."""
    a, b = block.args[i + 1], block.args[j + 1]
    x, y = (block.terminator.operands[k].op for k in (i, j))
    if x is None or y is None or x.name != y.name or x.regions or not is_pure(x) or x.attributes != y.attributes:
        return False
    return len(x.results) == 1 and x.operands == [a if value is b else value for value in y.operands]
