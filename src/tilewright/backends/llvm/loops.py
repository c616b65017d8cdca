"""Vector loops → LLVM IR: a table, op → lines. Nothing is decided here, and nothing is known but the names of values.

    %v = vector.load %p[%o] : … -> vector<16xf32>      %v3 = getelementptr inbounds i8, ptr %p, i64 %v2
                                                       %v4 = load <16 x float>, ptr %v3, align 1
    %s = arith.addf %v, %w : vector<16xf32>            %v5 = fadd <16 x float> %v4, %v1
    scf.for …                                          blocks, phis and jumps

Where the machine lacks an instruction, as for masked loads, a table of the machine says which lines stand for the op.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from zlib import crc32

from tilewright.backends.llvm.conversions import half_bits
from tilewright.backends.llvm.elementwise import lower_elementwise
from tilewright.backends.llvm.lanes import Lanes, LaneType
from tilewright.backends.llvm.memory import (
    gather,
    lane_pointers,
    masked_load,
    masked_store,
    moved_as,
    scatter,
)
from tilewright.backends.llvm.products import accumulate_products
from tilewright.backends.llvm.spelling import bits_of, constant, constant_vector, element_of, in_registers, iota, vector
from tilewright.backends.llvm.writer import LlvmWriter
from tilewright.dialects.arith import Constant
from tilewright.dialects.scf import For, If, While
from tilewright.dialects.tt_memory import AddPtr, pointee_type
from tilewright.dialects.tt_memory import Load as LoadEach
from tilewright.dialects.tt_memory import Store as StoreEach
from tilewright.dialects.tt_program import Assert
from tilewright.dialects.vector import (
    NONEMPTY,
    UNLIKELY,
    Alloca,
    BitCast,
    Broadcast,
    DotAccumulate,
    Extract,
    FromElements,
    FusedMultiplyAdd,
    Gather,
    Load,
    MaskedLoad,
    MaskedStore,
    Prefetch,
    Reduction,
    Scatter,
    Shuffle,
    Step,
    Store,
    Table,
    lanes_of,
)
from tilewright.ir.attributes import Dense
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.types import Type

Failed = Callable[[str, str], None]
"""(i1 that says that something is wrong, message) → code."""
Scalars = Mapping[str, Callable[[LlvmWriter, Any, Sequence[str]], str | None]]
"""Functions that write ops on numbers, by the names of their kinds."""


class LoopEmitter:
    """Writes the ops of one function.

    Args:
        w: where the lines go.
        failed: writes what happens where an assertion does not hold.
        outside: gives the LLVM values of what no op here computes.
        scalars: functions for more ops.
    """

    def __init__(
        self,
        w: LlvmWriter,
        failed: Failed | None = None,
        *,
        outside: Callable[[Value], str] | None = None,
        scalars: Scalars | None = None,
    ) -> None:
        self.w = w
        self._failed = failed
        self._outside = outside
        self._scalars = scalars or {}
        self._names: dict[Value, str] = {}

    def bind(self, value: Value, name: str) -> None:
        """Say what the LLVM value of `value` is."""
        self._names[value] = name

    def name(self, value: Value) -> str:
        """The LLVM value of `value`."""
        name = self._names.get(value)
        if name is None:
            name = self._names[value] = self._placeless(value)
        return name

    def _placeless(self, value: Value) -> str:
        """What needs no line where it stands, written where it is first used."""
        op = value.op
        spell = self.PLACELESS.get(op.name) if op is not None else None
        if spell is not None:
            return spell(self, op)
        assert self._outside is not None, f"{value.name or value.type} is not written yet"
        return self._outside(value)

    def run(self, block: Block) -> list[Value]:
        """Write the ops of a block; returns the operands of its terminator, if it has one."""
        for op in block:
            if op.definition.terminator:
                return op.operands
            emit = self.TABLE.get(op.name)
            if emit is not None:
                emit(self, op)
            else:
                self._ordinary(op)
        return []

    def _ordinary(self, op: Op) -> None:
        """An op that computes lane by lane, or of numbers."""
        names = [self.name(operand) for operand in op.operands]
        scalar = self._scalars.get(op.name)
        if scalar is None:
            (result,) = op.results
            self._names[result] = lower_elementwise(self.w, op, names, lanes_of(result.type))
            return
        found = scalar(self.w, op, names)
        if found is not None:
            self._names[op.results[0]] = found

    def _nothing(self, op: Op) -> None:
        """Nothing: see `_placeless`."""

    def _assert(self, op: Assert) -> None:
        assert self._failed is not None, "there is something to do where an assertion fails"
        flag = LaneType(self.w, "i1", 1)
        self._failed((~flag(self.name(op.condition))).name, op.message)

    # --- what needs no line where it stands ---

    def _constant(self, op: Constant) -> str:
        type, value = op.result.type, op.value
        if isinstance(value, Dense):
            return constant_vector([in_registers(number, type) for number in value.values], element_of(type))
        return constant(in_registers(value.value, type), element_of(type), lanes_of(type))

    def _step(self, op: Step) -> str:
        return iota(lanes_of(op.result.type), element_of(op.result.type))

    def _alloca(self, op: Alloca) -> str:
        return self.w.alloca(op.size, align=op.alignment)

    def _table(self, op: Table) -> str:
        value = op.value
        numbers = value.values if isinstance(value, Dense) else [value.value] * lanes_of(value.type)
        element = element_of(value.type)
        coded = [in_registers(number, value.type) for number in numbers]
        return self.w.table(f"table{crc32(repr((element, coded)).encode())}", element, coded)

    PLACELESS: Mapping[str, Callable[[Any, Any], str]] = {
        "arith.constant": _constant,
        "vector.alloca": _alloca,
        "vector.step": _step,
        "vector.table": _table,
    }

    # --- vectors ---

    def _broadcast(self, op: Broadcast) -> None:
        type = op.results[0].type
        self._names[op.results[0]] = self.w.splat(self.name(op.source), element_of(type), lanes_of(type))

    def _reduction(self, op: Reduction) -> None:
        flags = Lanes(LaneType(self.w, element_of(op.source.type), lanes_of(op.source.type)), self.name(op.source))
        self._names[op.results[0]] = flags.any()

    def _shuffle(self, op: Shuffle) -> None:
        second = "poison" if op.second is None else self.name(op.second)
        type = _llvm_type(op.first.type)
        self._names[op.result] = self.w.shuffle(type, self.name(op.first), second, op.lanes)

    def _extract(self, op: Extract) -> None:
        self._names[op.result] = self.w.extract(_llvm_type(op.source.type), self.name(op.source), op.lane)

    def _from_elements(self, op: FromElements) -> None:
        found, element = "poison", element_of(op.result.type)
        for lane, value in enumerate(op.elements):
            found = self.w.insert(_llvm_type(op.result.type), found, element, self.name(value), lane)
        self._names[op.result] = found

    def _bitcast(self, op: BitCast) -> None:
        types = _llvm_type(op.source.type), _llvm_type(op.result.type)
        self._names[op.result] = self.w.convert("bitcast", self.name(op.source), *types)

    def _fma(self, op: FusedMultiplyAdd) -> None:
        a, b, c = map(self.name, op.operands)
        self._names[op.result] = self.w.intrinsic("llvm.fma", _llvm_type(op.result.type), a, b, c)

    def _dot_accumulate(self, op: DotAccumulate) -> None:
        self._names[op.result] = accumulate_products(self.w, op, *map(self.name, op.operands))

    # --- memory ---

    def _addptr(self, op: AddPtr) -> None:
        pointer, offset = map(self.name, op.operands)
        lanes = lanes_of(op.result.type)
        wide = vector("i64", lanes)
        offset = self.w.convert("sext", offset, _llvm_type(op.offset.type), wide)
        types = _in_memory(pointee_type(op.result.type.scalar)), vector("ptr", lanes)
        self._names[op.result] = self.w.emit(f"getelementptr {types[0]}, {types[1]} {pointer}, {wide} {offset}")

    def _address(self, base: Value, offset: Value) -> str:
        return self.w.offset(self.name(base), "i8", self.name(offset))

    def _load(self, op: Load) -> None:
        type, first = op.result.type, self._address(op.base, op.offset)
        if op.stride is None:
            found = self.w.load(_llvm_type(type), first, align=op.alignment)
        else:
            found = gather(self.w, self._apart(first, op.stride, type), element_of(type), align=op.alignment)
        self._names[op.result] = found

    def _store(self, op: Store) -> None:
        type, value, first = op.value.type, self.name(op.value), self._address(op.base, op.offset)
        if op.stride is not None:
            scatter(self.w, self._apart(first, op.stride, type), element_of(type), value, align=op.alignment)
        elif op.nontemporal:
            self.w.stream(_llvm_type(type), value, first, align=op.alignment)
        else:
            self.w.store(_llvm_type(type), value, first, align=op.alignment)

    def _masked_load(self, op: MaskedLoad) -> None:
        type, first = op.result.type, self._address(op.base, op.offset)
        element, align, mask, other = element_of(type), op.alignment, self.name(op.mask), self.name(op.other)
        if op.stride is None:
            found = masked_load(self.w, first, element, lanes_of(type), mask, other, align=align)
        else:
            places = self._apart(first, op.stride, type)
            found = gather(self.w, places, element, align=align, mask=mask, other=other)
        self._names[op.result] = found

    def _masked_store(self, op: MaskedStore) -> None:
        type, value, first = op.value.type, self.name(op.value), self._address(op.base, op.offset)
        element, align, mask = element_of(type), op.alignment, self.name(op.mask)
        if op.stride is None:
            masked_store(self.w, first, element, lanes_of(type), value, mask, align=align)
        else:
            scatter(self.w, self._apart(first, op.stride, type), element, value, align=align, mask=mask)

    def _apart(self, first: str, stride: Value, type: Type) -> list[str]:
        """The addresses of elements that are `stride` bytes apart."""
        pointers, step = [first], self.name(stride)
        for _ in range(lanes_of(type) - 1):
            pointers.append(first if step == "0" else self.w.emit(f"getelementptr i8, ptr {pointers[-1]}, i64 {step}"))
        return pointers

    def _gather(self, op: Gather) -> None:
        mask, other = (None if value is None else self.name(value) for value in (op.mask, op.other))
        element = element_of(op.result.type)
        pointers = self._numbered(op.base, op.indices)
        self._names[op.result] = gather(self.w, pointers, element, align=op.alignment, mask=mask, other=other)

    def _scatter(self, op: Scatter) -> None:
        mask = None if op.mask is None else self.name(op.mask)
        pointers, element = self._numbered(op.base, op.indices), element_of(op.value.type)
        scatter(self.w, pointers, element, self.name(op.value), align=op.alignment, mask=mask)

    def _numbered(self, base: Value, indices: Value) -> list[str]:
        """The addresses of elements by number."""
        element = _in_memory(pointee_type(base.type))
        return lane_pointers(self.w, self.name(base), self.name(indices), element, lanes_of(indices.type))

    def _load_each(self, op: LoadEach) -> None:
        element = element_of(op.result.type)
        mask, other = (None if value is None else self.name(value) for value in (op.mask, op.other))
        if mask is not None and other is None:
            other = constant(0, element, lanes_of(op.result.type))
        pointers = self._pointers(op.pointer)
        self._names[op.result] = gather(self.w, pointers, element, align=_size(element), mask=mask, other=other)

    def _store_each(self, op: StoreEach) -> None:
        element, mask = element_of(op.value.type), None if op.mask is None else self.name(op.mask)
        pointers = self._pointers(op.pointer)
        scatter(self.w, pointers, element, self.name(op.value), align=_size(element), mask=mask)

    def _pointers(self, value: Value) -> list[str]:
        """The lanes of a vector of pointers."""
        name, lanes = self.name(value), lanes_of(value.type)
        return [name] if lanes == 1 else [self.w.extract(vector("ptr", lanes), name, lane) for lane in range(lanes)]

    def _prefetch(self, op: Prefetch) -> None:
        self.w.prefetch(self._address(op.base, op.offset), locality=op.locality, write=op.write)

    # --- control flow: 16-bit floats go from block to block as integers ---

    def _for(self, op: For) -> None:
        low, high, step = map(self.name, op.bounds)
        carried = [(moved_type(value.type), self._leaving(value)) for value in op.inits]
        with self.w.loop(low, high, step, carried=carried, guarded=NONEMPTY not in op.attributes) as loop:
            self.bind(op.induction_variable, loop.index)
            self._enter(op.carried, loop.carried)
            loop.next = [self._leaving(value) for value in self.run(op.body)]
        self._enter(op.results, loop.results)

    def _if(self, op: If) -> None:
        sides: list[list[str]] = []
        with self.w.branch(self.name(op.condition), unlikely=UNLIKELY in op.attributes) as branch:
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
        "arith.constant": _nothing,
        "scf.for": _for,
        "scf.if": _if,
        "scf.while": _while,
        "tt.addptr": _addptr,
        "tt.assert": _assert,
        "tt.load": _load_each,
        "tt.store": _store_each,
        "vector.alloca": _nothing,
        "vector.bitcast": _bitcast,
        "vector.broadcast": _broadcast,
        "vector.dot_accumulate": _dot_accumulate,
        "vector.extract": _extract,
        "vector.fma": _fma,
        "vector.from_elements": _from_elements,
        "vector.gather": _gather,
        "vector.load": _load,
        "vector.maskedload": _masked_load,
        "vector.maskedstore": _masked_store,
        "vector.prefetch": _prefetch,
        "vector.reduction": _reduction,
        "vector.scatter": _scatter,
        "vector.shuffle": _shuffle,
        "vector.step": _nothing,
        "vector.store": _store,
        "vector.table": _nothing,
    }


def moved_type(type: Type) -> str:
    """The LLVM type of a value between blocks."""
    return vector(moved_as(element_of(type)), lanes_of(type))


def _llvm_type(type: Type) -> str:
    return vector(element_of(type), lanes_of(type))


def _in_memory(type: Type) -> str:
    """The LLVM type of an element in memory: truth values take a byte."""
    element = element_of(type)
    return "i8" if element == "i1" else element


def _size(element: str) -> int:
    return bits_of(element) // 8
