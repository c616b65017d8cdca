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

from tilewright import language as tl
from tilewright.frontends import hir
from tilewright.frontends.errors import BoundNotConstant, BoundNotInteger, BoundNotScalar, NotIterable, TooManyTurns
from tilewright.frontends.evaluate.carried import Carried, Turn, forget, settle
from tilewright.frontends.evaluate.tiles import TileFrame, hints, known
from tilewright.ir.attributes import FileLocation
from tilewright.ir.core import Block, Op, Region
from tilewright.language.python_code import UnsupportedSyntax
from tilewright.language.values import describe, set_name
from tilewright.semantics.arithmetic import add, sub
from tilewright.semantics.casting import cast
from tilewright.semantics.constexpr import unwrap
from tilewright.semantics.promotion import dtype_of_number, promote
from tilewright.semantics.tile import Tile, constant
from tilewright.semantics.types import dtype


def loop(frame: TileFrame, step: hir.For) -> None:
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


def _counted(frame: TileFrame, step: hir.For, bounds: tl.range) -> None:
    """`for i in range(…)` as an scf.for; a negative step counts the other way and is turned round inside."""
    frame.mark(step.location)
    low, high, stride, kind = _bounds(frame, bounds, step.location)
    backwards = isinstance(bounds.step, int) and bounds.step < 0
    if backwards:
        low, high = high, low

    def turn(carried: Carried) -> Turn:
        with frame.region(Block((kind.ir, *carried.types))) as block:
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
    frame.mark(step.location)
    block.append(Op.create("scf.yield", found.handed[0], location=frame.emitter.location))
    operands = [low.handle, high.handle, stride.handle, *carried.initial]
    types = [value.type for value in carried.initial]
    results = frame.emitter.emit("scf.for", operands, types, hints(bounds), [Region([block])])
    carried.rebind(frame, results)
    forget(frame, step.body.stores)
    frame.names.pop(step.target, None)
    frame.lost[step.target] = "a loop variable has no value after its loop"


def _mirrored(low: Tile, high: Tile, counter: Tile) -> Tile:
    """The counter of a loop that runs from `high` down to `low`."""
    return add(sub(high, counter, sanitize_overflow=False), low, sanitize_overflow=False)


def _bounds(frame: TileFrame, bounds: tl.range, location: FileLocation) -> tuple[Tile, Tile, Tile, dtype]:
    """Start, end and (positive) step as scalars of one integer type, and that type."""
    limits = [unwrap(limit) for limit in (bounds.start, bounds.end, bounds.step)]
    for which, limit in zip(("lower bound", "upper bound", "step"), limits, strict=True):
        if isinstance(limit, Tile) and limit.extents:
            raise frame.fail(BoundNotScalar(which, describe(limit)), location)
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


def _unrolled(frame: TileFrame, step: hir.For, items: range) -> None:
    for item in items:
        frame.names[step.target] = item
        frame.run(step.body)


def _static_items(frame: TileFrame, bounds: tl.static_range, location: FileLocation) -> range:
    limits = [known(frame, unwrap(limit)) for limit in (bounds.start, bounds.end, bounds.step)]
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
