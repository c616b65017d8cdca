"""`if` and conditional expressions, in every domain.

A condition known at compile time picks one side, and the other is never evaluated. Otherwise:

    if c:                    %y = scf.if %c -> (tensor<8xf32>) {
        y = x + 1                …, scf.yield %a
    else:                →   } else {
        y = x * 2                …, scf.yield %b
                             }
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.frontends import hir
from tilewright.frontends.evaluate.continuations import (
    MAX_COPIES,
    RETURNED_VALUE,
    Side,
    completed,
    flag,
    leave_aside,
    shared_blocks,
    take_up,
)
from tilewright.frontends.evaluate.frame import CHOICE, HERE, Frame, Structure
from tilewright.ir.attributes import Attribute, FileLocation
from tilewright.ir.core import Block, Op, Region, Value
from tilewright.language.values import Fixed, same_constant


def branch(frame: Frame[Any], step: hir.If) -> None:
    """`if`: of the two sides the chosen one, or an scf.if that merges the variables they store."""
    test = frame.domain.condition(frame, frame.values[step.test], step.location)
    if test.__class__ is bool:
        frame.run(step.then if test else step.orelse)
        return
    shared = shared_blocks(frame, step)
    if not shared:
        _branch(frame, step, test)
    elif frame.copies < MAX_COPIES:
        copies = frame.copies
        frame.copies = 2 * copies
        _branch(frame, step, test)
        frame.copies = copies
    else:
        _branch_then_go_on(frame, step, test, shared)


def _branch(frame: Frame[Any], step: hir.If, test: Any) -> None:
    then, orelse = evaluate_side(frame, step.then), evaluate_side(frame, step.orelse)
    if then.going | orelse.going != HERE:
        _merge_paths(frame, test, (then, orelse), step)
        return
    merge = Merge(frame, then, orelse, step.location)
    if not step.tail:
        merge.rebind(test, (*step.then.stores, *step.orelse.stores))
        return
    frame.mark(step.location)
    with frame.region(then.block):
        returned = _returned(frame, then, orelse)
    with frame.region(orelse.block):
        merge.add(hir.RESULT, returned, _returned(frame, orelse, then))
    (frame.result,) = merge.emit(test)


def _branch_then_go_on(frame: Frame[Any], step: hir.If, test: Any, shared: list[hir.Block]) -> None:
    """A branch, and behind it, once each, the blocks that paths from both sides go on with."""
    first = max(frame.postponed.values(), default=0) + 1
    numbers = {block: number for number, block in enumerate(shared, first)}
    frame.postponed |= numbers
    frame.names.update((flag(number), False) for number in numbers.values())
    _branch(frame, step, test)
    for block, number in numbers.items():
        del frame.postponed[block]
        _go_on(frame, step, block, number)
    for number in numbers.values():
        frame.names.pop(flag(number), None)


def _go_on(frame: Frame[Any], step: hir.If, block: hir.Block, number: int) -> None:
    """The steps of a block behind a branch, for the paths that go on with them."""
    if number not in frame.going:
        return
    test = frame.names[flag(number)]

    def goes() -> Any:
        take_up(frame, number)
        frame.run(block)
        return frame.result

    def stays() -> Any:
        leave_aside(frame, number)
        return frame.result

    if frame.going == {number}:
        goes()
    else:
        _merge_paths(frame, test, (side_of(frame, goes), side_of(frame, stays)), step)


def _merge_paths(frame: Frame[Any], test: Any, sides: tuple[Side, Side], step: hir.If) -> None:
    """Merge two sides some of whose paths go on elsewhere."""
    names = completed(frame, sides, tail=step.tail)
    Merge(frame, *sides, step.location).rebind(test, names)
    frame.going = sides[0].going | sides[1].going
    frame.result = frame.names.pop(RETURNED_VALUE, Frame.NOT_RETURNED)


def choose(frame: Frame[Any], step: hir.Choose) -> None:
    """`a if c else b`."""
    domain = frame.domain
    test = domain.condition(frame, frame.values[step.test], step.location)
    if test.__class__ is bool:
        block, register = (step.then, step.then_value) if test else (step.orelse, step.else_value)
        frame.values[step.result] = frame.valued(block, register)
        return
    then = evaluate_side(frame, step.then, step.then_value)
    orelse = evaluate_side(frame, step.orelse, step.else_value)
    domain.check_choice(then.value)
    domain.check_choice(orelse.value)
    merge = Merge(frame, then, orelse, step.location)
    merge.add(CHOICE, then.value, orelse.value)
    frame.values[step.result] = merge.rebind(test, (*step.then.stores, *step.orelse.stores))[0]


def evaluate_side(frame: Frame[Any], steps: hir.Block, register: hir.Register | None = None) -> Side:
    """Evaluate one side into a block of its own."""

    def run() -> Any:
        frame.run(steps)
        return frame.result if register is None else frame.values[register]

    return side_of(frame, run)


def side_of(frame: Frame[Any], run: Callable[[], Any]) -> Side:
    """The ops that `run()` evaluates, as one side of a branch, in a block of its own."""
    lost, result, going = dict(frame.lost), frame.result, frame.going
    with frame.region(Block()) as block:
        value = run()
        side = Side(block, frame.names, frame.lost, value, frame.going)
    frame.lost, frame.result, frame.going = lost, result, going
    return side


def nothing(frame: Frame[Any], value: Any = None) -> Side:
    """The side of a branch that does nothing but have a value."""
    return Side(Block(), dict(frame.names), dict(frame.lost), value)


def run_unless_left(
    frame: Frame[Any], left: str, stores: tuple[str, ...], location: FileLocation, iteration: Callable[[], None]
) -> bool:
    """Evaluate one more iteration of an unrolled loop, unless the variable `left` (if any) says that it was left.

    Args:
        frame: the function.
        left: the variable.
        stores: the names that the iteration stores.
        location: of the loop.
        iteration: evaluates the iteration.

    Returns:
        whether there can be a further iteration.
    """
    test = frame.names[left] if left else False
    if test is False:
        iteration()
    elif test is not True:
        Merge(frame, nothing(frame), side_of(frame, iteration), location).rebind(test, stores)
    return test is not True


def _returned(frame: Frame[Any], side: Side, other: Side) -> Any:
    """The value that a side returns; if it does not and the other does, what the domain takes for that."""
    if side.value is not Frame.NOT_RETURNED or other.value is Frame.NOT_RETURNED:
        return side.value
    return frame.domain.no_return(frame, other.value)


def unless_left(
    frame: Frame[Any],
    left: str,
    stores: tuple[str, ...],
    location: FileLocation,
    holds: Callable[[], tuple[Any, dict[str, Attribute]]],
) -> tuple[Any, dict[str, Attribute]]:
    """The condition of a loop, and its attributes; after the loop was left the condition is not evaluated again.

    Args:
        frame: the function.
        left: the variable that says whether the loop was left; "" if it never is.
        stores: the names that the condition stores.
        location: of the loop.
        holds: evaluates the condition; it and the attributes of the loop.
    """
    if not left or frame.names[left] is False:
        return holds()
    attributes: dict[str, Attribute] = {}

    def run() -> Any:
        condition, found = holds()
        attributes.update(found)
        return condition

    test = frame.names[left]
    runs = side_of(frame, run)
    merge = Merge(frame, nothing(frame), runs, location)
    merge.add("the condition", False, runs.value)
    return merge.rebind(test, stores)[0], attributes


class Merge:
    """Collects pairs of values from the two sides, and makes the scf.if that picks one of each."""

    def __init__(self, frame: Frame[Any], then: Side, orelse: Side, location: FileLocation) -> None:
        self._frame = frame
        self._then, self._orelse = then, orelse
        self._location = location
        self._yields: tuple[list[Value], list[Value]] = ([], [])
        self._structures: list[tuple[str, Structure]] = []

    def add(self, name: str, then: Any, orelse: Any) -> None:
        """One more result; a value that is the same on both sides stays, different constants become run-time values.

        Raises:
            CompilationError: no type has both values.
        """
        if same_constant(then, orelse):
            self._structures.append((name, Fixed(then)))
            return
        frame, domain = self._frame, self._frame.domain
        structure = domain.wider(domain.structure_of(then), orelse)
        if structure is None:
            raise frame.fail(domain.mismatch(name, then, orelse), self._location)
        for value, side, handles in zip((then, orelse), (self._then, self._orelse), self._yields, strict=True):
            with frame.region(side.block):
                handles += domain.handles_of(value, structure)
        self._structures.append((name, structure))

    def emit(self, test: Any) -> list[Any]:
        """The scf.if; the merged values in the order in which they were added."""
        frame, (then, orelse) = self._frame, self._yields
        frame.mark(self._location)
        location = frame.emitter.location
        for side, handles in ((self._then, then), (self._orelse, orelse)):
            side.block.append(Op.create("scf.yield", handles, location=location))
        regions = [Region([self._then.block]), Region([self._orelse.block])]
        if not then and self._orelse.block.first is self._orelse.block.last:
            regions[1] = Region()
        results = iter(frame.emitter.emit("scf.if", [test.handle], [v.type for v in then], None, regions))
        rebuild = frame.domain.rebuild
        return [rebuild(structure, results, "" if " " in name else name) for name, structure in self._structures]

    def rebind(self, test: Any, stores: tuple[str, ...]) -> list[Any]:
        """Emit, with the variables that a side stores as the last results; these get their values after the branch."""
        frame, then, orelse = self._frame, self._then, self._orelse
        stored = dict.fromkeys(stores)
        if hir.RESULT in stored:
            self._complete_result()
        places = [name for name in stored if self._differs(name)]
        for name in places:
            self.add(name, then.names[name], orelse.names[name])
        results = self.emit(test)
        merged = dict(zip(places, results[len(results) - len(places) :], strict=True))
        for name in (*stored, *(then.lost.keys() | orelse.lost.keys())):
            if name in merged:
                frame.names[name] = merged[name]
            elif name in then.names and name in orelse.names:
                frame.names[name] = then.names[name]
            else:
                frame.names.pop(name, None)
                frame.lost[name] = then.lost.get(name) or orelse.lost.get(name) or frame.domain.one_sided
        return results

    def _complete_result(self) -> None:
        """A value that a loop returns on one side only has some value on the other, too, which nothing reads there."""
        frame, sides = self._frame, (self._then, self._orelse)
        for side, other in (sides, sides[::-1]):
            if hir.RESULT in other.names and hir.RESULT not in side.names:
                with frame.region(side.block):
                    value = frame.domain.any_like(frame, other.names[hir.RESULT])
                side.names[hir.RESULT] = value

    def _differs(self, name: str) -> bool:
        """Whether a variable has a value on both sides, and not the same one."""
        if name not in self._then.names or name not in self._orelse.names:
            return False
        return self._then.names[name] is not self._orelse.names[name]
