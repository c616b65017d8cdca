"""Branches and loops on elements.

    if c:                    %y = scf.if %c -> (f32) {           sides of different kinds: both become the common one
        y = x + 1                …, scf.yield %a
    else:                →   } else {
        y = 0                    …, scf.yield %b
                             }
    for i in range(n)    →   scf.while with a counter            range(4) is unrolled, so `i` is known

A loop is evaluated again as long as a variable leaves it with a wider kind than it entered with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tilewright.frontends import hir
from tilewright.frontends.errors import BadCondition, BoundNotInteger, NotIterable
from tilewright.ir.attributes import FileLocation
from tilewright.ir.core import Block, Op, Region, Value
from tilewright.semantics.constexpr import unwrap
from tilewright.support.diagnostics import StaticAssertionFailed
from tilewright.vectorizing.arithmetic import compare
from tilewright.vectorizing.casting import cast, describe, kind_of, to_element, truth
from tilewright.vectorizing.element import IR_TYPES, Element, check, constant, emit, is_exact, is_number
from tilewright.vectorizing.errors import CannotChange, NoValue, ValueNeeded
from tilewright.vectorizing.frame import Frame
from tilewright.vectorizing.kinds import BOOL, WEAK_INT, Kind, promote
from tilewright.vectorizing.messages import ASK_PYTHON

MAX_TURNS, MAX_TURNS_TOGETHER = 32, 256
"""Max trip count of a loop to unroll, alone and multiplied by those around it."""
AFTER_LOOP = "it gets its value inside a loop that may not run at all"


# --- merging ------------------------------------------------------------------------------------------------------


def unified(left: Any, right: Any) -> Any:
    """The kind (or tuple of kinds) that can stand for both values; None where nothing has to be merged.

    Raises:
        ValueError: there is none.
    """
    if _is_same(left, right):
        return None
    if isinstance(left, tuple) and isinstance(right, tuple) and len(left) == len(right):
        return tuple(unified(a, b) or _own(a) for a, b in zip(left, right, strict=True))
    if is_number(left) and is_number(right):
        return promote(kind_of(left), kind_of(right))
    raise ValueError


def _is_same(left: Any, right: Any) -> bool:
    """The same object, or equal constants of one class (0.0 and -0.0 are not)."""
    if left is right:
        return True
    if isinstance(left, Element) or left.__class__ is not right.__class__:
        return False
    if isinstance(left, tuple):
        return len(left) == len(right) and all(map(_is_same, left, right))
    return bool(left == right) and repr(left) == repr(right)


def _own(value: Any) -> Any:
    return tuple(map(_own, value)) if isinstance(value, tuple) else kind_of(value)


def parts(value: Any, kinds: Any) -> list[Element]:
    """The elements that a value of these kinds is made of."""
    if isinstance(kinds, tuple) and not isinstance(kinds, Kind):
        return [part for item, kind in zip(value, kinds, strict=True) for part in parts(item, kind)]
    return [cast(value, kinds)]


def types_of(kinds: Any) -> list[Any]:
    """The IR types of these elements."""
    if isinstance(kinds, Kind):
        return [IR_TYPES[kinds.name]]
    return [type for kind in kinds for type in types_of(kind)]


def put_together(handles: Any, kinds: Any) -> Any:
    """The value of these kinds from an iterator of SSA values."""
    if isinstance(kinds, Kind):
        return Element(next(handles), kinds)
    return tuple(put_together(handles, kind) for kind in kinds)


# --- branches -----------------------------------------------------------------------------------------------------


class Side(NamedTuple):
    """One side of a branch: its ops, its variables, what it returned or computed."""

    block: Block
    names: dict[str, Any]
    lost: dict[str, str]
    value: Any


def known_truth(frame: Frame, value: Any, location: FileLocation) -> bool:
    """The truth of something that is known."""
    if isinstance(value, Element):
        raise frame.fail(ValueNeeded("compiled", str(value.kind)), location)
    return bool(value)


def _condition(frame: Frame, value: Any, location: FileLocation) -> Any:
    """A bool element, or True or False."""
    value = unwrap(value)
    if isinstance(value, Element):
        frame.mark(location)
        return truth(value)
    try:
        return bool(value)
    except (TypeError, ValueError):
        raise frame.fail(BadCondition(describe(value)), location) from None


def branch(frame: Frame, step: hir.If) -> None:
    """`if`."""
    test = _condition(frame, frame.values[step.test], step.location)
    if not isinstance(test, Element):
        frame.run(step.then if test else step.orelse)
        return
    then, orelse = _side(frame, step.then), _side(frame, step.orelse)
    merge = _Merge(frame, then, orelse, step.location)
    if step.tail:
        frame.result = merge.emit(test, [("the result", _returned(frame, then), _returned(frame, orelse))])[0]
        return
    stored = dict.fromkeys((*step.then.stores, *step.orelse.stores))
    both = [name for name in stored if name in then.names and name in orelse.names]
    values = merge.emit(test, [(name, then.names[name], orelse.names[name]) for name in both])
    frame.names.update(zip(both, values, strict=True))
    for name in stored:
        if name not in both:
            frame.names.pop(name, None)
            lost = then.lost.get(name) or orelse.lost.get(name)
            frame.lost[name] = lost or "only one side of an `if` gives it a value"


def _returned(frame: Frame, side: Side) -> Any:
    return None if side.value is frame.NOT_RETURNED else side.value


def choose(frame: Frame, step: hir.Choose) -> None:
    """`a if c else b`."""
    test = _condition(frame, frame.values[step.test], step.location)
    if not isinstance(test, Element):
        chosen = (step.then, step.then_value) if test else (step.orelse, step.else_value)
        frame.values[step.result] = frame.valued(*chosen)
        return
    then, orelse = _side(frame, step.then, step.then_value), _side(frame, step.orelse, step.else_value)
    merge = _Merge(frame, then, orelse, step.location)
    frame.values[step.result] = merge.emit(test, [("… if … else …", then.value, orelse.value)])[0]


def short_circuit(frame: Frame, step: hir.ShortCircuit) -> None:
    """`a and b`: b where a is true, else a; `a or b` the other way round."""
    left = frame.values[step.left]
    test = _condition(frame, left, step.location)
    if not isinstance(test, Element):
        is_left = test is not step.conjunction
        frame.values[step.result] = left if is_left else frame.valued(step.right, step.right_value)
        return
    right, same = _side(frame, step.right, step.right_value), _side(frame, hir.Block(()))
    same = same._replace(value=left)
    sides = (right, same) if step.conjunction else (same, right)
    merge = _Merge(frame, *sides, step.location)
    word = "… and …" if step.conjunction else "… or …"
    frame.values[step.result] = merge.emit(test, [(word, sides[0].value, sides[1].value)])[0]


def _side(frame: Frame, steps: hir.Block, register: hir.Register | None = None) -> Side:
    lost, result = dict(frame.lost), frame.result
    frame.result = frame.NOT_RETURNED
    with frame.region() as block:
        frame.run(steps)
        value = frame.result if register is None else frame.values[register]
        side = Side(block, frame.names, frame.lost, value)
    frame.lost, frame.result = lost, result
    return side


class _Merge:
    """An scf.if in the making."""

    def __init__(self, frame: Frame, then: Side, orelse: Side, location: FileLocation) -> None:
        self.frame, self.sides, self.location = frame, (then, orelse), location

    def emit(self, test: Element, pairs: Sequence[tuple[str, Any, Any]]) -> list[Any]:
        """The op, and the value for each (name, value of one side, value of the other)."""
        frame = self.frame
        kinds = [self._kinds(*pair) for pair in pairs]
        yielded: tuple[list[Element], list[Element]] = ([], [])
        for side, into, number in zip(self.sides, yielded, (1, 2), strict=True):
            with frame.emitter.recording(side.block):
                for pair, kind in zip(pairs, kinds, strict=True):
                    if kind is not None:
                        into += parts(pair[number], kind)
        frame.mark(self.location)
        location = frame.emitter.location
        for side, into in zip(self.sides, yielded, strict=True):
            side.block.append(Op.create("scf.yield", [part.handle for part in into], location=location))
        types = [type for kind in kinds if kind is not None for type in types_of(kind)]
        handles: list[Value] = []
        if types or any(_does_something(side.block) for side in self.sides):
            regions = [Region([side.block]) for side in self.sides]
            handles = frame.emitter.emit("scf.if", [test.handle], types, None, regions)
        results, merged = iter(handles), zip(pairs, kinds, strict=True)
        return [pair[1] if kind is None else put_together(results, kind) for pair, kind in merged]

    def _kinds(self, name: str, left: Any, right: Any) -> Any:
        try:
            return unified(left, right)
        except ValueError:
            where = "with a condition that is known only when the function runs"
            diagnostic = CannotChange(name, where, describe(left), describe(right))
            raise self.frame.fail(diagnostic, self.location) from None


def _does_something(block: Block) -> bool:
    return block.first is not block.last


def check_assertion(frame: Frame, step: hir.Assert) -> None:
    """`assert`."""
    test = _condition(frame, frame.values[step.test], step.location)
    if test is True:
        return
    message = frame.valued(step.message, step.message_value)
    if not isinstance(test, Element):
        raise frame.fail(StaticAssertionFailed(str(message)), step.location)
    frame.mark(step.location)
    check(test, ASK_PYTHON if is_exact() else f"assert {message}")


# --- loops --------------------------------------------------------------------------------------------------------


class Bounds(NamedTuple):
    """`range` with a bound that is known only when the function runs."""

    start: Any
    stop: Any
    step: Any


def bounds(*limits: Any) -> Any:
    """`range(…)`."""
    limits = tuple(map(unwrap, limits))
    if not any(isinstance(limit, Element) for limit in limits):
        return range(*limits)
    start, stop = (0, limits[0]) if len(limits) == 1 else limits[:2]
    return Bounds(start, stop, limits[2] if len(limits) > 2 else 1)


def known_items(frame: Frame, iterable: Any, location: FileLocation) -> Any:
    """The items of something known."""
    if isinstance(iterable, (Bounds, Element)) or not hasattr(iterable, "__iter__"):
        raise frame.fail(NotIterable(describe(iterable)), location)
    return iterable


def repeat(frame: Frame, step: hir.For) -> None:
    """`for`: unrolled, or a loop with a counter."""
    iterable = unwrap(frame.values[step.iterable])
    if isinstance(iterable, range) and _is_long(frame, iterable):
        iterable = Bounds(iterable.start, iterable.stop, iterable.step)
    if isinstance(iterable, Bounds):
        _counted(frame, step, iterable)
        return
    items = list(known_items(frame, iterable, step.location))
    before, frame.unrolled = frame.unrolled, frame.unrolled * max(1, len(items))
    for item in items:
        frame.names[step.target] = unwrap(item)
        frame.run(step.body)
    frame.unrolled = before


def _is_long(frame: Frame, items: range) -> bool:
    return len(items) > MAX_TURNS or (len(items) > 1 and len(items) * frame.unrolled > MAX_TURNS_TOGETHER)


_COUNTER = ".counter "


def _counted(frame: Frame, step: hir.For, limits: Bounds) -> None:
    frame.mark(step.location)
    kinds = [kind_of(limit) for limit in limits]
    if any(kind.is_float for kind in kinds):
        raise frame.fail(BoundNotInteger(*map(describe, limits)), step.location)
    kind = promote(promote(promote(kinds[0], kinds[1]), kinds[2]), WEAK_INT)
    start, stop, stride = (cast(limit, kind) for limit in limits)
    counter = f"{_COUNTER}{step.target}"
    frame.names[counter] = start

    def test() -> Element:
        upwards = compare("lt", frame.names[counter], stop)
        if isinstance(limits.step, int):
            return upwards if limits.step > 0 else compare("gt", frame.names[counter], stop)
        zero = constant(0, kind)
        downwards = compare("gt", frame.names[counter], stop)
        runs = emit("arith.select", [compare("gt", stride, zero), upwards, downwards], BOOL)
        return emit("arith.andi", [runs, compare("ne", stride, zero)], BOOL)

    def body() -> None:
        frame.names[step.target] = frame.names[counter]
        frame.run(step.body)
        frame.names[counter] = Element(emit("arith.addi", [frame.names[counter], stride], kind).handle, kind)

    stores = tuple(name for name in step.body.stores if name != step.target)
    _looped(frame, (counter, *stores), step.location, test, body)
    del frame.names[counter]
    frame.names.pop(step.target, None)
    frame.lost[step.target] = "a loop variable has no value after a loop that is not unrolled"


def loop(frame: Frame, step: hir.While) -> None:
    """`while`."""

    def test() -> Element | bool:
        found: Element | bool = _condition(frame, frame.valued(step.test, step.test_value), step.location)
        return found

    stores = dict.fromkeys((*step.test.stores, *step.body.stores))
    _looped(frame, tuple(stores), step.location, test, lambda: frame.run(step.body))


def _looped(
    frame: Frame,
    stores: Sequence[str],
    location: FileLocation,
    test: Callable[[], Element | bool],
    body: Callable[[], None],
) -> None:
    """An scf.while over the variables that `body` stores; evaluated until their kinds stay."""
    initial = {name: frame.names[name] for name in stores if name in frame.names}
    carried = {name: _carried_kind(value) for name, value in initial.items()}
    while True:
        found = _turn(frame, carried, location, test, body)
        if found is None:  # the condition is known to be false
            return
        widened = {name: _widened(frame, name, kind, initial, found, location) for name, kind in carried.items()}
        if widened == carried:
            break
        carried = widened
    moving = {name: kind for name, kind in carried.items() if kind is not None}
    with frame.emitter.recording(found.after):
        handles = [part.handle for name, kind in moving.items() for part in parts(found.names[name], kind)]
    frame.mark(location)
    where = frame.emitter.location
    found.after.append(Op.create("scf.yield", handles, location=where))
    found.before.append(Op.create("scf.condition", [found.test.handle, *found.passed], location=where))
    operands = [part.handle for name, kind in moving.items() for part in parts(initial[name], kind)]
    types = [type for kind in moving.values() for type in types_of(kind)]
    regions = [Region([found.before]), Region([found.after])]
    results = iter(frame.emitter.emit("scf.while", operands, types, None, regions))
    for name, kind in moving.items():
        frame.names[name] = put_together(results, kind)
    for name in stores:
        if name not in initial:
            frame.lost[name] = AFTER_LOOP


class Turn(NamedTuple):
    """A loop evaluated for some kinds: its blocks, the condition, what it passes on, the variables at the end."""

    before: Block
    after: Block
    test: Element
    passed: list[Any]
    names: dict[str, Any]


def _carried_kind(value: Any) -> Any:
    """The kinds of a value that a loop may change; None for what stays the same object."""
    try:
        return _own(value)
    except Exception:  # noqa: BLE001 - no number: it must not change
        return None


def _turn(
    frame: Frame,
    carried: dict[str, Any],
    location: FileLocation,
    test: Callable[[], Element | bool],
    body: Callable[[], None],
) -> Turn | None:
    types = [type for kind in carried.values() if kind is not None for type in types_of(kind)]
    outside = set(frame.names)
    lost = dict(frame.lost)
    with frame.region(*types) as before:
        _bind(frame, carried, before.args)
        condition = test()
        if condition is False:
            return None
        if condition is True:
            condition = constant(1, BOOL)
        passed = [
            part.handle for name, kind in carried.items() if kind is not None for part in parts(frame.names[name], kind)
        ]
        with frame.region(*types) as after:
            for name in set(frame.names) - outside:
                del frame.names[name]
                frame.lost[name] = "the condition of a `while` gives it a value, which does not reach the body"
            _bind(frame, carried, after.args)
            body()
            names = frame.names
    frame.lost = lost
    return Turn(before, after, to_element(condition), passed, names)


def _bind(frame: Frame, carried: dict[str, Any], handles: Sequence[Any]) -> None:
    arguments = iter(handles)
    for name, kind in carried.items():
        if kind is not None:
            frame.names[name] = put_together(arguments, kind)


def _widened(frame: Frame, name: str, kind: Any, initial: dict[str, Any], turn: Turn, location: FileLocation) -> Any:
    """The kind that a variable needs to enter the loop with."""
    if name not in turn.names:
        raise frame.fail(NoValue(name, turn_reason(frame, name)), location)
    value = turn.names[name]
    if kind is None:
        if value is not initial[name]:
            raise frame.fail(CannotChange(name, "in a loop", describe(initial[name]), describe(value)), location)
        return None
    try:
        return _wider(kind, value)
    except ValueError:
        raise frame.fail(CannotChange(name, "in a loop", describe(initial[name]), describe(value)), location) from None


def turn_reason(frame: Frame, name: str) -> str:
    """The reason why a variable has no value at the end of a loop."""
    return str(frame.lost.get(name, "the loop takes its value away"))


def _wider(kind: Any, value: Any) -> Any:
    if isinstance(kind, Kind):
        if not is_number(value):
            raise ValueError
        return promote(kind, kind_of(value))
    if not isinstance(value, tuple) or len(value) != len(kind):
        raise ValueError
    return tuple(_wider(one, item) for one, item in zip(kind, value, strict=True))
