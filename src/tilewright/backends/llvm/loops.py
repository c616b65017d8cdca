"""Vector loops → LLVM IR: a table, op → lines. Nothing is decided here, and nothing is known but the names of values.

    %v = vector.load %p[%o] : … -> vector<16xf32>      %v3 = getelementptr inbounds i8, ptr %p, i64 %v2
                                                       %v4 = load <16 x float>, ptr %v3, align 1
    %s = arith.addf %v, %w : vector<16xf32>            %v5 = fadd <16 x float> %v4, %v1
    scf.for …                                          blocks, phis and jumps
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright.backends.llvm.conversions import half_bits
from tilewright.backends.llvm.elementwise import lower_elementwise
from tilewright.backends.llvm.lanes import Lanes, LaneType
from tilewright.backends.llvm.memory import gather, moved_as, scatter
from tilewright.backends.llvm.spelling import constant, element_of, vector
from tilewright.backends.llvm.writer import LlvmWriter
from tilewright.dialects.arith import Constant
from tilewright.dialects.scf import For, If, While
from tilewright.dialects.tt_program import Assert
from tilewright.dialects.vector import Broadcast, Load, Reduction, Store, lanes_of
from tilewright.ir.core import Block, Value, defining
from tilewright.ir.types import Type

CACHE_LINE = 64
"""Bytes: the alignment of what is stored past the caches."""

Failed = Callable[[str, str], None]
"""(i1 that says that something is wrong, message) → code."""


class LoopEmitter:
    """Writes the ops of one function.

    Args:
        w: where the lines go.
        failed: writes what happens where an assertion does not hold.
    """

    def __init__(self, w: LlvmWriter, failed: Failed) -> None:
        self.w = w
        self._failed = failed
        self._names: dict[Value, str] = {}

    def bind(self, value: Value, name: str) -> None:
        """Say what the LLVM value of `value` is."""
        self._names[value] = name

    def name(self, value: Value) -> str:
        """The LLVM value of `value`."""
        literal = defining(value, Constant)
        if literal is None:
            return self._names[value]
        return constant(literal.number.value, element_of(value.type), lanes_of(value.type))

    def run(self, block: Block) -> list[Value]:
        """Write the ops of a block; returns the operands of its terminator."""
        for op in block:
            if op.definition.terminator:
                return op.operands
            emit = self.TABLE.get(op.name)
            if emit is not None:
                emit(self, op)
            else:
                (result,) = op.results
                names = [self.name(operand) for operand in op.operands]
                self._names[result] = lower_elementwise(self.w, op, names, lanes_of(result.type))
        raise AssertionError("a block ends with its terminator")

    def _constant(self, op: Constant) -> None:
        """Nothing: LLVM's constants are operands."""

    def _assert(self, op: Assert) -> None:
        flag = LaneType(self.w, "i1", 1)
        self._failed((~flag(self.name(op.condition))).name, op.message)

    # --- vectors ---

    def _broadcast(self, op: Broadcast) -> None:
        type = op.results[0].type
        self._names[op.results[0]] = self.w.splat(self.name(op.source), element_of(type), lanes_of(type))

    def _reduction(self, op: Reduction) -> None:
        flags = Lanes(LaneType(self.w, element_of(op.source.type), lanes_of(op.source.type)), self.name(op.source))
        self._names[op.results[0]] = flags.any()

    def _load(self, op: Load) -> None:
        type = op.results[0].type
        element, lanes = element_of(type), lanes_of(type)
        first = self.w.offset(self.name(op.base), "i8", self.name(op.offset))
        if op.stride is None:
            found = self.w.load(vector(element, lanes), first, align=1)
        else:
            found = gather(self.w, self._apart(first, op.stride, lanes), element, align=1)
        self._names[op.results[0]] = found

    def _store(self, op: Store) -> None:
        type, value = op.value.type, self.name(op.value)
        element, lanes = element_of(type), lanes_of(type)
        first = self.w.offset(self.name(op.base), "i8", self.name(op.offset))
        if op.stride is not None:
            scatter(self.w, self._apart(first, op.stride, lanes), element, value, align=1)
        elif op.nontemporal:
            self.w.stream(vector(element, lanes), value, first, align=CACHE_LINE)
        else:
            self.w.store(vector(element, lanes), value, first, align=1)

    def _apart(self, first: str, stride: Value, lanes: int) -> list[str]:
        """The addresses of elements that are `stride` bytes apart."""
        pointers, step = [first], self.name(stride)
        for _ in range(lanes - 1):
            pointers.append(self.w.emit(f"getelementptr i8, ptr {pointers[-1]}, i64 {step}"))
        return pointers

    # --- control flow: 16-bit floats go from block to block as integers ---

    def _for(self, op: For) -> None:
        low, high, step = map(self.name, op.bounds)
        carried = [(moved_type(value.type), self._leaving(value)) for value in op.inits]
        with self.w.loop(low, high, step, carried=carried, guarded=True) as loop:
            self.bind(op.induction_variable, loop.index)
            self._enter(op.carried, loop.carried)
            loop.next = [self._leaving(value) for value in self.run(op.body)]
        self._enter(op.results, loop.results)

    def _if(self, op: If) -> None:
        sides: list[list[str]] = []
        with self.w.branch(self.name(op.condition)) as branch:
            for region, way in zip(op.arms, (branch.then, branch.otherwise), strict=False):
                with way():
                    sides.append([self._leaving(value) for value in self.run(region.block)])
        types = [moved_type(result.type) for result in op.results]
        joined = [branch.join(*three) for three in zip(types, *sides, strict=False)]
        self._enter(op.results, joined)

    def _while(self, op: While) -> None:
        w, types = self.w, [moved_type(argument.type) for argument in op.before.args]
        initial = [self._leaving(value) for value in op.inits]
        head, body, end = (w.fresh_label(name) for name in ("while", "do", "done"))
        entry = w.leave_to(head)
        w.start_block(head)
        phis, names = w.open_section(), [w.fresh("c") for _ in types]
        self._enter(op.before.args, names)
        condition, *values = self.run(op.before)
        passed = [self.name(value) for value in values]
        w.do(f"br i1 {self.name(condition)}, label %{body}, label %{end}")
        w.start_block(body)
        self._names.update(zip(op.after.args, passed, strict=True))
        following = [self._leaving(value) for value in self.run(op.after)]
        latch = w.leave_to(head)
        phis.parts += [
            f"  {name} = phi {type} [ {first}, %{entry} ], [ {next}, %{latch} ]"
            for name, type, first, next in zip(names, types, initial, following, strict=True)
        ]
        w.start_block(end)
        self._names.update(zip(op.results, passed, strict=True))

    def _leaving(self, value: Value) -> str:
        """A value as it goes to another block."""
        element, name = element_of(value.type), self.name(value)
        if moved_as(element) == element:
            return name
        return half_bits(LaneType(self.w, element, lanes_of(value.type))(name)).name

    def _enter(self, values: Sequence[Value], names: Sequence[str]) -> None:
        """Bind values to what came from other blocks."""
        for value, name in zip(values, names, strict=True):
            type = vector(element_of(value.type), lanes_of(value.type))
            self._names[value] = self.w.convert("bitcast", name, moved_type(value.type), type)

    TABLE: Mapping[str, Callable[[Any, Any], None]] = {
        "arith.constant": _constant,
        "scf.for": _for,
        "scf.if": _if,
        "scf.while": _while,
        "tt.assert": _assert,
        "vector.broadcast": _broadcast,
        "vector.load": _load,
        "vector.reduction": _reduction,
        "vector.store": _store,
    }


def moved_type(type: Type) -> str:
    """The LLVM type of a value between blocks."""
    return vector(moved_as(element_of(type)), lanes_of(type))
