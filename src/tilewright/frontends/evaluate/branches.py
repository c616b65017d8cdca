"""`if`, conditional expressions, `and`, `or` and `assert`.

A condition known at compile time picks one side, and the other is never evaluated. Otherwise:

    if c:                    %y = scf.if %c -> (tensor<8xf32>) {
        y = x + 1                …, scf.yield %a
    else:                →   } else {
        y = x * 2                …, scf.yield %b
                             }
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from tilewright.frontends import hir
from tilewright.frontends.errors import (
    BadCondition,
    BranchTypeMismatch,
    ChoiceTypeMismatch,
    ReturnTypeMismatch,
    TileAsCondition,
)
from tilewright.frontends.evaluate.frame import Frame
from tilewright.ir.attributes import FileLocation
from tilewright.ir.core import Block, Op, Region, Value
from tilewright.language.python_code import UnsupportedSyntax
from tilewright.language.values import (
    Fixed,
    at_run_time,
    describe,
    flatten,
    rebuild,
    same_constant,
    same_structure,
    set_name,
)
from tilewright.semantics.arithmetic import logical_and, logical_or, to_bool
from tilewright.semantics.debug import device_assert
from tilewright.semantics.errors import NotATile
from tilewright.semantics.shapes import reshape
from tilewright.semantics.tile import Tile
from tilewright.support.diagnostics import Diagnostic, StaticAssertionFailed

Mismatch = Callable[[str, str], Diagnostic]


class Side(NamedTuple):
    """One side of a branch after evaluation: its ops, its variables, what it returned or computed."""

    block: Block
    names: dict[str, Any]
    lost: dict[str, str]
    value: Any


def branch(frame: Frame, step: hir.If) -> None:
    """`if`: of the two sides the chosen one, or an scf.if that merges the variables they store."""
    test = condition(frame, frame.values[step.test], step.location)
    if not isinstance(test, Tile):
        frame.run(step.then if test else step.orelse)
        return
    then, orelse = (_side(frame, side) for side in (step.then, step.orelse))
    stored = dict.fromkeys((*step.then.stores, *step.orelse.stores))
    merge = _Merge(frame, then, orelse, step.location)
    places = [] if step.tail else [name for name in stored if merge.differs(name)]
    for name in places:
        merge.add(then.names[name], orelse.names[name], partial(BranchTypeMismatch, name))
    if step.tail:
        merge.add(merge.returned(then, orelse), merge.returned(orelse, then), ReturnTypeMismatch)
    results = merge.emit(test)
    if step.tail:
        frame.result = results[0]
        return
    _rebind(frame, stored, then, orelse, dict(zip(places, results, strict=True)))


def choose(frame: Frame, step: hir.Choose) -> None:
    """`a if c else b`."""
    test = condition(frame, frame.values[step.test], step.location)
    if not isinstance(test, Tile):
        block, register = (step.then, step.then_value) if test else (step.orelse, step.else_value)
        frame.values[step.result] = frame.valued(block, register)
        return
    then = _side(frame, step.then, step.then_value)
    orelse = _side(frame, step.orelse, step.else_value)
    stored = dict.fromkeys((*step.then.stores, *step.orelse.stores))
    if isinstance(then.value, tuple) or isinstance(orelse.value, tuple):
        raise frame.fail(NotATile("a tuple"), step.location)
    merge = _Merge(frame, then, orelse, step.location)
    merge.add(then.value, orelse.value, partial(ChoiceTypeMismatch, "… if … else …"))
    places = [name for name in stored if merge.differs(name)]
    for name in places:
        merge.add(then.names[name], orelse.names[name], partial(BranchTypeMismatch, name))
    frame.values[step.result], *results = merge.emit(test)
    _rebind(frame, stored, then, orelse, dict(zip(places, results, strict=True)))


def short_circuit(frame: Frame, step: hir.ShortCircuit) -> None:
    """`a and b`, `a or b`: what is known at compile time decides alone, or has no say; else both are evaluated."""
    left = frame.values[step.left]
    if not isinstance(left, Tile) and bool(left) is not step.conjunction:
        frame.values[step.result] = left
        return
    if isinstance(left, Tile) and step.right.stores:
        raise frame.fail(UnsupportedSyntax("`:=` on the right of `and` or `or`"), step.location)
    right = frame.valued(step.right, step.right_value)
    if isinstance(left, Tile) and isinstance(right, Tile):
        frame.mark(step.location)
        right = (logical_and if step.conjunction else logical_or)(left, right)
    elif isinstance(left, Tile) and bool(right) is step.conjunction:
        right = left
    frame.values[step.result] = right


def check(frame: Frame, step: hir.Assert) -> None:
    """`assert`, which counts only while debugging: of a known condition that is sure to be reached, at compile time."""
    test = frame.values[step.test]
    if isinstance(test, (str, tuple)):
        raise frame.fail(BadCondition(describe(test), "it always holds: assert what is to be checked"), step.location)
    if not isinstance(test, Tile) and (test or not frame.regions):
        if not test and frame.evaluation.options.debug:
            message = frame.valued(step.message, step.message_value)
            raise frame.fail(StaticAssertionFailed(str(message)), step.location)
        return
    message = frame.valued(step.message, step.message_value)
    frame.mark(step.location)
    device_assert(test, message)


def condition(frame: Frame, value: Any, location: FileLocation) -> Any:
    """A condition: an i1 scalar tile, or True or False.

    Raises:
        CompilationError: the value has no single truth.
    """
    value = frame.known(value)
    if isinstance(value, Tile):
        if any(extent != 1 for extent in value.extents):
            reason = "its elements may disagree; reduce it with tl.max or tl.min, or use tl.where"
            raise frame.fail(TileAsCondition(describe(value), reason), location)
        frame.mark(location)
        return to_bool(reshape(value, ()) if value.extents else value)
    if value is None or isinstance(value, (bool, int)):
        return bool(value)
    raise frame.fail(BadCondition(describe(value)), location)


def _side(frame: Frame, steps: hir.Block, register: hir.Register | None = None) -> Side:
    """Evaluate one side into a block of its own."""
    lost, result = dict(frame.lost), frame.result
    with frame.region() as block:
        frame.run(steps)
        value = frame.result if register is None else frame.values[register]
        side = Side(block, frame.names, frame.lost, value)
    frame.lost, frame.result = lost, result
    return side


def _rebind(frame: Frame, stored: dict[str, None], then: Side, orelse: Side, merged: dict[str, Any]) -> None:
    """Give the variables that a side stored their values after the `if`."""
    for name in (*stored, *(then.lost.keys() | orelse.lost.keys())):
        if name in merged:
            set_name(merged[name], name)
            frame.names[name] = merged[name]
        elif name in then.names and name in orelse.names:
            frame.names[name] = then.names[name]
        else:
            frame.names.pop(name, None)
            frame.lost[name] = then.lost.get(name) or orelse.lost.get(name) or _ONE_SIDED


_ONE_SIDED = "only one side of an `if` on a run-time condition gives it a value"


class _Merge:
    """Collects pairs of values from the two sides, and makes the scf.if that picks one of each."""

    def __init__(self, frame: Frame, then: Side, orelse: Side, location: FileLocation) -> None:
        self._frame = frame
        self._then, self._orelse = then, orelse
        self._location = location
        self._yields: tuple[list[Value], list[Value]] = ([], [])
        self._layouts: list[Any] = []

    def differs(self, name: str) -> bool:
        """Whether a variable has a value on both sides, and not the same one."""
        if name not in self._then.names or name not in self._orelse.names:
            return False
        return self._then.names[name] is not self._orelse.names[name]

    def returned(self, side: Side, other: Side) -> Any:
        """The value that a side returns; if it does not and the other does, anything of that type, as in Triton."""
        if side.value is not Frame.NOT_RETURNED or other.value is Frame.NOT_RETURNED:
            return side.value
        handles: list[Value] = []
        layout = flatten(other.value, handles)
        with self._frame.emitter.recording(side.block):
            self._frame.mark(self._location)
            anything = [self._frame.emitter.emit("ub.poison", (), (handle.type,))[0] for handle in handles]
        return rebuild(layout, iter(anything))

    def add(self, then: Any, orelse: Any, mismatch: Mismatch) -> None:
        """One more result; a value that is the same on both sides stays, different constants become run-time values.

        Raises:
            CompilationError: the types differ.
        """
        if same_constant(then, orelse):
            self._layouts.append(Fixed(then))
            return
        values = []
        for value, side in ((then, self._then), (orelse, self._orelse)):
            with self._frame.emitter.recording(side.block):
                values.append(at_run_time(value))
        layouts = [flatten(value, into) for value, into in zip(values, self._yields, strict=True)]
        if not same_structure(*layouts):
            raise self._frame.fail(mismatch(describe(values[0]), describe(values[1])), self._location)
        self._layouts.append(layouts[0])

    def emit(self, test: Tile) -> list[Any]:
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
        return [rebuild(layout, results) for layout in self._layouts]
