"""Vector loops → LLVM IR by a table from op to lines. This file decides nothing and knows only the names of values.

    %v = vector.load %p[%o] : … -> vector<16xf32>      %v3 = getelementptr inbounds i8, ptr %p, i64 %v2
                                                       %v4 = load <16 x float>, ptr %v3, align 1
    %s = arith.addf %v, %w : vector<16xf32>            %v5 = fadd <16 x float> %v4, %v1
    scf.for …                                          blocks, phis and jumps

Where the machine lacks an instruction, such as a masked load, a table for that machine gives the lines that replace it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import cache
from typing import Any, ClassVar
from weakref import proxy
from zlib import crc32

from tilewright.backends.llvm.atomics import atomic
from tilewright.backends.llvm.conversions import half_bits
from tilewright.backends.llvm.debug_info import DebugInfo
from tilewright.backends.llvm.elementwise import lower_elementwise
from tilewright.backends.llvm.lane_accesses import (
    load_each,
    load_every_other,
    load_numbered,
    reads_every_other,
    store_each,
    store_numbered,
)
from tilewright.backends.llvm.lanes import Lanes, LaneType
from tilewright.backends.llvm.masks import flags_of, is_known, lane_flags, spread_flag
from tilewright.backends.llvm.memory import gather, load, masked_load, masked_store, scatter, store
from tilewright.backends.llvm.products import Accumulation, accumulate, tile_load, tile_store
from tilewright.backends.llvm.spelling import (
    comes_apart,
    constant,
    constant_vector,
    element_of,
    in_memory,
    in_registers,
    iota,
    is_kept,
    llvm_type,
    moved_type,
    vector,
    whole_type,
)
from tilewright.backends.llvm.value_numbering import ValueNumbering
from tilewright.backends.llvm.writer import LlvmWriter
from tilewright.dialects.amx import TileLoad, TileStore
from tilewright.dialects.arith import Constant, Select
from tilewright.dialects.scf import For, If, While
from tilewright.dialects.tt_atomics import AtomicCas, AtomicRmw
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
from tilewright.ir.attributes import UNKNOWN, Dense
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.types import Type

Failed = Callable[[str, str], None]
"""(i1 that says that something is wrong, message) → code."""


class _Names(dict[Value, str]):
    """The names of values; those that nobody has named yet are asked for once."""

    __slots__ = ("_emitter",)

    def __init__(self, emitter: LoopEmitter) -> None:
        self._emitter = proxy(emitter)  # a circle would keep all values until the garbage collector runs

    def __missing__(self, value: Value) -> str:
        emitter: LoopEmitter = self._emitter
        if value in emitter.kept:
            return emitter.here(value)
        name = emitter.placeless(value)
        self[value] = name
        return name


class LoopEmitter:
    """Writes the ops of one function.

    Args:
        w: where the lines go.
        failed: writes what happens where an assertion does not hold.
        outside: gives the LLVM values of what no op here computes.
    """

    def __init__(
        self,
        w: LlvmWriter,
        failed: Failed | None = None,
        *,
        outside: Callable[[Value], str] | None = None,
    ) -> None:
        self.w = w
        self._failed = failed
        self._outside = outside
        self.names = _Names(self)
        self.kept: dict[Value, str] = {}
        self._numbering = ValueNumbering()

    def bind(self, value: Value, name: str) -> None:
        """Say what the LLVM value of `value` is."""
        self.names[value] = name
        if is_kept(value.type):
            self._keep(value)

    def placeless(self, value: Value) -> str:
        """The text of an op that needs no line where it stands: it is written where it is first used."""
        op = value.op
        spell = self.PLACELESS.get(op.name) if op is not None else None
        if spell is not None:
            return spell(self, op)
        assert self._outside is not None, f"{value.name or value.type} is not written yet"
        return self._outside(value)

    def run(self, block: Block) -> list[Value]:
        """Write the ops of a block; returns the operands of its terminator, if it has one."""
        find, debug, known, names = self.TABLE.get, self.w.debug, self._numbering.known, self.names
        self._numbering.forget()
        ops = block.ops()
        end = ops[-1] if ops and ops[-1].definition.terminator else None
        for op in ops if end is None else ops[:-1]:
            if debug is not None:
                self._described(debug, op, find(op.name, LoopEmitter._ordinary))
            elif (same := known(op)) is not None:
                names[op.results[0]] = names[same]
                continue
            else:
                find(op.name, LoopEmitter._ordinary)(self, op)
            for result in op.results:
                if is_kept(result.type):
                    self._keep(result)
        self._numbering.forget()
        return [] if end is None else end.operands

    def _keep(self, value: Value) -> None:
        """Let all users of `value`, of a type that `is_kept`, find it as integers: they may be in other blocks."""
        name = self.names.pop(value, None)
        if name is not None:
            self.kept[value] = self.w.convert("bitcast", name, llvm_type(value.type), moved_type(value.type))

    def here(self, value: Value) -> str:
        """A value that was kept, for a user in this block."""
        if element_of(value.type) == "i1":
            return flags_of(self.w, self.kept[value], lanes_of(value.type))
        return self.w.convert("bitcast", self.kept[value], moved_type(value.type), llvm_type(value.type))

    def _described(self, debug: DebugInfo, op: Op, emit: Callable[[Any, Any], None]) -> None:
        """Write an op with debug information: its own, or that of what it belongs to."""
        with nullcontext() if op.location is UNKNOWN else debug.inside(op):
            emit(self, op)
        for result in op.results:
            if result in self.names:
                self.w.show(result, llvm_type(result.type), self.names[result])

    def _ordinary(self, op: Op) -> None:
        """An op that computes lane by lane."""
        (result,) = op.results
        self.names[result] = lower_elementwise(self.w, op, self._operands(op), lanes_of(result.type))

    def _operands(self, op: Op) -> list[str]:
        names = self.names
        return [names[operand] for operand in op.operands]

    def _nothing(self, op: Op) -> None:
        """Nothing: see `placeless`."""

    def _assert(self, op: Assert) -> None:
        assert self._failed is not None, "there is something to do where an assertion fails"
        flag = LaneType(self.w, "i1", 1)
        self._failed((~flag(self.names[op.condition])).name, op.message)

    # --- what needs no line where it stands ---

    def _constant(self, op: Constant) -> str:
        type, value = op.result.type, op.value
        if isinstance(value, Dense):
            return constant_vector([in_registers(number, type) for number in value.values], element_of(type))
        return constant(in_registers(value.value, type), element_of(type), lanes_of(type))

    def _step(self, op: Step) -> str:
        return iota(lanes_of(op.result.type), element_of(op.result.type))

    def _alloca(self, op: Alloca) -> str:
        return self.w.waste_slot() if op.unread else self.w.alloca(op.size, align=op.alignment)

    def _table(self, op: Table) -> str:
        value = op.value
        numbers = value.values if isinstance(value, Dense) else [value.value] * lanes_of(value.type)
        element = element_of(value.type)
        coded = [in_registers(number, value.type) for number in numbers]
        return self.w.table(f"table{crc32(repr((element, coded)).encode())}", element, coded)

    PLACELESS: ClassVar[Mapping[str, Callable[[Any, Any], str]]] = {
        "arith.constant": _constant,
        "vector.alloca": _alloca,
        "vector.step": _step,
        "vector.table": _table,
    }

    # --- vectors ---

    def _select(self, op: Select) -> None:
        """By one condition for all lanes, or by one for each."""
        result, chosen, other = op.results[0], self._whole(op.chosen), self._whole(op.other)
        condition, lanes = self.names[op.condition], lanes_of(op.condition.type)
        self._name(result, self.w.select(condition, whole_type(result.type), chosen, other, lanes=lanes))

    def _whole(self, value: Value) -> str:
        """A value whose elements only move, of its `whole_type`."""
        return self.w.convert("bitcast", self.names[value], llvm_type(value.type), whole_type(value.type))

    def _name(self, result: Value, found: str) -> None:
        """Let `result` be what was found, which is of its `whole_type`."""
        self.names[result] = self.w.convert("bitcast", found, whole_type(result.type), llvm_type(result.type))

    def _broadcast(self, op: Broadcast) -> None:
        result, source = op.results[0], self.names[op.source]
        element, lanes = element_of(result.type), lanes_of(result.type)
        if element == "i1" and self.w.target.masks_are_vectors and lanes == self.w.target.lanes(32):
            self.kept[result] = spread_flag(self.w, source, lanes)
        elif comes_apart(element, lanes) and source.startswith("%"):
            first = self.w.insert(llvm_type(result.type), "poison", element, source, 0)
            whole = self.w.convert("bitcast", first, llvm_type(result.type), whole_type(result.type))
            self._name(result, self.w.shuffle(whole_type(result.type), whole, "poison", [0] * lanes))
        else:
            self.names[result] = self.w.splat(source, element, lanes)

    def _reduction(self, op: Reduction) -> None:
        flags = Lanes(LaneType(self.w, element_of(op.source.type), lanes_of(op.source.type)), self.names[op.source])
        self.names[op.results[0]] = flags.any()

    def _shuffle(self, op: Shuffle) -> None:
        second = "poison" if op.second is None else self._whole(op.second)
        self._name(op.result, self.w.shuffle(whole_type(op.first.type), self._whole(op.first), second, op.lanes))

    def _extract(self, op: Extract) -> None:
        type, source = op.source.type, self.names[op.source]
        if element_of(type) == "i1":
            (self.names[op.result],) = lane_flags(self.w, source, lanes_of(type), (op.lane,))
        else:
            self.names[op.result] = self.w.extract(llvm_type(type), source, op.lane)

    def _from_elements(self, op: FromElements) -> None:
        found, element = "poison", element_of(op.result.type)
        for lane, value in enumerate(op.elements):
            found = self.w.insert(llvm_type(op.result.type), found, element, self.names[value], lane)
        self.names[op.result] = found

    def _bitcast(self, op: BitCast) -> None:
        source, result = op.source, op.results[0]
        self.names[result] = self.w.convert(
            "bitcast", self.names[source], llvm_type(source.type), llvm_type(result.type)
        )

    def _fma(self, op: FusedMultiplyAdd) -> None:
        result = op.results[0]
        self.names[result] = self.w.intrinsic("llvm.fma", llvm_type(result.type), *self._operands(op))

    def _accumulate(self, op: Accumulation) -> None:
        self.names[op.results[0]] = accumulate(self.w, op, *self._operands(op))

    # --- memory ---

    def _tile_load(self, op: TileLoad) -> None:
        self.names[op.results[0]] = tile_load(self.w, self._address(op.base, op.offset), self.names[op.stride])

    def _tile_store(self, op: TileStore) -> None:
        tile_store(self.w, self._address(op.base, op.offset), self.names[op.stride], self.names[op.value])

    def _addptr(self, op: AddPtr) -> None:
        result, index = op.results[0], op.offset.type
        pointer, offset = self._operands(op)
        start, wide = _stepping(result.type)
        offset = self.w.convert("sext", offset, llvm_type(index), wide)
        self.names[result] = self.w.emit(f"{start} {pointer}, {wide} {offset}")

    def _address(self, base: Value, offset: Value) -> str:
        return self.w.offset(self.names[base], "i8", self.names[offset])

    def _load(self, op: Load) -> None:
        result = op.results[0]
        type, (base, offset, *stride) = result.type, op.operands
        first = self._address(base, offset)
        if not stride:
            found = load(self.w, first, element_of(type), lanes_of(type), align=op.alignment)
        else:
            found = gather(self.w, self._apart(first, stride[0], type), element_of(type), align=op.alignment)
        self.names[result] = found

    def _store(self, op: Store) -> None:
        base, offset, stored, *stride = op.operands
        type, value, first = stored.type, self.names[stored], self._address(base, offset)
        if stride:
            scatter(self.w, self._apart(first, stride[0], type), element_of(type), value, align=op.alignment)
        elif op.nontemporal:
            self.w.stream(llvm_type(type), value, first, align=op.alignment)
        else:
            store(self.w, first, element_of(type), lanes_of(type), value, align=op.alignment)

    def _masked_load(self, op: MaskedLoad) -> None:
        type, first = op.result.type, self._address(op.base, op.offset)
        element, align, mask, other = element_of(type), op.alignment, self.names[op.mask], self.names[op.other]
        if op.stride is None:
            found = masked_load(self.w, first, element, lanes_of(type), mask, other, align=align)
        elif reads_every_other(self.w.target, element, lanes_of(type), op.stride):
            found = load_every_other(self.w, first, element, mask, other)
        else:
            places = self._apart(first, op.stride, type)
            found = gather(self.w, places, element, align=align, mask=mask, other=other)
        self.names[op.result] = found

    def _masked_store(self, op: MaskedStore) -> None:
        type, value, first = op.value.type, self.names[op.value], self._address(op.base, op.offset)
        element, align, mask = element_of(type), op.alignment, self.names[op.mask]
        if op.stride is None:
            known = is_known(op.mask)
            masked_store(self.w, first, element, lanes_of(type), value, mask, align=align, is_known=known)
        else:
            scatter(self.w, self._apart(first, op.stride, type), element, value, align=align, mask=mask)

    def _apart(self, first: str, stride: Value, type: Type) -> list[str]:
        """The addresses of elements that are `stride` bytes apart."""
        pointers, step = [first], self.names[stride]
        for _ in range(lanes_of(type) - 1):
            pointers.append(first if step == "0" else self.w.emit(f"getelementptr i8, ptr {pointers[-1]}, i64 {step}"))
        return pointers

    def _gather(self, op: Gather) -> None:
        self.names[op.result] = load_numbered(self.w, self.names, op)

    def _scatter(self, op: Scatter) -> None:
        store_numbered(self.w, self.names, op)

    def _load_each(self, op: LoadEach) -> None:
        self.names[op.result] = load_each(self.w, self.names, op)

    def _store_each(self, op: StoreEach) -> None:
        store_each(self.w, self.names, op)

    def _atomic(self, op: AtomicRmw | AtomicCas) -> None:
        pointer, *values = self._operands(op)
        mask = values.pop() if isinstance(op, AtomicRmw) and op.mask is not None else None
        old = atomic(self.w, op, pointer, values, mask)
        for result in op.results:
            self.names[result] = old

    def _prefetch(self, op: Prefetch) -> None:
        self.w.prefetch(self._address(*op.operands), locality=op.locality, write=op.write)

    # --- control flow: 16-bit floats go from block to block as integers ---

    def _for(self, op: For) -> None:
        low, high, step = self._operands(op)[:3]
        high = end_of_iterations(self.w, low, high, step)
        carried = [(moved_type(value.type), self._leaving(value)) for value in op.inits]
        with self.w.loop(low, high, step, carried=carried, guarded=NONEMPTY not in op.attributes) as loop:
            self.bind(op.induction_variable, loop.index)
            self._enter(op.carried, loop.carried)
            loop.next = [self._leaving(value) for value in self.run(op.body)]
        self._enter(op.results, loop.results)

    def _if(self, op: If) -> None:
        sides: list[list[str]] = []
        with self.w.branch(self.names[op.condition], unlikely=UNLIKELY in op.attributes) as branch:
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
        passed = [self._leaving(value) for value in values]
        w.do(f"br i1 {self.names[condition]}, label %{body}, label %{end}")
        w.start_block(body)
        self._enter(op.after.args, passed)
        following = [self._leaving(value) for value in self.run(op.after)]
        latch = w.leave_to(head)
        phis.lines += [
            f"  {name} = phi {type} [ {first}, %{entry} ], [ {next}, %{latch} ]"
            for name, type, first, next in zip(names, types, initial, following, strict=True)
        ]
        w.start_block(end)
        self._enter(op.results, passed)

    def _leaving(self, value: Value) -> str:
        """A value as it goes to another block."""
        type, name = value.type, self.names[value]
        if moved_type(type) == llvm_type(type):
            return name
        return half_bits(LaneType(self.w, element_of(type), lanes_of(type))(name)).name

    def _enter(self, values: Sequence[Value], names: Sequence[str]) -> None:
        """Bind values to what came from other blocks."""
        for value, name in zip(values, names, strict=True):
            if is_kept(value.type):
                self.kept[value] = name
            else:
                self.names[value] = self.w.convert("bitcast", name, moved_type(value.type), llvm_type(value.type))

    TABLE: ClassVar[Mapping[str, Callable[[Any, Any], None]]] = {
        "amx.tile_load": _tile_load,
        "amx.tile_mulf": _accumulate,
        "amx.tile_muli": _accumulate,
        "amx.tile_store": _tile_store,
        "arith.constant": _nothing,
        "arith.select": _select,
        "scf.for": _for,
        "scf.if": _if,
        "scf.while": _while,
        "tt.addptr": _addptr,
        "tt.assert": _assert,
        "tt.atomic_cas": _atomic,
        "tt.atomic_rmw": _atomic,
        "tt.load": _load_each,
        "tt.store": _store_each,
        "vector.alloca": _nothing,
        "vector.bitcast": _bitcast,
        "vector.broadcast": _broadcast,
        "vector.dot_accumulate": _accumulate,
        "vector.matrix_accumulate": _accumulate,
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


def end_of_iterations(w: LlvmWriter, low: str, high: str, step: str) -> str:
    """The end of a loop over i64: `low`, without an iteration, if its step turns out not to be positive at run time."""
    if step.isdigit():
        return high
    return w.emit(f"select i1 {w.emit(f'icmp sgt i64 {step}, 0')}, i64 {high}, i64 {low}")


@cache
def _stepping(pointers: Type) -> tuple[str, str]:
    """The start of the instruction that steps over what `pointers` point at, and the type of the number of steps."""
    lanes = lanes_of(pointers)
    return f"getelementptr {in_memory(pointee_type(pointers.scalar))}, {vector('ptr', lanes)}", vector("i64", lanes)
