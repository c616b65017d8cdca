"""Jumps between blocks: `cf.br`, `cf.cond_br`.

The operands of `cf.cond_br` are the condition, then the arguments of the first target, then those of the second.
"""

from __future__ import annotations

from tilewright.dialects.rules import types_match
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.declare import OpDefinition, declares
from tilewright.ir.errors import require
from tilewright.ir.fields import Operand, Operands
from tilewright.ir.parser import Parser
from tilewright.ir.printer import Printer
from tilewright.ir.types import i1


def target_operands(op: Op) -> list[list[Value]]:
    """The values that the arguments of each target of a jump get."""
    rest = op.operands[1:] if op.name == "cf.cond_br" else op.operands
    first = len(op.successors[0].args)
    return [rest[:first], rest[first:]] if len(op.successors) > 1 else [rest]


# ^bb1(%a, %b : T, U)


def _parse_target(parser: Parser) -> tuple[Block, list[Value]]:
    block = parser.successor()
    if not parser.optional("("):
        return block, []
    references = parser.operands()
    values = parser.resolve_all(references, parser.colon_types())
    parser.expect(")")
    return block, values


def _target_text(printer: Printer, block: Block, values: list[Value]) -> str:
    arguments = f"({printer.values(values)} : {printer.types(values)})" if values else ""
    return f"{printer.block_name(block)}{arguments}"


def _parse_branch(parser: Parser, definition: OpDefinition) -> Op:
    block, values = _parse_target(parser)
    return Op(definition, values, (), parser.attributes(), (), [block])


def _parse_conditional(parser: Parser, definition: OpDefinition) -> Op:
    condition = parser.resolve(parser.operand(), i1)
    parser.expect(",")
    first, first_values = _parse_target(parser)
    parser.expect(",")
    second, second_values = _parse_target(parser)
    operands = [condition, *first_values, *second_values]
    return Op(definition, operands, (), parser.attributes(), (), [first, second])


def _print_jump(printer: Printer, op: Op) -> None:
    condition = f" {printer.value(op.operands[0])}," if op.name == "cf.cond_br" else ""
    targets = zip(op.successors, target_operands(op), strict=True)
    text = ", ".join(_target_text(printer, block, values) for block, values in targets)
    printer.write(f"{condition} {text}{printer.attributes(op.attributes)}")


def _verify_branch(op: Op) -> None:
    require(len(op.successors) == 1, op, "needs one target")
    types_match(op, op.operands, [arg.type for arg in op.successors[0].args], "values for the target")


def _verify_conditional(op: Op) -> None:
    require(len(op.successors) == 2, op, "needs two targets")
    require(op.operands[0].type is i1, op, "the condition must be i1")
    wanted = [arg.type for block in op.successors for arg in block.args]
    types_match(op, op.operands[1:], wanted, "values for the targets")


@declares("cf.br", results=0, terminator=True, parse=_parse_branch, print=_print_jump, verify=_verify_branch)
class Branch(Op):
    """A jump."""

    __slots__ = ()
    values = Operands()


@declares(
    "cf.cond_br", results=0, terminator=True, parse=_parse_conditional, print=_print_jump, verify=_verify_conditional
)
class CondBranch(Op):
    """A jump to one of two blocks; behind the condition stand the arguments of both."""

    __slots__ = ()
    condition = Operand(0)
    values = Operands(1)
