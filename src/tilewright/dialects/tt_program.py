"""Program ids, ranges, prints and assertions: `tt.get_program_id`, `tt.make_range`, …"""

from __future__ import annotations

from tilewright.dialects.assembly import assembly, choice
from tilewright.dialects.rules import keyword_in, number, tensor
from tilewright.dialects.traits import Indexing
from tilewright.ir.core import Op
from tilewright.ir.declare import Effect, declare, declares
from tilewright.ir.errors import require
from tilewright.ir.fields import Flag, Integer, Integers, Operand, Operands, Word
from tilewright.ir.types import FloatType, PointerType, Type, i1, i32

AXES = ("x", "y", "z")


def _verify_axis(op: Op) -> None:
    keyword_in(op, "axis", AXES)
    require(op.results[0].type is i32, op, "the result must be i32")


def _verify_make_range(op: Op) -> None:
    result = tensor(op, op.results[0])
    extent = number(op, "end") - number(op, "start")
    require(extent > 0, op, "start must be less than end")
    fits = result.shape == (extent,) and result.element is i32
    require(fits, op, f"end - start is {extent}, which does not give {result}")


def _verify_assert(op: Op) -> None:
    require(op.operands[0].type.scalar is i1, op, "the condition must be i1 or a tensor of i1")


class ProgramId(Op):
    """The number of the program, or of programs, along an axis of the grid."""

    __slots__ = ()
    axis = Word("axis")


@declares("tt.make_range", verify=_verify_make_range, **assembly("{} : !result", "", "result"))
class MakeRange(Indexing):
    """The numbers from `start` to before `end`."""

    __slots__ = ()
    start, end = Integer("start"), Integer("end")


@declares("tt.print", effect=Effect.WRITE, **assembly(" ^prefix{}?( : %values* : !values*)", "values*"))
class Print(Op):
    """Prints `values` behind a text.

    Attributes:
        hex: as hexadecimal numbers.
        signs: 1 for each value whose integers have a sign; nothing if all have one.
    """

    __slots__ = ()
    values = Operands()
    prefix = Word("prefix")
    hex = Flag("hex")
    signs = Integers("isSigned")


@declares(
    "tt.assert",
    effect=Effect.WRITE,
    verify=_verify_assert,
    **assembly(" %condition, ^message{} : !condition", "condition"),
)
class Assert(Op):
    """Fails where `condition` does not hold."""

    __slots__ = ()
    condition = Operand(0)
    message = Word("message")


for _name in ("tt.get_program_id", "tt.get_num_programs"):
    declare(
        _name,
        kind=ProgramId,
        verify=_verify_axis,
        **assembly(" $axis{} : !result", "", "result", custom={"axis": choice("axis", AXES, "an axis")}),
    )
for _name in ("tt.grid_dependency_wait", "tt.grid_dependency_launch_dependents"):
    declare(_name, effect=Effect.READ_WRITE, **assembly("{}"))


def print_format(element: Type, *, as_hex: bool) -> str:
    """The format of one element, for Python's `%`; whether an integer has a sign shows in its value."""
    if isinstance(element, PointerType):
        return "0x%x"
    if as_hex:
        return "0x%x" if element is i1 else f"0x%0{element.bits // 4}x"
    return "%f" if isinstance(element, FloatType) else "%d"
