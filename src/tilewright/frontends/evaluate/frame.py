"""One evaluation of one function: its variables, its registers, and where its ops go."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, ClassVar

from tilewright.frontends import hir
from tilewright.frontends.evaluate.explain import as_compilation_error
from tilewright.ir.attributes import CallLocation, FileLocation, Location
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block
from tilewright.ir.spans import span_of
from tilewright.semantics.tile import Tile
from tilewright.semantics.types import FP8_KINDS
from tilewright.support.diagnostics import CompilationError, Diagnostic, InternalError, located

Handler = Callable[["Frame", Any], None]


@dataclass(frozen=True)
class EvaluateOptions:
    """The inputs of evaluation besides the function and its parameters.

    Attributes:
        debug: device_assert and `assert` check something.
        sanitize_overflow: with `debug`, `+`, `-` and `*` of integers check that they do not overflow.
        dot_precision: how `tl.dot` rounds fp32 operands when the program does not say.
        imprecise_sums: how many fp8 products `tl.dot` may add with low precision when the program does not say.
        allow_globals: ordinary globals may be read, but for arrays; whoever compiles notices changes of them.
        capability: the compute capability of the GPU that the kernel is compiled for, 0 for anything else.
        warps: how many warps a program has there.
        fp8_kinds: the 8-bit floats that may be used.
        deprecated_fp8: those of them that `tl.dot` warns of.
    """

    debug: bool = False
    sanitize_overflow: bool = True
    dot_precision: str = "tf32"
    imprecise_sums: int = 0
    allow_globals: bool = False
    capability: int = 0
    warps: int = 1
    fp8_kinds: tuple[str, ...] = FP8_KINDS
    deprecated_fp8: tuple[str, ...] = ()


@dataclass(eq=False)
class Evaluation:
    """The state that the frames of one module share.

    Attributes:
        module: the builtin.module that gets the functions.
        read: reads (or remembers) the HIR of a Python function.
        handlers: what to do, per class of step.
        functions: the private functions so far, by what they are specialised for.
        symbols: names of functions that are taken.
        depth: how many calls deep the evaluation is.
    """

    module: Block
    options: EvaluateOptions
    read: Callable[[FunctionType], hir.Function]
    handlers: Mapping[type, Handler]
    functions: dict[Any, Any] = field(default_factory=dict)
    symbols: set[str] = field(default_factory=set)
    depth: int = 0


class Frame:
    """Evaluates one function.

    Attributes:
        names: the variables and their values.
        values: the registers.
        declared: where the program declares its constants, by name.
        lost: variables that have no value any more, and why.
        result: what `return` gave, or NOT_RETURNED.
        regions: how many run-time regions (loops, branches) surround the current step.
        caller: where the function is called from, when its ops go straight into the caller's block.
    """

    NOT_RETURNED: ClassVar[Any] = object()
    """The result of a path that has met no `return`."""

    __slots__ = (
        "caller",
        "declared",
        "emitter",
        "evaluation",
        "function",
        "lost",
        "names",
        "outer",
        "regions",
        "result",
        "values",
    )

    def __init__(
        self,
        evaluation: Evaluation,
        function: hir.Function,
        emitter: Builder,
        names: dict[str, Any],
        caller: Location | None = None,
    ) -> None:
        self.evaluation = evaluation
        self.function = function
        self.emitter = emitter
        self.names = names
        self.values: list[Any] = list(function.initial)
        self.declared: dict[str, FileLocation] = {}
        self.lost: dict[str, str] = {}
        self.outer: dict[str, Any] = {}
        self.result: Any = self.NOT_RETURNED
        self.regions = 0
        self.caller = caller

    def evaluate(self) -> Any:
        """Evaluate the whole function; the value that it returns."""
        self.run(self.function.body)
        return None if self.result is self.NOT_RETURNED else self.result

    def run(self, block: hir.Block) -> None:
        """Evaluate the steps of a block."""
        handlers = self.evaluation.handlers
        step: hir.Step | None = None
        try:
            for step in block.steps:
                handlers[step.__class__](self, step)
        except (CompilationError, InternalError):
            raise
        except Exception as error:
            assert step is not None, "an empty block raises nothing"
            raise as_compilation_error(error, step.location, _function_called(self, step)) from error

    def valued(self, block: hir.Block, register: hir.Register) -> Any:
        """Evaluate a block; the value of the register that it computes."""
        self.run(block)
        return self.values[register]

    def known(self, value: Any) -> Any:
        """`value`, or the number that it is sure to be, in functions that see through constants."""
        if not isinstance(value, Tile) or value.extents:
            return value
        number = self.emitter.concrete(value.handle)
        return value if number is None else number

    def mark(self, location: FileLocation) -> None:
        """The next ops come from `location`."""
        self.emitter.location = location if self.caller is None else CallLocation(location, self.caller)

    def fail(self, diagnostic: Diagnostic, location: FileLocation) -> CompilationError:
        """The exception for a mistake at `location`."""
        return located(diagnostic, span_of(location))

    @contextmanager
    def region(self, arg_types: tuple[Any, ...] = ()) -> Iterator[Block]:
        """Send ops to a new block inside an op that is about to be made, until the end of the `with`.

        Variables assigned in the meantime are forgotten at the end.
        """
        block = Block(arg_types)
        names, self.names = self.names, dict(self.names)
        self.regions += 1
        try:
            with self.emitter.recording(block):
                yield block
        finally:
            self.names = names
            self.regions -= 1


def _function_called(frame: Frame, step: hir.Step) -> str:
    """The name of what the step calls, for messages about its arguments."""
    if isinstance(step, hir.Call):
        return str(getattr(frame.values[step.callee], "__name__", ""))
    return ""


def discard(block: Block) -> None:
    """Throw away the ops of a block that is not part of anything."""
    for op in block:
        op.drop_uses()
