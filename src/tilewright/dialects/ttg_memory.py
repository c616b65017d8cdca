"""Tiles in shared memory: `ttg.local_alloc`, `ttg.local_load`, `ttg.memdesc_index`, …

%b = ttg.local_alloc %t : (tensor<64x64xf16, #blocked>) -> !ttg.memdesc<64x64xf16, #shared, #smem>
%v = ttg.memdesc_trans %b {order = array<i32: 1, 0>} : … -> !ttg.memdesc<64x64xf16, #shared1, #smem>
%x = ttg.local_load %v : … -> tensor<64x64xf16, #ttg.dot_op<{…}>>
"""

from __future__ import annotations

from functools import cache

from tilewright.dialects.assembly import assembly, mask_like
from tilewright.dialects.layout_rules import require_layout, require_one_layout
from tilewright.dialects.rules import axis_of, memdesc, mutable_memdesc, order_of, tensor
from tilewright.ir.attributes import DenseArray
from tilewright.ir.core import Op
from tilewright.ir.declare import Effect, declares
from tilewright.ir.errors import VerificationError, counted, require
from tilewright.ir.fields import Integer, Integers, Operand, OptionalOperand, Word
from tilewright.ir.operands import operand_groups
from tilewright.ir.types import FloatType, IntType, MemDescType, TensorType, Type, async_token, i32
from tilewright.layouts.buffer_views import reason_against_reinterpreting
from tilewright.layouts.conversion import to_linear_layout
from tilewright.layouts.encodings import LayoutError, NvmmaShared, PaddedShared, encoding
from tilewright.layouts.inference import transposed
from tilewright.layouts.walk import dimension_names


def allocation_effect(op: Op) -> Effect:
    """An allocation that is written once, where it is made, is as good as a value."""
    type = op.results[0].type
    return Effect.ALLOCATE if isinstance(type, MemDescType) and type.mutable else Effect.NONE


# Rules


def _buffers(op: Op) -> tuple[MemDescType, MemDescType]:
    return memdesc(op, op.operands[0]), memdesc(op, op.results[0])


def _holds(op: Op, buffer: MemDescType, tile: Type) -> None:
    """A buffer and a tile that goes into it or comes from it."""
    if not isinstance(tile, TensorType):
        raise VerificationError(op, f"needs a tensor, not {tile}")
    fits = buffer.element is tile.element and buffer.shape == tile.shape
    require(fits, op, f"{tile} and {buffer} differ in shape or elements")
    layout = encoding(buffer.encoding)
    same_rank = layout.rank == len(tile.shape) or isinstance(layout, NvmmaShared)
    require(same_rank, op, f"the layout of {buffer} has another rank than {tile}")


def _verify_alloc(op: Op) -> None:
    result = memdesc(op, op.results[0])
    require(result.space == "#ttg.shared_memory", op, f"gives shared memory, not {result.space}")
    width = result.element.bits
    require(width % 8 == 0, op, f"elements of {width} bits do not fill whole bytes")
    if op.operands:
        _holds(op, result, op.operands[0].type)
    else:
        require(result.mutable, op, "a buffer without contents must be mutable")


def _verify_load(op: Op) -> None:
    _holds(op, memdesc(op, op.operands[0]), op.results[0].type)


def _verify_store(op: Op) -> None:
    _holds(op, mutable_memdesc(op, op.operands[1]), op.operands[0].type)


def _verify_indexed(op: Op) -> None:
    """Check an access to elements of a buffer, each where a tensor of indices says along one axis."""
    groups = operand_groups(op)
    (memory,) = groups.get("src") or groups["dst"]
    (values,) = groups.get("values") or op.results
    (indices,) = groups["indices"]
    buffer = memdesc(op, memory) if "src" in groups else mutable_memdesc(op, memory)
    shape = tensor(op, indices).shape
    axis_of(op, len(buffer.shape))
    require(isinstance(indices.type.scalar, IntType), op, f"indices must be integers, not {indices.type}")
    for value in (values, *groups.get("mask", ()), *op.results):
        require(tensor(op, value).shape == shape, op, f"{value.type} and the indices {indices.type} differ in shape")
        require_one_layout(op, value.type, indices.type)
    require(len(buffer.shape) == len(shape), op, f"{buffer} and the indices {indices.type} differ in rank")
    require(values.type.scalar is buffer.element, op, f"{values.type} and {buffer} differ in elements")
    numbers = isinstance(buffer.element, (IntType, FloatType)) or "atomic_rmw_op" not in op.attributes
    require(numbers, op, f"needs integers or floating point numbers, not {buffer.element}")


# Rules of views


def _same_elements(op: Op, source: MemDescType, result: MemDescType) -> None:
    same = source.element is result.element and source.space == result.space and source.mutable >= result.mutable
    require(same, op, f"a view of {source} cannot be {result}: elements, memory or mutability differ")


def _verify_index(op: Op) -> None:
    source, result = _buffers(op)
    _same_elements(op, source, result)
    require(source.encoding == result.encoding, op, "source and result have different layouts")
    fits = len(source.shape) > 1 and result.shape == source.shape[1:]
    require(fits, op, f"an element of {source} along the first axis is not {result}")
    require(source.alloc_shape == source.shape, op, f"cannot index {source}, which is a part of an allocation")


def _verify_subslice(op: Op) -> None:
    source, result = _buffers(op)
    _same_elements(op, source, result)
    require(source.encoding == result.encoding, op, "source and result have different layouts")
    offsets = op.attributes["offsets"]
    rank = len(source.shape)
    if not isinstance(offsets, DenseArray) or len(offsets.values) != rank or len(result.shape) != rank:
        raise VerificationError(op, f"needs {counted(rank, 'offset')} and a result with as many axes")
    cut = [axis for axis in range(rank) if source.shape[axis] != result.shape[axis]]
    for axis, offset in enumerate(offsets.values):
        size = result.shape[axis]
        require(offset == 0 or axis in cut, op, f"axis {axis} is not cut, so its offset must be 0")
        require(offset % size == 0, op, f"offset {offset} is inside a part of {size} along axis {axis}")
        require(offset + size <= source.shape[axis], op, f"offset {offset} is beyond axis {axis}")
    problem = _cut_problem(source, result, tuple(cut)) if cut else None
    require(problem is None, op, str(problem))


@cache
def _cut_problem(source: MemDescType, result: MemDescType, cut: tuple[int, ...]) -> str | None:
    """The reason why a buffer cannot be cut along these axes: parts may not start within swizzling nor in a block."""
    layout, rank = encoding(source.encoding), len(source.shape)
    if isinstance(layout, PaddedShared) and layout.rank < rank:
        return "a padded buffer of several stages cannot be cut"
    if layout.rank != rank:
        return None
    try:
        places = to_linear_layout(layout, source.alloc_shape[-rank:]).pseudo_invert()  # it may be a part already
    except LayoutError:
        return None
    for axis in cut:
        size = result.shape[axis]
        while size < source.shape[axis]:
            steps = places.apply(**{name: size * (dim == axis) for dim, name in enumerate(dimension_names(rank))})
            place = dict(zip(places.out_names, steps, strict=True))
            if place.get("block"):
                return f"axis {axis} is divided among blocks: it cannot be cut"
            if place["offset"] & (place["offset"] - 1):
                return f"axis {axis} cannot be cut inside the swizzling pattern"
            size *= 2
    return None


def _verify_trans(op: Op) -> None:
    source, result = _buffers(op)
    _same_elements(op, source, result)
    order = order_of(op, len(source.shape))
    wanted = tuple(source.shape[axis] for axis in order)
    require(result.shape == wanted, op, f"transposing {source} by {list(order)} does not give {result}")
    if len(order) == encoding(source.encoding).rank:
        require_layout(op, transposed, source, result, order)


def _verify_reshape(op: Op) -> None:
    source, result = _buffers(op)
    _same_elements(op, source, result)
    require(source.numel == result.numel, op, f"{source} and {result} differ in their number of elements")
    whole = source.alloc_shape[-len(source.shape) :] == source.shape
    require(whole, op, f"cannot reshape {source}, which is a part of an allocation")


def _verify_reinterpret(op: Op) -> None:
    source, result = _buffers(op)
    same = source.space == result.space and source.mutable == result.mutable
    require(same, op, f"{source} and {result} differ in memory or mutability")
    reason = reason_against_reinterpreting(source, result)
    require(reason is None, op, f"cannot see {source} as {result}: {reason}")


@declares(
    "ttg.local_alloc",
    verify=_verify_alloc,
    effect=Effect.ALLOCATE,
    effect_of=allocation_effect,
    **assembly("?( %src){} : =>", "src?", "result"),
)
class LocalAlloc(Op):
    """A buffer, which starts with the elements of `source` if there is one; `alignment` is 0 where it says none."""

    __slots__ = ()
    source = OptionalOperand(0)
    alignment = Integer("alignment", 0)


@declares("ttg.local_dealloc", effect=Effect.WRITE, **assembly(" %src{} : !src", "src"))
class LocalDealloc(Op):
    """The end of a buffer."""

    __slots__ = ()
    buffer = Operand(0)


@declares(
    "ttg.local_load",
    buffers=Effect.READ,
    verify=_verify_load,
    effect=Effect.READ,
    **assembly(" %src?( token %token){} : !src -> !result", "src token?", "result", types={"token": async_token}),
)
class LocalLoad(Op):
    """The elements of a buffer."""

    __slots__ = ()
    buffer = Operand(0)
    token = OptionalOperand(1)


@declares(
    "ttg.local_store",
    buffers=Effect.WRITE,
    verify=_verify_store,
    effect=Effect.WRITE,
    **assembly(" %src, %dst{} : !src -> !dst", "src dst"),
)
class LocalStore(Op):
    """Puts `value` into a buffer."""

    __slots__ = ()
    value, buffer = Operand(0), Operand(1)


@declares(
    "ttg.local_gather",
    buffers=Effect.READ,
    verify=_verify_indexed,
    effect=Effect.READ,
    **assembly(
        " %src[%indices]?( token %token){} : !src, !indices -> !result",
        "src indices token?",
        "result",
        types={"token": async_token},
    ),
)
class LocalGather(Op):
    """The elements of a buffer at `indices` along `axis`."""

    __slots__ = ()
    buffer, indices = Operand(0), Operand(1)
    token = OptionalOperand(2)
    axis = Integer("axis")


@declares(
    "ttg.local_scatter",
    buffers=Effect.WRITE,
    verify=_verify_indexed,
    effect=Effect.WRITE,
    **assembly(
        " %dst[%indices], %values?( token %token){} : !dst, !indices, !values",
        "dst values indices token?",
        types={"token": async_token},
    ),
)
class LocalScatter(Op):
    """Puts `value` into a buffer at `indices` along `axis`."""

    __slots__ = ()
    buffer, value, indices = Operand(0), Operand(1), Operand(2)
    token = OptionalOperand(3)
    axis = Integer("axis")


@declares(
    "ttg.local_atomic_scatter_rmw",
    buffers=Effect.READ_WRITE,
    verify=_verify_indexed,
    effect=Effect.READ_WRITE,
    **assembly(
        " @atomic_rmw_op, %dst[%indices], %values?(, %mask){} : =>",
        "dst values indices mask?",
        "result",
        types={"mask": mask_like("values")},
    ),
)
class LocalAtomicScatter(Op):
    """Combines `value` with what is in a buffer at `indices` along `axis`; returns the old value."""

    __slots__ = ()
    buffer, value, indices = Operand(0), Operand(1), Operand(2)
    mask = OptionalOperand(3)
    axis = Integer("axis")
    operation = Word("atomic_rmw_op")


# Views


class MemDescView(Op):
    """Another name for (a part of) the buffer `source`."""

    __slots__ = ()
    source = Operand(0)


@declares(
    "ttg.memdesc_index",
    verify=_verify_index,
    **assembly(" %src[%index]{} : !src -> !result", "src index", "result", types={"index": i32}),
)
class MemDescIndex(MemDescView):
    """One of several buffers."""

    __slots__ = ()
    index = Operand(1)


@declares(
    "ttg.memdesc_subslice",
    verify=_verify_subslice,
    required=("offsets",),
    **assembly(" %src[#offsets*]{} : !src -> !result", "src", "result"),
)
class MemDescSubslice(MemDescView):
    """The part that starts at `offsets`."""

    __slots__ = ()
    offsets = Integers("offsets")


@declares(
    "ttg.memdesc_trans",
    verify=_verify_trans,
    required=("order",),
    **assembly(" %src{} : !src -> !result", "src", "result"),
)
class MemDescTrans(MemDescView):
    """Axis k of the result is axis `order[k]` of the source."""

    __slots__ = ()
    order = Integers("order")


@declares("ttg.memdesc_reshape", verify=_verify_reshape, **assembly(" %src{} : !src -> !result", "src", "result"))
class MemDescReshape(MemDescView):
    """The elements in another shape."""

    __slots__ = ()


@declares(
    "ttg.memdesc_reinterpret", verify=_verify_reinterpret, **assembly(" %src{} : !src -> !result", "src", "result")
)
class MemDescReinterpret(MemDescView):
    """The bytes as elements of another type or shape."""

    __slots__ = ()
