"""Steps with the same meaning in every domain."""

from __future__ import annotations

from typing import Any

from tilewright.frontends import hir
from tilewright.frontends.evaluate.continuations import postpone
from tilewright.frontends.evaluate.frame import Frame
from tilewright.frontends.operations import Method
from tilewright.semantics.constexpr import unwrap


def load(frame: Frame[Any], step: hir.Load) -> None:
    """result = the variable."""
    name = step.name
    for known in (frame.names, frame.outer):
        if name in known:
            frame.values[step.result] = known[name]
            return
    frame.values[step.result] = frame.domain.outside(frame, name, step.location)


def bind(frame: Frame[Any], step: hir.Bind | hir.Store) -> None:
    """The variable = value, as it is."""
    frame.names[step.name] = frame.values[step.value]


def collect(frame: Frame[Any], step: hir.Collect) -> None:
    """A list comprehension over a tuple."""
    domain, location = frame.domain, step.location
    items = domain.items(frame, frame.values[step.iterable], location)
    hidden = {name: frame.names[name] for name in step.target.stores if name in frame.names}
    collected = []
    for item in items:
        frame.values[step.item] = unwrap(item)
        frame.run(step.target)
        if all(domain.holds(frame, frame.valued(block, register), location) for block, register in step.filters):
            collected.append(frame.valued(step.body, step.value))
    for name in step.target.stores:
        frame.names.pop(name, None)
    frame.names.update(hidden)
    frame.values[step.result] = tuple(collected)


def give_back(frame: Frame[Any], step: hir.Return) -> None:
    """`return value`: the last step on its path."""
    frame.result = frame.values[step.value]


def go_on(frame: Frame[Any], step: hir.Continue) -> None:
    """Go on with the steps that several paths share, now or behind the branches that lead to them."""
    if step.block in frame.postponed:
        postpone(frame, frame.postponed[step.block])
    else:
        frame.run(step.block)


def call_parts(frame: Frame[Any], step: hir.Call) -> tuple[Any, list[Any], dict[str, Any]]:
    """The function that a step calls, the arguments by position, and those by name."""
    values = frame.values
    callee: Any = values[step.callee]
    arguments = [values[register] for register in step.arguments]
    if step.starred:
        arguments = _spread(arguments, step.starred)
    keywords: dict[str, Any] = {}
    for name, register in step.keywords:
        if name is None:
            keywords.update(values[register])
        else:
            keywords[name] = values[register]
    if isinstance(callee, Method):
        arguments.insert(0, callee.owner)
        callee = callee.function
    return callee, arguments, keywords


def _spread(arguments: list[Any], starred: frozenset[int]) -> list[Any]:
    """The arguments with the `*starred` ones replaced by their items."""
    spread: list[Any] = []
    for number, value in enumerate(arguments):
        if number in starred:
            spread.extend(unwrap(item) for item in value)
        else:
            spread.append(value)
    return spread
