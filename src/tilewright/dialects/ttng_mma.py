"""Matrix products of warp groups and of fifth-generation tensor cores: `ttng.warp_group_dot`, `ttng.tc_gen5_mma`, …"""

from __future__ import annotations

from tilewright.dialects.assembly import Groups, Piece, Reading, assembly
from tilewright.dialects.traits import DotLike
from tilewright.dialects.ttng_rules import verify_barriers, verify_tensor_core, verify_waited, verify_warp_group_dot
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op
from tilewright.ir.declare import Effect, declares
from tilewright.ir.fields import (
    Flag,
    Integer,
    Marker,
    NamedOperand,
    NamedOperands,
    Operand,
    Operands,
    OptionalNamedOperand,
    OptionalOperand,
    Word,
)
from tilewright.ir.parser import Parser
from tilewright.ir.printer import Printer
from tilewright.ir.types import async_token, i1, i32

IEEE = 2
"""The number of the input precision `ieee`."""


def _dot_effect(op: Op) -> Effect:
    """The effect of a product: one that does not run on is as good as a value; others read shared memory meanwhile."""
    return Effect.READ_WRITE if op.attributes.get("isAsync") is True else Effect.READ


class AsyncMma(DotLike):
    """A product of matrices in shared memory; a barrier among its operands is signalled when it is done."""

    __slots__ = ()


@declares(
    "ttng.warp_group_dot",
    buffers=Effect.READ,
    verify=verify_warp_group_dot,
    effect=Effect.READ_WRITE,
    effect_of=_dot_effect,
    **assembly(
        " %a, %b, %c?(, %useC){} : !a * !b -> !d",
        "a b c useC?",
        "d",
        types={"c": lambda reading: reading.type("d"), "useC": i1},
        defaults={"inputPrecision": Number(IEEE, i32), "maxNumImpreciseAcc": Number(0, i32), "isAsync": False},
    ),
)
class WarpGroupDot(AsyncMma):
    """`accumulator` + a · b, by four warps; a · b alone if `uses_accumulator` does not hold."""

    __slots__ = ()
    uses_accumulator = OptionalOperand(3)
    input_precision = Integer("inputPrecision", IEEE)
    max_imprecise_sums = Integer("maxNumImpreciseAcc", 0)
    is_async = Flag("isAsync")


@declares(
    "ttng.warp_group_dot_wait",
    verify=verify_waited,
    effect=Effect.READ_WRITE,
    **assembly(
        " %inputs*{} : !inputs*", "inputs*", "outputs*", types={"outputs": lambda reading: reading.types["inputs"]}
    ),
)
class WarpGroupDotWait(Op):
    """`inputs`, when at most `pendings` products are under way."""

    __slots__ = ()
    inputs = Operands()
    pendings = Integer("pendings")


# [%token], or [] where only a token is given


def token_piece(operand: str, result: str) -> Piece:
    """The token that an op takes in `operand`, if any, and whether it gives one as `result`."""

    def read(parser: Parser, reading: Reading) -> None:
        reading.types[result] = []
        if parser.optional("["):
            reading.types[result] = [async_token]
            if not parser.optional("]"):
                reading.operands[operand] = [parser.operand()]
                reading.types[operand] = [async_token]
                parser.expect("]")

    def write(printer: Printer, op: Op, groups: Groups) -> str:
        return f"[{printer.values(groups[operand])}]" if groups.get(result) else ""

    return Piece(read, write)


# , %barrier[%predicate], …


def _read_barriers(parser: Parser, reading: Reading) -> None:
    barriers = reading.operands["barriers"] = []
    predicates = reading.operands["barrier_preds"] = []
    while parser.optional(","):
        barriers.append(parser.operand())
        parser.expect("[")
        predicates.append(parser.operand())
        parser.expect("]")
    reading.types["barrier_preds"] = [i1] * len(predicates)


def _write_barriers(printer: Printer, op: Op, groups: Groups) -> str:
    pairs = zip(groups["barriers"], groups["barrier_preds"], strict=True)
    return "".join(f", {printer.value(barrier)}[{printer.value(predicate)}]" for barrier, predicate in pairs)


_PIECES = {"token": token_piece("acc_dep", "token"), "barriers": Piece(_read_barriers, _write_barriers)}


@declares(
    "ttng.tc_gen5_mma",
    buffers=Effect.READ,
    verify=verify_tensor_core,
    effect=Effect.READ_WRITE,
    **assembly(
        " %a, %b, %d$token, %useD, %pred$barriers{} : !a, !b, !d?(, !barriers*)",
        "a b d acc_dep? useD pred barriers* barrier_preds*",
        "token?",
        types={"useD": i1, "pred": i1},
        custom=_PIECES,
    ),
)
class TensorCoreMma(AsyncMma):
    """Adds a · b to `accumulator` in tensor memory if `predicate` holds.

    Attributes:
        uses_accumulator: whether it adds, or puts the product there.
        token: what it waits for.
        barriers: they hear that it is done, each if its one of `barrier_predicates` holds.
        is_async: the program goes on while it runs.
    """

    __slots__ = ()
    token = OptionalNamedOperand("acc_dep")
    uses_accumulator, predicate = NamedOperand("useD"), NamedOperand("pred")
    barriers, barrier_predicates = NamedOperands("barriers"), NamedOperands("barrier_preds")
    is_async, multicast = Marker("is_async"), Marker("multicast")


@declares(
    "ttng.tc_gen5_mma_scaled",
    buffers=Effect.READ,
    verify=verify_tensor_core,
    effect=Effect.READ_WRITE,
    **assembly(
        " %a, %b, %d$token, %a_scale, %b_scale, %useD, %pred lhs = @a_type rhs = @b_type$barriers{}"
        " : !a, !b, !d, !a_scale, !b_scale?(, !barriers*)",
        "a b d acc_dep? a_scale b_scale useD pred barriers* barrier_preds*",
        "token?",
        types={"useD": i1, "pred": i1},
        custom=_PIECES,
    ),
)
class TensorCoreMmaScaled(TensorCoreMma):
    """Its operands are multiplied by their scales first."""

    __slots__ = ()
    a_scale, b_scale = NamedOperand("a_scale"), NamedOperand("b_scale")
    a_type, b_type = Word("a_type"), Word("b_type")


@declares(
    "ttng.tc_gen5_commit",
    buffers=Effect.WRITE,
    synchronizes=True,
    verify=verify_barriers,
    effect=Effect.READ_WRITE,
    **assembly(
        " %barrier?(, %pred)?( descs %descs*){} : !barrier?(, !descs*)",
        "barrier pred? descs*",
        types={"pred": i1},
    ),
)
class TensorCoreCommit(Op):
    """`barrier` hears that all products before are done, if `predicate` holds; `buffers` are those that they read."""

    __slots__ = ()
    barrier = Operand(0)
    predicate = OptionalNamedOperand("pred")
    buffers = NamedOperands("descs")


@declares("ttng.packed_arith", required=("op_kind",), **assembly(" @op_kind %operands*{} : =>", "operands*", "result"))
class PackedArith(Op):
    """Arithmetic on several elements by one instruction: `operation` is add, sub, mul, fma, min or max."""

    __slots__ = ()
    arguments = Operands()
    operation = Word("op_kind")
