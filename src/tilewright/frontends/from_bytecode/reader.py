"""Structured control flow: blocks of bytecode become nested HIR.

A region is read from one point until it arrives at another: the sides of a branch until they join, the body of a loop
until its latch. A branch is classified by the values that its sides leave on the stack and by where they go:

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

from tilewright.frontends import hir, operations
from tilewright.frontends.from_bytecode.conditions import Condition, Conditions, Either, Group, Leaf, Not
from tilewright.frontends.from_bytecode.flow import ENDINGS, Flow, Point, latch
from tilewright.frontends.from_bytecode.opcodes import (
    WHILE_TESTS_TWICE,
    BytecodeInstruction,
    instructions_of,
    tried,
)
from tilewright.frontends.from_bytecode.stack_machine import Failure, Items, Register, StackMachine
from tilewright.frontends.hir_writer import BREAK, CONTINUE
from tilewright.language.python_code import TOO_DEEP


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
        self._latches: list[set[Point]] = []
        self._twins: dict[Point, Point] = {}
        self._collecting: set[Point] = set()
        self._regions: dict[tuple[Point, Point, tuple[Point, ...]], tuple[hir.Block, bool]] = {}
        self._depth = 0
        self._number = 0

    def function(self) -> None:
        """Put the steps of the whole function."""
        self._refuse_try()
        try:
            self._region(self._flow.entry, self._flow.end)
        except RecursionError:
            self.refuse(TOO_DEEP)

    def _refuse_try(self) -> None:
        """Refuse `try`, which instructions do not show where they are reached."""
        if (statement := tried(self._function)) is not None:
            self._where = self.location(statement)
            self.refuse("`try`")

    def comprehension(self, code: CodeType, iterable: Register) -> Register:
        """A list comprehension that is a function of its own (3.11)."""
        saved = self._flow, self._code, self._conditions, self.stack, self._open, self._latches, self.given
        self.stack, self._open, self._latches, self.given = [], [], [], {".0": iterable}
        self._code = instructions_of(code)
        self._flow = Flow(self._code)
        self._conditions = Conditions(self._flow)
        number = 0
        while self._code[number].op != "for":
            self.execute(self._code[number])
            number += 1
        self._collect(number)
        result = self.pop()
        self._flow, self._code, self._conditions, self.stack, self._open, self._latches, self.given = saved
        return result

    def _region(self, at: Point, stop: Point, sources: frozenset[Point] | None = None) -> bool:
        """Read from one point until `stop`; False when the iteration of the loop, or the function, ends before.

        Args:
            at: the first point.
            stop: the first point that is not read.
            sources: the blocks from which control comes there; None if all paths to it join there.
        """
        while not (self._open and self._ends_iteration(at)):
            if at == stop:
                return True
            if at == self._flow.end:
                return False
            if sources is not None and not self.stack and self._flow.predecessors.get(at, set()) - sources:
                return self._shared(at, stop)
            is_loop = self._begins_while(at)
            following = self._while_from_top(at, stop) if is_loop else self._block(at, stop)
            if following is None:
                return False
            block = self._flow.block_of[at]
            meets = is_loop or self._code[self._flow.ending[block]].op in ("branch", "for")
            sources = None if meets else frozenset((block,))
            at = following
        return False

    def _shared(self, at: Point, stop: Point) -> bool:
        """Go on with a region to which other paths come as well; it is read once."""
        key = at, stop, tuple(self._open)
        block, arrives = self._regions.get(key) or self.valued_block(partial(self._region, at, stop))
        if self.stack:  # a part of an expression
            self._steps += block.steps
            return arrives
        self._regions[key] = block, arrives
        self.put(hir.Continue(block, block.steps[0].location if block.steps else self._where))
        return arrives

    def _ends_iteration(self, at: Point) -> bool:
        """Whether the iteration of the innermost loop ends when it arrives there: by `break`, `return`, or normally."""
        *outer, header = self._open
        if at in self._latches[-1]:
            return True
        if at == self._exit_of(header):
            self.put_leave(BREAK, len(self._open), self._where)
        elif at == self._flow.end:
            self.put_return(self.constant(None), len(self._open), self._where)
        elif any(at in latches for latches in self._latches) or any(at == self._exit_of(header) for header in outer):
            self.refuse("a condition of this form")
        else:
            return False
        return True

    def _exit_of(self, header: Point) -> Point:
        """The point behind a loop, whose condition may stand at its top and at its end."""
        return self._flow.exit_of(self._twins.get(header, header))

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
                return self._for(number, stop)
            case "jump" if self._flow.statements.get(instruction.positions) == "continue" and self._open:
                self.put(hir.Leave(CONTINUE, self._where))
            case "return":
                self._return(instruction)
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

    def _return(self, instruction: BytecodeInstruction) -> None:
        """`return`, or a `break` after which the function ends."""
        value = self.pop()
        is_break = self._flow.statements.get(instruction.positions) == "break"
        if is_break and self._open and self._exit_of(self._open[-1]) == self._flow.end:
            self.put_leave(BREAK, len(self._open), self._where)
        else:
            self.put_return(value, len(self._open), self._where)

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
            return self._while(group, stop)
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
        """A branch whose sides join again, or end the function."""
        where = self._where
        merge_point = self._flow.merge_point(group.then, group.orelse)
        then, then_stack = self._side(group, group.then, merge_point)
        orelse, else_stack = self._side(group, group.orelse, merge_point)
        self._where = where
        if then_stack is not None and else_stack is not None and then_stack != else_stack:
            self.stack = then_stack[:-1]
            values = self._value(then_stack[-1]), self._value(else_stack[-1])
            self.stack.append(self._merged(group, test, then, orelse, values))
            return merge_point
        if self._open and (then_stack is None) != (else_stack is None) and not self._is_refused(then, orelse):
            self.refuse("a condition of this form")
        tail = merge_point == self._flow.end and not self._open and not self.stack
        if group.natural == group.orelse != group.then:
            test, then, orelse = self._negated(test), orelse, then
        self.put(hir.If(test, then, orelse, tail, where))
        self.statement = len(self._steps)
        kept = then_stack if then_stack is not None else else_stack
        self.stack = kept if kept is not None else []
        return None if tail or kept is None else merge_point

    def _is_refused(self, *sides: hir.Block) -> bool:
        """Whether one of the sides ends in something that no path may reach."""
        return any(side.steps and isinstance(side.steps[-1], hir.Refuse) for side in sides)

    def _side(self, group: Group, at: Point, merge_point: Point) -> tuple[hir.Block, list[object] | None]:
        """One side, and the stack that it leaves; None if it does not come to the merge point."""
        before = list(self.stack)
        block, arrived = self.valued_block(lambda: self._region(at, merge_point, group.blocks))
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

    def _for(self, number: int, stop: Point) -> Point | None:
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
                self._read_iteration(header, number + 2)
                return
            self._where = self.location(first.positions)
            self.stack.append(self.put_load(name, self._where))
            self._read_iteration(header, self.bind_targets(self._code, number + 1))

        body = self.block(read_body)
        self._depth -= 1
        return self._after_loop(header, hir.For(name, iterable, body, where), self._flow.exits[header], stop)

    def _after_loop(self, header: Point, loop: hir.For | hir.While, exit: Point, stop: Point) -> Point | None:
        """Put a loop; where the program goes on, None if what follows is read already.

        Args:
            header: of the loop.
            exit: where it goes after its last iteration.
            stop: where the region around the loop ends.
        """
        depth = len(self._open)
        self.put_loop(loop, depth)
        self.statement = len(self._steps)
        if hir.RETURNED in loop.body.stores:
            self._where = loop.location
            is_endless = isinstance(loop, hir.While) and not loop.test.steps and header not in self._flow.breaks
            rest = None if is_endless else partial(self._rest, header, loop, exit, stop)
            self.put_rest_of_loop(depth, loop.location, rest)
            return None
        return self._else(header, loop, exit, stop)

    def _rest(self, header: Point, loop: hir.For | hir.While, exit: Point, stop: Point) -> None:
        """The steps that follow a loop, up to `stop`."""
        following = self._else(header, loop, exit, stop)
        if following is not None:
            self._region(following, stop)

    def _else(self, header: Point, loop: hir.For | hir.While, exit: Point, stop: Point) -> Point | None:
        """The `else` of a loop, if it has one; where the program goes on, None if nowhere."""
        after, left = self._exit_of(header), hir.left_variable(len(self._open) + 1)
        has_break = self._twins.get(header, header) in self._flow.breaks and left in loop.body.stores
        if after == exit or not has_break:
            return exit
        test = self.put_load(left, loop.location)
        self._where = loop.location
        return self._sides(Group(Leaf(0, 0, "truth"), after, exit, frozenset(), after, False), test, stop)

    def _read_iteration(self, header: Point, at: int) -> None:
        """The body of a loop, from instruction `at` to the latch."""
        self._inside(header, self._flow.going(at - 1, at), None)

    def _inside(self, header: Point, at: Point, test: Condition | None) -> None:
        """The body of a loop from `at` to its latch; `test`: a condition whose copy ends it."""
        self._open.append(header)
        self._tests.append(test)
        self._latches.append({latch(header), latch(self._twins.get(header, header))})
        self._region(at, latch(header))
        self._latches.pop()
        self._tests.pop()
        self._open.pop()

    def _enters_while(self, at: Point) -> bool:
        """Whether a branch to this point is the condition of a `while` before its loop."""
        return WHILE_TESTS_TWICE and self._begins_while(at)

    def _begins_while(self, at: Point) -> bool:
        is_open = any(latch(at) in latches for latches in self._latches)
        return at in self._flow.loops and not is_open and self._code[self._flow.ending[at]].op != "for"

    def _is_end_of_while(self, group: Group) -> bool:
        """Whether a condition is the copy of a `while`'s condition at the end of its body."""
        if not self._open:
            return False
        first, header = self._tests[-1], self._twins.get(self._open[-1], self._open[-1])
        if first is None or {group.then, group.orelse} != {latch(header), self._flow.exits[header]}:
            return False
        return self._conditions.places(group.condition) == self._conditions.places(first)

    def _while(self, group: Group, stop: Point) -> Point | None:
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
        body = self.block(lambda: self._inside(header, header, group.condition))
        exit = group.orelse if header == group.then else group.then
        return self._after_loop(header, hir.While(test, value, body, where), exit, stop)

    def _while_from_top(self, header: Point, stop: Point) -> Point | None:
        """`while`, whose condition stands at the top of the loop only; or that has none."""
        number = self._flow.ending[header]
        members, where = self._flow.loops[header], self._where
        if self._code[number].op == "branch" and not self._conditions.has_statements(header, number):
            where = self.location(self._code[number].positions)
            group = self._conditions.at(header, number, statement=False)
            ways = (group.then, group.orelse)
            inside = [way for way in ways if way in members or way == latch(header)]
            if len(inside) == 1 and not any(map(self._flow.is_statement, ways)):

                def read_test() -> Register:
                    self._straight(header)
                    value = self._evaluate(group.condition)
                    return value if inside[0] == group.then else self._negated(value)

                test, value = self.valued_block(read_test)
                copied = self._conditions.has_copy(inside[0], group.condition)
                if copied:
                    self._twins[header] = inside[0]
                begin = inside[0], group.condition if copied else None
                body = self.block(lambda: self._inside(header, *begin))
                exit = group.orelse if inside[0] == group.then else group.then
                return self._after_loop(header, hir.While(test, value, body, where), exit, stop)
        body = self.block(lambda: self._inside(header, header, None))
        loop = hir.While(hir.Block(()), self.constant(True), body, where)
        return self._after_loop(header, loop, self._exit_of(header), stop)

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
        self._latches.append({latch(header)})
        target, at = self.valued_block(lambda: self.bind_targets(self._code, number + 1))
        filters: list[tuple[hir.Block, Register]] = []
        block, (value, following) = self.valued_block(partial(self._element, at, header))
        while following is not None:
            filters.append((block, value))
            block, (value, following) = self.valued_block(partial(self._element, following, header))
        self._latches.pop()
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
