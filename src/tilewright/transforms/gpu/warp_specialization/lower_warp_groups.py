"""`nvws.warp_group` becomes `ttg.warp_specialize`, with explicit captures.

    %x = "tile"()
    nvws.warp_group                               %m = ttg.local_alloc %x
    partition0 num_warps(4) { "a"() }             ttg.warp_specialize(%m, %n)
    partition1 num_warps(4) { "b"(%x, %n, %c) }   default { "a"() }
                                                  partition0(%p, %q) num_warps(4) {
                                                    %c = arith.constant …
                                                    %y = ttg.local_load %p
                                                    "b"(%y, %q, %c)
                                                  }

Constants and addresses are recomputed in each group, other tiles go through shared memory, and all else is captured.
The first group becomes the default one if it has as many warps as the code around the op; if not, all are partitions.
"""

from __future__ import annotations

from itertools import chain

from tilewright.dialects.nvws import WarpGroup
from tilewright.dialects.ttg_warp_specialize import warps_of
from tilewright.ir.attributes import DenseArray
from tilewright.ir.core import Block, Op, Region, Value
from tilewright.ir.errors import require
from tilewright.ir.types import TensorType, i32
from tilewright.transforms.gpu.tile_ops import plain_buffer
from tilewright.transforms.gpu.warp_specialization.slices import handed_over, is_made_again
from tilewright.transforms.op_builder import OpBuilder


def lower_warp_groups(module: Op) -> bool:
    """Turn the warp groups of `module` into `ttg.warp_specialize`, with the values that they capture."""
    groups = module.ops_of(WarpGroup)
    for group in groups:
        _lower(group)
    return bool(groups)


def _lower(group: WarpGroup) -> None:
    first = int(group.warps[:1] == (warps_of(group),))
    require(bool(first) or not group.results, group, "the warps that come here give the results, not others")
    default, further = Block(), group.regions[first:]
    values: list[Value] = []
    for region in group.regions[:first]:
        default.splice(region.block)
        values = list(default.terminator.operands)
        default.terminator.erase()
    default.append(Op.create("ttg.warp_yield", values, location=group.location))
    captures = Captures(group)
    used = [from_outside(region) for region in further]
    for value in chain.from_iterable(used):
        captures.need(value)
    holder = Block()
    partitions = [Region([captures.body(*each)]) for each in zip(further, used, strict=True)]
    handed = list(captures.handed.values())
    holder.append(Op.create("ttg.warp_specialize.partitions", handed, (), {}, partitions, location=group.location))
    kept = {name: value for name, value in group.attributes.items() if name != "numWarps"}
    attributes = {**kept, "partitionNumWarps": DenseArray(i32, group.warps[first:])}
    types = [result.type for result in group.results]
    made = OpBuilder(group).op("ttg.warp_specialize", (), types, attributes, [Region([default]), Region([holder])])
    group.replace(made.results)


def from_outside(region: Region) -> list[Value]:
    """The values from outside of `region` that it uses, in the order of their first use."""
    inside: set[Value] = set()
    used: dict[Value, None] = {}
    for op in region.walk():
        used.update(dict.fromkeys(op.operands))
        inside.update(op.results)
        for inner in op.regions:
            inside.update(argument for block in inner.blocks for argument in block.args)
    return [value for value in used if value not in inside]


class Captures:
    """The values that further warp groups are given.

    Attributes:
        group: the op with the groups.
        handed: what goes to the groups for each value: the value itself, or a buffer with the elements of a tile.
    """

    def __init__(self, group: WarpGroup) -> None:
        self.group = group
        self.handed: dict[Value, Value] = {}

    def need(self, value: Value) -> None:
        """Hand over `value`, or what it is computed from."""
        for given in handed_over([value]):
            if given not in self.handed:
                self.handed[given] = self._buffer(given) if isinstance(given.type, TensorType) else given

    def _buffer(self, tile: Value) -> Value:
        buffer = OpBuilder(self.group).emit("ttg.local_alloc", (tile,), plain_buffer(tile))
        OpBuilder.after(self.group).op("ttg.local_dealloc", (buffer,))
        return buffer

    def body(self, region: Region, used: list[Value]) -> Block:
        """The code of `region`, which uses `used`, as that of a partition, which sees nothing but its arguments."""
        block = Block([value.type for value in self.handed.values()])
        arguments = dict(zip(self.handed, block.args, strict=True))
        mapping: dict[Value, Value] = {}
        block.splice(region.block)
        block.terminator.erase()
        block.append(Op.create("ttg.warp_return", location=self.group.location))
        at = OpBuilder(block.first or block.terminator)
        for value in used:
            _make(at, value, arguments, mapping)
        for op in Region([block]).walk():
            op.set_operands([mapping.get(operand, operand) for operand in op.operands])
        return block


def _make(at: OpBuilder, value: Value, arguments: dict[Value, Value], mapping: dict[Value, Value]) -> None:
    """Enter into `mapping` what stands for `value` within a partition."""
    if value in mapping:
        return
    if is_made_again(value):
        assert value.op is not None, "only what an op gives is made again"
        for operand in value.op.operands:
            _make(at, operand, arguments, mapping)
        at.insert(value.op.clone(mapping))
    elif isinstance(value.type, TensorType):
        mapping[value] = at.emit("ttg.local_load", (arguments[value],), value.type)
    else:
        mapping[value] = arguments[value]
