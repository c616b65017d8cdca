"""The variables that a run-time loop carries from turn to turn.

A variable is carried if the body stores it and it has a value before the loop. Compile-time values stay such
unless the body changes them: the body is evaluated with them fixed, and once more if that was wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.frontends import hir
from tilewright.frontends.errors import LoopTypeChange, NotCarried
from tilewright.frontends.evaluate.frame import Frame, discard
from tilewright.ir.attributes import FileLocation
from tilewright.ir.core import Block, Value
from tilewright.language.values import (
    Structure,
    at_run_time,
    describe,
    flatten,
    is_compile_time,
    rebuild,
    same_constant,
    same_structure,
    set_name,
)


class Carried:
    """The variables that one loop carries.

    Attributes:
        names: of the variables.
        initial: the SSA values inside them before the loop (those left after `Turn.prune`).
        types: the types of all of them.
    """

    def __init__(self, frame: Frame, names: list[str]) -> None:
        self.names = names
        self.initial: list[Value] = []
        self._before = [at_run_time(frame.names[name]) for name in names]
        self._layouts: list[Structure] = [flatten(value, self.initial) for value in self._before]
        self.types = tuple(value.type for value in self.initial)
        self._constant: dict[int, Value] = {}

    def bind(self, frame: Frame, handles: list[Value]) -> None:
        """Let the variables stand for `handles`."""
        rest = iter(handles)
        for name, layout in zip(self.names, self._layouts, strict=True):
            value = rebuild(layout, rest)
            set_name(value, name)
            frame.names[name] = value

    def yielded(self, frame: Frame, body: hir.Block, location: FileLocation) -> list[Value]:
        """The SSA values of the variables now, at the end of the loop's `body`.

        Raises:
            CompilationError: a variable has another type than before the loop.
        """
        handles: list[Value] = []
        for name, before, layout in zip(self.names, self._before, self._layouts, strict=True):
            value = at_run_time(frame.names.get(name))
            if not same_structure(flatten(value, handles), layout):
                place = _last_store(body, name) or location
                raise frame.fail(LoopTypeChange(name, describe(before), describe(value)), place)
        return handles

    def drop(self, unchanged: set[int]) -> None:
        """Carry the SSA values at these positions no longer: they are what they were before the loop."""
        self._constant = {position: self.initial[position] for position in unchanged}
        self.initial = [value for position, value in enumerate(self.initial) if position not in self._constant]

    def rebind(self, frame: Frame, results: list[Value]) -> None:
        """Let the variables stand for the results of the loop."""
        rest = iter(results)
        self.bind(frame, [self._constant.get(position) or next(rest) for position in range(len(self.types))])


def _last_store(body: hir.Block, name: str) -> FileLocation | None:
    """The last place in the loop's body where the variable gets a value; None if it gets none."""
    stores = [step.location for step in hir.walk(body) if isinstance(step, (hir.Store, hir.Bind)) and step.name == name]
    return stores[-1] if stores else None


class Turn:
    """One evaluation of a loop's body.

    Attributes:
        blocks: have one argument per carried SSA value, from position `offset` on.
        names: the variables at the end.
        handed: per block the SSA values that it hands on, to the next block or the next turn.
        test: the condition of a `while`, and the hints with it.
    """

    def __init__(
        self,
        blocks: tuple[Block, ...],
        offset: int,
        names: dict[str, Any],
        handed: tuple[list[Value], ...],
        test: Any = None,
    ) -> None:
        self.blocks = blocks
        self.offset = offset
        self.names = names
        self.handed = handed
        self.test = test

    def prune(self, carried: Carried) -> None:
        """Stop carrying values that every block hands on as they came."""
        arguments = [block.args[self.offset :] for block in self.blocks]
        unchanged = {
            position
            for position in range(len(carried.initial))
            if all(handed[position] is own[position] for handed, own in zip(self.handed, arguments, strict=True))
        }
        if not unchanged:
            return
        before = {own[position]: carried.initial[position] for own in arguments for position in unchanged}
        for block in self.blocks:
            block.args = [arg for arg in block.args if arg not in before]
            for index, arg in enumerate(block.args):
                arg.index = index
        for arg, value in before.items():
            arg.replace_by(value)
        self.handed = tuple(
            [before.get(value, value) for position, value in enumerate(handed) if position not in unchanged]
            for handed in self.handed
        )
        carried.drop(unchanged)


def settle(
    frame: Frame, stores: tuple[str, ...], location: FileLocation, evaluate: Callable[[Carried], Turn | None]
) -> tuple[Carried, Turn | None]:
    """Evaluate a loop's body until it is known which variables it carries.

    Args:
        frame: the function.
        stores: the names that the body stores.
        location: of the loop.
        evaluate: evaluates the body once; None if the loop does nothing.

    Raises:
        CompilationError: the body changes a value that exists only at compile time.
    """
    bound = [name for name in dict.fromkeys(stores) if name in frame.names]
    fixed = {name: frame.names[name] for name in bound if is_compile_time(frame.names[name])}
    while True:
        carried = Carried(frame, [name for name in bound if name not in fixed])
        turn = evaluate(carried)
        if turn is None:
            return carried, None
        changed = [name for name, value in fixed.items() if not same_constant(turn.names.get(name), value)]
        if not changed:
            return carried, turn
        for block in turn.blocks:
            discard(block)
        for name in changed:
            before = fixed.pop(name)
            if is_compile_time(at_run_time(before)):
                raise frame.fail(NotCarried(name, "inside a run-time loop", describe(before)), location)
