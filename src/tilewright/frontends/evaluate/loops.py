"""`for` and `while`.

The variables that a loop carries are those its body stores that have a value before it:

    for i in range(n):       %acc = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %start) -> (tensor<8xf32>) {
        acc += x         →       %0 = arith.addf %acc, %x
                                 scf.yield %0
                             }

Compile-time values are carried only if the body really changes them, which is known after one evaluation of it.
`tl.static_range` is unrolled here.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from tilewright import language as tl
from tilewright.frontends import hir
from tilewright.frontends.errors import (
    BoundNotConstant,
    BoundNotInteger,
    BoundNotScalar,
    NotIterable,
    TooManyIterations,
)
from tilewright.frontends.evaluate.branches import run_unless_left
from tilewright.frontends.evaluate.carried import Carried, Iteration, forget, run_while, settle
from tilewright.frontends.evaluate.frame import discard
from tilewright.frontends.evaluate.tiles import TileFrame, hints, known
from tilewright.ir.attributes import Attribute, FileLocation
from tilewright.ir.core import Block, Op, Region
from tilewright.language.python_code import UnsupportedSyntax
from tilewright.language.values import at_run_time, describe, set_name
from tilewright.semantics.arithmetic import add, logical_and, logical_not, sub
from tilewright.semantics.casting import cast
from tilewright.semantics.comparison import compare
from tilewright.semantics.constexpr import unwrap
from tilewright.semantics.promotion import dtype_of_number, promote
from tilewright.semantics.tile import Tile, constant
from tilewright.semantics.types import dtype, int1


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

    def iteration(carried: Carried) -> Iteration | None:
        with frame.region(Block((kind.ir, *carried.types))) as block:
            induction_variable, *arguments = block.args
            carried.bind(frame, arguments)
            counter = Tile.concrete(induction_variable, kind)
            frame.mark(step.location)
            frame.names[step.target] = _mirrored(low, high, counter) if backwards else counter
            set_name(frame.names[step.target], step.target)
            frame.run(step.body)
            if step.left and frame.names[step.left] is not False:
                discard(block)
                return None
            return Iteration((block,), 1, frame.names, (carried.yielded(frame, step.body, step.location),))

    stores = tuple(name for name in step.body.stores if name != step.target)
    carried, found = settle(frame, stores, step.location, iteration)
    if found is None:
        _left_early(frame, step, bounds, Counting(low, high, stride, backwards))
        return
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


class Counting(NamedTuple):
    """The bounds of a counted loop as scalars, with a positive step; `backwards`: it runs from `high` down to `low`."""

    low: Tile
    high: Tile
    stride: Tile
    backwards: bool

    def begins(self) -> Tile:
        """Whether there is an iteration: none where the step turns out not to be positive at run time."""
        zero = constant(0, self.stride.dtype)
        return logical_and(compare("<", self.low, self.high), compare("<", zero, self.stride))

    def at(self, counter: Tile) -> Tile:
        """The loop variable in the iteration that counts up to `counter`."""
        return _mirrored(self.low, self.high, counter) if self.backwards else counter

    def goes_on_after(self, counter: Tile) -> Tile:
        """Whether another iteration follows: the unsigned distance to the end is larger than the step."""
        kind = self.high.dtype
        unsigned = dtype(f"uint{kind.primitive_bitwidth}")
        distance = sub(self.high, counter, sanitize_overflow=False)
        return compare("<", *(Tile.concrete(tile.handle, unsigned) for tile in (self.stride, distance)))


def _left_early(frame: TileFrame, step: hir.For, bounds: tl.range, counting: Counting) -> None:
    """A counted loop that may be left at run time, as an scf.while.

    for i in range(n):           %i = 0, %going = 0 < n
        …; break; …        →     while %going: i = %i; …; %going = not left and n - %i > 1; %i += 1
    """
    names, counter, going = frame.names, f"counter of {step.left}", f"going of {step.left}"
    names[counter], names[going] = counting.low, counting.begins()
    names[step.left] = constant(False, int1)
    names.setdefault(step.target, counting.at(counting.low))

    def test() -> tuple[Tile, dict[str, Attribute]]:
        return frame.names[going], hints(bounds)

    def body() -> None:
        count = frame.names[counter]
        frame.mark(step.location)
        frame.names[step.target] = counting.at(count)
        set_name(frame.names[step.target], step.target)
        frame.run(step.body)
        frame.mark(step.location)
        stays = logical_not(at_run_time(frame.names[step.left]))
        frame.names[going] = logical_and(stays, counting.goes_on_after(count))
        frame.names[counter] = add(count, counting.stride, sanitize_overflow=False)

    stores = (going, counter, step.target, *step.body.stores)
    run_while(frame, stores, (step.body, step.body), step.location, test, body)
    del frame.names[counter], frame.names[going]


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
    stores = (step.target, *step.body.stores)
    for item in items:
        iteration = partial(_iteration, frame, step, item)
        if not run_unless_left(frame, step.left, stores, step.location, iteration):
            break


def _iteration(frame: TileFrame, step: hir.For, item: int) -> None:
    frame.names[step.target] = item
    frame.run(step.body)


def _static_items(frame: TileFrame, bounds: tl.static_range, location: FileLocation) -> range:
    limits = [known(frame, unwrap(limit)) for limit in (bounds.start, bounds.end, bounds.step)]
    loop = "tl.static_range"
    for which, limit in zip(("start", "end", "step"), limits, strict=True):
        if isinstance(limit, bool) or not isinstance(limit, int):
            raise frame.fail(BoundNotConstant(which, describe(limit), loop), location)
    iterations = range(*limits)
    if len(iterations) > MAX_ITERATIONS:
        raise frame.fail(TooManyIterations(loop, len(iterations), MAX_ITERATIONS), location)
    return iterations


MAX_ITERATIONS = 1 << 16
"""Max trip count of an unrolled loop."""
