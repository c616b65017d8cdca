"""Different code for different warps: `ttg.warp_specialize`.

    %r = ttg.warp_specialize(%a) attributes {requestedRegisters = array<i32: 32>}
    default {
      ttg.warp_yield %x : i32
    }
    partition0(%b: i32) num_warps(4) {
      ttg.warp_return
    } : (i32) -> i32

The second region of `ttg.warp_specialize` holds one op, `ttg.warp_specialize.partitions`; its operands are the values
that partitions capture (`%a`), and its regions are the partitions.
"""

from __future__ import annotations

import re

from tilewright.dialects.assembly import assembly
from tilewright.dialects.formats import VALUES
from tilewright.dialects.nvws import WarpGroup
from tilewright.dialects.rules import types_match, types_of
from tilewright.ir.attributes import Attribute, DenseArray
from tilewright.ir.core import Block, Op, Region, integer_in
from tilewright.ir.declare import OPS, Effect, OpDefinition, declare, declares
from tilewright.ir.errors import VerificationError, require
from tilewright.ir.fields import Body, Integers, Operands
from tilewright.ir.parser import Argument, Parser
from tilewright.ir.printer import Printer
from tilewright.ir.scanner import SPACE
from tilewright.ir.types import i32

PARTITIONS = "ttg.warp_specialize.partitions"
_PARTITION = re.compile(r"partition\d+" + SPACE)


def partitions_of(op: Op) -> WarpSpecializePartitions:
    """The op that holds the partitions of a `ttg.warp_specialize`."""
    holder = op.regions[1].blocks[0].first if op.regions[1].blocks else None
    if not isinstance(holder, WarpSpecializePartitions):
        raise VerificationError(op, f"its second region must hold {PARTITIONS}")
    return holder


def partition_warps(op: Op) -> tuple[int, ...]:
    """The number of warps of each partition."""
    warps = op.attributes.get("partitionNumWarps")
    if not isinstance(warps, DenseArray):
        raise VerificationError(op, "attribute partitionNumWarps must be an array of integers")
    return warps.values


def _parse_specialize(parser: Parser, definition: OpDefinition) -> Op:
    captures = parser.list(parser.operand, "(", ")")
    attributes: dict[str, Attribute] = parser.attributes() if parser.keyword("attributes") else {}
    parser.expect("default")
    default = parser.region()
    place = parser.place(parser.position)
    warps: list[int] = []
    regions: list[Region] = []
    while parser.match(_PARTITION):
        arguments = parser.list(lambda: Argument(parser.operand(), parser.colon_type(), parser.location()), "(", ")")
        parser.expect("num_warps")
        parser.expect("(")
        warps.append(parser.integer())
        parser.expect(")")
        regions.append(parser.region(arguments, isolated=True))
    signature = parser.signature()
    attributes["partitionNumWarps"] = DenseArray(i32, tuple(warps))
    holder = Block()
    operands = parser.resolve_all(captures, signature.inputs)
    holder.append(Op(OPS[PARTITIONS], operands, (), {}, regions, location=place))
    return Op(definition, (), signature.outputs, attributes, [default, Region([holder])])


def _print_specialize(printer: Printer, op: Op) -> None:
    partitions = partitions_of(op)
    printer.write(f"({printer.values(partitions.operands)})")
    attributes = printer.attributes(op.attributes, ("partitionNumWarps",))
    printer.write(f" attributes{attributes}" if attributes else "")
    printer.line("default ")
    printer.region(op.regions[0], entry_arguments=False)
    for number, (region, warps) in enumerate(zip(partitions.regions, partition_warps(op), strict=True)):
        arguments = ", ".join(map(printer.argument, region.block.args))
        printer.line(f"partition{number}({arguments}) num_warps({warps}) ")
        printer.region(region, entry_arguments=False)
    printer.write(f" : {printer.function(types_of(partitions.operands), types_of(op.results))}")


def _verify_specialize(op: Op) -> None:
    partitions = partitions_of(op)
    warps = partition_warps(op)
    require(len(warps) == len(partitions.regions), op, "partitionNumWarps must have one entry per partition")
    for number, count in enumerate(warps):
        require(count > 0 and count & (count - 1) == 0, op, f"partition {number} has {count} warps: no power of two")
    starts = op.attributes.get("warpGroupStartIds")
    fits = not isinstance(starts, DenseArray) or len(starts.values) == len(warps)
    require(fits, op, "warpGroupStartIds must have one entry per partition")
    parent = op.parent
    while parent is not None:
        require(parent.name != op.name, op, "must not stand inside another ttg.warp_specialize")
        parent = parent.parent
    for block in op.regions[0].blocks:
        last = block.terminator
        if last.name == "ttg.warp_yield":
            types_match(last, last.operands, types_of(op.results), "yielded values")


def _verify_partitions(op: Op) -> None:
    for number, region in enumerate(op.regions):
        types_match(op, region.block.args, types_of(op.operands), f"arguments of partition {number}")


@declares(
    "ttg.warp_specialize",
    operands=(0, 0),
    regions=2,
    required=("partitionNumWarps",),
    effect=Effect.RECURSIVE,
    parse=_parse_specialize,
    print=_print_specialize,
    verify=_verify_specialize,
)
class WarpSpecialize(Op):
    """Other code for other warps; `default` is that of the warps that come here."""

    __slots__ = ()
    default = Body()
    partition_warps = Integers("partitionNumWarps")
    registers = Integers("requestedRegisters")

    @property
    def partitions(self) -> WarpSpecializePartitions:
        """The op that holds the code of the other warps."""
        return partitions_of(self)


@declares(
    PARTITIONS,
    synchronizes=True,
    results=0,
    regions=None,
    isolated=True,
    terminator=True,
    effect=Effect.RECURSIVE,
    verify=_verify_partitions,
)
class WarpSpecializePartitions(Op):
    """The work of other warps, each partition in a region that gets `captures` as arguments."""

    __slots__ = ()
    captures = Operands()


@declares("ttg.warp_yield", results=0, terminator=True, **VALUES)
class WarpYield(Op):
    """The values that the default region gives."""

    __slots__ = ()
    values = Operands()


declare("ttg.warp_return", terminator=True, **assembly("{}"))


def warps_of(op: Op) -> int:
    """The number of warps that execute `op`: those of its partition, or all."""
    inner, parent = op, op.parent
    while parent is not None:
        if isinstance(parent, WarpSpecializePartitions) and isinstance(parent.parent, WarpSpecialize):
            return parent.parent.partition_warps[_number_of_region(parent, inner)]
        if isinstance(parent, WarpGroup):
            return parent.warps[_number_of_region(parent, inner)]
        own = integer_in(parent, "ttg.num-warps")
        if own is not None:
            return own
        inner, parent = parent, parent.parent
    return integer_in(inner, "ttg.num-warps") or 4


def _number_of_region(op: Op, inner: Op) -> int:
    """The number of the region of `op` that `inner` is right in."""
    return next(number for number, region in enumerate(op.regions) if inner.block in region.blocks)
