"""Traits that ops of several dialects share: base classes of their classes, tested by `isinstance`."""

from __future__ import annotations

from tilewright.ir.core import Op, Value
from tilewright.ir.fields import Operand, Word


class ControlFlow(Op):
    """An op whose regions run where it stands and see the values around it."""

    __slots__ = ()


class Loop(ControlFlow):
    """Control flow that may run a region any number of times."""

    __slots__ = ()


class Indexing(Op):
    """An op that only says where an element comes from."""

    __slots__ = ()


class WritesMemory(Op):
    """An op that writes to memory of the program's arguments."""

    __slots__ = ()

    @property
    def address(self) -> Value:
        """The address, or the descriptor, that leads to what is written."""
        return self.operands[0]


class PointerAccess(Op):
    """An op that reads or writes memory at `pointer`."""

    __slots__ = ()
    pointer = Operand(0)


class LayoutAnchor(Op):
    """An op whose results keep their layouts, which were chosen with care: others follow."""

    __slots__ = ()


class Atomic(PointerAccess, WritesMemory, LayoutAnchor):
    """A read and a write with no other access between them."""

    __slots__ = ()
    sem, scope = Word("sem"), Word("scope")


class DotLike(LayoutAnchor):
    """A product of matrices that is added to `accumulator`."""

    __slots__ = ()
    a, b, accumulator = Operand(0), Operand(1), Operand(2)
