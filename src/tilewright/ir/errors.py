"""Errors of IR: text that cannot be parsed, and ops that violate a rule."""

from __future__ import annotations

from tilewright.ir.attributes import UNKNOWN, CallLocation, FileLocation, FusedLocation, Location, NameLocation
from tilewright.ir.core import Op


class VerificationError(Exception):
    """An op breaks a rule of its kind, or of SSA form.

    Attributes:
        op: the op.
        rule: what should hold, and what does not.
        stage: the pass after which it was noticed; empty outside a pipeline.
    """

    def __init__(self, op: Op, rule: str, stage: str = "") -> None:
        super().__init__(op, rule, stage)
        self.op = op
        self.rule = rule
        self.stage = stage

    def __str__(self) -> str:
        after = f"after pass {self.stage}: " if self.stage else ""
        return f"{after}{self.op.name}: {self.rule}\n  in: {summary(self.op)}{place(self.op)}"


class ParseError(Exception):
    """Text that cannot be parsed as IR.

    Attributes:
        problem: what was expected and what stands found.
        file, line, column: where; both numbers start at 1.
        source: the line of text.
    """

    def __init__(self, problem: str, file: str, line: int, column: int, source: str) -> None:
        super().__init__(problem, file, line, column, source)
        self.problem = problem
        self.file = file
        self.line = line
        self.column = column
        self.source = source

    def __str__(self) -> str:
        marker = "".join("\t" if character == "\t" else " " for character in self.source[: self.column - 1]) + "^"
        return f"{self.file}:{self.line}:{self.column}: {self.problem}\n{self.source}\n{marker}"


def require(condition: object, op: Op, rule: str) -> None:
    """Raise VerificationError about `op` unless `condition` holds."""
    if not condition:
        raise VerificationError(op, rule)


def summary(op: Op) -> str:
    """One line about `op`: its name with the types it takes and gives."""
    operands = ", ".join(f"%{v.name or '?'}: {v.type.text}" for v in op.operands)
    results = ", ".join(v.type.text for v in op.results)
    return f"{op.name}({operands}) -> ({results})"


def place(op: Op) -> str:
    """` at file:line:column` where the op comes from; empty when unknown."""
    location = source_of(op.location)
    return f"\n  at: {location.file}:{location.line}:{location.column}" if location.line else ""


def source_of(location: Location) -> FileLocation:
    """The innermost source position of `location`; UNKNOWN if there is none."""
    match location:
        case FileLocation():
            return location
        case NameLocation(child=child):
            return source_of(child)
        case CallLocation(callee=callee):
            return source_of(callee)
        case FusedLocation(locations=locations):
            places = [source_of(part) for part in locations]
            return next((part for part in places if part.line), UNKNOWN)


def counted(number: int, noun: str) -> str:
    """`1 operand`, `2 operands`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
