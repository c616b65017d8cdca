"""The condition of a branch: several branches in a row are one, made of `and`, `or` and `not`.

    a; branch false → Y        a and b: X if it holds, else Y
    b; branch false → Y
    X: …

`if a: if b: X` is the same bytecode. The two are told apart by source positions: on one line, or indented twice.
"""

from __future__ import annotations

from typing import NamedTuple

from tilewright.frontends.from_bytecode.flow import ENDINGS, Flow, Point, latch
from tilewright.frontends.from_bytecode.opcodes import Positions

STATEMENTS = ENDINGS | {
    "append",
    "assertion",
    "delete",
    "function",
    "iterate",
    "pop",
    "store",
    "take",
    "unpack",
    "unpack_star",
}
"""Instructions that the evaluation of a condition never contains, up to its branch."""
_IF, _ELIF = len("if "), len("elif ")


class Leaf(NamedTuple):
    """One branch: the block (or instruction) where its evaluation starts, its number, and its condition."""

    start: int
    branch: int
    asks: str


class Pair(NamedTuple):
    """`left and right`, or `left or right`."""

    conjunction: bool
    left: Condition
    right: Condition


class Not(NamedTuple):
    """`not condition`."""

    condition: Condition


class Either(NamedTuple):
    """`then if test else orelse`."""

    test: Condition
    then: Condition
    orelse: Condition


Condition = Leaf | Pair | Not | Either


class Group(NamedTuple):
    """A condition with the points where control goes when it holds, and when not.

    `natural` is where the program text goes on after it: the body of an `if`. `valued`: its value stays on the stack,
    for an `and` or `or` whose value is used.
    """

    condition: Condition
    then: Point
    orelse: Point
    blocks: frozenset[Point]
    natural: Point
    valued: bool


class Conditions:
    """Finds the conditions of one function."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow

    def at(self, start: int, branch: int, *, statement: bool) -> Group:
        """The whole condition that begins at instruction `start` and whose first branch is `branch`.

        Args:
            statement: it may belong to an `if` statement, whose body may be another one.
        """
        return self._grown(self._single(start, branch), statement=statement)

    def places(self, condition: Condition) -> list[Positions]:
        """The places of a condition's branches in the text; equal for copies."""
        if isinstance(condition, Leaf):
            return [self._flow.code[condition.branch].positions]
        if isinstance(condition, Not):
            return self.places(condition.condition)
        if isinstance(condition, Either):
            return [place for part in condition for place in self.places(part)]
        return self.places(condition.left) + self.places(condition.right)

    def has_statements(self, start: int, stop: int) -> bool:
        """Whether instructions are more than the evaluation of an expression."""
        code = self._flow.code
        return any(
            code[at].op in STATEMENTS and not (code[at].op == "store" and at > start and code[at - 1].op == "copy")
            for at in range(start, stop)
        )

    def has_copy(self, header: Point, condition: Condition) -> bool:
        """Whether the loop that begins at `header` ends with a copy of the condition.

        With `continue`, 3.11 and 3.12 make two loops of a `while`: one begins at its condition, one at its body.
        """
        flow, places = self._flow, self.places(condition)
        before = flow.predecessors.get(latch(header), ()) if header in flow.loops else ()
        return any(flow.code[flow.ending[block]].positions in places for block in before)

    def _single(self, start: int, branch: int) -> Group:
        """One branch alone, or those of `a < b < c`, whose first leaves b on the stack."""
        group = self._branch(start, branch)
        if not self._is_chained(branch):
            return group
        rest = self._single(group.then, self._flow.ending[group.then])
        if self._flow.past_pops(rest.orelse) != self._flow.past_pops(group.orelse):
            return group  # the first branch behind belongs to c, as in `a < b < (x if y else z)`
        blocks = group.blocks | self._flow.popping(group.orelse)  # where b is dropped if the first does not hold
        return _pair(True, group._replace(blocks=blocks), rest)

    def _is_chained(self, branch: int) -> bool:
        """Whether a comparison shares its right side with another one, and only its truth is wanted."""
        ops = [(i.op, i.arg) for i in self._flow.code[max(branch - 3, 0) : branch]]
        return len(ops) == 3 and ops[:2] == [("swap", 2), ("copy", 2)] and ops[2][0] == "binary"

    def _branch(self, start: int, branch: int) -> Group:
        """One branch. Of `is None` and `is not None` the condition is the one that holds where the text goes on."""
        flow, instruction = self._flow, self._flow.code[branch]
        jumped = flow.going(branch, instruction.target)
        passed = flow.going(branch, branch + 1)
        natural = jumped if self._jumps_back(branch + 1) else passed
        block = frozenset((flow.block_of[branch],))
        valued = branch > start and flow.code[branch - 1][:2] == ("copy", 1)
        if instruction.arg in ("true", "false"):
            then, orelse = (jumped, passed) if instruction.arg == "true" else (passed, jumped)
            return Group(Leaf(start, branch, "truth"), then, orelse, block, natural, valued)
        asks = instruction.arg if natural == jumped else _OPPOSITE[instruction.arg]
        other = passed if natural == jumped else jumped
        return Group(Leaf(start, branch, asks), natural, other, block, natural, valued)

    def _jumps_back(self, at: int) -> bool:
        """Whether a jump back to a loop's header stands there: from 3.12 on branches cannot go back themselves."""
        code = self._flow.code
        is_jump = at < len(code) and code[at].op == "jump" and code[at].positions not in self._flow.statements
        return is_jump and code[at].target < at

    def _grown(self, group: Group, *, statement: bool) -> Group:
        while (larger := self._merged(group, statement=statement)) is not None:
            group = larger
        return group

    def _merged(self, group: Group, *, statement: bool) -> Group | None:
        """The group with the condition that one of its ways leads to, if they share their targets."""
        return (
            self._with_both(group, statement=statement)
            or self._with_then(group, statement=statement)
            or self._with_else(group, statement=statement)
        )

    def _with_both(self, group: Group, *, statement: bool) -> Group | None:
        """`a if c else b`: two conditions, both with the same targets; the first stands before c in the text."""
        if group.valued:
            return None
        for then in self._candidates(group, group.then, statement=statement):
            for orelse in self._candidates(group, group.orelse, statement=statement):
                sides = _agreeing(then, orelse)
                if sides is not None and self._stands_before(then, group):
                    condition = Either(group.condition, *(side.condition for side in sides))
                    blocks = group.blocks | then.blocks | orelse.blocks
                    return sides[1]._replace(condition=condition, blocks=blocks)
        return None

    def _stands_before(self, group: Group, other: Group) -> bool:
        places = [self._place(_first_leaf(each.condition)) for each in (group, other)]
        return None not in places and places[0] < places[1]  # type: ignore[operator]  # checked

    def _with_then(self, group: Group, *, statement: bool) -> Group | None:
        for right in self._candidates(group, group.then, statement=statement):
            orelse = self._flow.past_pops(group.orelse)
            if orelse == self._flow.past_pops(right.orelse) and self._continues(right, right.orelse):
                if statement and self._is_nested_if(group, right):
                    continue
                return _pair(True, group, right)
            if orelse == right.then and not right.valued:
                if isinstance(group.condition, Leaf) and group.condition.asks in _OPPOSITE:
                    leaf = group.condition._replace(asks=_OPPOSITE[group.condition.asks])
                    flipped = group._replace(condition=leaf, then=group.orelse, orelse=group.then)
                    return _pair(False, flipped, right)
                if statement and self._is_nested_if(group, right):
                    continue
                return _pair(True, group, _opposite(right))
        return None

    def _with_else(self, group: Group, *, statement: bool) -> Group | None:
        for right in self._candidates(group, group.orelse, statement=statement):
            then = self._flow.past_pops(group.then)
            if then == self._flow.past_pops(right.then) and self._continues(right, right.then):
                return _pair(False, group, right)
            if then == right.orelse and not right.valued:
                if right.natural == then:
                    return _pair(False, group, _opposite(right))
                return _pair(True, _opposite(group), right)
        return None

    def _continues(self, right: Group, to: Point) -> bool:
        """Whether a condition's value, if it stays, is dropped there: `(a and b) or c`, but not `a and b and c`."""
        return not right.valued or (0 <= to < self._flow.end and self._flow.code[to].op == "pop")

    def _candidates(self, group: Group, at: Point, *, statement: bool) -> list[Group]:
        """The condition that only this group leads to, if there is nothing else: as large as can be, or one branch."""
        flow = self._flow
        if at not in flow.ending or at in flow.loops or not flow.predecessors[at] <= group.blocks:
            return []
        last = flow.ending[at]
        first = at + 1 if group.valued and flow.code[at].op == "pop" else at
        if flow.code[last].op != "branch" or any(i.op in STATEMENTS for i in flow.code[first:last]):
            return []
        single = self._single(at, last)
        grown = self._grown(single, statement=statement)
        return [single] if grown is single else [grown, single]

    def _is_nested_if(self, group: Group, right: Group) -> bool:
        """Whether `right` is the condition of an `if` of its own, the only statement in the body of the first."""
        flow = self._flow
        targets = (right.then, right.orelse)
        if any(to < 0 or to in flow.loops or self._is_assertion(to) for to in targets):
            return False
        first, second = _first_leaf(group.condition), _first_leaf(right.condition)
        above, below = self._place(first), self._place(second)
        body = self._statement_column(right.natural)
        if above is None or below is None or body is None or above[0] == below[0]:
            return False
        indent = below[1] - _IF
        return any(body - indent == indent - (above[1] - word) > 0 for word in (_IF, _ELIF))

    def _is_assertion(self, at: Point) -> bool:
        return at < self._flow.end and self._flow.code[at].op == "assertion"

    def _place(self, leaf: Leaf) -> tuple[int, int] | None:
        """Line and column where the evaluation of a branch begins."""
        code = self._flow.code[leaf.start : leaf.branch + 1]
        places = [(i.positions.line, i.positions.column) for i in code]
        known = [(line, column) for line, column in places if line is not None and column is not None]
        return min(known, default=None)

    def _statement_column(self, at: Point) -> int | None:
        """The column of the statement that begins at a block."""
        if not 0 <= at < self._flow.end:
            return None
        code = self._flow.code[at : self._flow.ending[at] + 1]
        line = code[0].positions.line
        columns = [i.positions.column for i in code if i.positions.line == line and i.positions.column is not None]
        return min(columns, default=None)


_OPPOSITE = {"none": "not none", "not none": "none"}


def _pair(conjunction: bool, left: Group, right: Group) -> Group:
    condition = Pair(conjunction, left.condition, right.condition)
    return right._replace(condition=condition, blocks=left.blocks | right.blocks)


def _agreeing(then: Group, orelse: Group) -> tuple[Group, Group] | None:
    """Both conditions, one of them negated if need be, so that they have the same targets; None if they have not."""
    if (then.then, then.orelse) == (orelse.then, orelse.orelse):
        return then, orelse
    if (then.then, then.orelse) != (orelse.orelse, orelse.then):
        return None
    return (then, _opposite(orelse)) if orelse.natural == orelse.orelse else (_opposite(then), orelse)


def _opposite(group: Group) -> Group:
    return group._replace(condition=Not(group.condition), then=group.orelse, orelse=group.then)


def _first_leaf(condition: Condition) -> Leaf:
    """The branch that is evaluated first."""
    while not isinstance(condition, Leaf):
        match condition:
            case Pair(left=first) | Not(condition=first) | Either(test=first):
                condition = first
    return condition
