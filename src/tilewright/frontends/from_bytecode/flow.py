"""The control flow graph of a function's bytecode: blocks, loops, and where the sides of a branch join.

    0: load c; branch false → 5        block 0 goes to 2 and 5
    2: …; jump → 7                     `if c: … else: …`
    5: …                               the sides of block 0 join at 7
    7: constant None; return           called END, like every return without a value

A loop's back edges go to its latch instead, a node after everything in the loop, so the graph has no cycles. Joins are
immediate postdominators (Cooper, Harvey, Kennedy: A simple, fast dominance algorithm, 2001).
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.frontends.from_bytecode.opcodes import BytecodeInstruction, leaving_statements
from tilewright.ir.dominance import common_dominator, immediate_dominators, reverse_post_order
from tilewright.support.cached_property import cached_property

ENDINGS = frozenset(("branch", "for", "jump", "raise", "return"))

Point = int
"""The number of the first instruction of a block; END; or, below zero, the latch of a loop."""


def latch(header: Point) -> Point:
    """The point where the loop with this header comes to the end of an iteration."""
    return -1 - header


class Flow:
    """The blocks of one code object.

    Attributes:
        end: the point END.
        ending: block → its last instruction.
        block_of: instruction → the block that it is in.
        loops: header → the blocks of the loop.
        exits: header → the point behind the loop; also for a `for` whose body never comes back to it.
        breaks: header → the point where its `break`s go; only of loops with one that has a place of its own.
        statements: the places of `break`, `continue` and `return`.
        successors, predecessors: without cycles, latches included.
    """

    def __init__(self, code: Sequence[BytecodeInstruction]) -> None:
        self.code = code
        self.statements = leaving_statements(code)
        self.end = len(code)
        starts = sorted(self._starts())
        self.block_of: list[Point] = []
        self.ending: dict[Point, int] = {}
        for start, end in zip(starts, [*starts[1:], len(code)], strict=True):
            self.block_of += [start] * (end - start)
            self.ending[start] = end - 1
        self.entry = self.thread(0)
        raw = self._reachable()
        self._back = _back_edges(raw, self.entry)
        self.loops = _loops(raw, self._back)
        counted = (block for block in raw if self.code[self.ending[block]].op == "for")
        self.exits = {header: self._exit(header, raw) for header in (*self.loops, *counted)}
        self.successors = {block: [self._forward(block, to) for to in after] for block, after in raw.items()}
        self.breaks = self._breaks()
        self.successors |= {latch(header): [self.exit_of(header)] for header in self.loops}
        self.predecessors: dict[Point, set[Point]] = {point: set() for point in (*self.successors, self.end)}
        for point, ways in self.successors.items():
            for to in ways:
                self.predecessors.setdefault(to, set()).add(point)

    def thread(self, at: int) -> Point:
        """The block where control arrives that goes to `at`: past blocks that only jump."""
        seen = set()
        while at < self.end and at not in seen:
            seen.add(at)
            instruction = self.code[at]
            if self._is_jump_of_statement(at):
                break
            if instruction.op == "jump":
                at = instruction.target
            elif self._leaves(at):
                return self.end
            else:
                break
        return at

    def exit_of(self, header: Point) -> Point:
        """The point where the program goes on after a loop that was left by `break`; END where only `return` is."""
        if header in self.breaks:
            return self.breaks[header]
        exit = self.exits[header]
        return self.end if exit in self.ending and self.code[self.ending[exit]].op == "return" else exit

    def is_statement(self, at: Point) -> bool:
        """Whether a `break`, `continue` or `return` of its own begins there."""
        return 0 <= at < self.end and self.code[at].positions in self.statements

    def _is_jump_of_statement(self, at: int) -> bool:
        """Whether a `break`, `continue` or `return` of its own stands there, or the last part of one."""
        return self.code[at].positions in self.statements and (self.code[at].op == "jump" or self._leaves(at))

    def past_pops(self, at: Point) -> Point:
        """The point behind blocks that only drop what a chain of comparisons has left."""
        while self._only_pops(at):
            at = self.follow(self.ending[at])
        return at

    def popping(self, at: Point) -> frozenset[Point]:
        """The blocks that `past_pops` skips."""
        found = set()
        while self._only_pops(at):
            found.add(at)
            at = self.follow(self.ending[at])
        return frozenset(found)

    def _only_pops(self, at: Point) -> bool:
        if at not in self.ending:
            return False
        ops = [instruction.op for instruction in self.code[at : self.ending[at] + 1]]
        dropping = ops[:-1] if ops[-1] == "jump" else ops
        return bool(dropping) and not set(dropping) - {"pop", "swap"}

    def follow(self, number: int) -> Point:
        """The point behind an instruction that does not branch."""
        instruction = self.code[number]
        return self.going(number, instruction.target if instruction.op == "jump" else number + 1)

    def going(self, number: int, to: int) -> Point:
        """The point where control arrives that goes from one instruction to another."""
        return self._forward(self.block_of[number], self.thread(to))

    def merge_point(self, left: Point, right: Point) -> Point:
        """The first point that all ways from both points come to; ways that end in `raise` do not count."""
        parent, rank = self._postdominators
        if left not in parent:
            return right
        return common_dominator(left, right, parent, rank) if right in parent else left

    @cached_property
    def _postdominators(self) -> tuple[dict[Point, Point], dict[Point, int]]:
        """Point → the next point that all ways from it come to, and its rank. Points that only lead to `raise` are left
        out."""
        known = set(reverse_post_order(self.entry, lambda point: self.successors.get(point, ())))
        backwards = reverse_post_order(self.end, lambda point: sorted(self.predecessors.get(point, set()) & known))
        parent = immediate_dominators(backwards, {self.end: (), **self.successors})
        return parent, {point: number for number, point in enumerate(backwards)}

    def _starts(self) -> set[int]:
        starts = {0}
        for number, instruction in enumerate(self.code):
            if instruction.target >= 0:
                starts.add(instruction.target)
            if instruction.op in ENDINGS and number + 1 < len(self.code):
                starts.add(number + 1)
            if instruction.op == "for" or self._leaves(number):  # a `for` left in its first iteration has no jump back
                starts.add(number)
        return starts

    def _leaves(self, at: int) -> bool:
        """Whether `return None` stands there."""
        ops = self.code[at : at + 2]
        return len(ops) == 2 and ops[1].op == "return" and ops[0].op == "constant" and ops[0].arg is None

    def _reachable(self) -> dict[Point, list[Point]]:
        """Each block that control can come to, with the blocks where it goes on."""
        found: dict[Point, list[Point]] = {}
        todo = [self.entry]
        while todo:
            block = todo.pop()
            if block not in found and block != self.end:
                found[block] = list(map(self.thread, self._after(self.ending[block])))
                todo += found[block]
        return found

    def _after(self, number: int) -> list[int]:
        instruction = self.code[number]
        match instruction.op:
            case "branch" | "for":
                return [number + 1, instruction.target]
            case "jump":
                return [instruction.target]
            case "raise":
                return []
            case "return":
                return [self.end]
        return [number + 1]

    def _breaks(self) -> dict[Point, Point]:
        """The targets of `break`s by the header of their loop: the first that no loop inside has."""
        found: dict[Point, Point] = {}
        leaving = [(i.positions, n) for n, i in enumerate(self.code) if i.op in ("jump", "return")]
        first = dict(reversed(leaving))  # a `break` may jump to another jump, which has its place, too
        ways = {
            first[place]: self._left_to(first[place]) for place, n in leaving if self.statements.get(place) == "break"
        }
        for header in sorted(self.exits, reverse=True):
            exit = self.exits[header]
            inside, after = self._reach(self._body(header)), self._reach([exit]) - {exit}
            within = {latch(header), *self.loops.get(header, ())}
            blocks = {n: self.block_of[n] for n, to in ways.items() if n > header and to not in within}
            own = [n for n, block in blocks.items() if block in inside and block not in after]
            if own:
                found[header] = ways[own[0]]
                ways = {n: to for n, to in ways.items() if n not in own or to != found[header]}
        return found

    def _left_to(self, number: int) -> Point:
        """The point where a `break` goes, which may consist of several jumps."""
        seen = {number}
        while self.code[number].op == "jump":
            point = self.follow(number)
            following = self.ending.get(point, number)
            if following in seen or self.code[following].positions != self.code[number].positions:
                return point
            seen.add(following)
            number = following
        return self.end

    def _body(self, header: Point) -> list[Point]:
        """The points behind a header that are inside the loop."""
        ways = self.successors.get(header, [])
        return ways[:1] if self.code[self.ending[header]].op == "for" else ways

    def _reach(self, points: list[Point]) -> set[Point]:
        """All points that control can come to from these before the end of an iteration, these included."""
        found: set[Point] = set()
        todo = list(points)
        while todo:
            point = todo.pop()
            if point not in found:
                found.add(point)
                todo += self.successors.get(point, ())
        return found

    def _forward(self, block: Point, to: Point) -> Point:
        return latch(to) if (block, to) in self._back else to

    def _exit(self, header: Point, raw: dict[Point, list[Point]]) -> Point:
        """The point where the program goes on after a loop's last iteration."""
        instruction = self.code[self.ending[header]]
        if instruction.op == "for":
            return self._forward(header, self.thread(instruction.target))
        sources = [block for block, to in self._back if to == header]
        members = self.loops[header]
        ways = ((block, to) for block in (*sources, *sorted(members)) for to in raw[block])
        outside = [self._forward(block, to) for block, to in ways if to not in members]
        return outside[0] if outside else self.end


def _back_edges(raw: dict[Point, list[Point]], entry: Point) -> set[tuple[Point, Point]]:
    """The edges that lead back to a block from which control has come."""
    found = set()
    open_blocks, seen = {entry}, {entry}
    todo = [(entry, iter(raw.get(entry, ())))]
    while todo:
        block, after = todo[-1]
        to = next(after, None)
        if to is None:
            open_blocks.discard(block)
            todo.pop()
        elif to in open_blocks:
            found.add((block, to))
        elif to not in seen:
            seen.add(to)
            open_blocks.add(to)
            todo.append((to, iter(raw.get(to, ()))))
    return found


def _loops(raw: dict[Point, list[Point]], back: set[tuple[Point, Point]]) -> dict[Point, set[Point]]:
    """The natural loops: header → the blocks from which a jump back is reached without passing the header."""
    before: dict[Point, list[Point]] = {}
    for block, after in raw.items():
        for to in after:
            before.setdefault(to, []).append(block)
    loops: dict[Point, set[Point]] = {}
    for source, header in back:
        members = loops.setdefault(header, {header})
        todo = [source]
        while todo:
            block = todo.pop()
            if block not in members:
                members.add(block)
                todo += before.get(block, [])
    return loops
