"""Products in tensor memory in their final form: with barriers that say when they are done, and scales where they read.

    ttng.tc_gen5_mma %a, %b, %d, %use, %p

        %r = ttg.local_alloc : () -> !ttg.memdesc<1xi64, …, mutable>
        ttng.init_barrier %r, 1
        ttng.tc_gen5_mma %a, %b, %d, %use, %p, %r[%true] {is_async}
        ttng.wait_barrier %r, %c0_i32, %p
        ttng.inval_barrier %r

    ttng.tc_gen5_mma %a, %b, %d, %use, %true {is_async}
    ttng.tc_gen5_commit %r, %q                            ->     … %true, %r[%q] {is_async}

Scales in shared memory are copied to tensor memory in front of the product.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.ir.attributes import UNIT, DenseArray, Number
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.declare import OPS
from tilewright.ir.effects import is_pure
from tilewright.ir.operands import SEGMENTS, operand, operand_groups
from tilewright.ir.types import MemDescType, i1, i32, i64
from tilewright.layouts.encodings import SwizzledShared, TensorMemoryScales, encoding
from tilewright.layouts.queries import cga_layout
from tilewright.transforms.gpu.tcgen05 import TENSOR_MEMORY
from tilewright.transforms.gpu.tile_ops import TileOps
from tilewright.transforms.gpu.workers import workers_of
from tilewright.transforms.matching import constant_of

PRODUCTS = frozenset({"ttng.tc_gen5_mma", "ttng.tc_gen5_mma_scaled"})
READ = ("a", "b", "a_scale", "b_scale")


def mma_lowering(module: Op) -> bool:
    """Bring the products in tensor memory of `module` into their final form."""
    products = [op for op in module.walk() if op.name in PRODUCTS]
    for op in products:
        if "is_async" not in op.attributes:
            _wait_for(op)
        if op.name == "ttng.tc_gen5_mma_scaled":
            _copy_scales(op)
        _merge_commits(op)
    return bool(products)


def _predicate(product: Op) -> Value:
    return operand_groups(product)["pred"][0]


def _add_barrier(product: Op, barrier: Value, predicate: Value) -> None:
    """`product` tells `barrier` when it is done, if `predicate` holds."""
    groups = operand_groups(product)
    groups["barriers"] = [*groups["barriers"], barrier]
    groups["barrier_preds"] = [*groups["barrier_preds"], predicate]
    product.set_operands([value for group in groups.values() for value in group])
    sizes = DenseArray(i32, tuple(map(len, groups.values())))
    product.attributes = {**product.attributes, SEGMENTS: sizes}


# Products that are waited for


def _wait_for(product: Op) -> None:
    """The program goes on when the product is done."""
    ops = TileOps(product)
    blocks = workers_of(product).ctas
    cga = tuple((1 << bit,) for bit in range(blocks.bit_length() - 1))
    type = MemDescType((blocks,), i64, SwizzledShared(1, 1, 1, (0,), cga).text, mutable=True)
    barrier = ops.emit("ttg.local_alloc", (), type)
    ops.op("ttng.init_barrier", (barrier,), (), {"count": Number(1, i32)})
    _add_barrier(product, barrier, ops.literal(1, i1))
    product.attributes = {**product.attributes, "is_async": UNIT}
    assert product.block is not None, "a product is in a block"
    last = Op(OPS["ttng.inval_barrier"], (barrier,), location=product.location)
    product.block.insert(last, product.next)
    sizes = {SEGMENTS: DenseArray(i32, (1, 1, 1, 0))}  # no further buffers that must live so long
    TileOps(last).op("ttng.wait_barrier", (barrier, ops.literal(0, i32), _predicate(product)), (), {**sizes})


# Scales


def _copy_scales(product: Op) -> None:
    """Tensor memory gets scales that are in shared memory."""
    ops = TileOps(product)
    for name, axis in (("a_scale", 0), ("b_scale", 1)):
        groups = operand_groups(product)
        (scale,), (sum,) = groups[name], groups["d"]
        type = scale.type
        assert isinstance(type, MemDescType), "scales are in a buffer"
        if type.space == TENSOR_MEMORY or type.shape != type.alloc_shape:
            continue
        rows = (sum.type.shape or ())[axis]
        layout = TensorMemoryScales(cga_layout(encoding(type.encoding)))
        wanted = MemDescType((rows, type.numel // rows), type.element, layout.text, TENSOR_MEMORY, True)
        memory = ops.emit("ttng.tmem_alloc", (), wanted)
        ops.op("ttng.tmem_copy", (scale, memory), ())
        product.set_operands([memory if value is scale else value for value in product.operands])


# Commits


def _merge_commits(product: Op) -> None:
    """Barriers that are told right behind the product are told by it."""
    for commit in list(_commits_behind(product)):
        barrier, predicate = operand_groups(commit)["barrier"][0], operand(commit, "pred")
        needed = [barrier] if predicate is None else [barrier, predicate]
        late = _computed_behind(product, needed)
        if late is None:
            return
        for op in late:
            assert product.block is not None, "a product is in a block"
            op.unlink()
            product.block.insert(op, product)
        _add_barrier(product, barrier, TileOps(product).literal(1, i1) if predicate is None else predicate)
        commit.erase()


def _commits_behind(product: Op) -> Iterator[Op]:
    """Commits for this product: nothing but pure ops is between it and them."""
    mine = _predicate(product)
    always = bool(constant_of(mine))
    buffers = _read_buffers(product) if "multicast" in product.attributes else []
    op = product.next
    while op is not None:
        if op.name == "ttng.tc_gen5_commit":
            if (not always and operand(op, "pred") is not mine) or operand_groups(op)["descs"] != buffers:
                return
            yield op
        elif not is_pure(op):
            return
        op = op.next


def _read_buffers(product: Op) -> list[Value]:
    """The buffers in shared memory that `product` reads."""
    groups = operand_groups(product)
    values = [value for name in READ for value in groups.get(name, ())]
    return [value for value in values if isinstance(value.type, MemDescType) and value.type.space != TENSOR_MEMORY]


def _computed_behind(product: Op, values: list[Value]) -> list[Op] | None:
    """The ops behind `product` that compute `values`, in order; None if one of them cannot stand in front of it."""
    behind: set[Op] = set()
    op = product.next
    while op is not None:
        behind.add(op)
        op = op.next
    found: set[Op] = set()
    waiting = list(values)
    while waiting:
        maker = waiting.pop().op
        if maker is None or maker not in behind or maker in found:
            continue
        if not is_pure(maker):
            return None
        found.add(maker)
        waiting += maker.operands
    return _in_order(product.block, found)


def _in_order(block: Block | None, ops: set[Op]) -> list[Op]:
    return [op for op in block or () if op in ops]
