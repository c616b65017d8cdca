"""Greedy rewriting: folds and rules are applied to a worklist of ops until nothing changes.

    apply_rules(function, {"arith.addi": (add_of_add, …)}, folds={"arith.addi": (plus_zero, …)})

A fold computes an op's results (an existing value or a constant) and changes nothing. A rule may change anything,
through the rewriter, and returns whether it did. Dead code is removed on the way, and equal constants are merged in the
entry block.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, TypeAlias

from tilewright.ir.attributes import Attribute, Number
from tilewright.ir.builder import ConstantPool
from tilewright.ir.core import Op, Region, Value
from tilewright.ir.declare import OPS
from tilewright.ir.effects import is_dead
from tilewright.ir.types import Type

Folded: TypeAlias = "Value | Number | Sequence[Value | Number] | None"
Fold: TypeAlias = Callable[[Any], Folded]
Rule: TypeAlias = "Callable[[Any, Rewriter], bool]"
"""A rule: it takes an op of the class of the kinds in its row, which mypy cannot derive from a name."""
Folds: TypeAlias = Mapping[str, Sequence[Fold]]
Rules: TypeAlias = Mapping[str, Sequence[Rule]]
"""Rules per name of an op, tried in order."""


class RewriteLimitError(Exception):
    """Rules keep undoing each other's work."""


class Rewriter:
    """The changes of rules to the IR of one region that sees no outer values; remembers which ops to look at again.

    Attributes:
        changed: whether there were any.
        is_alone: whether no such region is inside of this one, or around it within a function.
        has_reached_others: whether changes concern ops in those regions, whose own rewriters look at them.
    """

    def __init__(self, region: Region) -> None:
        self.changed = False
        self.is_alone = True
        self.has_reached_others = False
        self._region = region
        self._pool = ConstantPool(region.block)
        self._worklist: list[Op] = []
        self._queued: set[Op] = set()

    # Building

    def create(
        self,
        before: Op,
        name: str,
        operands: Sequence[Value] = (),
        result_types: Sequence[Type] = (),
        attributes: dict[str, Attribute] | None = None,
        regions: Sequence[Region] = (),
    ) -> Op:
        """A new op of kind `name` before `before`, with its location.

        Args:
            before: the op that the new one stands before.
            name: a declared kind of ops.
            regions: the regions, which the op takes over.
        """
        op = Op(OPS[name], operands, result_types, attributes, regions, (), before.location)
        assert before.block is not None, f"{before.name} is in no block"
        before.block.insert(op, before)
        self.changed = True
        self.revisit(op)
        return op

    def constant(self, value: int | float, type: Type) -> Value:
        """The number `value` of `type` (a splat for tensors), shared."""
        return self._pool.value(value, type)

    # Changing

    def replace(self, op: Op, values: Sequence[Value]) -> None:
        """Let `values` take the place of the results of `op`, and erase it."""
        for old, new in zip(op.results, values, strict=True):
            if old.uses:
                for user in old.uses:
                    self.revisit(user)
                old.replace_by(new)
        self.erase(op)

    def erase(self, op: Op) -> None:
        """Remove `op`, whose unused results; its operands may become dead."""
        self.changed = True
        operands = list(op.operands)
        nested = [inner for region in op.regions for inner in region.walk()]
        for inner in nested:
            operands += inner.operands
        op.erase()
        for inner in nested:
            inner.block = None
        for value in operands:
            self.lost_a_use(value)

    def set_operands(self, op: Op, values: Sequence[Value]) -> None:
        """Give `op` other operands."""
        for value in op.operands:
            self.lost_a_use(value)
        op.set_operands(values)
        self.modified(op)

    def modified(self, op: Op) -> None:
        """Say that `op` was changed in place: it and the users of its results are looked at again."""
        self.changed = True
        self.revisit(op)
        for result in op.results:
            for user in result.uses:
                self.revisit(user)

    def revisit(self, op: Op) -> None:
        """Look at `op` (again)."""
        if op not in self._queued:
            self._queued.add(op)
            self._worklist.append(op)

    def lost_a_use(self, value: Value) -> None:
        """The op that computes `value` may be dead now; the op around a block may need fewer arguments."""
        owner = value.owner
        if isinstance(owner, Op):
            self.revisit(owner)
        elif owner.region is not None and owner.region.op is not None:
            self.revisit_later(owner.region.op)

    def revisit_later(self, op: Op) -> None:
        """Look at `op` (again) after everything else: for ops with regions, once the ops inside no longer change."""
        if op not in self._queued:
            self._queued.add(op)
            self._worklist.insert(0, op)

    # The driver's side

    def start(self, ops: Sequence[Op], names: Container[str]) -> None:
        """Queue the ops called `names` and the dead ones of `ops`, first op first; constants move to the pool."""
        for op in reversed(ops):
            if op.name in names or (not op.definition.constant and is_dead(op)):
                self.revisit(op)
        for op in ops:
            if op.definition.constant and op.block is not None and self._pool.adopt(op):
                self.changed = True

    def next_op(self) -> Op | None:
        """The next op to look at that still exists."""
        while self._worklist:
            op = self._worklist.pop()
            self._queued.discard(op)
            if op.block is not None and (self.is_alone or self._is_inside(op.block.region)):
                return op
        return None

    def _is_inside(self, region: Region | None) -> bool:
        """Whether the values that ops in `region` may use are those of the rewriter's region."""
        while region is not None and region is not self._region:
            owner = region.op
            is_closed = owner is None or owner.definition.isolated
            region = None if is_closed or owner is None or owner.block is None else owner.block.region
        self.has_reached_others |= region is None
        return region is not None

    def remove_dead_constants(self) -> None:
        """Erase unused constants."""
        for op in self._pool.block.ops():
            if op.definition.constant and not op.results[0].uses:
                op.erase()
                self.changed = True

    def visit(self, op: Op, rules: Rules, folds: Folds) -> Rule | Fold | None:
        """Erase, fold or rewrite one op; returns the rule or fold that applied."""
        if is_dead(op):
            self.erase(op)
            return None
        for fold in folds.get(op.name, ()):
            folded = fold(op)
            if folded is not None and self.put(op, folded):
                return fold
        for rule in rules.get(op.name, ()):
            if rule(op, self):
                return rule
        return None

    def put(self, op: Op, folded: Value | Number | Sequence[Value | Number]) -> bool:
        """Replace `op` by what its fold computed; False when that is the op itself."""
        results = [folded] if isinstance(folded, (Value, Number)) else list(folded)
        values = [part if isinstance(part, Value) else self.constant(part.value, part.type) for part in results]
        if all(old is new for old, new in zip(op.results, values, strict=True)):
            return False
        self.replace(op, values)
        return True


REWRITER: ContextVar[Callable[[Region], Rewriter]] = ContextVar("REWRITER", default=Rewriter)
"""The function that makes the rewriter of a region; `ir/observe.py` puts one here that watches."""


def apply_rules(
    function: Op,
    rules: Rules,
    *,
    folds: Folds | None = None,
    folded: bool = False,
    limit: int = 100,
) -> bool:
    """Rewrite the body of `function` until no rule and no fold applies; first what inside it sees no outer values.

    Args:
        function: an op with regions that see no outer values.
        rules: per op name, tried in order.
        folds: per op name, tried in order, before the rules.
        folded: ops without rules were folded before; they are looked at only when something about them changes.
        limit: how often an op may be looked at on average before this is taken for a cycle.

    Returns:
        whether anything changed.

    Raises:
        RewriteLimitError: when the rules do not come to rest.
    """
    changed = False
    for region in function.regions:
        if region.blocks:
            changed |= _apply_in_region(region, rules, folds or {}, folded=folded, limit=limit)
    return changed


def _apply_in_region(region: Region, rules: Rules, folds: Folds, *, folded: bool, limit: int) -> bool:
    rewriter = REWRITER.get()(region)
    ops, isolated = list[Op](), list[Op]()
    _list_visible(region, ops, isolated)
    for inner in isolated:
        rewriter.changed |= apply_rules(inner, rules, folds=folds, folded=folded, limit=limit)
    rewriter.is_alone = not isolated and (region.op is None or region.op.definition.symbol)
    rewriter.start(ops, rules.keys() if folded else rules.keys() | folds.keys())
    budget = limit * (len(rewriter._worklist) + 100)
    while (op := rewriter.next_op()) is not None:
        budget -= 1
        if budget < 0:
            raise RewriteLimitError(f"rewriting {op.name} does not come to rest")
        rewriter.visit(op, rules, folds)
    rewriter.remove_dead_constants()
    if isolated and rewriter.has_reached_others:
        _apply_in_region(region, rules, folds, folded=folded, limit=limit)
    return rewriter.changed


def _list_visible(region: Region, found: list[Op], isolated: list[Op]) -> None:
    """List the ops inside, but not what is inside ops that see no outer values; those are listed in `isolated`, too."""
    for block in region.blocks:
        for op in block.ops():
            found.append(op)
            if op.definition.isolated:
                isolated.append(op)
            else:
                for inner in op.regions:
                    _list_visible(inner, found, isolated)
