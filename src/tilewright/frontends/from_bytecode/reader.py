"""Control flow: blocks of bytecode become nested HIR.

A region is read from one point until it arrives at another: the sides of a branch until they meet, the body of a loop
until its latch. What a branch becomes depends on what its sides leave on the stack and where they go:

    nothing                 if
    a value each            … if … else …
    one side the condition  and, or
    an AssertionError       assert
    back, at its end        while
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import partial
from types import CodeType
from typing import NoReturn

from tilewright.frontends import hir, operations
from tilewright.frontends.from_bytecode.conditions import STATEMENTS, Condition, Conditions, Either, Group, Leaf, Not
from tilewright.frontends.from_bytecode.flow import ENDINGS, Flow, Point, latch
from tilewright.frontends.from_bytecode.opcodes import (
    WHILE_TESTS_TWICE,
    BytecodeInstruction,
    Positions,
    dropped,
    instructions_of,
    left_early,
    tried,
)
from tilewright.frontends.from_bytecode.stack_machine import Failure, Items, Register, StackMachine
from tilewright.ir.attributes import FileLocation

TARGETS = ("store", "unpack", "unpack_star")


class Reader(StackMachine):
    """Reads one code object, and those of comprehensions in it."""

    def __init__(self, code: CodeType, lines: Sequence[str] = ()) -> None:
        super().__init__(code, lines)
        self._function = code
        self._code: list[BytecodeInstruction] = instructions_of(code)
        self._flow = Flow(self._code)
        self._conditions = Conditions(self._flow)
        self._open: list[Point] = []
        self._tests: list[Condition | None] = []
        self._collecting: set[Point] = set()
        self._depth = 0
        self._number = 0

    def function(self) -> None:
        """Put the steps of the whole function."""
        self._refuse_statements()
        self._region(self._flow.entry, self._flow.end)

    def _refuse_statements(self) -> None:
        """Refuse what instructions alone do not show, or not where they are reached: `break`, `continue`, `try`."""
        for word, place in left_early(self._code):
            self._where = self.location(place)
            if self.text.at(self.where, 0, len(word)) in ("", word):
                self.refuse(f"`{word}`")
        for place in dropped(self._function):
            where = self.location(place)
            if self.text.at(where, 0, where.end_column - where.column) == "break":
                self._where = where
                self.refuse("`break`")
        if (statement := tried(self._function)) is not None:
            self._where = self.location(statement)
            self.refuse("`try`")

    def comprehension(self, code: CodeType, iterable: Register) -> Register:
        """A list comprehension that is a function of its own (3.11)."""
        saved = self._flow, self._code, self._conditions, self.stack, self._open, self.given
        self.stack, self._open, self.given = [], [], {".0": iterable}
        self._code = instructions_of(code)
        self._flow = Flow(self._code)
        self._conditions = Conditions(self._flow)
        number = 0
        while self._code[number].op != "for":
            self.execute(self._code[number])
            number += 1
        self._collect(number)
        result = self.pop()
        self._flow, self._code, self._conditions, self.stack, self._open, self.given = saved
        return result

    def _region(self, at: Point, stop: Point) -> bool:
        """Read from one point until `stop`; False when the function ends before."""
        while at != stop:
            self._check_inside(at)
            if at == self._flow.end:
                return False
            if at in self._flow.loops and at not in self._open and self._code[self._flow.ending[at]].op != "for":
                at = self._while_from_top(at)
                continue
            following = self._block(at, stop)
            if following is None:
                return False
            at = following
        return True

    def _check_inside(self, at: Point) -> None:
        """Leaving a `while` otherwise than by its condition is not part of the language."""
        if self._open and at >= 0:
            exit = self._flow.exits[self._open[-1]]
            if at == exit and at != self._flow.end:
                self._refuse_leaving(at)

    def _refuse_leaving(self, at: Point) -> NoReturn:
        """Refuse what goes from inside a loop to `at`; a `break` that has its own place is refused before."""
        if at in self._flow.ending and (last := self._code[self._flow.ending[at]]).op == "return":
            self._where = self.location(last.positions)
            self.refuse("`return` inside a loop")
        self.refuse("`break`")

    def leave_loop(self) -> NoReturn:
        """Leaving a `for` early is not part of the language, either."""
        ending = self._code[self._flow.ending[self._flow.block_of[self._number]]]
        if ending.op == "return" or self._flow.thread(self._number + 1) == self._flow.end:
            self._refuse_return()
        self.refuse("`break`")

    def _block(self, at: int, stop: Point) -> Point | None:
        """Read a block from instruction `at` on; where control goes then, None if nowhere."""
        number = self._straight(at)
        instruction = self._code[number]
        if instruction.op in ENDINGS and instruction.op != "for":
            self._where = self.location(instruction.positions)
        match instruction.op:
            case "branch":
                return self._branch(self._conditions.at(at, number, statement=len(self.stack) == 1), stop)
            case "for":
                return self._for(number)
            case "return":
                self._refuse_return()
                self.put(hir.Return(self.pop(), self._where))
                return None
            case "raise":
                self._raise()
                return None
        return self._flow.follow(number)

    def _straight(self, at: int) -> int:
        """Execute from instruction `at` to the end of its block; the last instruction's number."""
        last = self._flow.ending[self._flow.block_of[at]]
        for number in range(at, last + 1):
            if self._code[number].op not in ENDINGS:
                self._number = number
                self.execute(self._code[number])
        return last

    def _refuse_return(self) -> None:
        if self._open:
            self.refuse("`return` inside a loop")

    def _raise(self) -> None:
        """`raise`: what it evaluates does not matter."""
        del self._steps[self.statement :]
        self.stack.clear()
        self.put(hir.Refuse("`raise`", self._where))

    # Branches

    def _branch(self, group: Group, stop: Point) -> Point | None:
        if self._is_end_of_while(group):
            del self._steps[self.statement :]
            self.stack.clear()
            return latch(self._open[-1])
        if self._enters_while(group.then) or self._enters_while(group.orelse):
            return self._while(group)
        test = self._evaluate(group.condition)
        if group.valued:
            self.stack[-1] = test
        if self._is_assertion(group.orelse) or self._is_assertion(group.then):
            return self._assert(group, test)
        return self._sides(group, test, stop)

    def _evaluate(self, condition: Condition, *, first: bool = True) -> Register:
        """Put the evaluation of a condition, whose first branch has been come to; its value."""
        if isinstance(condition, Leaf):
            if not first:
                self._straight(condition.start)
            value = self.pop()
            self._where = self.location(self._code[condition.branch].positions)
            if condition.asks == "truth":
                return value
            function = operator.is_ if condition.asks == "none" else operator.is_not
            return self.put_operation(function, (value, self.constant(None)), self._where)
        if isinstance(condition, Not):
            return self._negated(self._evaluate(condition.condition, first=first))
        if isinstance(condition, Either):
            return self._either(condition, first=first)
        left = self._evaluate(condition.left, first=first)
        where = self._where
        right, value = self.valued_block(lambda: self._evaluate(condition.right, first=False))
        result = self.register()
        self.put(hir.ShortCircuit(result, condition.conjunction, left, right, value, where))
        return result

    def _either(self, condition: Either, *, first: bool) -> Register:
        """Put the evaluation of a conditional expression that is a condition."""
        test = self._evaluate(condition.test, first=first)
        where = self._where
        sides = (condition.then, condition.orelse)
        (then, then_value), (orelse, else_value) = (
            self.valued_block(partial(self._evaluate, side, first=False)) for side in sides
        )
        result = self.register()
        self.put(hir.Choose(result, test, then, then_value, orelse, else_value, where))
        return result

    def _negated(self, value: Register) -> Register:
        return self.put_operation(operations.opposite, (value,), self._where)

    def _sides(self, group: Group, test: Register, stop: Point) -> Point | None:
        """A branch whose sides meet again, or end the function."""
        where = self._where
        merge_point = self._flow.merge_point(group.then, group.orelse)
        then, then_stack = self._side(group.then, merge_point)
        orelse, else_stack = self._side(group.orelse, merge_point)
        self._where = where
        if then_stack is not None and else_stack is not None and then_stack != else_stack:
            self.stack = then_stack[:-1]
            values = self._value(then_stack[-1]), self._value(else_stack[-1])
            self.stack.append(self._merged(group, test, then, orelse, values))
            return merge_point
        tail = merge_point == self._flow.end and not self._open and not self.stack
        if group.natural == group.orelse != group.then:
            test, then, orelse = self._negated(test), orelse, then
        self.put(hir.If(test, then, orelse, tail, where))
        self.statement = len(self._steps)
        kept = then_stack if then_stack is not None else else_stack
        self.stack = kept if kept is not None else []
        return None if tail or kept is None else merge_point

    def _side(self, at: Point, merge_point: Point) -> tuple[hir.Block, list[object] | None]:
        """One side, and the stack that it leaves; None if it does not come to the merge point."""
        before = list(self.stack)
        block, arrived = self.valued_block(lambda: self._region(at, merge_point))
        after, self.stack = self.stack, before
        return block, after if arrived else None

    def _value(self, entry: object) -> Register:
        assert isinstance(entry, int), "what sides of an expression leave are values"
        return entry

    def _merged(
        self, group: Group, test: Register, then: hir.Block, orelse: hir.Block, values: tuple[Register, Register]
    ) -> Register:
        """The value of `a and b`, `a or b`, or `a if c else b`."""
        then_value, else_value = values
        result = self.register()
        if not orelse.steps and else_value == test:
            self.put(hir.ShortCircuit(result, True, test, then, then_value, self._where))
        elif not then.steps and then_value == test:
            self.put(hir.ShortCircuit(result, False, test, orelse, else_value, self._where))
        elif group.natural == group.orelse:
            test = self._negated(test)
            self.put(hir.Choose(result, test, orelse, else_value, then, then_value, self._where))
        else:
            self.put(hir.Choose(result, test, then, then_value, orelse, else_value, self._where))
        return result

    # Assertions

    def _is_assertion(self, at: Point) -> bool:
        return 0 <= at < self._flow.end and self._code[at].op == "assertion"

    def _assert(self, group: Group, test: Register) -> Point:
        where, failing, passing = self._where, group.orelse, group.then
        if self._is_assertion(group.then):
            failing, passing = passing, failing
            test = self._negated(test)
        block, message = self.valued_block(lambda: self._message(failing))
        self.put(hir.Assert(test, block, message, where))
        self.statement = len(self._steps)
        return passing

    def _message(self, at: Point) -> Register:
        """The message of the AssertionError that is raised there."""
        while self._code[number := self._straight(at)].op != "raise":
            at = self._flow.follow(number)
        failure = self.stack.pop()
        assert isinstance(failure, Failure), "an assertion raises its AssertionError"
        return self.constant("") if failure.message is None else failure.message

    # Loops

    def _for(self, number: int) -> Point:
        """`for`: `number` is the instruction that takes the next item, or ends the loop."""
        if self.stack and isinstance(self.stack[-2] if len(self.stack) > 1 else None, Items):
            self._collect(number)
            return self._flow.exits[self._flow.block_of[number]]
        header, where = self._flow.block_of[number], self._where
        if self._open and self._open[-1] in self._collecting:
            self.refuse("a comprehension with several `for`")
        iterable = self.pop()
        first = self._code[number + 1]
        simple = first.op == "store"
        name = first.arg if simple else f".item{self._depth}"
        self._depth += 1

        def read_body() -> None:
            if simple:
                self._read_turn(header, number + 2)
                return
            self._where = self.location(first.positions)
            self.stack.append(self.put_load(name, self._where))
            self._read_turn(header, self._bind_targets(number + 1))

        body = self.block(read_body)
        self._depth -= 1
        self.put(hir.For(name, iterable, body, where))
        self.statement = len(self._steps)
        return self._flow.exits[header]

    def _read_turn(self, header: Point, at: int) -> None:
        """The body of a loop, from instruction `at` to the latch."""
        self._inside(header, self._flow.going(at - 1, at), None)

    def _inside(self, header: Point, at: Point, test: Condition | None) -> None:
        """The body of a loop from `at` to its latch; `test`: a condition whose copy ends it."""
        self._open.append(header)
        self._tests.append(test)
        self._region(at, latch(header))
        self._tests.pop()
        self._open.pop()

    def _bind_targets(self, at: int) -> int:
        """Bind what is on the stack to the targets of a `for`; returns the number of the instruction after them."""
        while True:
            instruction = self._code[at]
            if instruction.op == "store":
                self._where = self.location(instruction.positions)
                self.put(hir.Bind(instruction.arg, self.pop(), self._where))
            elif instruction.op in TARGETS:
                self.execute(instruction)
            else:
                self.refuse(self._assignment(at))
            at += 1
            if not self.stack:
                return at

    def _assignment(self, at: int) -> str:
        """The kind of target that the instructions from there on assign to."""
        while self._code[at].op != "refuse":
            at += 1
        self._where = self.location(self._code[at].positions)
        return str(self._code[at].arg)

    def _enters_while(self, at: Point) -> bool:
        """Whether a branch to this point is the condition of a `while` in front of its loop."""
        loops = self._flow.loops
        return (
            WHILE_TESTS_TWICE
            and at in loops
            and at not in self._open
            and self._code[self._flow.ending[at]].op != "for"
        )

    def _is_end_of_while(self, group: Group) -> bool:
        """Whether a condition is the copy of a `while`'s condition at the end of its body."""
        if not self._open:
            return False
        header, first = self._open[-1], self._tests[-1]
        if {group.then, group.orelse} != {latch(header), self._flow.exits[header]}:
            return False
        if first is None or self._places(group.condition) != self._places(first):
            self._refuse_leaving(self._flow.exits[header])
        return True

    def _places(self, condition: Condition) -> list[Positions]:
        """The places of a condition's branches in the text; equal for copies."""
        if isinstance(condition, Leaf):
            return [self._code[condition.branch].positions]
        if isinstance(condition, Not):
            return self._places(condition.condition)
        if isinstance(condition, Either):
            return [place for part in condition for place in self._places(part)]
        return self._places(condition.left) + self._places(condition.right)

    def _while(self, group: Group) -> Point:
        """`while`, whose condition stands before the loop, and again at its end."""
        header, where = (group.then if self._enters_while(group.then) else group.orelse), self._where
        if not self._flow.predecessors[header] <= group.blocks:
            self.refuse("a condition of this form")
        begun = self._steps[self.statement :]
        del self._steps[self.statement :]

        def read_test() -> Register:
            self._steps += begun
            value = self._evaluate(group.condition)
            return value if header == group.then else self._negated(value)

        test, value = self.valued_block(read_test)
        return self._loop(header, (header, group.condition), test, value, where)

    def _while_from_top(self, header: Point) -> Point:
        """`while`, whose condition stands at the top of the loop only; or that has none."""
        number = self._flow.ending[header]
        members, where = self._flow.loops[header], self._where
        if self._code[number].op == "branch" and not self._has_statements(header, number):
            where = self.location(self._code[number].positions)
            group = self._conditions.at(header, number, statement=False)
            ways = (group.then, group.orelse)
            inside = [way for way in ways if way in members or way == latch(header)]
            if len(inside) == 1:

                def read_test() -> Register:
                    self._straight(header)
                    value = self._evaluate(group.condition)
                    return value if inside[0] == group.then else self._negated(value)

                test, value = self.valued_block(read_test)
                return self._loop(header, (inside[0], None), test, value, where)
        return self._loop(header, (header, None), hir.Block(()), self.constant(True), where)

    def _has_statements(self, start: int, stop: int) -> bool:
        """Whether instructions are more than the evaluation of an expression."""
        code = self._code
        return any(
            code[at].op in STATEMENTS and not (code[at].op == "store" and at > start and code[at - 1].op == "copy")
            for at in range(start, stop)
        )

    def _loop(
        self,
        header: Point,
        begin: tuple[Point, Condition | None],
        test: hir.Block,
        value: Register,
        where: FileLocation,
    ) -> Point:
        body = self.block(lambda: self._inside(header, *begin))
        self.put(hir.While(test, value, body, where))
        self.statement = len(self._steps)
        return self._flow.exits[header]

    # Comprehensions

    def _collect(self, number: int) -> None:
        """A list comprehension: the loop that appends to the list below its iterable."""
        header, where = self._flow.block_of[number], self._where
        iterable = self.pop()
        items = self.stack.pop()
        if items.registers:
            self.refuse("a comprehension with several `for`")
        outer, self.stack = self.stack, []
        item, result = self.register(), self.register()
        self.stack.append(item)
        self._collecting.add(header)
        self._open.append(header)
        self._tests.append(None)
        target, at = self.valued_block(lambda: self._bind_targets(number + 1))
        filters: list[tuple[hir.Block, Register]] = []
        block, (value, following) = self.valued_block(partial(self._element, at, header))
        while following is not None:
            filters.append((block, value))
            block, (value, following) = self.valued_block(partial(self._element, following, header))
        self._tests.pop()
        self._open.pop()
        self.put(hir.Collect(result, item, iterable, target, tuple(filters), block, value, where))
        self.stack = [*outer, result]

    def _element(self, at: int, header: Point) -> tuple[Register, Point | None]:
        """A filter and where it goes on, or the element that is appended."""
        number = self._straight(at)
        if self._code[number].op == "for":
            self.refuse("a comprehension with several `for`")
        if self._code[number].op == "branch":
            group = self._conditions.at(at, number, statement=False)
            if group.orelse == latch(header):
                return self._evaluate(group.condition), group.then
            if group.then == latch(header):
                return self._negated(self._evaluate(group.condition)), group.orelse
            following = self._branch(group, latch(header))
        else:
            following = self._flow.follow(number)
        if following is not None:
            self._region(following, latch(header))
        assert self.appended is not None, "a comprehension appends"
        return self.appended, None
