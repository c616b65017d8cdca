"""Rewrite tensor descriptor to pointer: descriptors become scalars, and accesses through them tiles of pointers.

    %d = tt.make_tensor_descriptor %base, [%m, %n], [%sm, %sn]    ->   base, m, n, sm, sn, pads with NaN, rounds
    %x = tt.descriptor_load %d[%i, %j]                            ->   tt.load base + (i + range) * sm + …, under the
                                                                       mask 0 <= i + range < m and …, other 0 or NaN

This serves devices without a copy engine. A descriptor of rank r is expanded into 3 + 2r scalars everywhere; the last
two say whether elements outside of the tensor are read as NaN, and whether fp32 is rounded to tf32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tilewright.dialects.tt_descriptors import (
    DescriptorAccess,
    DescriptorGather,
    DescriptorLoad,
    DescriptorReduce,
    DescriptorScatter,
    DescriptorStore,
    MakeTensorDescriptor,
    descriptor_block,
)
from tilewright.ir.attributes import Attribute, Keyword
from tilewright.ir.core import Block, Op, Region, Value, tile_type
from tilewright.ir.errors import VerificationError
from tilewright.ir.types import (
    FloatType,
    PointerType,
    TensorDescType,
    TensorType,
    Type,
    f32,
    i1,
    i32,
    i64,
    with_element,
)
from tilewright.transforms.expand_values import BlockOfMemory, Emitter, Expansion
from tilewright.transforms.op_builder import OpBuilder

EXPONENT, DROPPED_BITS = 0x7F800000, 13
"""The bits of the exponent of fp32, and the number of bits of its mantissa that tf32 does not have."""
PLAIN = ("and", "or", "xor")


@dataclass(frozen=True)
class DescriptorOptions:
    """The choices in which versions differ for descriptors.

    Attributes:
        rounding: whether loads are to be rounded to tf32; before Triton 3.6 they did not.
        reshape: tiles of one axis get the others by `tt.reshape`, as in Triton 3.9.
    """

    rounding: bool = True
    reshape: bool = False


def rewrite_tensor_descriptor_to_pointer(module: Op, options: DescriptorOptions | None = None) -> bool:
    """Remove tensor descriptors from every function of `module`; returns whether there were any."""
    return Descriptors(options or DescriptorOptions()).expand(module)


class Descriptors(Expansion):
    """A descriptor as base, shape, strides, and what to do with elements outside and with fp32."""

    def __init__(self, options: DescriptorOptions) -> None:
        super().__init__()
        self._rounding, self._reshape = options.rounding, options.reshape

    def part_types(self, type: Type) -> list[Type] | None:
        """The types of base, shape, strides, padding, rounding."""
        if not isinstance(type, TensorDescType):
            return None
        sizes = [i64] * (2 * len(type.block.shape))
        return [PointerType(type.block.element), *sizes, i1, *([i1] if self._rounding else [])]

    def part_names(self, value: Value) -> Sequence[str]:
        """`shape.0`, `stride.0` …; the base is called as the descriptor."""
        axes = range(len(descriptor_block(value).shape))
        rounding = ["roundF32ToTF32"] if self._rounding else []
        return ["", *(f"shape.{i}" for i in axes), *(f"stride.{i}" for i in axes), "padding", *rounding]

    def make(self, op: MakeTensorDescriptor) -> None:
        at = Emitter(op)
        shape = [at.widened(extent) for extent in op.shape]
        pads = at.constant(int(op.padding == "pad_nan"), i1)
        rounds = [at.constant(0, i1)] if self._rounding else []
        self.parts[op.result] = [op.base, *shape, *op.strides, pads, *rounds]
        self.replaced.append(op)

    def load(self, op: DescriptorLoad) -> None:
        access = self._access(op, descriptor_block(op.descriptor))
        offsets = [access.at.widened(index) for index in op.indices]
        outside = access.outside()
        self._load(op, access, *access.block_at(offsets), outside)

    def gather(self, op: DescriptorGather) -> None:
        access = self._access(op, tile_type(op.result))
        self._load(op, access, *access.rows_at(op.rows, op.column), access.outside())

    def store(self, op: DescriptorStore) -> None:
        access = self._access(op, descriptor_block(op.descriptor))
        pointers, mask = access.block_at([access.at.widened(index) for index in op.indices])
        self._store(op, pointers, op.value, mask)

    def scatter(self, op: DescriptorScatter) -> None:
        access = self._access(op, tile_type(op.value))
        pointers, mask = access.rows_at(op.rows, op.column)
        self._store(op, pointers, op.value, mask)

    def reduce(self, op: DescriptorReduce) -> None:
        block, value = descriptor_block(op.descriptor), op.value
        access = self._access(op, block)
        pointers, mask = access.block_at([access.at.widened(index) for index in op.indices])
        attributes: dict[str, Attribute] = {
            "atomic_rmw_op": Keyword(_reduction(op, block.element)),
            "sem": Keyword("release"),
            "scope": Keyword("gpu"),
        }
        access.at.emit("tt.atomic_rmw", (pointers, value, mask), value.type, attributes)
        self.replaced.append(op)

    def _access(self, op: DescriptorAccess, tile: TensorType) -> _Access:
        return _Access(op, self.parts[op.descriptor], tile, reshape=self._reshape)

    def _load(self, op: Op, access: _Access, pointers: Value, mask: Value, outside: Value) -> None:
        """Put a masked load in the place of `op`."""
        at, tile = access.at, access.tile
        value = at.emit("tt.load", (pointers, mask, outside), tile, _kept(op))
        if self._rounding and tile.element is f32:
            value = _rounded_if(at, access.rounds, value)
        if value.type is not op.result.type:
            value = at.emit("tt.reshape", (value,), op.result.type)
        op.result.replace_by(value)
        self.replaced.append(op)

    def _store(self, op: Op, pointers: Value, value: Value, mask: Value) -> None:
        """Put a masked store in the place of `op`."""
        OpBuilder(op).op("tt.store", (pointers, value, mask), (), _kept(op))
        self.replaced.append(op)

    rewrites: ClassVar[dict[str, Callable[[Any, Any], None]]] = {
        "tt.make_tensor_descriptor": make,
        "tt.descriptor_load": load,
        "tt.descriptor_gather": gather,
        "tt.descriptor_store": store,
        "tt.descriptor_scatter": scatter,
        "tt.descriptor_reduce": reduce,
    }


def _kept(op: Op) -> dict[str, Attribute]:
    """The attributes that the access keeps."""
    return {name: value for name, value in op.attributes.items() if name != "kind"}


def _reduction(op: DescriptorReduce, element: Type) -> str:
    """The name that an atomic op has for a reduction.

    Raises:
        VerificationError: pointers have no such atomic op.
    """
    if op.operation == "add":
        return "fadd" if isinstance(element, FloatType) else "add"
    if op.operation in PLAIN:
        return op.operation
    raise VerificationError(op, f"{op.operation} of {element} has no atomic op")


class _Access:
    """One access through a descriptor."""

    def __init__(self, op: Op, parts: Sequence[Value], tile: TensorType, *, reshape: bool) -> None:
        self.at = Emitter(op)
        self.tile = TensorType(tile.shape, tile.element)
        rank = len(tile.shape)
        base, *others = parts
        shape, strides, flags = others[:rank], others[rank : 2 * rank], others[2 * rank :]
        self.pads, self.rounds = flags[0], flags[-1]
        self._memory = BlockOfMemory(self.at, base, shape, strides, tile.shape, reshape=reshape)

    def block_at(self, offsets: Sequence[Value]) -> tuple[Value, Value]:
        """The pointers and the mask of the block at `offsets`."""
        positions = [self._memory.positions(offset, axis) for axis, offset in enumerate(offsets)]
        return self._pointers_and_mask(positions)

    def rows_at(self, rows: Value, column: Value) -> tuple[Value, Value]:
        """The pointers and the mask of parts of `rows`, from `column` on."""
        at = self.at
        wide = self._memory.along(0, rows)
        wide = at.emit("arith.extsi", (wide,), with_element(wide.type, i64))
        return self._pointers_and_mask([wide, self._memory.positions(at.widened(column), 1)])

    def _pointers_and_mask(self, positions: Sequence[Value]) -> tuple[Value, Value]:
        pointers = self._memory.pointers(positions)
        mask = self._memory.mask(positions, range(len(positions)))
        assert mask is not None, "a block has axes"
        return pointers, mask

    def outside(self) -> Value:
        """The value that is read outside the tensor."""
        at, tile = self.at, self.tile
        if not isinstance(tile.element, FloatType):
            return at.constant(0, tile)
        values = (self.pads, at.constant(math.nan, tile), at.constant(0.0, tile))
        return at.emit("arith.select", values, tile)


def _rounded_if(at: Emitter, condition: Value, value: Value) -> Value:
    """if condition {value rounded to tf32} else {value}."""
    rounds, keeps = Block(), Block()
    result = _rounded(value, rounds)
    rounds.append(Op.create("scf.yield", [result], location=at.location))
    keeps.append(Op.create("scf.yield", [value], location=at.location))
    regions = [Region([rounds]), Region([keeps])]
    return at.op("scf.if", [condition], [value.type], None, regions).result


def _rounded(value: Value, block: Block) -> Value:
    """fp32 rounded to tf32, ties to even; infinities and NaN as they are. The ops go to the end of `block`."""
    end = block.append(Op.create("scf.yield"))
    at, bits_type = Emitter(end), with_element(value.type, i32)

    def binary(name: str, a: Value, b: Value | int) -> Value:
        return at.compute(f"arith.{name}", a, at.constant(b, bits_type) if isinstance(b, int) else b)

    bits = at.emit("tt.bitcast", (value,), bits_type)
    exponent = binary("andi", bits, EXPONENT)
    special = at.compare("eq", exponent, at.constant(EXPONENT, bits_type))
    last_bit = binary("andi", binary("shrui", bits, DROPPED_BITS), 1)
    bias = binary("addi", last_bit, (1 << DROPPED_BITS - 1) - 1)
    rounded = binary("andi", binary("addi", bits, bias), -(1 << DROPPED_BITS))
    chosen = at.emit("arith.select", (special, bits, rounded), bits_type)
    result = at.emit("tt.bitcast", (chosen,), value.type)
    end.erase()
    return result
