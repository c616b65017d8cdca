"""`for` and `while`.

The variables that a loop carries are those its body stores that have a value before it:

    for i in range(n):       %acc = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %start) -> (tensor<8xf32>) {
        acc += x         →       %0 = arith.addf %acc, %x
                                 scf.yield %0
                             }

Compile-time values are carried only if the body really changes them, which shows after evaluating it once.
`tl.static_range` is unrolled here.
"""

from __future__ import annotations

from typing import Any

from tilewright import language as tl
from tilewright.frontends import hir
from tilewright.frontends.errors import BadCondition, BoundNotConstant, BoundNotInteger, NotIterable, TooManyTurns
from tilewright.frontends.evaluate.branches import condition
from tilewright.frontends.evaluate.carried import Carried, Turn, settle
from tilewright.frontends.evaluate.frame import Frame, discard
from tilewright.ir.attributes import UNIT, Attribute, FileLocation, Number
from tilewright.ir.core import Op, Region
from tilewright.ir.types import i32
from tilewright.language.python_code import UnsupportedSyntax
from tilewright.language.values import describe, set_name, unwrapped
from tilewright.semantics.arithmetic import add, sub, to_tensor
from tilewright.semantics.casting import cast
from tilewright.semantics.numbers import dtype_of_number
from tilewright.semantics.promotion import promote
from tilewright.semantics.tile import Tile, constant
from tilewright.semantics.types import dtype


def loop(frame: Frame, step: hir.For) -> None:
    """`for`, unrolled or as an scf.for, by the class of what it iterates over."""
    iterable = frame.values[step.iterable]
    if isinstance(iterable, tl.static_range):
        _unrolled(frame, step, _static_items(frame, iterable, step.location))
    elif isinstance(iterable, tl.range):
        _counted(frame, step, iterable)
    elif isinstance(iterable, (tuple, list)):
        raise frame.fail(UnsupportedSyntax("a loop over a tuple"), step.location)
    else:
        raise frame.fail(NotIterable(describe(iterable)), step.location)


def collect(frame: Frame, step: hir.Collect) -> None:
    """A list comprehension over a tuple."""
    iterable = frame.values[step.iterable]
    if isinstance(iterable, (tl.range, tl.static_range)):
        raise frame.fail(UnsupportedSyntax("a comprehension over a range"), step.location)
    if isinstance(iterable, Tile) or not isinstance(iterable, (tuple, list)):
        raise frame.fail(NotIterable(describe(iterable)), step.location)
    hidden = {name: frame.names[name] for name in step.target.stores if name in frame.names}
    items = []
    for item in iterable:
        frame.values[step.item] = unwrapped(item)
        frame.run(step.target)
        if all(frame.valued(block, register) for block, register in step.filters):
            items.append(frame.valued(step.body, step.value))
    for name in step.target.stores:
        frame.names.pop(name, None)
    frame.names.update(hidden)
    frame.values[step.result] = tuple(items)


def repeat(frame: Frame, step: hir.While) -> None:
    """`while` as an scf.while; one whose condition is False at compile time vanishes."""

    def turn(carried: Carried) -> Turn | None:
        with frame.region(carried.types) as before:
            carried.bind(frame, before.args)
            value = frame.valued(step.test, step.test_value)
            hints = _hints(value) if isinstance(value, tl.condition) else {}
            value = unwrapped(value.condition) if isinstance(value, tl.condition) else value
            test = condition(frame, value, step.location)
            if test is False:
                discard(before)
                return None
            if test is True:
                raise frame.fail(BadCondition(describe(value), "the loop would never end"), step.location)
            passed = carried.yielded(frame, step.test, step.location)
            with frame.region(carried.types) as after:
                _restrict(frame, names, step.test.stores)
                carried.bind(frame, after.args)
                frame.run(step.body)
                yields = carried.yielded(frame, step.body, step.location)
                return Turn((before, after), 0, frame.names, (passed, yields), (test, hints))

    names = frozenset(frame.names)
    carried, found = settle(frame, (*step.test.stores, *step.body.stores), step.location, turn)
    if found is None:
        frame.run(step.test)
        return
    before, after = found.blocks
    found.prune(carried)
    (passed, yields), (test, hints) = found.handed, found.test
    location = frame.emitter.location
    before.append(Op.create("scf.condition", [to_tensor(test).handle, *passed], location=location))
    after.append(Op.create("scf.yield", yields, location=location))
    types = [value.type for value in carried.initial]
    regions = [Region([before]), Region([after])]
    carried.rebind(frame, frame.emitter.emit("scf.while", carried.initial, types, hints, regions))
    _forget(frame, (*step.test.stores, *step.body.stores), _AFTER_LOOP)


def _counted(frame: Frame, step: hir.For, bounds: tl.range) -> None:
    """`for i in range(…)` as an scf.for; a negative step counts the other way and is turned round inside."""
    frame.mark(step.location)
    low, high, stride, kind = _bounds(frame, bounds, step.location)
    backwards = isinstance(bounds.step, int) and bounds.step < 0
    if backwards:
        low, high = high, low

    def turn(carried: Carried) -> Turn:
        with frame.region((kind.ir, *carried.types)) as block:
            induction_variable, *arguments = block.args
            carried.bind(frame, arguments)
            counter = Tile.concrete(induction_variable, kind)
            frame.mark(step.location)
            frame.names[step.target] = _mirrored(low, high, counter) if backwards else counter
            set_name(frame.names[step.target], step.target)
            frame.run(step.body)
            return Turn((block,), 1, frame.names, (carried.yielded(frame, step.body, step.location),))

    stores = tuple(name for name in step.body.stores if name != step.target)
    carried, found = settle(frame, stores, step.location, turn)
    assert found is not None, "the body of a counted loop is always evaluated"
    (block,) = found.blocks
    found.prune(carried)
    frame.mark(step.location)
    block.append(Op.create("scf.yield", found.handed[0], location=frame.emitter.location))
    operands = [low.handle, high.handle, stride.handle, *carried.initial]
    types = [value.type for value in carried.initial]
    results = frame.emitter.emit("scf.for", operands, types, _hints(bounds), [Region([block])])
    carried.rebind(frame, results)
    _forget(frame, step.body.stores, _AFTER_LOOP)
    frame.names.pop(step.target, None)
    frame.lost[step.target] = "a loop variable has no value after its loop"


def _mirrored(low: Tile, high: Tile, counter: Tile) -> Tile:
    """The counter of a loop that runs from `high` down to `low`."""
    return add(sub(high, counter, sanitize_overflow=False), low, sanitize_overflow=False)


def _bounds(frame: Frame, bounds: tl.range, location: FileLocation) -> tuple[Tile, Tile, Tile, dtype]:
    """Start, end and (positive) step as scalars of one integer type, and that type."""
    limits = [unwrapped(limit) for limit in (bounds.start, bounds.end, bounds.step)]
    kinds = [limit.type if isinstance(limit, Tile) else dtype_of_number(limit) for limit in limits]
    if not all(isinstance(kind, dtype) and kind.integer for kind in kinds):
        raise frame.fail(BoundNotInteger(*map(describe, limits)), location)
    if limits[2].__class__ is int:
        limits[2] = abs(limits[2])
        if not limits[2]:
            raise ValueError("the step of a loop must not be zero")
    kind = promote(promote(kinds[0], kinds[1]), kinds[2])
    low, high, stride = (cast(limit, kind) if isinstance(limit, Tile) else constant(limit, kind) for limit in limits)
    return low, high, stride, kind


def _hints(bounds: Any) -> dict[str, Attribute]:
    """The hints of a tl.range or tl.condition as attributes of the loop."""
    attributes: dict[str, Attribute] = {}
    for name in ("num_stages", "loop_unroll_factor"):
        value = unwrapped(getattr(bounds, name, None))
        if value is not None:
            attributes[f"tt.{name}"] = Number(value, i32)
    for name in ("disallow_acc_multi_buffer", "flatten", "warp_specialize", "disable_licm"):
        if unwrapped(getattr(bounds, name, False)):
            attributes[f"tt.{name}"] = UNIT
    return attributes


def _restrict(frame: Frame, names: frozenset[str], stores: tuple[str, ...]) -> None:
    """Take away what only the condition of a `while` has given a value: it does not reach the body."""
    for name in stores:
        if name not in names:
            del frame.names[name]
            frame.lost[name] = "the condition of a `while` gives it a value, which does not reach the body"


def _forget(frame: Frame, stores: tuple[str, ...], reason: str) -> None:
    """Remember why the variables that only the body knows have no value after the loop."""
    for name in stores:
        if name not in frame.names:
            frame.lost[name] = reason


def _unrolled(frame: Frame, step: hir.For, items: range) -> None:
    for item in items:
        frame.names[step.target] = item
        frame.run(step.body)


def _static_items(frame: Frame, bounds: tl.static_range, location: FileLocation) -> range:
    limits = [frame.known(unwrapped(limit)) for limit in (bounds.start, bounds.end, bounds.step)]
    loop = "tl.static_range"
    for which, limit in zip(("start", "end", "step"), limits, strict=True):
        if isinstance(limit, bool) or not isinstance(limit, int):
            raise frame.fail(BoundNotConstant(which, describe(limit), loop), location)
    turns = range(*limits)
    if len(turns) > MAX_TURNS:
        raise frame.fail(TooManyTurns(loop, len(turns), MAX_TURNS), location)
    return turns


MAX_TURNS = 1 << 16
"""Max trip count of an unrolled loop."""

_AFTER_LOOP = "it gets its value inside a loop that may not run at all"
