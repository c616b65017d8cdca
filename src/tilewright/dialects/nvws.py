"""Warp groups that run different code, before their captured values are made explicit: `nvws.warp_group`.

    %r = nvws.warp_group
    partition0 num_warps(4) {
      nvws.warp_group.yield %x : i32
    }
    partition1 num_warps(2) {
      "use"(%a)
      nvws.warp_group.return
    }

The groups can use all values around the op (`%a`); the first one yields the results. `lower_warp_groups` turns it into
`ttg.warp_specialize`, whose partitions get captured values as arguments.
"""

from __future__ import annotations

import re

from tilewright.dialects.assembly import assembly
from tilewright.dialects.formats import VALUES
from tilewright.dialects.rules import types_match, types_of
from tilewright.ir.attributes import Attribute, DenseArray
from tilewright.ir.core import Op, Region
from tilewright.ir.declare import Effect, OpDefinition, declares
from tilewright.ir.errors import require
from tilewright.ir.fields import Integers, Operands
from tilewright.ir.parser import Parser
from tilewright.ir.printer import Printer
from tilewright.ir.scanner import SPACE
from tilewright.ir.types import Type, i32

_GROUP = re.compile(r"partition\d+" + SPACE)


def _parse_groups(parser: Parser, definition: OpDefinition) -> Op:
    attributes: dict[str, Attribute] = parser.attributes() if parser.keyword("attributes") else {}
    warps: list[int] = []
    regions: list[Region] = []
    while parser.match(_GROUP):
        parser.expect("num_warps")
        parser.expect("(")
        warps.append(parser.integer())
        parser.expect(")")
        regions.append(parser.region())
    attributes["numWarps"] = DenseArray(i32, tuple(warps))
    return Op(definition, (), _types_given(regions), attributes, regions)


def _types_given(regions: list[Region]) -> list[Type]:
    """The types of the results, which are those that the first group yields: the text does not say them."""
    ends = [op for region in regions[:1] for block in region.blocks for op in block if isinstance(op, GroupYield)]
    return types_of(ends[0].values) if ends else []


def _print_groups(printer: Printer, op: Op) -> None:
    attributes = printer.attributes(op.attributes, ("numWarps",))
    printer.write(f" attributes{attributes}" if attributes else "")
    for number, (region, warps) in enumerate(zip(op.regions, group_warps(op), strict=True)):
        printer.line(f"partition{number} num_warps({warps}) ")
        printer.region(region)


def group_warps(op: Op) -> tuple[int, ...]:
    """The number of warps of each group."""
    warps = op.attributes.get("numWarps")
    return warps.values if isinstance(warps, DenseArray) else ()


def _verify_groups(op: Op) -> None:
    require(len(group_warps(op)) == len(op.regions), op, "numWarps must have one entry per group")
    for number, count in enumerate(group_warps(op)):
        require(count > 0 and count & (count - 1) == 0, op, f"group {number} has {count} warps: no power of two")
    for number, region in enumerate(op.regions):
        require(len(region.blocks) == 1, op, f"group {number} must be one block")
        end = region.block.terminator
        require(isinstance(end, GroupReturn if number else (GroupYield, GroupReturn)), op, f"the end of group {number}")
    given = op.regions[0].block.terminator.operands if op.regions else []
    types_match(op, given, types_of(op.results), "values of the first group")


@declares(
    "nvws.warp_group",
    operands=(0, 0),
    results=None,
    regions=None,
    required=("numWarps",),
    effect=Effect.RECURSIVE,
    parse=_parse_groups,
    print=_print_groups,
    verify=_verify_groups,
)
class WarpGroup(Op):
    """Groups of warps, each with its code; if the first one has as many warps as come here, it is those."""

    __slots__ = ()
    warps = Integers("numWarps")


@declares("nvws.warp_group.yield", results=0, terminator=True, **VALUES)
class GroupYield(Op):
    """The values that the first group gives."""

    __slots__ = ()
    values = Operands()


@declares("nvws.warp_group.return", terminator=True, **assembly("{}"))
class GroupReturn(Op):
    """The end of a group that gives nothing."""

    __slots__ = ()
