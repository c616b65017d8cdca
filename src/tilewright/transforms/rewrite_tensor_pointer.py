"""Rewrite tensor pointer: block pointers become scalars, and accesses through them tiles of pointers with masks.

    %p = tt.make_tensor_ptr %base, [%m, %n], [%sm, %sn], [%i, %j]     ->   base, m, n, sm, sn, i, j
    %q = tt.advance %p, [%c0, %c32]                                   ->   base, m, n, sm, sn, i + 0, j + 32
    %x = tt.load %q {boundaryCheck = array<i32: 1>, padding = 1}      ->   pointers base + i*sm + (j + 32)*sn + tile,
                                                                           mask 0 <= j + 32 + range < n, other 0

A block pointer of rank r is 1 + 3r scalars, also where it goes round a loop or leaves an `if`; canonicalization removes
those that do not change. The offset of the block goes into the scalar base, so that the tile of offsets inside the
block stays the same when the block moves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import chain

from tilewright.ir.attributes import Attribute, DenseArray, Keyword, Number
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.types import FloatType, FunctionType, PointerType, TensorType, Type, i1, i32, i64
from tilewright.transforms.functions import argument_attributes, functions_of
from tilewright.transforms.matching import number_of

PASSED_ON = frozenset(("scf.for", "scf.if", "scf.while", "scf.yield", "scf.condition", "tt.call", "tt.return"))
"""Ops that only hand block pointers on: they take and give the parts instead."""


def rewrite_tensor_pointer(module: Op) -> bool:
    """Remove block pointers from every function of `module`; returns whether there were any."""
    if not any(op.name == "tt.make_tensor_ptr" for op in module.walk()):
        return False
    for function in functions_of(module):
        rewriting = _Rewriting(function.regions[0].block)
        for block in function.regions[0].blocks:
            rewriting.rewrite_block(block)
        for op in reversed(rewriting.replaced):
            op.erase()
        _expand_signature(function)
    return True


def _expand_signature(function: Op) -> None:
    """Let a function that takes or returns block pointers say that it takes and returns their parts."""
    type = function.attributes["function_type"]
    assert isinstance(type, FunctionType), "a function has a function type"
    if any(map(_is_block_pointer, type.inputs)):
        expanded: list[Attribute] = []
        for argument, attributes in zip(type.inputs, argument_attributes(function), strict=True):
            expanded += [attributes for _ in _part_types(argument)]
        function.attributes["arg_attrs"] = tuple(expanded)
    inputs, outputs = (tuple(chain.from_iterable(map(_part_types, part))) for part in (type.inputs, type.outputs))
    function.attributes["function_type"] = FunctionType(inputs, outputs)


def _is_block_pointer(type: Type) -> bool:
    return isinstance(type, PointerType) and isinstance(type.pointee, TensorType)


def _block_of(value: Value) -> TensorType:
    assert isinstance(value.type, PointerType), "a block pointer is a pointer"
    assert isinstance(value.type.pointee, TensorType), "a block pointer points at a tile"
    return value.type.pointee


def _part_types(type: Type) -> list[Type]:
    """What stands for a value of `type`: base, shape, strides and offsets for a block pointer."""
    if not isinstance(type, PointerType) or not isinstance(type.pointee, TensorType):
        return [type]
    return [PointerType(type.pointee.element, type.space), *[i64] * (3 * len(type.pointee.shape))]


class _Rewriting:
    """The rewriting of the function whose body starts with `entry`.

    Attributes:
        parts: per block pointer the scalars it consists of.
        replaced: ops to erase at the end, in order.
        columns: the steps inside blocks that are used so far.
    """

    def __init__(self, entry: Block) -> None:
        assert entry.first is not None, "a function ends with a terminator"
        self.parts: dict[Value, list[Value]] = {}
        self.replaced: list[Op] = []
        self.columns = _Columns(_Emitter(entry.first))

    def rewrite_block(self, block: Block) -> None:
        block.args = self._expanded_values(block.args, block)
        for op in block:
            rewrite = REWRITES.get(op.name)
            if op.name in PASSED_ON:
                self._hand_on_parts(op)
            elif rewrite is not None and any(_is_block_pointer(v.type) for v in chain(op.operands, op.results)):
                rewrite(self, op)

    def _hand_on_parts(self, op: Op) -> None:
        if any(_is_block_pointer(value.type) for value in op.operands):
            op.set_operands(list(chain.from_iterable(self.parts.get(value, [value]) for value in op.operands)))
        op.results = self._expanded_values(op.results, op)
        for region in op.regions:
            for block in region.blocks:
                self.rewrite_block(block)

    def _expanded_values(self, values: list[Value], owner: Op | Block) -> list[Value]:
        """Arguments or results with the parts of block pointers in their place."""
        if not any(_is_block_pointer(value.type) for value in values):
            return values
        expanded: list[Value] = []
        for value in values:
            if _is_block_pointer(value.type):
                parts = [Value(type, owner, 0, value.name) for type in _part_types(value.type)]
                self.parts[value] = parts
                expanded += parts
            else:
                expanded.append(value)
        for i, value in enumerate(expanded):
            value.index = i
        return expanded

    # --- one method per op ------------------------------------------------------------------------------------------

    def make(self, op: Op) -> None:
        rank = len(_block_of(op.result).shape)
        emit = _Emitter(op)
        fixed, offsets = op.operands[: 1 + 2 * rank], op.operands[1 + 2 * rank :]
        self.parts[op.result] = [*fixed, *(emit.widened(offset) for offset in offsets)]
        self.replaced.append(op)

    def advance(self, op: Op) -> None:
        emit = _Emitter(op)
        parts, deltas = self.parts[op.operands[0]], op.operands[1:]
        fixed, offsets = parts[: -len(deltas)], parts[-len(deltas) :]
        moved = [emit.binary("arith.addi", a, emit.widened(b)) for a, b in zip(offsets, deltas, strict=True)]
        self.parts[op.result] = [*fixed, *moved]
        self.replaced.append(op)

    def select(self, op: Op) -> None:
        emit = _Emitter(op)
        condition, a, b = op.operands
        self.parts[op.result] = [
            x if x is y else emit.op("arith.select", (condition, x, y), x.type)
            for x, y in zip(self.parts[a], self.parts[b], strict=True)
        ]
        self.replaced.append(op)

    def load(self, op: Op) -> None:
        access = _Access(op, self.parts[op.operands[0]], self.columns)
        operands = [access.pointers(), *access.mask()]
        if len(operands) == 2:
            operands += access.padding()
        op.set_operands(operands)
        _drop_block_attributes(op)

    def store(self, op: Op) -> None:
        access = _Access(op, self.parts[op.operands[0]], self.columns)
        op.set_operands([access.pointers(), op.operands[1], *access.mask()])
        _drop_block_attributes(op)


REWRITES: dict[str, Callable[[_Rewriting, Op], None]] = {
    "tt.make_tensor_ptr": _Rewriting.make,
    "tt.advance": _Rewriting.advance,
    "arith.select": _Rewriting.select,
    "tt.load": _Rewriting.load,
    "tt.store": _Rewriting.store,
}


def _drop_block_attributes(op: Op) -> None:
    op.attributes.pop("boundaryCheck", None)
    op.attributes.pop("padding", None)


class _Emitter:
    """Creates ops in front of one op."""

    def __init__(self, before: Op) -> None:
        self.before = before

    def op(
        self, name: str, operands: Sequence[Value], type: Type, attributes: dict[str, Attribute] | None = None
    ) -> Value:
        assert self.before.block is not None, f"{self.before.name} is in no block"
        op = Op.create(name, operands, (type,), attributes, location=self.before.location)
        return self.before.block.insert(op, self.before).result

    def binary(self, name: str, a: Value, b: Value) -> Value:
        return self.op(name, (a, b), a.type)

    def widened(self, value: Value) -> Value:
        number = number_of(value)
        if number is not None:
            return self.constant(number.value, i64)
        return value if value.type is i64 else self.op("arith.extsi", (value,), i64)

    def constant(self, value: float, type: Type) -> Value:
        return self.op("arith.constant", (), type, {"value": Number(value, type)})

    def splat(self, value: Value, shape: tuple[int, ...]) -> Value:
        return self.op("tt.splat", (value,), TensorType(shape, value.type))


class _Columns:
    """0, 1, 2, … as i64, along the axes of blocks; each is computed once, at the start of the function."""

    def __init__(self, emit: _Emitter) -> None:
        self.emit = emit
        self._steps: dict[int, Value] = {}
        self._columns: dict[tuple[tuple[int, ...], int], Value] = {}

    def steps(self, extent: int) -> Value:
        """As a tile of one axis."""
        if extent not in self._steps:
            bounds: dict[str, Attribute] = {"start": Number(0, i32), "end": Number(extent, i32)}
            narrow = self.emit.op("tt.make_range", (), TensorType((extent,), i32), bounds)
            self._steps[extent] = self.emit.op("arith.extsi", (narrow,), TensorType((extent,), i64))
        return self._steps[extent]

    def column(self, shape: tuple[int, ...], axis: int) -> Value:
        """As a tile that extends along `axis` of a block of `shape`."""
        if (shape, axis) not in self._columns:
            self._columns[shape, axis] = emit_along(self.emit, axis, len(shape), self.steps(shape[axis]))
        return self._columns[shape, axis]


def emit_along(emit: _Emitter, axis: int, rank: int, column: Value) -> Value:
    """A tile of one axis as one that extends along `axis` of `rank`."""
    for i in range(rank):
        if i != axis:
            shape = column.type.shape or ()
            type = TensorType((*shape[:i], 1, *shape[i:]), column.type.scalar)
            column = emit.op("tt.expand_dims", (column,), type, {"axis": Number(i, i32)})
    return column


class _Access:
    """One load or store through a block pointer."""

    def __init__(self, op: Op, parts: list[Value], columns: _Columns) -> None:
        self.op = op
        self.columns = columns
        self.emit = _Emitter(op)
        self.tile = _block_of(op.operands[0])
        self.rank = rank = len(self.tile.shape)
        self.base, self.shape, self.strides, self.offsets = (
            parts[0],
            parts[1 : 1 + rank],
            parts[1 + rank : 1 + 2 * rank],
            parts[1 + 2 * rank :],
        )

    def pointers(self) -> Value:
        """base + sum of offset * stride, a scalar; plus the tile of offsets inside the block."""
        emit = self.emit
        base = self.base
        for offset, stride in zip(self.offsets, self.strides, strict=True):
            base = emit.op("tt.addptr", (base, emit.binary("arith.muli", offset, stride)), base.type)
        inside: Value | None = None
        for axis, stride in enumerate(self.strides):
            column = self.columns.column(self.tile.shape, axis)
            step = emit.splat(stride, column.type.shape or ())
            term = self._broadcast(emit.binary("arith.muli", column, step))
            inside = term if inside is None else emit.binary("arith.addi", inside, term)
        pointers = emit.splat(base, self.tile.shape)
        return pointers if inside is None else emit.op("tt.addptr", (pointers, inside), pointers.type)

    def mask(self) -> Iterable[Value]:
        """0 <= offset + range < shape on every checked axis; nothing if none is."""
        check = self.op.attributes.get("boundaryCheck")
        axes = check.values if isinstance(check, DenseArray) else ()
        both: Value | None = None
        for axis in axes:
            inside = self._broadcast(emit_along(self.emit, axis, self.rank, self._inside(axis)))
            both = inside if both is None else self.emit.binary("arith.andi", both, inside)
        return () if both is None else (both,)

    def padding(self) -> Iterable[Value]:
        """The value of what is outside, if the load says one."""
        keyword = self.op.attributes.get("padding")
        if not isinstance(keyword, Keyword):
            return ()
        is_float = isinstance(self.tile.element, FloatType)
        value = math.nan if keyword.name == "pad_nan" else 0.0 if is_float else 0
        return (self.emit.constant(value, self.tile),)

    def _inside(self, axis: int) -> Value:
        emit = self.emit
        shape = (self.tile.shape[axis],)
        index = emit.binary("arith.addi", emit.splat(self.offsets[axis], shape), self.columns.steps(shape[0]))
        zero, end = emit.constant(0, index.type), emit.splat(self.shape[axis], shape)
        return emit.binary("arith.andi", self._compare("sge", index, zero), self._compare("slt", index, end))

    def _compare(self, predicate: str, a: Value, b: Value) -> Value:
        return self.emit.op("arith.cmpi", (a, b), TensorType(a.type.shape or (), i1), {"predicate": Keyword(predicate)})

    def _broadcast(self, column: Value) -> Value:
        type = TensorType(self.tile.shape, column.type.scalar)
        return column if column.type is type else self.emit.op("tt.broadcast", (column,), type)
