"""A function on scalars, written for vectors of lanes: every branch by masks, every loop until no lane is left.

    %2 = scf.if %c { … } else { … }     both sides, then select by %c; a long side only if some lane needs it
    scf.while                           a loop while some lane's condition holds; lanes that are done keep their values
    tt.assert %c, "…"                   a flag for the caller, where a lane that counts does not hold

What all lanes share stays scalar (`uniform.py`), in front of the loop over elements where it can. With one lane all of
this is ordinary scalar code with branches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tilewright.backends.llvm.conversions import half_bits
from tilewright.backends.llvm.elementwise import lower_elementwise
from tilewright.backends.llvm.lanes import Lanes, LaneType
from tilewright.backends.llvm.memory import moved_as
from tilewright.backends.llvm.sections import Section
from tilewright.backends.llvm.spelling import constant, element_of, vector
from tilewright.backends.llvm.writer import LlvmWriter
from tilewright.dialects.arith import Constant, Division, NumberExtreme
from tilewright.dialects.math import Approximate, Fma
from tilewright.dialects.scf import If, While
from tilewright.dialects.tt_elementwise import ExternElementwise
from tilewright.dialects.tt_program import Assert
from tilewright.ir.core import Block, Op, Region, Value, defining

LONG_SIDE = 12
"""Min number of ops in a side of a branch that is jumped over where no lane needs it."""
_COSTLY = (Approximate, Division, ExternElementwise, Fma, While)

Failure = Callable[[str, str], None]
"""(i1 or vector of i1 that says where something is wrong, message) → code."""


class LaneWriter:
    """Writes the ops of one function.

    Args:
        w: where the instructions go.
        lanes: how many elements at once; 1 for scalars.
        uniform: values that all lanes share.
        failed: writes what happens where an assertion does not hold.
        ahead: a section in front of the loop over elements, if there is one.
    """

    def __init__(
        self, w: LlvmWriter, lanes: int, uniform: set[Value], failed: Failure, ahead: Section | None = None
    ) -> None:
        self.w = w
        self.lanes = lanes
        self._uniform = uniform
        self._failed = failed
        self._ahead = ahead
        self._texts: dict[Value, str] = {}
        self._hoisted: set[Value] = set()
        self._splats: dict[Value, str] = {}
        self.active: str | None = None
        self._handlers: Mapping[str, Callable[[Any], None]] = {
            "arith.constant": self._constant,
            "scf.if": self._if,
            "scf.while": self._while,
            "tt.assert": self._assert,
        }

    def bind(self, value: Value, text: str, *, ahead: bool = False) -> None:
        """Say what a value is; `ahead`: it is known in front of the loop."""
        self._texts[value] = text
        if ahead:
            self._hoisted.add(value)

    def run(self, block: Block) -> list[Value]:
        """Write the ops of a block; the operands of its terminator."""
        for op in block:
            if op.definition.terminator:
                return op.operands
            handler = self._handlers.get(op.name)
            if handler is None:
                self._elementwise(op)
            else:
                handler(op)
        raise AssertionError("a block ends with its terminator")

    def is_uniform(self, value: Value) -> bool:
        return self.lanes == 1 or value in self._uniform

    def text(self, value: Value, lanes: int | None = None) -> str:
        """The operand for a value, in `lanes` lanes."""
        lanes = self.lanes if lanes is None else lanes
        element, literal = element_of(value.type), defining(value, Constant)
        if literal is not None:
            return constant(literal.number.value, element, lanes)
        text = self._texts[value]
        if lanes == 1 or not self.is_uniform(value):
            return text
        if value not in self._hoisted or self._ahead is None:
            return self.w.splat(text, element, lanes)
        if value not in self._splats:
            with self.w.at(self._ahead):
                self._splats[value] = self.w.splat(text, element, lanes)
        return self._splats[value]

    def _constant(self, op: Constant) -> None:
        self._hoisted.add(op.result)

    def _elementwise(self, op: Op) -> None:
        (result,) = op.results
        if self.lanes > 1 and self.is_uniform(result):
            is_ahead = self._ahead is not None and all(operand in self._hoisted for operand in op.operands)
            operands = [self.text(operand, 1) for operand in op.operands]
            if is_ahead:
                with self.w.at(self._ahead):  # type: ignore[arg-type]  # checked in the line above
                    self.bind(result, lower_elementwise(self.w, op, operands, 1), ahead=True)
            else:
                self.bind(result, lower_elementwise(self.w, op, operands, 1))
            return
        operands = [self.text(operand) for operand in op.operands]
        self.bind(result, lower_elementwise(self.w, op, operands, self.lanes))

    # --- assertions ---

    def _assert(self, op: Assert) -> None:
        message, condition = op.message, op.condition
        if self.is_uniform(condition) and (self.lanes == 1 or self.active is None):
            flag = LaneType(self.w, "i1", 1)
            self._failed((~flag(self.text(condition, 1))).name, message)
            return
        flags = LaneType(self.w, "i1", self.lanes)
        wrong = ~flags(self.text(condition))
        if self.active is not None:
            wrong = wrong & flags(self.active)
        self._failed(wrong.any(), message)

    @contextmanager
    def _only(self, active: str) -> Any:
        outer, self.active = self.active, active
        try:
            yield
        finally:
            self.active = outer

    # --- branches ---

    def _if(self, op: If) -> None:
        if self.is_uniform(op.condition):
            self._jump(op)
            return
        flags = LaneType(self.w, "i1", self.lanes)
        condition = flags(self.text(op.condition))
        sides: list[list[str]] = []
        for region, chosen in zip(op.regions, (condition, ~condition), strict=False):
            needed = chosen if self.active is None else chosen & flags(self.active)
            with self._only(needed.name):
                sides.append(self._side(region, needed, op))
        for number, result in enumerate(op.results):
            kind = LaneType(self.w, element_of(result.type), self.lanes)
            self.bind(result, kind.select(condition, kind(sides[0][number]), kind(sides[1][number])).name)

    def _side(self, region: Region, needed: Lanes, op: If) -> list[str]:
        if not region.blocks:
            return []
        block = region.block
        if not is_long(block):
            return [self.text(value) for value in self.run(block)]
        with self.w.branch(needed.any()) as branch, branch.then():
            values = [self._leaving(value, self.lanes) for value in self.run(block)]
        joined = [
            branch.join(moved_type(result, self.lanes), value, "zeroinitializer")
            for result, value in zip(op.results, values, strict=True)
        ]
        return [self._entering(result, text, self.lanes) for result, text in zip(op.results, joined, strict=True)]

    def _jump(self, op: If) -> None:
        """Jump to one side only: all lanes agree."""
        widths = [1 if self.is_uniform(result) else self.lanes for result in op.results]
        sides: list[list[str]] = [[], []]
        with self.w.branch(self.text(op.condition, 1)) as branch:
            for region, way, side in zip(op.regions, (branch.then, branch.otherwise), sides, strict=False):
                with way():
                    found = self.run(region.block) if region.blocks else []
                    side += [self._leaving(value, lanes) for value, lanes in zip(found, widths, strict=True)]
        joined = [
            branch.join(moved_type(result, lanes), yes, no)
            for result, lanes, yes, no in zip(op.results, widths, *sides, strict=True)
        ]
        for result, lanes, text in zip(op.results, widths, joined, strict=True):
            self.bind(result, self._entering(result, text, lanes))

    def _leaving(self, value: Value, lanes: int) -> str:
        """A value as it goes from block to block: 16-bit floats as integers."""
        element, text = element_of(value.type), self.text(value, lanes)
        if moved_as(element) == element:
            return text
        return half_bits(LaneType(self.w, element, lanes)(text)).name

    def _entering(self, value: Value, text: str, lanes: int) -> str:
        element = element_of(value.type)
        return self.w.convert("bitcast", text, moved_type(value, lanes), vector(element, lanes))

    # --- loops ---

    def _while(self, op: While) -> None:
        w, before, after = self.w, op.before, op.after
        agree = self.is_uniform(op.condition.condition)
        widths = [1 if self.is_uniform(argument) else self.lanes for argument in before.args]
        initial = [self._leaving(value, lanes) for value, lanes in zip(op.inits, widths, strict=True)]
        everyone = constant(1, "i1", self.lanes) if self.active is None else self.active
        head, body, end = (w.fresh_label(name) for name in ("while", "do", "done"))
        entry = w.leave_to(head)
        w.start_block(head)
        phis = w.open_section()
        names = [w.fresh("c") for _ in before.args]
        running = w.fresh("on")
        for argument, name, lanes in zip(before.args, names, widths, strict=True):
            self.bind(argument, self._entering(argument, name, lanes))
        with self._only(running) if not agree else self._same():
            condition, *values = self.run(before)
            flag = self.text(condition, 1) if agree else self._still(condition, running)
            passed = self._passed(values, op.results)
            going = flag if agree else Lanes(LaneType(w, "i1", self.lanes), flag).any()
            w.do(f"br i1 {going}, label %{body}, label %{end}")
            w.start_block(body)
            for argument, value in zip(after.args, passed, strict=True):
                self.bind(argument, value)
            with self._only(flag) if not agree else self._same():
                yielded = [self._leaving(v, n) for v, n in zip(self.run(after), widths, strict=True)]
            if not agree:
                yielded = [self._kept(flag, *three) for three in zip(before.args, yielded, names, strict=True)]
        latch = w.leave_to(head)
        types = [moved_type(argument, lanes) for argument, lanes in zip(before.args, widths, strict=True)]
        incoming = list(zip(names, types, initial, yielded, strict=True))
        if not agree:
            incoming.append((running, vector("i1", self.lanes), everyone, flag))
        phis.parts += [
            f"  {name} = phi {type} [ {first}, %{entry} ], [ {following}, %{latch} ]"
            for name, type, first, following in incoming
        ]
        w.start_block(end)
        for result, value in zip(op.results, passed, strict=True):
            self.bind(result, value)

    def _still(self, condition: Value, running: str) -> str:
        flags = LaneType(self.w, "i1", self.lanes)
        return (flags(self.text(condition)) & flags(running)).name

    def _passed(self, values: Sequence[Value], results: Sequence[Value]) -> list[str]:
        pairs = zip(values, results, strict=True)
        return [self.text(value, 1 if self.is_uniform(result) else self.lanes) for value, result in pairs]

    def _kept(self, flag: str, argument: Value, new: str, old: str) -> str:
        """The new value in lanes that are still running."""
        type = moved_type(argument, self.lanes)
        return self.w.select(flag, type, new, old, lanes=self.lanes)

    @contextmanager
    def _same(self) -> Any:
        yield


def moved_type(value: Value, lanes: int) -> str:
    """The LLVM type of a value between blocks."""
    return vector(moved_as(element_of(value.type)), lanes)


def is_long(block: Block) -> bool:
    """Whether computing a side takes longer than a jump."""
    count = sum(1 for region_op in block for _ in region_op.walk())
    return count >= LONG_SIDE or any(map(is_costly, block))


def is_costly(op: Op) -> bool:
    """Whether anything in the op takes more than a few instructions."""
    return any(isinstance(one, _COSTLY) for one in op.walk())


def is_quick(block: Block) -> bool:
    """Whether the function is so short that its stores may go past the caches. Behind more work they would wait."""
    return not any(is_costly(op) and op.name != "arith.divf" for op in block)


def is_bound_by_memory(block: Block) -> bool:
    """Whether the function is done before its operands come from memory. Some extremes have one register width."""
    return not any(is_costly(op) or isinstance(op, NumberExtreme) or op.name == "math.sqrt" for op in block)
