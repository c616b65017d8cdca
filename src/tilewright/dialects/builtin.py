"""The module, single ops of the dialects ub, llvm and gpu, and ops that are only read and printed."""

from __future__ import annotations

from tilewright.dialects.assembly import assembly
from tilewright.dialects.layout_rules import verify_layouts
from tilewright.dialects.traits import Indexing
from tilewright.ir.attributes import Attribute
from tilewright.ir.core import Block, Op
from tilewright.ir.declare import Effect, OpDefinition, declare, declares
from tilewright.ir.errors import require
from tilewright.ir.fields import Body, Operand
from tilewright.ir.parser import Parser
from tilewright.ir.printer import Printer, symbol_text
from tilewright.ir.types import i1

# module [@name] [attributes {…}] { … }


def _parse_module(parser: Parser, definition: OpDefinition) -> Op:
    attributes: dict[str, Attribute] = {"sym_name": parser.symbol()} if parser.looks_at("@") else {}
    if parser.keyword("attributes"):
        attributes.update(parser.attributes())
    region = parser.region()
    if not region.blocks:
        region.add(Block())
    return Op(definition, (), (), attributes, [region])


def _print_module(printer: Printer, op: Op) -> None:
    name = op.attributes.get("sym_name")
    if isinstance(name, str):
        printer.write(f" {symbol_text(name)}")
    attributes = printer.attributes(op.attributes, ("sym_name",))
    printer.write(f" attributes{attributes} " if attributes else " ")
    printer.region(op.regions[0])


def _verify_module(op: Op) -> None:
    names: set[object] = set()
    for inner in op.regions[0].block:
        if inner.definition.symbol:
            name = inner.attributes.get("sym_name")
            require(name not in names, inner, f"the symbol @{name} is defined twice")
            names.add(name)
    verify_layouts(op)


def _verify_assume(op: Op) -> None:
    require(op.operands[0].type is i1, op, "the condition must be i1")


@declares(
    "builtin.module",
    spelling="module",
    operands=(0, 0),
    results=0,
    regions=1,
    isolated=True,
    terminated=False,
    effect=Effect.UNKNOWN,
    parse=_parse_module,
    print=_print_module,
    verify=_verify_module,
)
class Module(Op):
    """Functions, and what is known of the machine."""

    __slots__ = ()
    body = Body()


@declares("ub.poison", **assembly("{} : !result", "", "result"))
class Poison(Indexing):
    """Any value."""

    __slots__ = ()


@declares(
    "llvm.intr.assume",
    effect=Effect.WRITE,
    verify=_verify_assume,
    **assembly(" %condition{} : !condition", "condition"),
)
class Assume(Op):
    """A condition that the program promises to hold."""

    __slots__ = ()
    condition = Operand(0)


@declares("gpu.barrier", synchronizes=True, effect=Effect.READ_WRITE, **assembly("{}"))
class Barrier(Op):
    """A barrier of all threads of a program."""

    __slots__ = ()


# Nothing here makes these.
declare(
    "builtin.unrealized_conversion_cast", **assembly("?( %inputs* : !inputs*) to !outputs*{}", "inputs*", "outputs*")
)
declare("llvm.mlir.undef", **assembly("{} : !result", "", "result"))
declare("tti.experimental_fpsan_embed", **assembly(" %val{} : =>", "val", "result"))
declare("tti.experimental_fpsan_unembed", **assembly(" %val{} : =>", "val", "result"))
declare("tti.experimental_cluster_cta_id", **assembly("{} : !result", "", "result"))
for _dialect in ("amdg", "amdgpu"):
    declare(
        f"{_dialect}.local_load_packed_tranposed",
        effect=Effect.READ,
        **assembly(" %src{} : !src -> !result", "src", "result"),
    )
