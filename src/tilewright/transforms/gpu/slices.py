"""The ops that a value comes from, and those that it flows into.

backward_slice(value, keep)     what computes `value`, through ops that `keep` accepts, within the block arguments
forward_slice(value)            everything that uses it, directly or not, also inside of regions
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tilewright.ir.core import Op, Value

Keep = Callable[[Op], bool]


def backward_slice(value: Value, keep: Keep = lambda op: True) -> dict[Op, None]:
    """The ops that `value` is computed from, as far as `keep` accepts them; block arguments end the search."""
    found: dict[Op, None] = {}
    waiting = [value]
    while waiting:
        op = waiting.pop().op
        if op is not None and op not in found and keep(op):
            found[op] = None
            waiting += op.operands
    return found


def forward_slice(value: Value, keep: Keep = lambda op: True) -> dict[Op, None]:
    """The ops that use `value` or something computed from it, as far as `keep` accepts them."""
    found: dict[Op, None] = {}
    waiting = [value]
    while waiting:
        for user in waiting.pop().uses:
            if user not in found and keep(user):
                found[user] = None
                waiting += user.results
                blocks = (block for region in user.regions for block in region.blocks)
                waiting += [argument for block in blocks for argument in block.args]
    return found


def connected_ops(op: Op, keep: Keep) -> dict[Op, None]:
    """The ops that `op` is connected with through operands and users, as far as `keep` accepts them."""
    found: dict[Op, None] = {op: None}
    waiting = [op]
    while waiting:
        current = waiting.pop()
        before: Iterable[Op | None] = (value.op for value in current.operands)
        after = (user for result in current.results for user in result.uses)
        for other in (*before, *after):
            if other is not None and other not in found and keep(other):
                found[other] = None
                waiting.append(other)
    return found
