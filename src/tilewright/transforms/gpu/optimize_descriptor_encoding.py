"""Descriptor encodings: the layouts of the buffers that tensor descriptors copy to and from.

    %d = tt.make_tensor_descriptor … : <f16>, <64x64xf16>
    %x = tt.descriptor_load %d[…] : … -> tensor<64x64xf16, #blocked>
    %b = ttg.local_alloc %x : … -> !ttg.memdesc<64x64xf16, #shared, #smem>

    %d = tt.make_tensor_descriptor … : <f16>, <64x64xf16, #shared>

All descriptors that may be the same (carried by loops, results of branches) get one layout: the one that their users
need, if they agree, otherwise one that suits the shape of the smallest accessed tile. Descriptors passed to functions
get a layout that both sides derive from the shape.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tilewright.dialects.scf import For, If, While
from tilewright.dialects.tt_descriptors import DescriptorRead, DescriptorWrite, descriptor_block
from tilewright.dialects.tt_function import Call, Func, Return
from tilewright.dialects.ttg_memory import LocalAlloc, LocalStore
from tilewright.dialects.ttng_descriptors import ReinterpretTensorDescriptor
from tilewright.ir.attributes import Opaque
from tilewright.ir.core import Op, Value, tile_type
from tilewright.ir.types import FunctionType, MemDescType, TensorDescType, TensorType, Type
from tilewright.layouts.encodings import Encoding, NvmmaShared, SharedLinear, encoding
from tilewright.layouts.keys import Bases
from tilewright.layouts.queries import buffer_order, cga_layout, equivalent
from tilewright.layouts.shared_choice import cga_with_rank, nvmma_for, with_rank
from tilewright.transforms.functions import functions_of, is_public
from tilewright.transforms.gpu.tile_ops import layout_of_type, workers_of

BOUNDARIES = (Call, Return, ReinterpretTensorDescriptor)
"""Ops whose descriptors another function knows too."""


class Wish(NamedTuple):
    """The wish of a descriptor's users for its layout; empty fields: they do not care.

    Attributes:
        layout: of the buffer.
        cga: how CTAs share the tile.
        shape: of the smallest tile that is accessed.
        default: the layout must follow from the type.
    """

    layout: NvmmaShared | None = None
    cga: Bases | None = None
    shape: tuple[int, ...] = ()
    default: bool = False

    def joined(self, other: Wish, rank: int) -> Wish:
        """A wish that satisfies both."""
        if self.default or other.default or (self.layout and other.layout and self.layout is not other.layout):
            return Wish(default=True)
        cga = self.cga if other.cga is None or self.cga == other.cga else other.cga
        if self.cga is not None and other.cga is not None and self.cga != other.cga:
            cga = _along_last(rank, len(self.cga))
        shape = self.shape or other.shape
        if self.shape and other.shape:
            shape = tuple(map(min, self.shape, other.shape))
        return Wish(self.layout or other.layout, cga, shape)


def optimize_descriptor_encoding(module: Op) -> bool:
    """Give all descriptors of `module` a layout."""
    changed = False
    for function in functions_of(module):
        changed |= _Function(function).assign()
    return changed


class _Function:
    """The descriptors of one function, in classes of those that may be the same."""

    def __init__(self, function: Func) -> None:
        self.function = function
        self._parents: dict[Value, Value] = {}

    def assign(self) -> bool:
        """Give each class its layout."""
        values = [value for value in _values(self.function) if isinstance(value.type, TensorDescType)]
        for op in self.function.walk():
            for tied in _tied(op):
                self._unite(tied)
        wishes: dict[Value, Wish] = {}
        for value in values:
            root, rank = self._root(value), len(descriptor_block(value).shape)
            wishes[root] = wishes.get(root, Wish()).joined(self._wish(value), rank)
        ctas = workers_of(self.function).ctas
        for value in values:
            value.type = _descriptor(descriptor_block(value), wishes[self._root(value)], ctas)
        self._retype(ctas)
        return bool(values)

    def _root(self, value: Value) -> Value:
        while (parent := self._parents.get(value, value)) is not value:
            value = parent
        return value

    def _unite(self, values: Iterable[Value]) -> None:
        first, *others = (self._root(value) for value in values)
        for other in others:
            self._parents[other] = first

    def _wish(self, value: Value) -> Wish:
        rank = len(descriptor_block(value).shape)
        owner = value.owner
        wish = Wish(default=isinstance(owner, BOUNDARIES))
        if owner is self.function.body and not is_public(self.function):
            wish = Wish(default=True)
        for user in value.uses:
            if isinstance(user, BOUNDARIES):
                wish = Wish(default=True)
            elif isinstance(user, (DescriptorRead, DescriptorWrite)):
                wish = wish.joined(_wish_of_access(user, rank), rank)
        return wish

    def _retype(self, ctas: int) -> None:
        inputs = tuple(value.type for value in self.function.body.args)
        outputs = tuple(_result_type(kind, ctas) for kind in self.function.type.outputs)
        self.function.type = FunctionType(inputs, outputs)


def _values(function: Op) -> Iterator[Value]:
    for op in function.walk():
        yield from op.results
        for region in op.regions:
            for block in region.blocks:
                yield from block.args


def _tied(op: Op) -> Iterator[tuple[Value, ...]]:
    """The groups of descriptors that `op` passes on as each other."""
    groups: Iterable[tuple[Value, ...]] = ()
    if isinstance(op, For):
        groups = zip(op.inits, op.carried, op.yielded, op.results, strict=True)
    elif isinstance(op, While):
        yield from _descriptors(zip(op.condition.values, op.after.args, op.results, strict=True))
        groups = zip(op.inits, op.before.args, op.yielded, strict=True)
    elif isinstance(op, If) and op.results:
        yields = (region.block.terminator.operands for region in op.regions)
        groups = zip(op.results, *yields, strict=True)
    yield from _descriptors(groups)


def _descriptors(groups: Iterable[tuple[Value, ...]]) -> Iterator[tuple[Value, ...]]:
    return (group for group in groups if isinstance(group[0].type, TensorDescType))


# --- what an access wants -----------------------------------------------------------------------------------------


def _wish_of_access(op: DescriptorRead | DescriptorWrite, rank: int) -> Wish:
    tile = tile_type(op.result if isinstance(op, DescriptorRead) else op.value)
    layout = _layout_of_copies(op) if isinstance(op, DescriptorRead) else None
    cga = cga_layout(layout or layout_of_type(tile))
    return Wish(layout, cga, (*(1,) * (rank - len(tile.shape)), *tile.shape))


def _layout_of_copies(load: DescriptorRead) -> NvmmaShared | None:
    """The layout of the first buffer that a loaded tile is put in and that a descriptor can have."""
    wanted = load.attributes.get("tt.desired_encoding")
    tile = load.result.type
    if isinstance(wanted, Opaque) and isinstance(tile, TensorType):
        found = compatible(encoding(wanted.text), tile)
        if found is not None:
            return found
    for user in reversed(list(load.result.uses)):
        buffer = user.result.type if isinstance(user, LocalAlloc) else None
        buffer = user.buffer.type if isinstance(user, LocalStore) else buffer
        if isinstance(buffer, MemDescType):
            found = compatible(encoding(buffer.encoding), buffer)
            if found is not None:
                return found
    return None


def compatible(layout: Encoding, tile: TensorType | MemDescType) -> NvmmaShared | None:
    """The layout that is the same as `layout` and that TMA can write: no transposed one, and no other kind."""
    if isinstance(layout, NvmmaShared):
        return None if layout.transposed else layout
    if not isinstance(layout, SharedLinear):
        return None
    shape, bits, cga = tile.shape, tile.element.bits, cga_layout(layout)
    assert shape is not None, "tiles have a shape"
    order = buffer_order(layout)
    chosen = [nvmma_for(shape, order, bits=bits, cga=cga, fp4_padded=padded) for padded in (False, True)]
    others = (
        NvmmaShared(width, False, max(8, bits), padded, len(shape), cga)
        for padded in (False, True)
        for width in (0, 32, 64, 128)
    )
    return next((each for each in (*chosen, *others) if equivalent(each, layout, shape)), None)


# --- what a descriptor gets ---------------------------------------------------------------------------------------


def _along_last(rank: int, bits: int) -> Bases:
    """The division in which CTAs have parts of the last dimension."""
    return tuple((*(0,) * (rank - 1), 1 << bit) for bit in range(bits))


def _descriptor(block: TensorType, wish: Wish, ctas: int) -> TensorDescType:
    rank = len(block.shape)
    layout = wish.layout
    if layout is None:
        cga = _along_last(rank, ctas.bit_length() - 1) if wish.cga is None else cga_with_rank(wish.cga, rank)
        order = tuple(reversed(range(rank)))
        layout = nvmma_for(wish.shape or block.shape, order, bits=block.element.bits, cga=cga)
    return TensorDescType(TensorType(block.shape, block.element, with_rank(layout, rank).text))


def _result_type(type: Type, ctas: int) -> Type:
    return _descriptor(type.block, Wish(default=True), ctas) if isinstance(type, TensorDescType) else type
