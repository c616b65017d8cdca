"""An order of a function's blocks in which diverged lanes reconverge as early as possible.

The machine runs the lanes at the lowest step first. That is right if every block comes after all its predecessors, but
compilers also write

    @%p1 bra $rare;  $join: shfl.sync …;  ret;  $rare: …;  bra $join;      becomes      …  $rare: …  $join: …

and loops with several back edges: these get one latch, at the end of the loop. Branches that really diverge are not
changed by this: a lane that waits at a join waits in vain for lanes that never get there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush

from tilewright.support.ptx_syntax import Function, Instruction, Symbol, name_of

ENDS = ("ret", "exit")
JUMPS = ("bra", "brx")


def in_reconvergence_order(function: Function) -> Function:
    """The function with its blocks in order: itself, where they are.

    Args:
        function: with a body; it is not changed.
    """
    if len(function.labels) < 2:
        return function
    return _Orderer(function).ordered()


@dataclass
class _Block:
    """Instructions that are executed in a row.

    Attributes:
        falls: where lanes go on that do not jump, or -1.
        instead: jumps to the first block go to the second.
    """

    instructions: list[Instruction]
    falls: int = -1
    instead: dict[int, int] = field(default_factory=dict)


class _Orderer:
    def __init__(self, function: Function) -> None:
        self.function = function
        body = function.instructions
        closing = Instruction(("ret",), (), None, False, body[-1].line if body else 0, "}", None)
        self.instructions = [*body, closing]
        starts = {0, *function.labels.values()}
        starts.update(i + 1 for i, it in enumerate(body) if it.opcode in (*JUMPS, *ENDS))
        self.starts = sorted(starts)
        self.block_at = {start: number for number, start in enumerate(self.starts)}
        self.blocks = [
            self._block(start, end) for start, end in zip(self.starts, [*self.starts[1:], None], strict=True)
        ]
        self.following = {number: self._targets(number) for number in range(len(self.blocks))}

    def _block(self, start: int, end: int | None) -> _Block:
        inside = self.instructions[start:end]
        leaves = inside[-1].opcode in (*ENDS, *JUMPS) and inside[-1].guard is None
        return _Block(inside, -1 if leaves or end is None else self.block_at[end])

    def _targets(self, number: int) -> list[int]:
        block = self.blocks[number]
        found = [block.falls] if block.falls >= 0 else []
        return [*found, *(self.block_at[self.function.labels[name]] for name in self._names(block.instructions[-1]))]

    def _names(self, instruction: Instruction) -> tuple[str, ...]:
        """The labels to which an instruction jumps."""
        if instruction.opcode not in JUMPS:
            return ()
        *_, target = instruction.operands
        name = name_of(target)
        return (name,) if instruction.opcode == "bra" else self.function.tables[name]

    def ordered(self) -> Function:
        begun = _reached(list(self.following)[::-1], self.following)[0] | 1
        nodes = [node for node in self.following if begun >> node & 1]
        order = list(self._in_order(nodes, {node: self.following[node] for node in nodes}))
        return self.function if order == nodes else self._written(order)

    def _in_order(self, nodes: list[int], following: Mapping[int, list[int]]) -> Iterator[int]:
        """The blocks so that each stands behind those that lead to it, and what is in one loop in a row."""
        leading = _reversed(nodes, following)
        after, before = _reached(nodes[::-1], following), _reached(nodes, leading)
        loops = {node: after[node] & before[node] | 1 << node for node in nodes}
        first: dict[int, int] = {}
        for node in nodes:
            first.setdefault(loops[node], node)
        for head in _sorted_by_text(set(first.values()), {n: first[loops[n]] for n in nodes}, following):
            inside = [node for node in nodes if loops[node] == loops[head]]
            yield from self._loop_in_order(inside, leading, following) if len(inside) > 1 else inside

    def _loop_in_order(
        self, inside: list[int], leading: Mapping[int, list[int]], following: Mapping[int, list[int]]
    ) -> Iterator[int]:
        members = set(inside)
        entries = [node for node in inside if not members.issuperset(leading[node])]
        head = entries[0] if entries else inside[0]
        ends = [node for node in inside if head in following[node]]
        own = {node: [target for target in following[node] if target in members] for node in inside}
        if len(ends) > 1:
            last = len(self.blocks)
            self.blocks.append(_Block([], head))
            for node in ends:
                self.blocks[node].instead[head] = last
                own[node].append(last)
            own[last] = []
            inside = [*inside, last]
        yield from self._in_order(inside, {node: [t for t in own[node] if t != head] for node in inside})

    def _written(self, order: list[int]) -> Function:
        """The function with the blocks in an order."""
        result = replace(self.function, instructions=[], labels={}, tables=dict(self.function.tables))
        names: dict[int, list[str]] = {}
        for name, start in self.function.labels.items():
            names.setdefault(self.block_at[start], []).append(name)
        for number, following in zip(order, [*order[1:], -1], strict=True):
            block = self.blocks[number]
            for name in (*names.get(number, ()), _label(number)):
                result.labels[name] = len(result.instructions)
            result.instructions += block.instructions[:-1]
            result.instructions += [self._redirected(last, block, result) for last in block.instructions[-1:]]
            target = block.instead.get(block.falls, block.falls)
            if target >= 0 and target != following:
                line = self.instructions[self.starts[block.falls]].line
                operands = (Symbol(_label(target)),)
                result.instructions.append(Instruction(("bra",), operands, None, False, line, "bra", None))
        return result

    def _redirected(self, last: Instruction, block: _Block, result: Function) -> Instruction:
        """The last instruction of a block, jumping to what stands for the blocks it names."""
        if not block.instead or last.opcode not in JUMPS:
            return last
        wanted = tuple(self._instead(name, block.instead) for name in self._names(last))
        target = wanted[0]
        if last.opcode == "brx":
            target = f"@table{len(result.tables)}"
            result.tables[target] = wanted
        return replace(last, operands=(*last.operands[:-1], Symbol(target)))

    def _instead(self, name: str, instead: Mapping[int, int]) -> str:
        number = self.block_at[self.function.labels[name]]
        return _label(instead[number]) if number in instead else name


def _label(number: int) -> str:
    return f"@{number}"


def _reversed(nodes: Iterable[int], following: Mapping[int, list[int]]) -> dict[int, list[int]]:
    """Per block those that lead to it, from outside of the blocks as well."""
    found: dict[int, list[int]] = {node: [] for node in nodes}
    for node, targets in following.items():
        for target in targets:
            if target in found:
                found[target].append(node)
    return found


def _reached(nodes: list[int], following: Mapping[int, list[int]]) -> dict[int, int]:
    """Per block the set of those that one gets to, as bits."""
    reached = dict.fromkeys(nodes, 0)
    changes = True
    while changes:
        changes = False
        for node in nodes:
            found = reached[node]
            for target in following[node]:
                if target in reached:
                    found |= reached[target] | 1 << target
            changes |= found != reached[node]
            reached[node] = found
    return reached


def _sorted_by_text(heads: set[int], head_of: Mapping[int, int], following: Mapping[int, list[int]]) -> Iterator[int]:
    """Groups of blocks, each behind those that lead to it, otherwise as they stand in the text."""
    pairs = {(head_of[node], head_of[t]) for node in head_of for t in following[node] if t in head_of}
    waits = dict.fromkeys(heads, 0)
    leads: dict[int, list[int]] = {head: [] for head in heads}
    for source, target in pairs:
        if source != target:
            waits[target] += 1
            leads[source].append(target)
    ready = sorted(head for head in heads if not waits[head])
    while ready:
        head = heappop(ready)
        yield head
        for target in leads[head]:
            waits[target] -= 1
            if not waits[target]:
                heappush(ready, target)
