"""Structured control flow: `scf.for`, `scf.if`, `scf.while`, `scf.yield`, `scf.condition`.

`scf.parallel` and `scf.reduce` are loops whose iterations may run in any order.
"""

from __future__ import annotations

from tilewright.dialects.formats import VALUES
from tilewright.dialects.rules import ends_with, types_match, types_of
from tilewright.dialects.traits import ControlFlow, Loop
from tilewright.ir.core import Block, Op, Region, Value
from tilewright.ir.declare import OPS, Effect, OpDefinition, declare, declares
from tilewright.ir.errors import require
from tilewright.ir.fields import Body, Operand, Operands, OptionalOperand, RegionOf
from tilewright.ir.parser import Argument, Parser, Reference
from tilewright.ir.printer import Printer
from tilewright.ir.types import IndexType, IntType, Type, i1, index


def _closed(region: Region) -> Region:
    """`region` with the `scf.yield` without operands that the text leaves out."""
    block = region.blocks[0] if region.blocks else region.add(Block())
    if block.last is None or not block.last.definition.terminator:
        block.append(Op(OPS["scf.yield"]))
    return region


# (%x = %a, %y = %b)


def _parse_initial(parser: Parser) -> tuple[list[Reference], list[Reference]]:
    """The names of the arguments and their initial values."""
    names: list[Reference] = []
    initial: list[Reference] = []

    def one() -> None:
        names.append(parser.operand())
        parser.expect("=")
        initial.append(parser.operand())

    parser.list(one, "(", ")")
    return names, initial


def _initial_text(printer: Printer, arguments: list[Value], initial: list[Value]) -> str:
    pairs = zip(arguments, initial, strict=True)
    return ", ".join(f"{printer.value(argument)} = {printer.value(value)}" for argument, value in pairs)


# scf.for %i = %a to %b step %c [iter_args(%x = %y) -> (T)] [: i32] { … } {…}


def _parse_bounds(parser: Parser) -> tuple[Reference, list[Reference]]:
    """The induction variable, and the bounds with the step."""
    induction = parser.operand()
    bounds = []
    for word in ("=", "to", "step"):
        parser.expect(word)
        bounds.append(parser.operand())
    return induction, bounds


def _parse_for(parser: Parser, definition: OpDefinition) -> Op:
    induction, bounds = _parse_bounds(parser)
    names: list[Reference] = []
    initial: list[Reference] = []
    carried: list[Type] = []
    if parser.keyword("iter_args"):
        names, initial = _parse_initial(parser)
        parser.expect("->")
        carried = parser.result_types()
    type = parser.type() if parser.optional(":") else index
    operands = parser.resolve_all(bounds + initial, [type] * 3 + carried)
    arguments = [Argument(name, t) for name, t in zip([induction, *names], [type, *carried], strict=True)]
    region = _closed(parser.region(arguments))
    return Op(definition, operands, carried, parser.attributes(), [region])


def _print_for(printer: Printer, op: Op) -> None:
    induction, *arguments = op.regions[0].block.args
    low, high, step, *initial = (printer.value(value) for value in op.operands)
    printer.write(f" {printer.value(induction)} = {low} to {high} step {step}")
    if initial:
        pairs = _initial_text(printer, arguments, op.operands[3:])
        printer.write(f" iter_args({pairs}) -> ({printer.types(arguments)})")
    printer.write(" " if induction.type is index else f"  : {printer.type(induction.type)} ")
    printer.region(op.regions[0], entry_arguments=False, terminator=bool(initial))
    printer.write(printer.attributes(op.attributes))


def _verify_for(op: Op) -> None:
    block = op.regions[0].block
    require(bool(block.args), op, "its block needs an induction variable")
    induction, *arguments = block.args
    require(isinstance(induction.type, (IntType, IndexType)), op, "the induction variable must be an integer")
    same = all(value.type is induction.type for value in op.operands[:3])
    require(same, op, "bounds, step and induction variable differ in type")
    require("unsignedCmp" not in op.attributes, op, "counts with signs: there is no `unsignedCmp` here")
    carried = types_of(op.results)
    types_match(op, op.operands[3:], carried, "initial values")
    types_match(op, arguments, carried, "block arguments")
    types_match(op, ends_with(op, block, "scf.yield").operands, carried, "yielded values")


# scf.parallel %i = %a to %b step %c [backwards %w] [-> (T)] : i64 { … scf.reduce(%x) : T { … } } {…}


def _parse_parallel(parser: Parser, definition: OpDefinition) -> Op:
    induction, bounds = _parse_bounds(parser)
    backwards = [parser.operand()] if parser.keyword("backwards") else []
    results = parser.result_types() if parser.optional("->") else []
    parser.expect(":")
    type = parser.type()
    operands = parser.resolve_all(bounds + backwards, [type] * 3 + [i1] * len(backwards))
    region = _closed(parser.region([Argument(induction, type)]))
    return Op(definition, operands, results, parser.attributes(), [region])


def _print_parallel(printer: Printer, op: Op) -> None:
    block = op.regions[0].block
    low, high, step, *backwards = (printer.value(value) for value in op.operands)
    printer.write(f" {printer.value(block.args[0])} = {low} to {high} step {step}")
    printer.write("".join(f" backwards {value}" for value in backwards))
    printer.write(f" -> ({printer.types(op.results)})" if op.results else "")
    printer.write(f" : {printer.type(block.args[0].type)} ")
    printer.region(op.regions[0], entry_arguments=False, terminator=False)
    printer.write(printer.attributes(op.attributes))


def _verify_parallel(op: Op) -> None:
    block = op.regions[0].block
    require(len(block.args) == 1, op, "its block has an induction variable and nothing else")
    induction = block.args[0].type
    require(isinstance(induction, IntType), op, "the induction variable must be an integer")
    require(
        all(value.type is induction for value in op.operands[:3]), op, "bounds and induction variable differ in type"
    )
    require([value.type for value in op.operands[3:]] in ([], [i1]), op, "what says whether to run backwards is an i1")
    reduced = [value.type for inner in block if inner.name == "scf.reduce" for value in inner.operands]
    types_match(op, op.results, reduced, "results and reduced values")
    types_match(op, ends_with(op, block, "scf.yield").operands, [], "yielded values")


# scf.reduce(%a, %b) : vector<8xT>, vector<8xU> { ^bb0(%a0: T, %b0: U, %a1: T, %b1: U): … scf.reduce.return … : T, U }


def _parse_reduce(parser: Parser, definition: OpDefinition) -> Op:
    references: list[Reference] = []
    parser.list(lambda: references.append(parser.operand()), "(", ")")
    operands = parser.resolve_all(references, parser.colon_types())
    return Op(definition, operands, (), {}, [parser.region()])


def _print_reduce(printer: Printer, op: Op) -> None:
    printer.write(f"({printer.values(op.operands)}) : {printer.types(op.operands)} ")
    printer.region(op.regions[0])


def _verify_reduce(op: Op) -> None:
    block, reduced = op.regions[0].block, [value.type.scalar for value in op.operands]
    require(op.parent is not None and op.parent.name == "scf.parallel", op, "stands in the body of a scf.parallel")
    types_match(op, block.args, [*reduced, *reduced], "arguments of its region")
    types_match(op, ends_with(op, block, "scf.reduce.return").operands, reduced, "values of its region")


# scf.if %c [-> (T)] { … } [else { … }] {…}


def _parse_if(parser: Parser, definition: OpDefinition) -> Op:
    condition = parser.resolve(parser.operand(), i1)
    results = parser.result_types() if parser.optional("->") else []
    then = _closed(parser.region())
    otherwise = _closed(parser.region()) if parser.keyword("else") else Region()
    return Op(definition, [condition], results, parser.attributes(), [then, otherwise])


def _print_if(printer: Printer, op: Op) -> None:
    then, otherwise = op.regions
    results = f" -> ({printer.types(op.results)})" if op.results else ""
    printer.write(f" {printer.value(op.operands[0])}{results} ")
    printer.region(then, entry_arguments=False, terminator=bool(op.results))
    if otherwise.blocks:
        printer.write(" else ")
        printer.region(otherwise, entry_arguments=False, terminator=bool(op.results))
    printer.write(printer.attributes(op.attributes))


def _verify_if(op: Op) -> None:
    require(op.operands[0].type is i1, op, "the condition must be i1")
    then, otherwise = op.regions
    require(bool(then.blocks), op, "the first region is empty")
    require(bool(otherwise.blocks) or not op.results, op, "with results both regions must be there")
    for region in op.regions:
        if region.blocks:
            types_match(op, ends_with(op, region.block, "scf.yield").operands, types_of(op.results), "yielded values")


# scf.while (%x = %a) : (T) -> U { … } do { ^bb0(%y: U): … } [attributes {…}]


def _parse_while(parser: Parser, definition: OpDefinition) -> Op:
    names, initial = _parse_initial(parser) if parser.looks_at("(") else ([], [])
    signature = parser.signature()
    operands = parser.resolve_all(initial, signature.inputs)
    before = parser.region([Argument(name, t) for name, t in zip(names, signature.inputs, strict=True)])
    parser.expect("do")
    after = _closed(parser.region())
    attributes = parser.attributes() if parser.keyword("attributes") else {}
    return Op(definition, operands, signature.outputs, attributes, [before, after])


def _print_while(printer: Printer, op: Op) -> None:
    before, after = op.regions
    arguments = before.block.args
    if arguments:
        printer.write(f" ({_initial_text(printer, arguments, op.operands)})")
    printer.write(f" : {printer.signature(op)} ")
    printer.region(before, entry_arguments=False)
    printer.write(" do ")
    printer.region(after)
    attributes = printer.attributes(op.attributes)
    printer.write(f" attributes{attributes}" if attributes else "")


def _verify_while(op: Op) -> None:
    before, after = op.regions
    require(bool(before.blocks) and bool(after.blocks), op, "both regions need a block")
    types_match(op, before.block.args, types_of(op.operands), "arguments of the first region")
    condition = ends_with(op, before.block, "scf.condition")
    results = types_of(op.results)
    types_match(op, condition.operands[1:], results, "values of scf.condition")
    types_match(op, after.block.args, results, "arguments of the second region")
    types_match(op, ends_with(op, after.block, "scf.yield").operands, types_of(op.operands), "yielded values")


# scf.condition(%c) {…} [%x : T]


def _parse_condition(parser: Parser, definition: OpDefinition) -> Op:
    parser.expect("(")
    condition = parser.operand()
    parser.expect(")")
    attributes = parser.attributes()
    references = parser.operands()
    values = parser.resolve_all(references, parser.colon_types()) if references else []
    return Op(definition, [parser.resolve(condition, i1), *values], (), attributes)


def _print_condition(printer: Printer, op: Op) -> None:
    condition, *values = op.operands
    printer.write(f"({printer.value(condition)}){printer.attributes(op.attributes)}")
    if values:
        printer.write(f" {printer.values(values)} : {printer.types(values)}")


@declares("scf.yield", results=0, terminator=True, **VALUES)
class Yield(Op):
    """The values that a region gives."""

    __slots__ = ()
    values = Operands()


@declares("scf.condition", results=0, terminator=True, parse=_parse_condition, print=_print_condition)
class Condition(Op):
    """The end of the first region of a `While`: whether it goes on, and what the second region gets."""

    __slots__ = ()
    condition = Operand(0)
    values = Operands(1)


class CountedLoop(Loop):
    """A loop that counts.

    Attributes:
        low, high, step: the bounds of the induction variable and its step.
        body: its block, whose first argument is the induction variable.
    """

    __slots__ = ()
    low, high, step = Operand(0), Operand(1), Operand(2)
    body = Body()

    @property
    def induction_variable(self) -> Value:
        """The value that counts the steps."""
        return self.body.args[0]

    @property
    def bounds(self) -> tuple[Value, Value, Value]:
        """The start, the end and the step of the induction variable."""
        return self.low, self.high, self.step


@declares("scf.for", regions=1, effect=Effect.RECURSIVE, parse=_parse_for, print=_print_for, verify=_verify_for)
class For(CountedLoop):
    """A counted loop whose iterations pass on values.

    Attributes:
        inits: the values that the carried ones start with.
        body: its block, whose arguments are the induction variable and the carried values.
    """

    __slots__ = ()
    inits = Operands(3)
    region = RegionOf()

    @property
    def carried(self) -> list[Value]:
        """The block arguments that a step gets from the step before."""
        return self.body.args[1:]

    @property
    def yielded(self) -> list[Value]:
        """The values that a step passes on to the next one."""
        return self.body.terminator.operands


@declares(
    "scf.parallel",
    regions=1,
    effect=Effect.RECURSIVE,
    parse=_parse_parallel,
    print=_print_parallel,
    verify=_verify_parallel,
)
class Parallel(CountedLoop):
    """A counted loop whose iterations may run in any order, and several at once: none needs what another one does.

    Its results are what the values of all iterations, which `Reduce` ops in its body name, combine to, in any order; a
    loop with results has one iteration at least.

    Attributes:
        backwards: an i1; where it holds, the last iteration should run first.
    """

    __slots__ = ()
    backwards = OptionalOperand(3)

    @property
    def reductions(self) -> list[Reduce]:
        """The ops that say what becomes of the values of all iterations."""
        return self.body.ops_of(Reduce)


@declares("scf.reduce", regions=1, effect=Effect.WRITE, parse=_parse_reduce, print=_print_reduce, verify=_verify_reduce)
class Reduce(Op):
    """Combines `values` of one iteration of the `Parallel` around with those of the others, lane by lane.

    The function in its region combines two elements, as that of a `tt.reduce`.
    """

    __slots__ = ()
    values = Operands()
    combine = Body()


declare("scf.reduce.return", results=0, terminator=True, **VALUES)


@declares("scf.if", regions=2, effect=Effect.RECURSIVE, parse=_parse_if, print=_print_if, verify=_verify_if)
class If(ControlFlow):
    """A branch; `otherwise` has no block where there is no else."""

    __slots__ = ()
    condition = Operand(0)
    then, otherwise = RegionOf(0), RegionOf(1)

    @property
    def arms(self) -> list[Region]:
        """The regions that there are."""
        return [region for region in self.regions if region.blocks]


@declares("scf.while", regions=2, effect=Effect.RECURSIVE, parse=_parse_while, print=_print_while, verify=_verify_while)
class While(Loop):
    """A loop that goes on as long as the first region says.

    Attributes:
        inits: the values that the first region starts with.
        before: the block that says whether the loop goes on, and what `after` and the results get.
        after: the block whose values the next round starts with.
    """

    __slots__ = ()
    inits = Operands()
    before, after = Body(0), Body(1)

    @property
    def condition(self) -> Condition:
        """The end of the first region."""
        end = self.before.last
        assert isinstance(end, Condition), "the first region of a loop ends with a condition"
        return end

    @property
    def yielded(self) -> list[Value]:
        """The values that a round passes on to the next one."""
        return self.after.terminator.operands
