"""Functions of the tile dialect: `tt.func`, `tt.call`, `tt.return`."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.dialects.formats import VALUES
from tilewright.dialects.rules import types_match
from tilewright.ir.attributes import Attribute, Symbol
from tilewright.ir.core import Op, Region
from tilewright.ir.declare import Effect, OpDefinition, declares
from tilewright.ir.errors import VerificationError, require
from tilewright.ir.fields import Body, Flag, Operands, RegionOf, Word
from tilewright.ir.parser import Argument, Parser
from tilewright.ir.printer import Printer, symbol_text
from tilewright.ir.types import FunctionType, Type

VISIBILITIES = ("public", "private", "nested")
_IN_HEADER = ("sym_name", "sym_visibility", "function_type", "arg_attrs", "res_attrs")


def function_type(function: Op) -> FunctionType:
    """The type in attribute `function_type`."""
    type = function.attributes["function_type"]
    if not isinstance(type, FunctionType):
        raise VerificationError(function, "attribute function_type must be a function type")
    return type


# tt.func public @f(%x: T {…}, %y: U) -> (V {…}) attributes {…} { … }


def _parse_function(parser: Parser, definition: OpDefinition) -> Op:
    attributes: dict[str, Attribute] = {}
    if visibility := parser.keyword(*VISIBILITIES):
        attributes["sym_visibility"] = visibility
    attributes["sym_name"] = parser.symbol()
    arguments: list[Argument] = []
    inputs: list[Type] = []
    details: list[dict[str, Attribute]] = []

    def argument() -> None:
        if parser.looks_at("%"):
            reference = parser.operand()
            parser.expect(":")
            inputs.append(parser.type())
            details.append(parser.attributes())
            arguments.append(Argument(reference, inputs[-1], parser.location()))
        else:
            inputs.append(parser.type())
            details.append(parser.attributes())

    parser.list(argument, "(", ")")
    outputs, result_details = _parse_results(parser)
    attributes["function_type"] = FunctionType(tuple(inputs), tuple(outputs))
    attributes["arg_attrs"] = tuple(details)
    if any(result_details):
        attributes["res_attrs"] = tuple(result_details)
    if parser.keyword("attributes"):
        attributes.update(parser.attributes())
    body = parser.region(arguments, isolated=True) if parser.looks_at("{") else Region()
    return Op(definition, (), (), attributes, [body])


def _parse_results(parser: Parser) -> tuple[list[Type], list[dict[str, Attribute]]]:
    outputs: list[Type] = []
    details: list[dict[str, Attribute]] = []

    def result() -> None:
        outputs.append(parser.type())
        details.append(parser.attributes())

    if parser.optional("->"):
        if parser.looks_at("("):
            parser.list(result, "(", ")")
        else:
            outputs.append(parser.type())
    return outputs, details


def _print_function(printer: Printer, op: Op) -> None:
    attributes = op.attributes
    visibility = attributes.get("sym_visibility")
    name = symbol_text(str(attributes["sym_name"]))
    printer.write(f" {visibility} {name}(" if visibility else f" {name}(")
    printer.write(", ".join(_parameter_texts(printer, op)))
    printer.write(")" + _results_text(printer, op))
    rest = printer.attributes(attributes, _IN_HEADER)
    printer.write(f" attributes{rest}" if rest else "")
    if op.regions[0].blocks:
        printer.write(" ")
        printer.region(op.regions[0], entry_arguments=False)


def _parameter_texts(printer: Printer, op: Op) -> list[str]:
    inputs = function_type(op).inputs
    details = _details(op, "arg_attrs", len(inputs))
    if not op.regions[0].blocks:
        return [f"{printer.type(type)}{printer.attributes(own)}" for type, own in zip(inputs, details, strict=True)]
    arguments = zip(op.regions[0].block.args, details, strict=True)
    return [printer.argument(value, printer.attributes(own)) for value, own in arguments]


def _results_text(printer: Printer, op: Op) -> str:
    outputs = function_type(op).outputs
    details = _details(op, "res_attrs", len(outputs))
    texts = [f"{printer.type(type)}{printer.attributes(own)}" for type, own in zip(outputs, details, strict=True)]
    if not texts:
        return ""
    return f" -> {texts[0]}" if len(texts) == 1 and not details[0] else f" -> ({', '.join(texts)})"


def _details(op: Op, name: str, count: int) -> list[dict[str, Attribute]]:
    """The attributes per parameter or result; empty ones when nothing is said."""
    details = op.attributes.get(name) or ({},) * count
    assert isinstance(details, tuple), f"{name} must be a tuple"
    return [own for own in details if isinstance(own, dict)]


def _verify_function(op: Op) -> None:
    type = function_type(op)
    require(isinstance(op.attributes["sym_name"], str), op, "attribute sym_name must be a string")
    details = op.attributes.get("arg_attrs")
    counted = not details or (isinstance(details, tuple) and len(details) == len(type.inputs))
    require(counted, op, "arg_attrs must have one entry per parameter")
    if not op.regions[0].blocks:
        return
    types_match(op, op.regions[0].block.args, type.inputs, "arguments of the entry block")
    for block in op.regions[0].blocks:
        last = block.terminator
        if last.name == "tt.return":
            types_match(last, last.operands, type.outputs, f"values returned by @{op.attributes['sym_name']}")


# tt.call @f(%a, %b) {…} : (T, U) -> V


def callee_of(call: Op) -> str:
    """The name of the function that `call` calls."""
    callee = call.attributes["callee"]
    assert isinstance(callee, Symbol), "the callee of tt.call is a symbol"
    return callee.name


def called_function(call: Op) -> Op | None:
    """The function that `call` calls; None if there is none of that name."""
    return lookup_symbol(call, callee_of(call))


def _parse_call(parser: Parser, definition: OpDefinition) -> Op:
    callee = Symbol(parser.symbol())
    references = parser.list(parser.operand, "(", ")")
    attributes = {"callee": callee, **parser.attributes()}
    signature = parser.signature()
    return Op(definition, parser.resolve_all(references, signature.inputs), signature.outputs, attributes)


def _print_call(printer: Printer, op: Op) -> None:
    attributes = printer.attributes(op.attributes, ("callee",))
    operands = printer.values(op.operands)
    printer.write(f" {symbol_text(callee_of(op))}({operands}){attributes} : {printer.signature(op)}")


def _verify_call(op: Op) -> None:
    callee = op.attributes["callee"]
    if not isinstance(callee, Symbol):
        raise VerificationError(op, "attribute callee must be a symbol")
    function = lookup_symbol(op, callee.name)
    if function is None:
        raise VerificationError(op, f"there is no function @{callee.name}")
    type = function_type(function)
    types_match(op, op.operands, type.inputs, f"arguments for @{callee.name}")
    types_match(op, op.results, type.outputs, f"results of @{callee.name}")


@declares(
    "tt.func",
    results=0,
    regions=1,
    required=("function_type",),
    isolated=True,
    symbol=True,
    effect=Effect.UNKNOWN,
    parse=_parse_function,
    print=_print_function,
    verify=_verify_function,
)
class Func(Op):
    """A function; where it is defined and not only declared, it has a body."""

    __slots__ = ()
    symbol = Word("sym_name")
    region = RegionOf()
    body = Body()
    visibility = Word("sym_visibility", "public")
    noinline = Flag("noinline")

    @property
    def type(self) -> FunctionType:
        """The types that it takes and gives."""
        return function_type(self)

    @type.setter
    def type(self, type: FunctionType) -> None:
        self.attributes["function_type"] = type

    @property
    def is_public(self) -> bool:
        """Whether it is a kernel, rather than a function that kernels call."""
        return self.visibility == "public"

    @property
    def argument_attributes(self) -> list[dict[str, Attribute]]:
        """The facts that are known about each argument."""
        return _details(self, "arg_attrs", len(self.type.inputs))

    @argument_attributes.setter
    def argument_attributes(self, details: Sequence[dict[str, Attribute]]) -> None:
        self.attributes["arg_attrs"] = tuple(details)


@declares("tt.call", effect=Effect.UNKNOWN, parse=_parse_call, print=_print_call, verify=_verify_call)
class Call(Op):
    """A call of the function `callee`."""

    __slots__ = ()
    arguments = Operands()
    callee = Word("callee")

    @property
    def function(self) -> Func | None:
        """The function of that name, if there is one."""
        found = lookup_symbol(self, self.callee)
        return found if isinstance(found, Func) else None


@declares("tt.return", results=0, terminator=True, **VALUES)
class Return(Op):
    """The end of a function."""

    __slots__ = ()
    values = Operands()


def lookup_symbol(op: Op, name: str) -> Op | None:
    """The op that defines the symbol `name` for `op`: the nearest one in the regions around it."""
    block = op.block
    while block is not None:
        other = block.first
        while other is not None:
            if other.definition.symbol and other.attributes.get("sym_name") == name:
                return other
            other = other.next
        owner = block.region.op if block.region is not None else None
        block = owner.block if owner is not None else None
    return None
