"""Branches and loops on elements.

    x and y                  %0 = arith.cmpf une, %x, %zero; %1 = scf.if %0 -> (f32) { yield %y } else { yield %x }
    for i in range(n)    →   scf.while with a counter            range(4) is unrolled, so `i` is known

The results of the two sides of a branch, and the values carried by a loop, get their common kind.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from tilewright.frontends import hir
from tilewright.frontends.errors import BoundNotInteger
from tilewright.frontends.evaluate.branches import Merge, evaluate_side, run_unless_left, unless_left
from tilewright.frontends.evaluate.carried import run_while
from tilewright.frontends.evaluate.continuations import Side
from tilewright.ir.attributes import Attribute
from tilewright.ir.core import Block
from tilewright.semantics.constexpr import unwrap
from tilewright.support.diagnostics import StaticAssertionFailed
from tilewright.vectorizing.arithmetic import compare
from tilewright.vectorizing.casting import cast, describe, kind_of
from tilewright.vectorizing.domain import Bounds, ElementFrame
from tilewright.vectorizing.element import Element, check, constant, emit, is_exact
from tilewright.vectorizing.errors import ASK_PYTHON
from tilewright.vectorizing.kinds import BOOL, WEAK_INT, promote

MAX_ITERATIONS, MAX_NESTED_ITERATIONS = 32, 256
"""Max trip count of a loop to unroll, alone and multiplied by those around it."""


def short_circuit(frame: ElementFrame, step: hir.ShortCircuit) -> None:
    """`a and b`: b where a is true, else a; `a or b` the other way round."""
    left = frame.values[step.left]
    test = frame.domain.condition(frame, left, step.location)
    if not isinstance(test, Element):
        is_left = test is not step.conjunction
        frame.values[step.result] = left if is_left else frame.valued(step.right, step.right_value)
        return
    right = evaluate_side(frame, step.right, step.right_value)
    same = Side(Block(), frame.names, frame.lost, left)
    then, orelse = (right, same) if step.conjunction else (same, right)
    merge = Merge(frame, then, orelse, step.location)
    merge.add("… and …" if step.conjunction else "… or …", then.value, orelse.value)
    frame.values[step.result] = merge.rebind(test, step.right.stores)[0]


def check_assertion(frame: ElementFrame, step: hir.Assert) -> None:
    """`assert`."""
    test = frame.domain.condition(frame, frame.values[step.test], step.location)
    if test is True:
        return
    message = frame.valued(step.message, step.message_value)
    if not isinstance(test, Element):
        raise frame.fail(StaticAssertionFailed(str(message)), step.location)
    frame.mark(step.location)
    check(test, ASK_PYTHON if is_exact() else f"assert {message}")


def bounds(*limits: Any) -> Any:
    """`range(…)`."""
    limits = tuple(map(unwrap, limits))
    if not any(isinstance(limit, Element) for limit in limits):
        return range(*limits)
    start, stop = (0, limits[0]) if len(limits) == 1 else limits[:2]
    return Bounds(start, stop, limits[2] if len(limits) > 2 else 1)


def loop(frame: ElementFrame, step: hir.For) -> None:
    """`for`: unrolled, or a loop with a counter."""
    iterable = unwrap(frame.values[step.iterable])
    if isinstance(iterable, range) and _is_long(frame, iterable):
        iterable = Bounds(iterable.start, iterable.stop, iterable.step)
    if isinstance(iterable, Bounds):
        _counted(frame, step, iterable)
        return
    items = list(frame.domain.items(frame, iterable, step.location))
    domain = frame.domain
    before, domain.unrolled = domain.unrolled, domain.unrolled * max(1, len(items))
    stores = (step.target, *step.body.stores)
    for item in items:
        if not run_unless_left(frame, step.left, stores, step.location, partial(_iteration, frame, step, item)):
            break
    domain.unrolled = before


def _iteration(frame: ElementFrame, step: hir.For, item: Any) -> None:
    frame.names[step.target] = unwrap(item)
    frame.run(step.body)


def _is_long(frame: ElementFrame, items: range) -> bool:
    inside = len(items) * frame.domain.unrolled
    return len(items) > MAX_ITERATIONS or (len(items) > 1 and inside > MAX_NESTED_ITERATIONS)


_COUNTER = ".counter "


def _counted(frame: ElementFrame, step: hir.For, limits: Bounds) -> None:
    frame.mark(step.location)
    kinds = [kind_of(limit) for limit in limits]
    if any(kind.is_float for kind in kinds):
        raise frame.fail(BoundNotInteger(*map(describe, limits)), step.location)
    kind = promote(promote(promote(kinds[0], kinds[1]), kinds[2]), WEAK_INT)
    start, stop, stride = (cast(limit, kind) for limit in limits)
    counter = f"{_COUNTER}{step.target}"
    frame.names[counter] = start

    def test() -> tuple[Element, dict[str, Attribute]]:
        return unless_left(frame, step.left, (), step.location, lambda: (runs(), {}))

    def runs() -> Element:
        upwards = compare("lt", frame.names[counter], stop)
        if isinstance(limits.step, int):
            return upwards if limits.step > 0 else compare("gt", frame.names[counter], stop)
        zero = constant(0, kind)
        downwards = compare("gt", frame.names[counter], stop)
        counts = emit("arith.select", [compare("gt", stride, zero), upwards, downwards], BOOL)
        return emit("arith.andi", [counts, compare("ne", stride, zero)], BOOL)

    def body() -> None:
        frame.names[step.target] = frame.names[counter]
        frame.run(step.body)
        frame.names[counter] = Element(emit("arith.addi", [frame.names[counter], stride], kind).handle, kind)

    if step.left:  # then the loop variable is one of those that it carries
        frame.names.setdefault(step.target, start)
    stores = tuple(name for name in (step.target, *step.body.stores) if step.left or name != step.target)
    run_while(frame, (counter, *stores), (step.body, step.body), step.location, test, body)
    del frame.names[counter]
    if step.left:
        return
    frame.names.pop(step.target, None)
    frame.lost[step.target] = "a loop variable has no value after a loop that is not unrolled"
