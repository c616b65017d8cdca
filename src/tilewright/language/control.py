"""Control flow as functions: `if`, `for` and `while` on run-time values, for front ends that cannot see Python's own.

    tl.cond(n > 0, lambda x: x + 1, lambda x: x * 2, x)
    tl.fori_loop(0, n, lambda i, total: total + tl.load(ptr + i), 0.0)
    tl.while_loop(lambda x: x > 1, lambda x: x // 2, x)
    tl.scan(lambda total, x: (total + x, total), 0, (a, b, c))          total of all, and the totals before each

Traced kernels need them; they mean the same everywhere else. The functions may be `@jit` functions or, where Python
runs them (traced and interpreted kernels), any callable. They carry a value or a tuple of values, of the same types in
every iteration. Names and arguments are those of JAX's `lax`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tilewright.ir.core import Block, Op, Region, Value
from tilewright.language.values import Structure, at_run_time, describe, flatten, rebuild, same_structure
from tilewright.semantics.active import active, call_function
from tilewright.semantics.arithmetic import to_bool
from tilewright.semantics.casting import cast
from tilewright.semantics.constexpr import unwrap
from tilewright.semantics.errors import CarryChanges, MustBeConstant, NotInteger, SidesDiffer
from tilewright.semantics.promotion import dtype_of_number, promote
from tilewright.semantics.shapes import reshape
from tilewright.semantics.tile import Tile, constant
from tilewright.semantics.types import dtype
from tilewright.support.diagnostics import SemanticError

Function = Callable[..., Any]


def cond(test: Any, true_fun: Function, false_fun: Function, *operands: Any) -> Any:
    """`true_fun(*operands)` where `test` holds, else `false_fun(*operands)`; the other one is not run.

    Args:
        test: a scalar, or a compile-time value.
        true_fun, false_fun: return values of the same types.
        operands: passed to the function that is run.

    Returns: what the function returns.

    Raises:
        CompilationError: the types of the two results differ.
    """
    known = _known(test)
    if known is not None:
        return _call(true_fun if known else false_fun, operands)
    flag = _test(test)
    sides = [_region((), partial(_call, side, operands)) for side in (true_fun, false_fun)]
    yields = [side.yielded() for side in sides]
    if not same_structure(sides[0].layout, sides[1].layout):
        raise SemanticError(SidesDiffer(*(describe(side.value) for side in sides)))
    for side, handles in zip(sides, yields, strict=True):
        side.end("scf.yield", handles)
    is_empty = not yields[0] and sides[1].block.first is sides[1].block.last
    regions = [Region([sides[0].block]), Region([] if is_empty else [sides[1].block])]
    types = [handle.type for handle in yields[0]]
    return rebuild(sides[0].layout, iter(active().emit("scf.if", [flag.handle], types, None, regions)))


def fori_loop(lower: Any, upper: Any, body_fun: Function, init_val: Any) -> Any:
    """`for i in range(lower, upper): value = body_fun(i, value)`.

    Args:
        lower, upper: integers, at run time or compile time.
        body_fun: takes the counter and the value, returns the next value, of the same type.
        init_val: the first value: a number, a tile, or a tuple of them.

    Returns: the last value.

    Raises:
        CompilationError: the value changes its type.
    """
    low, high, kind = _bounds(unwrap(lower), unwrap(upper))
    if active().runs_now:
        value = init_val
        for counter in range(int(low), int(high)):
            value = _call(body_fun, (constant(counter, kind), value))
        return value
    handles: list[Value] = []
    first = at_run_time(init_val)
    layout = flatten(first, handles)
    types = [handle.type for handle in handles]

    def iteration(counter: Value, *carried: Value) -> Any:
        return _call(body_fun, (Tile.concrete(counter, kind), rebuild(layout, iter(carried))))

    body = _region((kind.ir, *types), iteration)
    body.end("scf.yield", _checked(body, layout, first))
    operands = [low.handle, high.handle, constant(1, kind).handle, *handles]
    return rebuild(layout, iter(active().emit("scf.for", operands, types, None, [Region([body.block])])))


def while_loop(cond_fun: Function, body_fun: Function, init_val: Any) -> Any:
    """`while cond_fun(value): value = body_fun(value)`.

    Args:
        cond_fun: takes the value, returns a scalar.
        body_fun: takes the value, returns the next value, of the same type.
        init_val: the first value: a number, a tile, or a tuple of them.

    Returns: the first value for which `cond_fun` does not hold.

    Raises:
        CompilationError: the value changes its type.
    """
    if active().runs_now:
        value = init_val
        while _call(cond_fun, (value,)):
            value = _call(body_fun, (value,))
        return value
    handles: list[Value] = []
    first = at_run_time(init_val)
    layout = flatten(first, handles)
    types = tuple(handle.type for handle in handles)
    before = _region(types, lambda *carried: _test(_call(cond_fun, (rebuild(layout, iter(carried)),))))
    before.end("scf.condition", [before.value.handle, *before.block.args])
    after = _region(types, lambda *carried: _call(body_fun, (rebuild(layout, iter(carried)),)))
    after.end("scf.yield", _checked(after, layout, first))
    regions = [Region([before.block]), Region([after.block])]
    return rebuild(layout, iter(active().emit("scf.while", handles, types, None, regions)))


def scan(f: Function, init: Any, xs: Any) -> tuple[Any, tuple[Any, ...]]:
    """`f` over the items of a compile-time sequence, passing a value on.

    Args:
        f: takes the value and an item, returns the next value and a result.
        init: the first value.
        xs: a tuple, `range` or `tl.static_range`; the iterations are unrolled.

    Returns: the last value, and the results of all iterations.

    Raises:
        CompilationError: `xs` is not known at compile time.
    """
    if isinstance(xs, Tile) or not hasattr(xs, "__iter__"):
        raise SemanticError(MustBeConstant("xs", describe(xs)))
    value, results = init, []
    for item in xs:
        value, result = _call(f, (value, item))
        results.append(result)
    return value, tuple(results)


class _Filled:
    """A block, and the value that was computed in it."""

    def __init__(self, block: Block, value: Any) -> None:
        self.block, self.value = block, value
        self.layout: Structure

    def yielded(self) -> list[Value]:
        """The SSA values inside the value, as run-time values."""
        handles: list[Value] = []
        with active().recording(self.block):
            self.value = at_run_time(self.value)
        self.layout = flatten(self.value, handles)
        return handles

    def end(self, name: str, operands: list[Value]) -> None:
        """Put the last op."""
        self.block.append(Op.create(name, operands, location=active().location))


def _region(types: Any, fill: Function) -> _Filled:
    """A block with arguments of these types, filled by `fill(*arguments)`."""
    block = Block(tuple(types))
    with active().recording(block):
        return _Filled(block, fill(*block.args))


def _checked(body: _Filled, layout: Structure, before: Any) -> list[Value]:
    """The values that an iteration yields, if they have the types of those that it got."""
    handles = body.yielded()
    if not same_structure(body.layout, layout):
        raise SemanticError(CarryChanges(describe(before), describe(body.value)))
    return handles


def _call(function: Function, arguments: tuple[Any, ...]) -> Any:
    return unwrap(call_function(unwrap(function), arguments))


def _known(test: Any) -> bool | None:
    """The truth of a condition that is known."""
    test = unwrap(test)
    if not isinstance(test, Tile):
        return bool(test)
    return bool(test) if active().runs_now else None


def _test(test: Any) -> Tile:
    """A condition as an i1 scalar."""
    test = at_run_time(unwrap(test))
    return to_bool(reshape(test, ()) if test.extents else test)


def _bounds(lower: Any, upper: Any) -> tuple[Any, Any, dtype]:
    """Both bounds as scalars of one integer type, and that type."""
    kinds = [bound.type if isinstance(bound, Tile) else dtype_of_number(bound) for bound in (lower, upper)]
    if not all(isinstance(kind, dtype) and kind.integer for kind in kinds):
        raise SemanticError(NotInteger(describe(lower), describe(upper)))
    kind = promote(*kinds)
    low, high = (cast(b, kind) if isinstance(b, Tile) else constant(b, kind) for b in (lower, upper))
    return low, high, kind
