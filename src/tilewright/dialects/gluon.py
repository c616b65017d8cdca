"""The op that only Gluon's programs have, before layouts are resolved."""

from __future__ import annotations

from tilewright.dialects.assembly import assembly
from tilewright.dialects.rules import same_shape
from tilewright.ir.core import Op
from tilewright.ir.declare import declares
from tilewright.ir.fields import Operand


@declares(
    "gluon.set_auto_layout",
    verify=same_shape,
    semantics=lambda op, tile: tile,
    **assembly(" %src{} : !src -> !result", "src", "result"),
)
class SetAutoLayout(Op):
    """`source`, whose layout is to be found, which is that of the result's type."""

    __slots__ = ()
    source = Operand(0)
