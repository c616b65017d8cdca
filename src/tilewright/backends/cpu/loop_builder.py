"""A builder of vector loops, op by op. Constants are folded, so that no redundant ops are built.

    b = LoopBuilder(block)
    with b.loop(0, count, 16, carried=[b.constant(0.0, lanes)]) as loop:
        x = b.load(lanes, p, b.mul(loop.index, 4), align=4)
        loop.next = [b.add(loop.carried[0], x)]

Values are SSA values; a Python number may stand for an integer constant. Two operands have one type, and vectors are
used like scalars. Loops, branches and insertion points are those of `loop_structure`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.backends.cpu.loop_structure import Operand, StructureBuilder
from tilewright.dialects.arith import Constant
from tilewright.dialects.tt_memory import pointee_type
from tilewright.dialects.vector import lanes_of
from tilewright.ir.attributes import UNIT, Attribute, Dense, DenseArray, Keyword, Number
from tilewright.ir.core import Op, Value
from tilewright.ir.declare import OPS
from tilewright.ir.literals import canonical
from tilewright.ir.types import FloatType, PointerType, Type, VectorType, f32, i1, i8, i32, i64, with_element
from tilewright.transforms.matching import integer_of

BYTES = PointerType(i8)
WASTE = 256
"""Bytes that lanes which are masked off may read or write."""
_NUMBERS = {number: Number(number, i64) for number in (1, 2, 4, 8, 16, 32, 64)}


class LoopBuilder(StructureBuilder):
    """A builder of the ops that vector loops consist of. Ops without a place, such as constants, are made once."""

    # ---- numbers known now ----

    def constants(self, numbers: Sequence[float], type: Type) -> Value:
        """A vector with a number for each lane."""
        return self._once("arith.constant", type, {"value": Dense(tuple(canonical(n, type) for n in numbers), type)})

    def step(self, lanes: int, element: Type) -> Value:
        """0, 1, 2, …: each lane's own number."""
        if lanes == 1:
            return self.constant(0, element)
        return self._once("vector.step", VectorType((lanes,), element))

    def _once(self, name: str, type: Type, attributes: dict[str, Attribute] | None = None) -> Value:
        """The result of an op that has a place nowhere, with these attributes; it stands behind the constants."""
        key = name, type, repr(attributes)
        found = self._literals.get(key)
        if found is None:
            found = self._literals[key] = self._after_constants(name, type, attributes)
        return found

    def _after_constants(self, name: str, type: Type, attributes: dict[str, Attribute] | None) -> Value:
        before = self.entry.first
        while before is not None and before.definition.constant:
            before = before.next
        return self.entry.insert(Op(OPS[name], (), (type,), attributes), before).results[0]

    def _pair(self, a: Operand, b: Operand) -> tuple[Value, Value]:
        """Two operands as values; one of them gives the type."""
        if isinstance(a, int):
            assert isinstance(b, Value), "one operand is no number"
            return self.constant(a, b.type), b
        return a, self.constant(b, a.type) if isinstance(b, int) else b

    # ---- arithmetic ----

    def add(self, a: Operand, b: Operand) -> Value:
        a, b = self._pair(a, b)
        x, y = known(a), known(b)
        if x.__class__ is int and y.__class__ is int:
            return self.constant(x + y, a.type)
        if a.type.scalar.__class__ is FloatType:
            return self.emit("arith.addf", (a, b), a.type)
        return b if x == 0 else a if y == 0 else self.emit("arith.addi", (a, b), a.type)

    def sub(self, a: Operand, b: Operand) -> Value:
        a, b = self._pair(a, b)
        x, y = known(a), known(b)
        if x.__class__ is int and y.__class__ is int:
            return self.constant(x - y, a.type)
        if a.type.scalar.__class__ is FloatType:
            return self.emit("arith.subf", (a, b), a.type)
        return a if y == 0 else self.emit("arith.subi", (a, b), a.type)

    def mul(self, a: Operand, b: Operand) -> Value:
        a, b = self._pair(a, b)
        x, y = known(a), known(b)
        if x.__class__ is int and y.__class__ is int:
            return self.constant(x * y, a.type)
        if a.type.scalar.__class__ is FloatType:
            return self.emit("arith.mulf", (a, b), a.type)
        if x == 0 or y == 1:
            return a
        return b if x == 1 or y == 0 else self.emit("arith.muli", (a, b), a.type)

    def fma(self, a: Value, b: Value, c: Value, *, fused: bool) -> Value:
        """a·b + c of f32 or f64: by one instruction that rounds once, or (not `fused`) by two."""
        return self.emit("vector.fma", (a, b, c), c.type) if fused else self.add(self.mul(a, b), c)

    def and_(self, a: Operand, b: Operand) -> Value:
        a, b = self._pair(a, b)
        x, y = known(a), known(b)
        if x.__class__ is int and y.__class__ is int:
            return self.constant(x & y, a.type)
        if x == 0 or y == 0:
            return a if x == 0 else b
        if a.type.scalar is i1 and (x or y):
            return b if x else a
        return self.emit("arith.andi", (a, b), a.type)

    def or_(self, a: Operand, b: Operand) -> Value:
        a, b = self._pair(a, b)
        x, y = known(a), known(b)
        if x.__class__ is int and y.__class__ is int:
            return self.constant(x | y, a.type)
        return b if x == 0 else a if y == 0 else self.emit("arith.ori", (a, b), a.type)

    def xor(self, a: Operand, b: Operand) -> Value:
        a, b = self._pair(a, b)
        x, y = known(a), known(b)
        if x.__class__ is int and y.__class__ is int:
            return self.constant(x ^ y, a.type)
        return b if x == 0 else a if y == 0 else self.emit("arith.xori", (a, b), a.type)

    def shl(self, a: Value, b: Operand) -> Value:
        """Shifts by the width or more give 0; arithmetic ones the sign."""
        return a if b == 0 else self.emit("arith.shli", self._pair(a, b), a.type)

    def lshr(self, a: Value, b: Operand) -> Value:
        x = known(a)
        if x.__class__ is int and b.__class__ is int:
            return self.constant((x & ((1 << a.type.bits) - 1)) >> b, a.type)
        return a if b == 0 else self.emit("arith.shrui", self._pair(a, b), a.type)

    def ashr(self, a: Value, b: Operand) -> Value:
        return a if b == 0 else self.emit("arith.shrsi", self._pair(a, b), a.type)

    def udiv(self, a: Operand, b: Operand) -> Value:
        """The quotient; 0 where the divisor is 0."""
        return self._binary("arith.divui", a, b)

    def srem(self, a: Operand, b: Operand) -> Value:
        return self._binary("arith.remsi", a, b)

    def smin(self, a: Operand, b: Operand) -> Value:
        return self._extreme("arith.minsi", min, a, b)

    def smax(self, a: Operand, b: Operand) -> Value:
        return self._extreme("arith.maxsi", max, a, b)

    def _extreme(self, name: str, better: Any, a: Operand, b: Operand) -> Value:
        a, b = self._pair(a, b)
        x, y = known(a), known(b)
        if x is not None and y is not None:
            return self.constant(better(x, y), a.type)
        return a if a is b else self.emit(name, (a, b), a.type)

    def _binary(self, name: str, a: Operand, b: Operand) -> Value:
        a, b = self._pair(a, b)
        return self.emit(name, (a, b), a.type)

    def compare(self, predicate: str, a: Operand, b: Operand) -> Value:
        """`slt`, `ult`, `eq`, … of integers, `olt`, `une`, … of floats."""
        a, b = self._pair(a, b)
        name = "arith.cmpf" if a.type.scalar.__class__ is FloatType else "arith.cmpi"
        return self.emit(name, (a, b), with_element(a.type, i1), {"predicate": Keyword(predicate)})

    def select(self, condition: Value, chosen: Operand, other: Operand) -> Value:
        a, b = self._pair(chosen, other)
        x = known(condition)
        if a is b or x is not None:
            return a if a is b or x else b
        return self.emit("arith.select", (condition, a, b), a.type)

    # ---- conversions ----

    def extend(self, value: Value, element: Type, *, signed: bool = True) -> Value:
        """An integer in a wider or a narrower type."""
        width, wanted = value.type.bits, element.bits
        if width == wanted:
            return value
        number = known(value)
        type = with_element(value.type, element)
        if number.__class__ is int:
            return self.constant(number if signed else number % (1 << width), type)
        return self.convert("trunci" if width > wanted else "extsi" if signed else "extui", value, type)

    def convert(self, kind: str, value: Value, type: Type) -> Value:
        """By the op `kind` of `arith`; nothing where `value` is of `type`."""
        return value if value.type is type else self.emit(f"arith.{kind}", (value,), type)

    def bitcast(self, value: Value, type: Type) -> Value:
        """The same bits as lanes of another type, perhaps of another width."""
        return value if value.type is type else self.emit("vector.bitcast", (value,), type)

    def address(self, pointer: Value) -> Value:
        """A pointer (or a vector of them) as i64."""
        return self.emit("tt.ptr_to_int", (pointer,), with_element(pointer.type, i64))

    def pointing(self, pointer: Value, element: Type) -> Value:
        """A pointer as one to something else."""
        type = with_element(pointer.type, PointerType(element))
        return pointer if pointer.type is type else self.emit("tt.bitcast", (pointer,), type)

    # ---- lanes ----

    def splat(self, number: Value, lanes: int) -> Value:
        """The number in every lane."""
        if lanes == 1:
            return number
        x, type = known(number), VectorType((lanes,), number.type)
        return self.constant(x, type) if x is not None else self.emit("vector.broadcast", (number,), type)

    def shuffle(self, first: Value, second: Value | None, lanes: Sequence[int]) -> Value:
        """Lanes of one vector or of two, by number; one lane is a vector, too."""
        operands = (first,) if second is None else (first, second)
        type = VectorType((len(lanes),), first.type.scalar)
        return self.emit("vector.shuffle", operands, type, {"lanes": DenseArray(i32, tuple(lanes))})

    def extract(self, value: Value, lane: int) -> Value:
        """One lane."""
        if value.type.shape is None:
            return value
        return self.emit("vector.extract", (value,), value.type.scalar, {"lane": Number(lane, i32)})

    def slice(self, value: Value, start: int, count: int) -> Value:
        """`count` lanes from `start` on; a number when that is 1."""
        if count == lanes_of(value.type):
            return value
        return self.extract(value, start) if count == 1 else self.shuffle(value, None, range(start, start + count))

    def concat(self, parts: Sequence[Value]) -> Value:
        """Vectors (or numbers) of one type, one after the other; `len(parts)` is a power of two."""
        values = list(parts)
        if len(values) > 1 and values[0].type.shape is None:
            type = VectorType((2,), values[0].type)
            values = [
                self.emit("vector.from_elements", pair, type) for pair in zip(values[::2], values[1::2], strict=True)
            ]
        while len(values) > 1:
            lanes = range(2 * lanes_of(values[0].type))
            values = [self.shuffle(a, b, lanes) for a, b in zip(values[::2], values[1::2], strict=True)]
        return values[0]

    def reduce(self, kind: str, value: Value) -> Value:
        """All lanes in one number."""
        if value.type.shape is None:
            return value
        return self.emit("vector.reduction", (value,), value.type.scalar, {"kind": Keyword(kind)})

    def dot_accumulate(self, a: Value, b: Value, accumulator: Value, *, unsigned: bool = False) -> Value:
        """The accumulator plus the products of groups of neighbours."""
        attributes: dict[str, Attribute] = {"unsigned": UNIT} if unsigned else {}
        return self.emit("vector.dot_accumulate", (a, b, accumulator), accumulator.type, attributes)

    def matrix_accumulate(self, a: Value, b: Value, accumulator: Value) -> Value:
        """The accumulator's matrices of 2 × 2 plus the products of two rows by two columns."""
        return self.emit("vector.matrix_accumulate", (a, b, accumulator), accumulator.type)

    def tile_multiply(self, a: Value, b: Value, accumulator: Value) -> Value:
        """The accumulator, a tile, plus the products of two tiles."""
        name = "amx.tile_mulf" if accumulator.type.scalar is f32 else "amx.tile_muli"
        return self.emit(name, (a, b, accumulator), accumulator.type)

    # ---- memory ----

    def tile_load(self, type: Type, pointer: Value, offset: Operand, stride: Operand) -> Value:
        """The tile whose first row lies `offset` bytes behind `pointer`, and each further one `stride` bytes behind."""
        return self.emit("amx.tile_load", (pointer, self.number(offset), self.number(stride)), type)

    def tile_store(self, value: Value, pointer: Value, offset: Operand, stride: Operand) -> None:
        """Put a tile where `tile_load` would read it."""
        self.do("amx.tile_store", [pointer, self.number(offset), value, self.number(stride)])

    def offset(self, pointer: Value, count: Operand) -> Value:
        """The address of element `count` behind a pointer: of byte `count` behind a `!tt.ptr<i8>`. Vectors as well."""
        return pointer if known(count) == 0 else self.emit("tt.addptr", (pointer, self.number(count)), pointer.type)

    def load(
        self, type: Type, pointer: Value, offset: Operand = 0, *, align: int = 1, stride: Operand | None = None
    ) -> Value:
        """The elements `offset` bytes behind `pointer`: neighbours, or elements `stride` bytes apart.

        Args:
            type: the type of the result, a number or a vector.
            pointer: an address.
            offset: how far behind it the first element lies, in bytes.
            align: what the address is a multiple of, in bytes.
            stride: the distance of two elements in bytes; None: they are neighbours.
        """
        operands = [pointer, self.number(offset)]
        if stride is not None:
            operands.append(self.number(stride))
        return self.emit("vector.load", operands, type, _aligned(align))

    def store(
        self, value: Value, pointer: Value, offset: Operand = 0, *, align: int = 1, stride: Operand | None = None
    ) -> None:
        operands = [pointer, self.number(offset), value, *self._optional(stride)]
        self.do("vector.store", operands, _aligned(align))

    def stream(self, value: Value, pointer: Value, offset: Operand = 0, *, align: int) -> None:
        """Store past the caches."""
        self.do("vector.store", [pointer, self.number(offset), value], {**_aligned(align), "nontemporal": UNIT})

    def masked_load(
        self,
        pointer: Value,
        mask: Value,
        other: Value,
        offset: Operand = 0,
        *,
        align: int = 1,
        stride: Operand | None = None,
    ) -> Value:
        """`load` in the lanes where the mask holds, `other` in the rest.

        Args:
            pointer, offset, align, stride: as for `load`.
            mask: an i1 per lane.
            other: a vector of the result's type.
        """
        operands = [pointer, self.number(offset), mask, other, *self._optional(stride)]
        return self.emit("vector.maskedload", operands, other.type, _aligned(align))

    def masked_store(
        self,
        value: Value,
        pointer: Value,
        mask: Value,
        offset: Operand = 0,
        *,
        align: int = 1,
        stride: Operand | None = None,
    ) -> None:
        operands = [pointer, self.number(offset), value, mask, *self._optional(stride)]
        self.do("vector.maskedstore", operands, _aligned(align))

    def gather(
        self,
        type: Type,
        pointer: Value,
        indices: Value,
        *,
        mask: Value | None = None,
        other: Value | None = None,
        align: int = 1,
    ) -> Value:
        """The elements number `indices` (i64) behind `pointer`, counted in what it points at.

        Args:
            type: the type of the result, a vector.
            pointer: an address.
            indices: an i64 per lane.
            mask: an i1 per lane; None: all are on.
            other: the elements where the mask is off, given with it.
            align: what the addresses are multiples of, in bytes.
        """
        operands = [pointer, indices] if mask is None or other is None else [pointer, indices, mask, other]
        return self.emit("vector.gather", operands, type, _aligned(align))

    def scatter(
        self, value: Value, pointer: Value, indices: Value, *, mask: Value | None = None, align: int = 1
    ) -> None:
        operands = [pointer, indices, value] if mask is None else [pointer, indices, value, mask]
        self.do("vector.scatter", operands, _aligned(align))

    def load_each(self, pointers: Value, *, mask: Value | None = None, other: Value | None = None) -> Value:
        """The elements that a vector of pointers (or one) points at."""
        pointee = pointee_type(pointers.type.scalar)
        operands = [pointers, *(value for value in (mask, other) if value is not None)]
        return self.emit("tt.load", operands, with_element(pointers.type, pointee))

    def store_each(self, value: Value, pointers: Value, *, mask: Value | None = None) -> None:
        """Write through a vector of pointers (or one)."""
        self.do("tt.store", [pointers, value] if mask is None else [pointers, value, mask])

    def spaced_load(self, type: Type, pointer: Value, step: int, *, align: int) -> Value:
        """Every `step`-th element from `pointer` on, by loads of whole vectors and shuffles.

        The last vector ends with the last element, so nothing is read that lies behind it:

            4 lanes, step = 2:   loads 0 1 2 3 and 3 4 5 6, takes 0 2 | 4 6
        """
        lanes, size = lanes_of(type), type.bits // 8
        last = (lanes - 1) * (step - 1)
        if step == 1 or lanes == 1:
            return self.load(type, pointer, align=align)
        found, covered = self.load(type, pointer, align=align), lanes
        for start in (*range(lanes, last, lanes), last):
            part = self.load(type, pointer, start * size, align=align)
            taken = [_taken(lane, step, covered, lanes, start) for lane in range(lanes)]
            found, covered = self.shuffle(found, part, taken), start + lanes
        return found

    def prefetch(self, pointer: Value, offset: Operand = 0, *, locality: int = 3, write: bool = False) -> None:
        """Prefetch a cache line."""
        attributes: dict[str, Attribute] = {"locality": Number(locality, i64)}
        if write:
            attributes["write"] = UNIT
        self.do("vector.prefetch", [pointer, self.number(offset)], attributes)

    def waste_slot(self) -> Value:
        """The memory that lanes which are masked off may read; those WASTE bytes behind it they may write."""
        return self._once("vector.alloca", BYTES, {"size": Number(2 * WASTE, i64), "unread": UNIT})

    def stack(self, size: int) -> Value:
        """The address of `size` bytes on the stack, which nothing else uses."""
        return self._after_constants("vector.alloca", BYTES, {"size": Number(size, i64)})

    def table(self, numbers: Sequence[float], element: Type) -> Value:
        """The address of constants in memory."""
        type = VectorType((len(numbers),), element)
        value = Dense(tuple(canonical(number, type) for number in numbers), type)
        return self._once("vector.table", PointerType(element), {"value": value})

    def _optional(self, stride: Operand | None) -> tuple[Value, ...]:
        return () if stride is None else (self.number(stride),)


def known(value: Operand) -> int | float | None:
    """The number that `value` is in every lane, if it is known now."""
    if isinstance(value, int):
        return value
    op = value.owner
    if op.__class__ is not Constant:
        return None
    literal = op.attributes["value"]
    return literal.value if literal.__class__ is Number else None


def offset_of(value: Value) -> Operand:
    """An integer as a number where it is known now."""
    number = known(value)
    return number if isinstance(number, int) else value


def operand_of(value: Value) -> Operand:
    """A scalar or a buffer as it is in vector loops: a number where it is known now."""
    number = integer_of(value)
    return value if number is None else number


def _aligned(align: int) -> dict[str, Attribute]:
    return {} if align == 1 else {"alignment": _NUMBERS[align]}


def _taken(lane: int, step: int, covered: int, lanes: int, start: int) -> int:
    """The place of `lane`'s element in (what is known of the first `covered` elements, elements from `start` on)."""
    wanted = lane * step
    if wanted < covered:
        return wanted if covered == lanes else lane
    return lanes + min(wanted - start, lanes - 1)
