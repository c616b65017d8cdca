"""Control flow: loops, branches and jumps.

    scf.for %i = %low to %high step %step iter_args(%x = %init) { …; scf.yield %y }

    br label %head
    head: %i = phi i32 [ %low, %entry ], [ %following, %latch ]
          %x0 = phi float [ %init0, %entry ], [ %y0, %latch ]          one phi per register
          br i1 %again, label %body, label %after

Values of any kind cross: scalars, the registers of tiles, what memory descriptors are made of, and tokens, which are
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.backends.llvm.sections import Section
from tilewright.backends.llvm.writer import Typed
from tilewright.backends.nvidia.lower.lowerer import Lowerer, Lowering
from tilewright.dialects.cf import target_operands
from tilewright.ir.core import Block, Op, Region, Value


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

    The first jump tells which LLVM values each argument consists of.
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
            self._phis.parts.append(f"  {name} = phi {self._incoming[0][0][position][0]} {ways}")


def _jump(lowerer: Lowerer, block: Block, values: Sequence[Value]) -> str:
    """The label of a block that is jumped to."""
    join = lowerer.joins.get(block)
    if join is None:
        join = lowerer.joins[block] = Join(lowerer, "block")
        join.bind(block.args, values)
    join.come(values, lowerer.w.label)
    return join.label


def _branch(lowerer: Lowerer, op: Op) -> None:
    (values,) = target_operands(op)
    lowerer.w.do(f"br label %{_jump(lowerer, op.successors[0], values)}")


def _conditional(lowerer: Lowerer, op: Op) -> None:
    targets = zip(op.successors, target_operands(op), strict=True)
    labels = [_jump(lowerer, block, values) for block, values in targets]
    lowerer.w.do(f"br i1 {lowerer.scalar(op.operands[0])}, label %{labels[0]}, label %{labels[1]}")


def _for(lowerer: Lowerer, op: Op) -> None:
    w = lowerer.w
    low, high, step, *inits = op.operands
    body = op.regions[0].block
    element = lowerer.element(low.type)
    head, inside, after = Join(lowerer, "loop"), w.fresh_label("body"), w.fresh_label("after")
    head.bind(body.args, [low, *inits])
    head.come([low, *inits], w.leave_to(head.label))
    head.begin()
    index = lowerer.scalar(body.args[0])
    again = w.emit(f"icmp slt {element} {index}, {lowerer.scalar(high)}")
    w.do(f"br i1 {again}, label %{inside}, label %{after}")
    w.start_block(inside)
    lowerer.block(body)
    following = w.emit(f"add {element} {index}, {lowerer.scalar(step)}")
    back = w.leave_to(head.label, flags=_flags(lowerer, op))
    head.come(body.terminator.operands, back, first=[(element, following)])
    head.finish()
    w.start_block(after)
    for result, argument in zip(op.results, body.args[1:], strict=True):
        lowerer.alias(result, argument)


def _flags(lowerer: Lowerer, loop: Op) -> str:
    """Flags of the jump back of a loop."""
    return lowerer.w.stays_in_loop() if "tt.disable_licm" in loop.attributes else ""


def _if(lowerer: Lowerer, op: Op) -> None:
    w, join = lowerer.w, Join(lowerer, "join")
    ways = [region.block for region in op.regions if region.blocks]
    labels = [w.fresh_label("way") for _ in ways]
    condition, otherwise = lowerer.scalar(op.operands[0]), labels[1] if len(ways) > 1 else join.label
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


def _while(lowerer: Lowerer, op: Op) -> None:
    w = lowerer.w
    before, after = (region.block for region in op.regions)
    head, inside, behind = Join(lowerer, "while"), w.fresh_label("do"), w.fresh_label("done")
    head.bind(before.args, op.operands)
    head.come(op.operands, w.leave_to(head.label))
    head.begin()
    lowerer.block(before)
    condition, *passed = before.terminator.operands
    w.do(f"br i1 {lowerer.scalar(condition)}, label %{inside}, label %{behind}")
    w.start_block(inside)
    for argument, value in zip(after.args, passed, strict=True):
        lowerer.alias(argument, value)
    lowerer.block(after)
    head.come(after.terminator.operands, w.leave_to(head.label, flags=_flags(lowerer, op)))
    head.finish()
    w.start_block(behind)
    for result, value in zip(op.results, passed, strict=True):
        lowerer.alias(result, value)


LOWERINGS: dict[str, Lowering] = {
    "cf.br": _branch,
    "cf.cond_br": _conditional,
    "scf.for": _for,
    "scf.if": _if,
    "scf.while": _while,
}
