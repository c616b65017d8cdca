"""Ops that all threads execute together, and small ones of `ttg`: `ttg.convert_layout`, `ttg.barrier`, …"""

from __future__ import annotations

from tilewright.dialects.assembly import assembly
from tilewright.dialects.formats import VALUES
from tilewright.dialects.rules import same_shape, tensor
from tilewright.dialects.tt_elementwise import effect_unless_pure
from tilewright.ir.attributes import Attribute, Keyword
from tilewright.ir.core import Op
from tilewright.ir.declare import Effect, OpDefinition, declare, declares
from tilewright.ir.errors import VerificationError, require
from tilewright.ir.fields import Body, Flag, Integer, Operand, Operands, Word
from tilewright.ir.parser import Parser
from tilewright.ir.printer import Printer
from tilewright.ir.types import i32

BARRIER_SCOPES = ("none", "local", "global_read", "global_write", "tensor_read", "tensor_write", "all")
"""The accesses that a barrier orders."""


def _verify_convert_layout(op: Op) -> None:
    same_shape(op)
    source, result = tensor(op, op.operands[0]), tensor(op, op.results[0])
    require(source.element is result.element, op, f"element types differ: {source.element} and {result.element}")


# ttg.barrier local|global_read {…}


def _parse_barrier(parser: Parser, definition: OpDefinition) -> Op:
    scopes = [Keyword(parser.one_of(BARRIER_SCOPES, "a scope"))]
    while parser.optional("|"):
        scopes.append(Keyword(parser.one_of(BARRIER_SCOPES, "a scope")))
    attributes: dict[str, Attribute] = {"addrSpace": tuple(scopes), **parser.attributes()}
    return Op(definition, (), (), attributes)


def _print_barrier(printer: Printer, op: Op) -> None:
    words = "|".join(_scopes(op))
    printer.write(f" {words}{printer.attributes(op.attributes, ('addrSpace',))}")


def _scopes(op: Op) -> list[str]:
    scopes = op.attributes.get("addrSpace")
    if not isinstance(scopes, tuple):
        raise VerificationError(op, "attribute addrSpace must be a list of keywords")
    return [scope.name for scope in scopes if isinstance(scope, Keyword)]


def _verify_barrier(op: Op) -> None:
    scopes = _scopes(op)
    require(scopes and set(scopes) <= set(BARRIER_SCOPES), op, "addrSpace names something that no barrier orders")
    require("none" not in scopes or len(scopes) == 1, op, "none stands alone")


@declares(
    "ttg.convert_layout",
    verify=_verify_convert_layout,
    semantics=lambda op, tile: tile,
    **assembly(" %src{} : !src -> !result", "src", "result"),
)
class ConvertLayout(Op):
    """`source` in the layout of the result's type."""

    __slots__ = ()
    source = Operand(0)


@declares(
    "ttg.barrier",
    operands=(0, 0),
    results=0,
    required=("addrSpace",),
    effect=Effect.READ_WRITE,
    parse=_parse_barrier,
    print=_print_barrier,
    verify=_verify_barrier,
)
class ScopedBarrier(Op):
    """A barrier of all threads; it makes their writes to the memories in `scopes` visible to all."""

    __slots__ = ()

    @property
    def scopes(self) -> tuple[str, ...]:
        """One of `BARRIER_SCOPES`."""
        scopes = self.attributes.get("addrSpace")
        return tuple(scope.name for scope in scopes if isinstance(scope, Keyword)) if isinstance(scopes, tuple) else ()


@declares(
    "ttg.predicate_stage",
    **assembly(
        " %iv, %ub, %step maxStage #maxStage stage #stage{} : !iv -> !result",
        "iv ub step",
        "result",
        types={"ub": lambda reading: reading.type("iv"), "step": lambda reading: reading.type("iv")},
    ),
)
class PredicateStage(Op):
    """Whether a step of a pipelined loop has its part `stage` of `last_stage` + 1."""

    __slots__ = ()
    induction_variable, high, step = Operand(0), Operand(1), Operand(2)
    stage, last_stage = Integer("stage"), Integer("maxStage")


@declares("ttg.mask", operands=(1, 1), regions=1, effect=Effect.RECURSIVE)
class Mask(Op):
    """Ops that run where `condition` holds."""

    __slots__ = ()
    condition = Operand(0)
    body = Body()


@declares("ttg.fp4_to_fp", **assembly(" %src{} : !src -> !result", "src", "result"))
class Fp4ToFp(Op):
    """The numbers of four bits that `source` holds, two in a byte, along `axis`."""

    __slots__ = ()
    source = Operand(0)
    axis = Integer("axis")


@declares("ttg.global_scratch_alloc", effect=Effect.ALLOCATE, **assembly("{} : !result", "", "result"))
class GlobalScratchAlloc(Op):
    """`size` bytes of global memory of the program's own."""

    __slots__ = ()
    size, alignment = Integer("nbytes"), Integer("alignment")


@declares(
    "ttg.inline_asm",
    required=("pure",),
    effect_of=effect_unless_pure,
    **assembly(" ^asm_string{}?( %args*) : =>", "args*", "result*"),
)
class ThreadAsm(Op):
    """Assembly that each thread runs on its own values."""

    __slots__ = ()
    arguments = Operands()
    text, constraints = Word("asm_string"), Word("constraints")
    pure = Flag("pure")


declare("ttg.warp_id", **assembly("{}", "", "result", types={"result": i32}))
declare("ttg.mask.return", results=0, terminator=True, **VALUES)
