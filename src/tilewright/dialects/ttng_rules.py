"""Rules of ops of NVIDIA's GPUs: barriers, copies by descriptor, products of warp groups, tensor memory.

ttng.init_barrier %b, 0 : !ttg.memdesc<1xi64, …>             refused: a barrier counts to 1 or more
ttng.tmem_store %x, %m, %c : … -> !ttg.memdesc<…>            refused: the memory must be mutable
"""

from __future__ import annotations

from tilewright.dialects.layout_rules import layout_of
from tilewright.dialects.rules import memdesc, mutable_memdesc, number
from tilewright.dialects.tt_descriptors import verify_block
from tilewright.dialects.ttg_attributes import TENSOR_MEMORY
from tilewright.dialects.ttg_warp_specialize import warps_of
from tilewright.ir.attributes import Keyword
from tilewright.ir.core import Op
from tilewright.ir.errors import require
from tilewright.ir.operands import operand_groups
from tilewright.ir.types import FloatType, IntType, MemDescType, TensorDescType, TensorType, Type, f16, f32, i32, i64
from tilewright.layouts.encodings import DotOperand, NvidiaMma, NvmmaShared, SharedLinear, TensorMemory
from tilewright.layouts.tensor_memory import with_stride

_REDUCED = {
    "add": ("i32", "i64", "f32", "f16", "bf16"),
    "min": ("i32", "i64", "f16", "bf16"),
    "max": ("i32", "i64", "f16", "bf16"),
    **dict.fromkeys(("and", "or", "xor"), ("i32", "i64")),
}
"""The types that a copy can reduce, by kind of reduction."""


# Barriers and clusters


def verify_barriers(op: Op) -> None:
    """The barriers among the operands have the type of barriers; what a barrier counts is 1 or more."""
    groups = operand_groups(op)
    name = op.definition.operand_names[0] if op.name.endswith("_barrier") or op.name.endswith("expect") else "barrier"
    for group in (name, "mbarrier", "barriers"):
        for value in groups.get(group, ()):
            type = memdesc(op, value)
            fits = type.element is i64 and len(type.shape) == 1
            require(fits, op, f"a barrier is a buffer with one axis of i64, not {type}")
    if "count" in op.attributes:
        require(number(op, "count") > 0, op, "a barrier counts to 1 or more")
    if "perWarp" in op.attributes:
        require(number(op, "count") == warps_of(op), op, "each warp arrives once: count is not the number of warps")
        require("fromCTA" not in op.attributes, op, "warps arrive at the barrier of their own block")
    if "fromCTA" in op.attributes:
        require(number(op, "fromCTA") >= 0, op, "fromCTA is a mask of bits of the number of a CTA")


def verify_cluster(op: Op) -> None:
    """Check that there is a cluster of several blocks; all warps take part in both halves of their barrier."""
    halves = op.name in ("ttng.cluster_arrive", "ttng.cluster_wait")
    parent = op.parent
    while parent is not None and parent.name != "builtin.module":
        apart = halves and parent.name == "ttg.warp_specialize"
        require(not apart, op, "cannot stand inside ttg.warp_specialize")
        parent = parent.parent
    if parent is not None and "ttg.num-warps" in parent.attributes:
        blocks = number(parent, "ttg.num-ctas") if "ttg.num-ctas" in parent.attributes else 1
        require(blocks > 1, op, "needs a cluster of several blocks")


# Copies by descriptor


def verify_copy(op: Op) -> None:
    """A copy between the block of a descriptor and a buffer with as many elements."""
    verify_barriers(op)
    groups = operand_groups(op)
    descriptor = groups["desc"][0].type
    (memory,) = groups.get("result") or groups["src"]
    buffer = mutable_memdesc(op, memory) if "result" in groups else memdesc(op, memory)
    if not isinstance(descriptor, TensorDescType):
        return
    verify_block(op, descriptor.block, TensorType(buffer.shape, buffer.element))
    _verify_offsets(op, descriptor)
    layout = layout_of(buffer)
    if isinstance(layout, NvmmaShared):
        require(not layout.transposed, op, f"cannot copy to or from a transposed buffer {buffer}")
    kind = op.attributes.get("kind")
    if isinstance(kind, Keyword):
        element = descriptor.block.element
        signed = isinstance(element, IntType) and element.sign == "s" and element.bits == 64
        known = f"i{element.bits}" if isinstance(element, IntType) else element.text
        fits = known in _REDUCED.get(kind.name, ()) and not (kind.name == "add" and signed)
        require(fits, op, f"cannot reduce {element} by {kind.name}")


def _verify_offsets(op: Op, descriptor: TensorDescType) -> None:
    """Check that a copy of images, and no other one, says how far from its pixels the elements are."""
    groups = operand_groups(op)
    offsets = groups.get("offsets", ())
    if not descriptor.of_images:
        require(not offsets, op, "a descriptor of tiles takes no offsets")
        return
    count = len(groups["coord"])
    require("result" in groups, op, "images are copied to shared memory only")
    require(3 <= count <= 5, op, f"an image has three to five coordinates, not {count}")
    require(len(offsets) == count - 2, op, f"{count} coordinates go with {count - 2} offsets, not {len(offsets)}")


def verify_rows_copy(op: Op) -> None:
    """A copy of rows between a descriptor and a buffer."""
    verify_barriers(op)
    groups = operand_groups(op)
    (memory,) = groups.get("result") or groups["src"]
    buffer = mutable_memdesc(op, memory) if "result" in groups else memdesc(op, memory)
    rows = groups["x_offsets"][0].type.shape
    require(rows == buffer.shape[:1], op, f"{buffer} does not have the rows {groups['x_offsets'][0].type}")


# Products


def _verify_shapes(op: Op, a: Type, b: Type, c: Type) -> None:
    left, right, out = (type.shape or () for type in (a, b, c))
    require(len(left) == len(right) == len(out) == 2, op, "needs operands and accumulator with two axes each")
    require(left[1] == right[0], op, f"inner extents differ: {left[1]} and {right[0]}")
    require((left[0], right[1]) == out, op, f"shapes do not fit: {a} * {b} -> {c}")


def verify_warp_group_dot(op: Op) -> None:
    """A product of buffers in the layouts of `wgmma`; the first operand may be in registers."""
    groups = operand_groups(op)
    a, b, c = (groups[name][0].type for name in ("a", "b", "c"))
    require(op.results[0].type is c, op, f"the result must have the accumulator's type {c}")
    _verify_shapes(op, a, b, c)
    out, left = layout_of(c), layout_of(a)
    require(isinstance(out, NvidiaMma) and out.version_major == 3, op, f"{c} has no layout of version 3")
    in_memory = isinstance(layout_of(b), (NvmmaShared, SharedLinear))
    require(in_memory, op, f"the second operand must be in memory that wgmma reads, not {b}")
    if isinstance(left, DotOperand):
        width = 32 // a.bits
        require(left.k_width == width, op, f"kWidth of an operand in registers must be {width}, not {left.k_width}")


def verify_waited(op: Op) -> None:
    """Check that there is something to wait for."""
    require(bool(op.operands), op, "needs something to wait for")


def verify_tensor_core(op: Op) -> None:
    """A product of buffers into tensor memory."""
    verify_barriers(op)
    groups = operand_groups(op)
    asynchronous = "is_async" in op.attributes
    require(asynchronous or not groups["barriers"], op, "only one that is_async signals a barrier when it is done")
    a, b, d = (memdesc(op, groups[name][0]) for name in ("a", "b", "d"))
    if op.name == "ttng.tc_gen5_mma":
        _verify_shapes(op, a, b, d)
        sums = _sums(a.element)
        require(_sums(b.element) == sums, op, f"cannot multiply {a.element} by {b.element}")
        require(d.element in sums, op, f"products of {a.element} cannot be summed in {d.element}")
    if a.space == TENSOR_MEMORY:
        _verify_left_in_tensor_memory(op, a, d)


def _verify_left_in_tensor_memory(op: Op, a: MemDescType, d: MemDescType) -> None:
    """Check that the left operand lies there as it is read: beside its rows of the sum, element by element."""
    left, sums = layout_of(a), layout_of(d)
    if not isinstance(left, TensorMemory) or not isinstance(sums, TensorMemory):
        return
    stride = with_stride(left, a.element.bits).column_stride
    require(stride == 1, op, f"the left operand in tensor memory must have a column stride of 1, not {stride}")
    rows = left.block_m, sums.block_m
    require(rows[0] == rows[1], op, f"left operand and sum lie in blocks of {rows[0]} and {rows[1]} rows")


def _sums(element: Type) -> tuple[Type, ...]:
    """The types in which products of `element` can be summed."""
    if isinstance(element, IntType):
        return (i32,)
    if element is f16 or (isinstance(element, FloatType) and element.bits == 8):
        return (f16, f32)
    return (f32,)


# Tensor memory


def verify_tensor_alloc(op: Op) -> None:
    """Check memory for a tile, with its contents or mutable."""
    result = memdesc(op, op.results[0])
    require(result.space == TENSOR_MEMORY, op, f"gives tensor memory, not {result.space}")
    if op.operands:
        _same(op, result, op.operands[0].type)
    else:
        require(result.mutable, op, "memory without contents must be mutable")


def _same(op: Op, buffer: MemDescType, tile: Type) -> None:
    fits = isinstance(tile, TensorType) and tile.shape == buffer.shape and tile.element is buffer.element
    require(fits, op, f"{tile} and {buffer} differ in shape or elements")


def verify_tensor_load(op: Op) -> None:
    """A tile from tensor memory, perhaps with a reduction of its rows."""
    _same(op, memdesc(op, op.operands[0]), op.results[0].type)
    for name in ("abs", "NaN"):
        if name in op.attributes:
            require("redOp" in op.attributes, op, f"{name} is for reductions, which redOp names")
            require(op.results[0].type.scalar is f32, op, f"{name} needs elements of f32")


def verify_tensor_store(op: Op) -> None:
    """A tile into mutable tensor memory."""
    groups = operand_groups(op)
    _same(op, mutable_memdesc(op, groups["dst"][0]), groups["src"][0].type)


def verify_tensor_copy(op: Op) -> None:
    """Check a copy from shared memory into mutable tensor memory."""
    target = mutable_memdesc(op, op.operands[1])
    require(target.space == TENSOR_MEMORY, op, f"copies to tensor memory, not to {target}")
    source = memdesc(op, op.operands[0])
    require(source.space != TENSOR_MEMORY, op, f"copies from shared memory, not from {source}")


def verify_tensor_subslice(op: Op) -> None:
    """Check some columns of tensor memory; Triton 3.5 calls the first one `N`."""
    offset = number(op, "N" if "N" in op.attributes else "offset")
    axis = number(op, "dim") if "dim" in op.attributes else 1
    source, result = memdesc(op, op.operands[0]), memdesc(op, op.results[0])
    require(source.space == TENSOR_MEMORY == result.space, op, "source and result must be in tensor memory")
    require(source.element is result.element, op, f"elements differ: {source.element} and {result.element}")
    require(len(source.shape) == len(result.shape) and axis < len(source.shape), op, "source and result differ in rank")
    others = all(a == b for i, (a, b) in enumerate(zip(source.shape, result.shape, strict=True)) if i != axis)
    require(others, op, f"only axis {axis} may become shorter")
    require(offset % result.shape[axis] == 0, op, f"offset {offset} is inside a part of {result.shape[axis]}")
    require(offset + result.shape[axis] <= source.shape[axis], op, f"offset {offset} is beyond axis {axis}")
