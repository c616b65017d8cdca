"""Rewrite tensor pointer: block pointers become scalars, and accesses through them tiles of pointers with masks.

    %p = tt.make_tensor_ptr %base, [%m, %n], [%sm, %sn], [%i, %j]     ->   base, m, n, sm, sn, i, j
    %q = tt.advance %p, [%c0, %c32]                                   ->   base, m, n, sm, sn, i + 0, j + 32
    %x = tt.load %q {boundaryCheck = array<i32: 1>, padding = 1}      ->   pointers base + i*sm + (j + 32)*sn + tile,
                                                                           mask 0 <= j + 32 + range < n, other 0

A block pointer of rank r is expanded into 1 + 3r scalars, also where a loop carries it or an `if` yields it;
canonicalization removes those that do not change. The offset of the block goes into the scalar base, so that the tile
of offsets inside the block stays the same when the block moves. `rewrite_tensor_pointer_by_axis` is Triton's form:
offsets are added axis by axis, and loops carry only values that change.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar

from tilewright.dialects.scf import For, If
from tilewright.dialects.tt_function import Func
from tilewright.dialects.tt_memory import Advance, Load, MakeTensorPtr, Store, pointee_type
from tilewright.ir.core import Op, Value
from tilewright.ir.types import FloatType, PointerType, TensorType, Type, i64
from tilewright.transforms.carried_values import drop_arguments, drop_results, without
from tilewright.transforms.expand_values import BlockOfMemory, Emitter, Expansion
from tilewright.transforms.matching import is_inside


def rewrite_tensor_pointer(module: Op) -> bool:
    """Remove block pointers from every function of `module`; returns whether there were any."""
    return _has_block_pointers(module) and BlockPointers().expand(module)


def rewrite_tensor_pointer_by_axis(module: Op) -> bool:
    """Remove block pointers from every function of `module`, as Triton does; returns whether there were any."""
    return _has_block_pointers(module) and BlockPointersByAxis().expand(module)


def _has_block_pointers(module: Op) -> bool:
    return bool(module.ops_of(MakeTensorPtr))


class BlockPointers(Expansion):
    """A block pointer as base, shape, strides and offsets.

    Attributes:
        columns: the steps inside blocks that are used so far.
    """

    columns: _Columns

    def part_types(self, type: Type) -> list[Type] | None:
        """The types of base, shape, strides and offsets."""
        if not isinstance(type, PointerType) or not isinstance(type.pointee, TensorType):
            return None
        return [PointerType(type.pointee.element, type.space), *[i64] * (3 * len(type.pointee.shape))]

    def expand_function(self, function: Func) -> bool:
        """Expand the block pointers of one function; returns whether there were any."""
        first = function.body.first
        assert first is not None, "a function ends with a terminator"
        self.columns = _Columns(Emitter(first))
        return super().expand_function(function)

    def make(self, op: MakeTensorPtr) -> None:
        widened = [self.widened(offset, op) for offset in op.offsets]
        self.parts[op.result] = [op.base, *op.shape, *op.strides, *widened]
        self.replaced.append(op)

    def advance(self, op: Advance) -> None:
        at = Emitter(op)
        parts, deltas = self.parts[op.pointer], op.offsets
        fixed, offsets = parts[: -len(deltas)], parts[-len(deltas) :]
        moved = [at.compute("arith.addi", a, self.widened(b, op)) for a, b in zip(offsets, deltas, strict=True)]
        self.parts[op.result] = [*fixed, *moved]
        self.replaced.append(op)

    def load(self, op: Load) -> None:
        access = self.access(op)
        operands = [access.pointers(), *access.mask()]
        if len(operands) == 2:
            operands += access.padding()
        op.set_operands(operands)
        _drop_block_attributes(op)

    def store(self, op: Store) -> None:
        access = self.access(op)
        op.set_operands([access.pointers(), op.value, *access.mask()])
        _drop_block_attributes(op)

    def widened(self, offset: Value, op: Op) -> Value:
        """An offset as i64, computed before `op`."""
        return Emitter(op).widened(offset)

    def access(self, op: Load | Store) -> _Access:
        """The access of a load or a store to its block."""
        return _Access(op, self.parts[op.pointer], self.columns)

    rewrites: ClassVar[dict[str, Callable[[Any, Any], None]]] = {
        "tt.make_tensor_ptr": make,
        "tt.advance": advance,
        "tt.load": load,
        "tt.store": store,
    }


class BlockPointersByAxis(BlockPointers):
    """Block pointers as Triton's pass expands them."""

    def widened(self, offset: Value, op: Op) -> Value:
        """An offset as i64, computed before `op`."""
        return offset if offset.type is i64 else Emitter(op).emit("arith.extsi", (offset,), i64)

    def access(self, op: Load | Store) -> _Access:
        """The access of a load or a store to its block."""
        return _AccessByAxis(op, self.parts[op.pointer], self.columns)

    def hand_on_parts(self, op: Op) -> None:
        """Let a loop or a condition take and give the parts that change."""
        before = len(op.results)
        super().hand_on_parts(op)
        if len(op.results) == before:
            return
        if isinstance(op, For):
            self._drop(op, dict(_unchanged_in_loop(op)))
        elif isinstance(op, If):
            self._drop(op, dict(_known_outside(op)))

    def _drop(self, op: For | If, known: dict[int, Value]) -> None:
        """Use known values instead of results of `op`, which it gives no more."""
        for i, value in known.items():
            self._replace(op.results[i], value)
            if isinstance(op, For):
                op.carried[i].replace_by(value)
        for region in op.regions:
            terminator = region.block.terminator
            terminator.set_operands(without(terminator.operands, known))
        if isinstance(op, For):
            drop_arguments(op.body, [i + 1 for i in known])
            op.set_operands(without(op.operands, [i + 3 for i in known]))
        drop_results(op, known)

    def _replace(self, old: Value, new: Value) -> None:
        old.replace_by(new)
        for parts in self.parts.values():
            for i, part in enumerate(parts):
                if part is old:
                    parts[i] = new


def _unchanged_in_loop(loop: For) -> Iterator[tuple[int, Value]]:
    """The scalars that are the same in every step, with what they are."""
    for i, (argument, value, yielded) in enumerate(zip(loop.carried, loop.inits, loop.yielded, strict=True)):
        if yielded is argument and value.type.shape is None:
            yield i, value


def _known_outside(choice: If) -> Iterator[tuple[int, Value]]:
    """The results of a condition that are the same value on both sides, with that value."""
    sides = [region.block.terminator.operands for region in choice.regions]
    for i, values in enumerate(zip(*sides, strict=True)):
        if all(value is values[0] for value in values) and not is_inside(values[0], choice):
            yield i, values[0]


def _drop_block_attributes(op: Load | Store) -> None:
    op.attributes.pop("boundaryCheck", None)
    op.attributes.pop("padding", None)


class _Columns:
    """0, 1, 2, … as i64, along the axes of blocks; each is computed once, at the start of the function."""

    def __init__(self, at: Emitter) -> None:
        self.at = at
        self._steps: dict[int, Value] = {}
        self._columns: dict[tuple[tuple[int, ...], int], Value] = {}

    def steps(self, extent: int) -> Value:
        """The numbers from 0 to `extent` - 1, as a tile of one axis."""
        if extent not in self._steps:
            self._steps[extent] = self.at.range(extent)
        return self._steps[extent]

    def column(self, shape: tuple[int, ...], axis: int) -> Value:
        """The numbers from 0 on along `axis` of a block of `shape`, as a tile that extends along that axis."""
        if (shape, axis) not in self._columns:
            self._columns[shape, axis] = self.at.along(axis, len(shape), self.steps(shape[axis]))
        return self._columns[shape, axis]


class _Access:
    """One load or store through a block pointer."""

    def __init__(self, op: Load | Store, parts: list[Value], columns: _Columns) -> None:
        self.op = op
        self.columns = columns
        self.at = Emitter(op)
        block = pointee_type(op.pointer.type)
        assert isinstance(block, TensorType), "a block pointer points at a tile"
        self.tile = block
        self.rank = rank = len(self.tile.shape)
        self.base, self.shape, self.strides, self.offsets = (
            parts[0],
            parts[1 : 1 + rank],
            parts[1 + rank : 1 + 2 * rank],
            parts[1 + 2 * rank :],
        )

    @property
    def checked(self) -> Sequence[int]:
        """The axes along which the block may reach out of the tensor."""
        return self.op.boundary_check

    def pointers(self) -> Value:
        """base + sum of offset * stride, a scalar; plus the tile of offsets inside the block."""
        at = self.at
        base = self.base
        for offset, stride in zip(self.offsets, self.strides, strict=True):
            base = at.emit("tt.addptr", (base, at.compute("arith.muli", offset, stride)), base.type)
        inside: Value | None = None
        for axis, stride in enumerate(self.strides):
            column = self.columns.column(self.tile.shape, axis)
            step = at.splat(stride, column.type.shape or ())
            term = at.broadcast(at.compute("arith.muli", column, step), self.tile.shape)
            inside = term if inside is None else at.compute("arith.addi", inside, term)
        pointers = at.splat(base, self.tile.shape)
        return pointers if inside is None else at.emit("tt.addptr", (pointers, inside), pointers.type)

    def mask(self) -> Iterable[Value]:
        """0 <= offset + range < shape on every checked axis; nothing if none is."""
        both: Value | None = None
        for axis in self.checked:
            inside = self.at.broadcast(self.at.along(axis, self.rank, self._inside(axis)), self.tile.shape)
            both = inside if both is None else self.at.compute("arith.andi", both, inside)
        return () if both is None else (both,)

    def padding(self) -> Iterable[Value]:
        """The value of what is outside, if the load says one."""
        value = self.outside()
        return () if value is None else (self.at.constant(value, self.tile),)

    def outside(self) -> float | None:
        """The number that is read outside the tensor, if the load says one."""
        if not isinstance(self.op, Load) or not self.op.padding:
            return None
        is_float = isinstance(self.tile.element, FloatType)
        return math.nan if self.op.padding == "pad_nan" else 0.0 if is_float else 0

    def _inside(self, axis: int) -> Value:
        at = self.at
        shape = (self.tile.shape[axis],)
        index = at.compute("arith.addi", at.splat(self.offsets[axis], shape), self.columns.steps(shape[0]))
        zero, end = at.constant(0, index.type), at.splat(self.shape[axis], shape)
        return at.compute("arith.andi", self.at.compare("sge", index, zero), self.at.compare("slt", index, end))


class _AccessByAxis(_Access):
    """One load or store whose offsets are added axis by axis."""

    def __init__(self, op: Load | Store, parts: list[Value], columns: _Columns) -> None:
        super().__init__(op, parts, columns)
        self._block = BlockOfMemory(self.at, self.base, self.shape, self.strides, self.tile.shape)
        self._positions: list[Value] = []

    def pointers(self) -> Value:
        """base + offset along one axis + offset along the next."""
        return self._block.pointers(self._each_position())

    def _each_position(self) -> Iterator[Value]:
        for axis, offset in enumerate(self.offsets):
            self._positions.append(self._block.positions(offset, axis))
            yield self._positions[-1]

    def mask(self) -> Iterable[Value]:
        """0 <= position < shape on every checked axis; nothing if none is."""
        mask = self._block.mask(self._positions, self.checked)
        return () if mask is None else (mask,)

    def padding(self) -> Iterable[Value]:
        """The value of what is outside, if the load says one."""
        value = self.outside()
        if value is not None:
            yield self.at.splat(self.at.constant(value, self.tile.element), self.tile.shape)
