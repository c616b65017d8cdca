"""A loop whose ops have partitions becomes one loop for each group of warps.

    scf.for … {                                   ttg.warp_specialize(%d, …)
      "epilogue"  {ttg.partition = 0}             default { scf.for … { "epilogue" } }
      "product"   {ttg.partition = 1}     ->      partition0(…) num_warps(1) { scf.for … { "product" } }
      "copy"      {ttg.partition = 2}             partition1(…) num_warps(2) { scf.for … { "copy" } }
    }

Each group gets the part of the loop that it needs (`slices.py`); constants are made anew, other values from outside are
captured. The partition with products ends when the last one is done, so that all buffers are free behind the op.
Products of warp groups, in the default partition, run on (`run_products_on.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.dialects.scf import For
from tilewright.dialects.ttng_mma import TensorCoreMma
from tilewright.ir.attributes import Attribute, DenseArray, Number
from tilewright.ir.core import Block, Op, Region, Value
from tilewright.ir.types import i32
from tilewright.transforms.gpu.pipelining.schedule import CLUSTER, LAST_STAGE, STAGE
from tilewright.transforms.gpu.tile_ops import workers_of
from tilewright.transforms.gpu.tma_lowering import barriers_type
from tilewright.transforms.gpu.warp_specialization.run_products_on import run_products_on
from tilewright.transforms.gpu.warp_specialization.slices import (
    DEFAULT,
    PARTITION,
    Slice,
    marked_loops,
    partitions_of_op,
)
from tilewright.transforms.op_builder import OpBuilder

SCHEDULING = (PARTITION, STAGE, CLUSTER, LAST_STAGE)
"""Attributes that say when and by whom an op of a loop is executed; the slices are not scheduled again."""


def partition_loops(module: Op) -> bool:
    """Give each partition of the loops of `module` a loop of its own."""
    loops = marked_loops(module)
    for loop in loops:
        _partition(loop)
    return bool(loops)


def _partition(loop: For) -> None:
    at = OpBuilder(loop)
    used = [result for result in loop.results if result.uses]
    numbers = sorted({number for op in loop.walk() for number in partitions_of_op(op)} - {DEFAULT})
    slices = [Slice(loop, number) for number in numbers]
    mapping: dict[Value, Value] = {}
    default = Block()
    Slice(loop, DEFAULT, results=used).write(default, mapping)
    default.append(Op.create("ttg.warp_yield", [mapping[value] for value in used], location=loop.location))
    captures = list(dict.fromkeys(value for part in slices for value in part.captured if not _is_constant(value)))
    operands = [*captures, *([_barrier(loop)] if any(map(_multiplies, slices)) else ())]
    regions = [Region([_body(part, operands)]) for part in slices]
    attributes: dict[str, Attribute] = {
        "partitionNumWarps": DenseArray(i32, (workers_of(loop).warps,) * len(slices))
    }
    holder = Block()
    holder.append(Op.create("ttg.warp_specialize.partitions", operands, (), {}, regions, location=loop.location))
    types = [value.type for value in used]
    made = at.op("ttg.warp_specialize", (), types, attributes, [Region([default]), Region([holder])])
    run_products_on(default)
    for old, new in zip(used, made.results, strict=True):
        old.replace_by(new)
    for op in made.walk():
        op.attributes = {name: value for name, value in op.attributes.items() if name not in SCHEDULING}
    loop.erase()


def _multiplies(part: Slice) -> bool:
    return any(isinstance(op, TensorCoreMma) for op in part.ops)


def _is_constant(value: Value) -> bool:
    return value.op is not None and value.op.name == "arith.constant"


def _barrier(loop: For) -> Value:
    """A barrier that hears when the last product is done."""
    front, behind = OpBuilder(loop), OpBuilder.behind(loop)
    barrier = front.emit("ttg.local_alloc", (), barriers_type(loop))
    front.op("ttng.init_barrier", (barrier,), (), {"count": Number(1, i32)})
    behind.op("ttng.inval_barrier", (barrier,))
    behind.op("ttg.local_dealloc", (barrier,))
    return barrier


def _body(part: Slice, operands: Sequence[Value]) -> Block:
    """The code of a partition."""
    block = Block([value.type for value in operands])
    mapping = dict(zip(operands, block.args, strict=True))
    constants = (value.op for value in part.captured if value.op is not None and _is_constant(value))
    for op in (*constants, *part.remade):
        block.append(op.clone(mapping))
    end = block.append(Op.create("ttg.warp_return", location=part.loop.location))
    body = Block()
    part.write(body, mapping)
    block.splice(list(body), end)
    if _multiplies(part):
        at = OpBuilder(end)
        *_, barrier = (mapping[operand] for operand in operands)
        at.op("ttng.tc_gen5_commit", [barrier, [], []])
        at.op("ttng.wait_barrier", [barrier, at.constant(0, i32), [], []])
    return block
