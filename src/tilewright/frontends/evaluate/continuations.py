"""Continuations shared by several paths, evaluated once, after the branches that lead to them.

A branch with a `break`, `continue` or `return` inside has no common end of all its paths, so each path that does not
leave would be followed by a copy of the rest of the program. Where the copies would double with every such branch, the
rest is a numbered block instead. A path that reaches it saves its variables and sets a flag:

    if a:                     %r:2 = scf.if %a -> (i1, i32) {      "goes on 1", "at 1: x"
        if b: continue            … "goes on 1" = not b
        x = 1                 } else { … "goes on 1" = True, "at 1: x" = 2 }
    else:                     scf.if %r#0 {                        here x is "at 1: x"
        x = 2                     … f(x)
    f(x)                      }

Saved variables have other names than the variables of other paths, so the two never have to be merged; a path that
lacks a saved variable gives it a value that is never read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from tilewright.frontends import hir
from tilewright.frontends.evaluate.frame import HERE, Frame
from tilewright.ir.core import Block

MAX_COPIES = 4
"""Copies of the steps behind a branch up to which each path gets its own, which keeps what it knows at compile time."""
RETURNED_VALUE = "the returned value"
"""The hidden variable for paths that end the function, where they join those that go on."""


class Side(NamedTuple):
    """One side of a branch after evaluation: its ops, its variables, what it returned or computed, where it goes on."""

    block: Block
    names: dict[str, Any]
    lost: dict[str, str]
    value: Any
    going: frozenset[int] = HERE


def flag(number: int) -> str:
    """The hidden variable that says whether the path goes on with the block `number`."""
    return f"goes on {number}"


def shared_blocks(frame: Frame[Any], step: hir.If) -> list[hir.Block]:
    """The blocks that paths from both sides of a branch go on with, each before those that it goes on with."""
    ways = dict.fromkeys((*step.then.next, *step.orelse.next))
    both = [block for block in ways if block in step.then.later and block in step.orelse.later]
    return sorted((block for block in both if block not in frame.postponed), key=lambda block: -len(block.later))


def postpone(frame: Frame[Any], number: int) -> None:
    """The path goes on with the block `number`: its variables are put aside."""
    flags = {flag(other): other == number for other in frame.postponed.values() if flag(other) in frame.names}
    frame.names = {**{_aside(name, number): v for name, v in frame.names.items() if name not in flags}, **flags}
    frame.going = frozenset((number,))


def take_up(frame: Frame[Any], number: int) -> None:
    """Here the block `number` begins: its variables are what was put aside."""
    prefix = _aside("", number)
    flags = {name: False for name in frame.names if name.startswith(_FLAG)}
    kept = {name.removeprefix(prefix): v for name, v in frame.names.items() if name.startswith(prefix)}
    frame.names = {**flags, **kept}
    frame.going, frame.result = HERE, frame.NOT_RETURNED


def leave_aside(frame: Frame[Any], number: int) -> None:
    """Here the paths go on that do not go on with the block `number`."""
    prefix = _aside("", number)
    frame.names = {name: v for name, v in frame.names.items() if not name.startswith(prefix)}
    frame.going -= {number}


def completed(frame: Frame[Any], sides: tuple[Side, Side], *, tail: bool) -> tuple[str, ...]:
    """Give each side what only the other one has because its paths go on elsewhere; the names of all variables.

    Args:
        frame: the function, with the variables from before the branch.
        sides: of the branch.
        tail: the paths that go on here end the function.
    """
    then, orelse = sides
    if tail:
        for side in sides:
            if side.value is not Frame.NOT_RETURNED:
                side.names[RETURNED_VALUE] = side.value
        for side, other in ((then, orelse), (orelse, then)):
            _return_nothing(frame, side, other)
    known = set(map(id, frame.names.values()))
    names = tuple(dict.fromkeys((*then.names, *orelse.names)))
    for side, other in ((then, orelse), (orelse, then)):
        _complete(frame, side, other, (name for name in names if name not in side.names), known)
    return names


def _return_nothing(frame: Frame[Any], side: Side, other: Side) -> None:
    """A path that ends the function without a value, where the other side returns one."""
    if RETURNED_VALUE in other.names and RETURNED_VALUE not in side.names and side.going >= HERE:
        with frame.region(side.block):
            value = frame.domain.no_return(frame, other.names[RETURNED_VALUE])
        side.names[RETURNED_VALUE] = value


def _complete(frame: Frame[Any], side: Side, other: Side, missing: Iterable[str], known: set[int]) -> None:
    for name in missing:
        value = other.names[name]
        if name.startswith(_FLAG):
            side.names[name] = False
        elif _place(name) not in side.going:
            with frame.region(side.block):
                stand_in = value if id(value) in known else frame.domain.any_like(frame, value)
            side.names[name] = stand_in


_FLAG = flag(0)[:-1]


def _aside(name: str, number: int) -> str:
    return f"at {number}: {name}"


def _place(name: str) -> int:
    """The number of the block for which a variable was put aside; 0 if it was not."""
    return int(name[3 : name.index(":")]) if name.startswith("at ") else 0
