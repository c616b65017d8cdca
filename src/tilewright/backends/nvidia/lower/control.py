"""Control flow: loops, branches and jumps.

    scf.for %i = %low to %high step %step iter_args(%x = %init) { …; scf.yield %y }

    br label %head
    head: %i = phi i32 [ %low, %entry ], [ %following, %latch ]
          %x0 = phi float [ %init0, %entry ], [ %y0, %latch ]          one phi per register
          br i1 %again, label %body, label %after

Values of every kind can be block arguments: scalars, the registers of tiles, the parts of memory descriptors, and
tokens, which have no registers.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.backends.llvm.sections import Section
from tilewright.backends.llvm.writer import Typed
from tilewright.backends.nvidia.lower.lowerer import Lowerer, Lowering
from tilewright.dialects.cf import Branch, CondBranch, target_operands
from tilewright.dialects.scf import For, If, While
from tilewright.dialects.traits import Loop
from tilewright.ir.core import Block, Region, Value


def write_blocks(lowerer: Lowerer, region: Region) -> None:
    """Write the blocks of a function; the arguments of the first are bound."""
    first, *others = region.blocks
    joins: dict[Block, Join] = lowerer.joins
    for op in first:
        lowerer.op(op)
    for block in _in_order(first, others):
        joins[block].begin()
        for op in block:
            lowerer.op(op)
    for join in joins.values():
        join.finish()


def _in_order(first: Block, others: Sequence[Block]) -> list[Block]:
    """The blocks that are reached, each behind one that jumps to it."""
    found: dict[Block, None] = {}
    pending = [first]
    while pending:
        for successor in reversed(pending.pop().terminator.successors):
            if successor not in found and successor is not first:
                found[successor] = None
                pending.append(successor)
    return list(found)


class Join:
    """A block that is jumped to from several places: its phis are written once all jumps are known.

    The first jump determines the LLVM values of each argument.
    """

    def __init__(self, lowerer: Lowerer, prefix: str) -> None:
        self.label = lowerer.w.fresh_label(prefix)
        self._lowerer = lowerer
        self._incoming: list[tuple[list[Typed], str]] = []
        self._names: list[str] = []
        self._phis: Section | None = None

    def bind(self, arguments: Sequence[Value], like: Sequence[Value]) -> None:
        """The arguments have the form of the values `like`; each of their LLVM values is a phi."""
        lowerer = self._lowerer
        for argument, value in zip(arguments, like, strict=True):
            names = [lowerer.w.fresh("c") for _ in lowerer.parts(value)]
            self._names += names
            lowerer.bind_parts(argument, value, names)

    def come(self, values: Sequence[Value], label: str, *, first: Sequence[Typed] = ()) -> None:
        """A jump from the block `label` passes these values, and before them `first`."""
        parts = [part for value in values for part in self._lowerer.parts(value)]
        self._incoming.append(([*first, *parts], label))

    def begin(self) -> None:
        """The block begins here."""
        self._lowerer.w.start_block(self.label)
        self._phis = self._lowerer.w.open_section()

    def finish(self) -> None:
        """All jumps are known."""
        assert self._phis is not None, "a block that is jumped to has begun"
        for position, name in enumerate(self._names):
            ways = ", ".join(f"[ {parts[position][1]}, %{label} ]" for parts, label in self._incoming)
            self._phis.lines.append(f"  {name} = phi {self._incoming[0][0][position][0]} {ways}")


def _jump(lowerer: Lowerer, block: Block, values: Sequence[Value]) -> str:
    """The label of a block that is jumped to."""
    join = lowerer.joins.get(block)
    if join is None:
        join = lowerer.joins[block] = Join(lowerer, "block")
        join.bind(block.args, values)
    join.come(values, lowerer.w.label)
    return join.label


def _branch(lowerer: Lowerer, op: Branch) -> None:
    (target,) = op.successors
    lowerer.w.do(f"br label %{_jump(lowerer, target, op.values)}")


def _conditional(lowerer: Lowerer, op: CondBranch) -> None:
    targets = zip(op.successors, target_operands(op), strict=True)
    first, second = (_jump(lowerer, block, values) for block, values in targets)
    lowerer.w.do(f"br i1 {lowerer.scalar(op.condition)}, label %{first}, label %{second}")


def _for(lowerer: Lowerer, op: For) -> None:
    w = lowerer.w
    body, start = op.body, [op.low, *op.inits]
    element = lowerer.element(op.low.type)
    head, inside, after = Join(lowerer, "loop"), w.fresh_label("body"), w.fresh_label("after")
    head.bind(body.args, start)
    head.come(start, w.leave_to(head.label))
    head.begin()
    index = lowerer.scalar(op.induction_variable)
    again = w.emit(f"icmp slt {element} {index}, {lowerer.scalar(op.high)}")
    w.do(f"br i1 {again}, label %{inside}, label %{after}")
    w.start_block(inside)
    lowerer.block(body)
    following = w.emit(f"add {element} {index}, {lowerer.scalar(op.step)}")
    back = w.leave_to(head.label, flags=_flags(lowerer, op))
    head.come(op.yielded, back, first=[(element, following)])
    head.finish()
    w.start_block(after)
    for result, argument in zip(op.results, op.carried, strict=True):
        lowerer.alias(result, argument)


def _flags(lowerer: Lowerer, loop: Loop) -> str:
    """Flags of the jump back of a loop."""
    return lowerer.w.stays_in_loop() if "tt.disable_licm" in loop.attributes else ""


def _if(lowerer: Lowerer, op: If) -> None:
    w, join = lowerer.w, Join(lowerer, "join")
    ways = [region.block for region in op.arms]
    labels = [w.fresh_label("way") for _ in ways]
    condition, otherwise = lowerer.scalar(op.condition), labels[1] if len(ways) > 1 else join.label
    w.do(f"br i1 {condition}, label %{labels[0]}, label %{otherwise}")
    for number, (label, way) in enumerate(zip(labels, ways, strict=True)):
        w.start_block(label)
        lowerer.block(way)
        yielded = way.terminator.operands
        if not number:
            join.bind(op.results, yielded)
        join.come(yielded, w.leave_to(join.label))
    join.begin()
    join.finish()


def _while(lowerer: Lowerer, op: While) -> None:
    w = lowerer.w
    before, after, end = op.before, op.after, op.condition
    head, inside, done = Join(lowerer, "while"), w.fresh_label("do"), w.fresh_label("done")
    head.bind(before.args, op.inits)
    head.come(op.inits, w.leave_to(head.label))
    head.begin()
    lowerer.block(before)
    passed = end.values
    w.do(f"br i1 {lowerer.scalar(end.condition)}, label %{inside}, label %{done}")
    w.start_block(inside)
    for argument, value in zip(after.args, passed, strict=True):
        lowerer.alias(argument, value)
    lowerer.block(after)
    head.come(op.yielded, w.leave_to(head.label, flags=_flags(lowerer, op)))
    head.finish()
    w.start_block(done)
    for result, value in zip(op.results, passed, strict=True):
        lowerer.alias(result, value)


LOWERINGS: dict[str, Lowering] = {
    "cf.br": _branch,
    "cf.cond_br": _conditional,
    "scf.for": _for,
    "scf.if": _if,
    "scf.while": _while,
}
