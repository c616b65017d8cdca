"""Ops written as formulas, from which the checks of the sanitizer are built.

    code = Code(function.regions[0].block)
    code.move_before(load)
    bad = code.of(offset).unsigned_below(size).negated & mask
    with code.when(code.first(bad).differs(NOBODY)): …

A `Term` is a value with operators; where a tile meets a scalar or a number, the latter is broadcast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from tilewright.dialects.tt_memory import pointee_type
from tilewright.ir.attributes import Attribute, Keyword, Number
from tilewright.ir.builder import ConstantPool
from tilewright.ir.core import Block, Op, Region, Value
from tilewright.ir.types import PointerType, TensorType, Type, i1, i32, i64, with_element

NOBODY = 2**31 - 1
"""The result of `first` when no lane is active."""


class Code:
    """The place where ops are inserted; constants go to the start of the function."""

    def __init__(self, entry: Block) -> None:
        self._constants = ConstantPool(entry)
        self.move_before(next(op for op in entry if not op.definition.constant))

    def move_before(self, op: Op) -> None:
        """From now on ops go before `op`, with its place in the source."""
        assert op.block is not None, f"{op.name} is in no block"
        self.block, self.before, self.location = op.block, op, op.location

    def move_after(self, op: Op) -> None:
        """From now on ops go behind `op`, which is no terminator."""
        assert op.next is not None, f"{op.name} ends its block"
        location = op.location
        self.move_before(op.next)
        self.location = location

    def insert(
        self,
        name: str,
        operands: Sequence[Value],
        types: Sequence[Type],
        attributes: dict[str, Attribute] | None = None,
        regions: Sequence[Region] = (),
    ) -> Op:
        op = Op.create(name, operands, types, attributes, regions, location=self.location)
        return self.block.insert(op, self.before)

    def emit(
        self, name: str, operands: Sequence[Term], type: Type, attributes: dict[str, Attribute] | None = None
    ) -> Term:
        """An op with one result."""
        return Term(self, self.insert(name, [term.value for term in operands], (type,), attributes).result)

    def of(self, value: Value) -> Term:
        return Term(self, value)

    def number(self, value: int, type: Type) -> Term:
        """A constant of `type`, repeated if that is a tile."""
        return Term(self, self._constants.value(value, type))

    @contextmanager
    def when(self, condition: Term) -> Iterator[None]:
        """Make the ops emitted inside of the `with` run when the scalar `condition` holds."""
        block = Block()
        end = block.append(Op.create("scf.yield", location=self.location))
        outer = self.block, self.before
        self.insert("scf.if", (condition.value,), (), {"apart": True}, [Region([block]), Region()])
        self.block, self.before = block, end
        yield
        self.block, self.before = outer

    def number_unless(self, condition: Term, value: int, compute: Callable[[], Term]) -> Term:
        """The i32 `value` if `condition` holds, else what `compute` gives; only then its ops run."""
        then, otherwise = Block(), Block()
        then.append(Op.create("scf.yield", (self.number(value, i32).value,), location=self.location))
        end = otherwise.append(Op.create("scf.yield", location=self.location))
        outer = self.block, self.before
        self.block, self.before = otherwise, end
        end.set_operands([compute().value])
        self.block, self.before = outer
        regions = [Region([then]), Region([otherwise])]
        return Term(self, self.insert("scf.if", (condition.value,), (i32,), {"apart": True}, regions).result)

    # ------------------------------------------------------------------ memory

    def pointer(self, address: Term, pointee: Type) -> Term:
        """An address, or a tile of them, as pointers."""
        return self.emit("tt.int_to_ptr", (address,), with_element(address.type, PointerType(pointee)))

    def load(self, pointer: Term, mask: Term | None = None) -> Term:
        """The elements in memory, 0 where `mask` is off."""
        type = pointee_type(pointer.type)
        if mask is None:
            return self.emit("tt.load", (pointer,), type)
        return self.emit("tt.load", (pointer, mask, self.number(0, type)), type)

    def store(self, pointer: Term, value: Term | int, mask: Term | None = None) -> None:
        type = pointee_type(pointer.type)
        stored = self.number(value, type) if isinstance(value, int) else value.like(type)
        operands = [pointer.value, stored.value, *([mask.value] if mask is not None else [])]
        self.insert("tt.store", operands, ())

    def atomic(self, kind: str, pointer: Term, value: Term, mask: Term | None = None) -> Term:
        """A relaxed atomic; returns the old value."""
        attributes: dict[str, Attribute] = {
            "atomic_rmw_op": Keyword(kind),
            "sem": Keyword("relaxed"),
            "scope": Keyword("gpu"),
        }
        operands = (pointer, value) if mask is None else (pointer, value, mask)
        return self.emit("tt.atomic_rmw", operands, value.type, attributes)

    # ------------------------------------------------------------------ tiles

    def range(self, extent: int) -> Term:
        """0, 1, … as a tile."""
        bounds: dict[str, Attribute] = {"start": Number(0, i32), "end": Number(extent, i32)}
        return self.emit("tt.make_range", (), TensorType((extent,), i32), bounds)

    def lane_numbers(self, shape: tuple[int, ...]) -> Term:
        """The number of each lane of a tile, in row-major order; i32."""
        whole = TensorType(shape, i32)
        total: Term | None = None
        step = 1
        for axis in reversed(range(len(shape))):
            column = self.range(shape[axis]) * step if step > 1 else self.range(shape[axis])
            for other in range(len(shape)):
                if other != axis:
                    before = column.type.shape or ()
                    thin = TensorType((*before[:other], 1, *before[other:]), i32)
                    column = self.emit("tt.expand_dims", (column,), thin, {"axis": Number(other, i32)})
            if column.type is not whole:
                column = self.emit("tt.broadcast", (column,), whole)
            total = column if total is None else total + column
            step *= shape[axis]
        assert total is not None, "a tile has axes"
        return total

    def first(self, condition: Term) -> Term:
        """The number of the first lane where `condition` holds, or NOBODY; i32."""
        shape = condition.type.shape
        if not shape:
            return condition.choose(0, NOBODY, i32)
        return condition.choose(self.lane_numbers(shape), NOBODY, i32).reduced("arith.minsi")

    def at_lane(self, term: Term, lane: Term) -> Term:
        """The element of an integer tile at the lane with that number."""
        shape = term.type.shape
        if not shape:
            return term
        here = self.lane_numbers(shape).equals(lane)
        return here.choose(term, 0, term.type.scalar).reduced("arith.addi")


Operand: TypeAlias = "Term | int"


class Term:
    """An SSA value with operators, which insert ops where `code` is at that time."""

    __slots__ = ("code", "value")

    def __init__(self, code: Code, value: Value) -> None:
        self.code, self.value = code, value

    @property
    def type(self) -> Type:
        return self.value.type

    def like(self, type: Type) -> Term:
        """This term, repeated to the shape of `type`."""
        if self.type is type:
            return self
        assert self.type is type.scalar, f"{self.type} cannot be repeated to {type}"
        return self.code.emit("tt.splat", (self,), type)

    def like_shape(self, other: Term) -> Term:
        """This scalar, repeated to the shape of `other`."""
        return self.like(with_element(other.type, self.type.scalar))

    def _with(self, other: Operand) -> tuple[Term, Term]:
        if isinstance(other, int):
            return self, self.code.number(other, self.type)
        if self.type.shape:
            return self, other.like(with_element(self.type, other.type.scalar))
        return self.like(with_element(other.type, self.type.scalar)), other

    def _binary(self, name: str, other: Operand) -> Term:
        a, b = self._with(other)
        return self.code.emit(name, (a, b), a.type)

    def __add__(self, other: Operand) -> Term:
        return self._binary("arith.addi", other)

    def __sub__(self, other: Operand) -> Term:
        return self._binary("arith.subi", other)

    def __mul__(self, other: Operand) -> Term:
        return self._binary("arith.muli", other)

    def __and__(self, other: Operand) -> Term:
        return self._binary("arith.andi", other)

    def __or__(self, other: Operand) -> Term:
        return self._binary("arith.ori", other)

    @property
    def negated(self) -> Term:
        """The negation of a truth value."""
        return self._binary("arith.xori", 1)

    def shifted_up(self, bits: Operand) -> Term:
        return self._binary("arith.shli", bits)

    def shifted_down(self, bits: Operand) -> Term:
        return self._binary("arith.shrsi", bits)

    def shifted_down_unsigned(self, bits: Operand) -> Term:
        return self._binary("arith.shrui", bits)

    def _compare(self, predicate: str, other: Operand) -> Term:
        a, b = self._with(other)
        return self.code.emit("arith.cmpi", (a, b), with_element(a.type, i1), {"predicate": Keyword(predicate)})

    def equals(self, other: Operand) -> Term:
        return self._compare("eq", other)

    def differs(self, other: Operand) -> Term:
        return self._compare("ne", other)

    def at_least(self, other: Operand) -> Term:
        return self._compare("sge", other)

    def at_most(self, other: Operand) -> Term:
        return self._compare("sle", other)

    def unsigned_below(self, other: Operand) -> Term:
        return self._compare("ult", other)

    def unsigned_at_least(self, other: Operand) -> Term:
        return self._compare("uge", other)

    def most(self, other: Operand) -> Term:
        """The larger of two."""
        return self._binary("arith.maxsi", other)

    def least(self, other: Operand) -> Term:
        """The smaller of two."""
        return self._binary("arith.minsi", other)

    def choose(self, yes: Operand, no: Operand, element: Type) -> Term:
        """`yes` where this condition holds, else `no`; both are of type `element`."""
        type = with_element(self.type, element)
        a, b = (self.code.number(x, type) if isinstance(x, int) else x.like(type) for x in (yes, no))
        return self.code.emit("arith.select", (self, a, b), type)

    def to(self, element: Type) -> Term:
        """As integers of another width; truth values become 0 and 1."""
        source = self.type.scalar
        if source is element:
            return self
        if isinstance(source, PointerType):
            return self.code.emit("tt.ptr_to_int", (self,), with_element(self.type, element))
        wider = "arith.extui" if source is i1 else "arith.extsi"
        name = "arith.trunci" if source.bits > element.bits else wider
        return self.code.emit(name, (self,), with_element(self.type, element))

    def plus_elements(self, offset: Operand) -> Term:
        """The pointer `offset` elements further on."""
        if isinstance(offset, int):
            offset = self.code.number(offset, with_element(self.type, i64))
        pointer = self.like(with_element(offset.type, self.type.scalar)) if offset.type.shape else self
        return self.code.emit("tt.addptr", (pointer, offset), pointer.type)

    def reduced(self, combine: str) -> Term:
        """The tile as one number, by the binary op `combine`."""
        term = self
        while shape := term.type.shape:
            element = term.type.scalar
            block = Block((element, element))
            total = block.append(Op.create(combine, block.args, (element,)))
            block.append(Op.create("tt.reduce.return", total.results))
            result = TensorType(shape[:-1], element) if shape[:-1] else element
            attributes: dict[str, Attribute] = {"axis": Number(len(shape) - 1, i32)}
            op = self.code.insert("tt.reduce", (term.value,), (result,), attributes, [Region([block])])
            term = Term(self.code, op.result)
        return term
