"""One evaluation of one function: its variables, its registers, and where its ops go."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FunctionType
from typing import Any, ClassVar, NamedTuple

from tilewright.frontends import hir
from tilewright.frontends.evaluate.explain import as_compilation_error
from tilewright.frontends.python_function import globals_of
from tilewright.ir.attributes import CallLocation, FileLocation, Location
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block
from tilewright.ir.spans import span_of
from tilewright.support.diagnostics import CompilationError, Diagnostic, InternalError, located

Reader = Callable[[FunctionType], hir.Function]


class Evaluation(NamedTuple):
    """The state that the frames of one evaluation share.

    Attributes:
        emitter: where ops go.
        read: reads (or remembers) the HIR of a Python function.
        handlers: what to do, per class of step.
    """

    emitter: Builder
    read: Reader
    handlers: Mapping[type, Callable[[Frame, Any], None]]


class Frame:
    """Evaluates one function.

    Attributes:
        names, values: variables and registers.
        lost: variables that have no value any more, and why.
        result: what `return` gave, or NOT_RETURNED.
        unrolled: how many turns the loops around have together, where they are unrolled.
    """

    NOT_RETURNED: ClassVar[Any] = object()

    __slots__ = (
        "caller",
        "depth",
        "emitter",
        "evaluation",
        "function",
        "lost",
        "names",
        "outer",
        "result",
        "unrolled",
        "values",
    )

    def __init__(
        self, evaluation: Evaluation, function: hir.Function, names: dict[str, Any], outside: Frame | None = None
    ) -> None:
        self.evaluation = evaluation
        self.function = function
        self.names = names
        self.emitter = evaluation.emitter
        self.caller: Location | None = None if outside is None else self.emitter.location
        self.depth: int = 0 if outside is None else outside.depth + 1
        self.values: list[Any] = list(function.initial)
        self.lost: dict[str, str] = {}
        self.outer = globals_of(function.python)
        self.result: Any = self.NOT_RETURNED
        self.unrolled: int = 1 if outside is None else outside.unrolled

    def evaluate(self) -> Any:
        """Evaluate the whole function; what it returns."""
        self.run(self.function.body)
        return None if self.result is self.NOT_RETURNED else self.result

    def run(self, block: hir.Block) -> None:
        """Evaluate the steps of a block."""
        for step in block.steps:
            try:
                self.evaluation.handlers[step.__class__](self, step)
            except (CompilationError, InternalError):
                raise
            except Exception as error:
                name = getattr(self.values[step.callee], "__name__", "") if isinstance(step, hir.Call) else ""
                raise as_compilation_error(error, step.location, str(name)) from error

    def valued(self, block: hir.Block, register: hir.Register) -> Any:
        """Evaluate a block; the register that it computes."""
        self.run(block)
        return self.values[register]

    def mark(self, location: FileLocation) -> None:
        """The next ops come from `location`."""
        self.emitter.location = location if self.caller is None else CallLocation(location, self.caller)

    def fail(self, diagnostic: Diagnostic, location: FileLocation) -> CompilationError:
        """The exception for a mistake at `location`."""
        return located(diagnostic, span_of(location))

    @contextmanager
    def region(self, *types: Any) -> Iterator[Block]:
        """Send ops to a new block until the end of the `with`; variables assigned meanwhile are forgotten after."""
        block = Block(types)
        names, self.names = self.names, dict(self.names)
        try:
            with self.emitter.recording(block):
                yield block
        finally:
            self.names = names
