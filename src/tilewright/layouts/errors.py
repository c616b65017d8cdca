"""Errors of layouts."""

from __future__ import annotations


class LayoutError(Exception):
    """Text that is no layout, a layout that breaks a rule of its kind, or one that does not fit a shape.

    Attributes:
        problem: what was expected and what stands found.
        offset: where in the text; None when the text as a whole is meant.
    """

    def __init__(self, problem: str, offset: int | None = None) -> None:
        super().__init__(problem, offset)
        self.problem = problem
        self.offset = offset

    def __str__(self) -> str:
        return self.problem


def demand(condition: object, problem: str) -> None:
    """Raise LayoutError about `problem` unless `condition` holds."""
    if not condition:
        raise LayoutError(problem)
