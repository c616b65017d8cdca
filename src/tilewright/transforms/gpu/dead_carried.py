"""Values that go round loops only for themselves: their uses in the body are replaced by the initial value.

    scf.for … iter_args(%a = %x, %b = %y) {             scf.for … iter_args(%a = %x, %b = %y) {
      %c = arith.addi %a, %b                              %c = arith.addi %x, %b
      tt.store %p, %b                           ->        tt.store %p, %b
      scf.yield %c, %b                                    scf.yield %c, %b

After that nothing needs %a, and canonicalization removes it. A value is needed if something with an effect depends on
it, in whatever round about way.
"""

from __future__ import annotations

from tilewright.analysis.value_flow import flows_into
from tilewright.dialects.scf import Condition, For, If, While, Yield
from tilewright.ir.core import Op, Value
from tilewright.ir.effects import is_pure

FORWARDING = (For, While, If, Yield, Condition)


def cut_dead_carried(function: Op) -> None:
    """Let the bodies of loops of `function` use the initial values of what nobody needs."""
    ops = list(function.walk())
    needed = needed_values(ops)
    for op in ops:
        if isinstance(op, (For, While)):
            arguments = op.carried if isinstance(op, For) else op.before.args
            for argument, start in zip(arguments, op.inits, strict=True):
                if argument not in needed:
                    argument.replace_by(start)


def needed_values(ops: list[Op]) -> set[Value]:
    """The values that something with an effect depends on."""
    sources: dict[Value, list[Value]] = {}
    waiting: list[Value] = []
    for op in ops:
        if isinstance(op, FORWARDING):
            for index, value in enumerate(op.operands):
                targets = flows_into(op, index)
                if not targets:  # bounds and conditions
                    waiting.append(value)
                for target in targets:
                    sources.setdefault(target, []).append(value)
        elif op.regions or op.definition.terminator or not is_pure(op):
            waiting += op.operands
    found: set[Value] = set()
    while waiting:
        value = waiting.pop()
        if value in found:
            continue
        found.add(value)
        owner = value.owner
        waiting += sources.get(value, ())
        if isinstance(owner, Op) and not isinstance(owner, FORWARDING):
            waiting += owner.operands
    return found
