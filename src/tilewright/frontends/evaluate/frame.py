"""One evaluation of one function: its variables, registers, insertion point, and the domain of its values.

Kernels and vectorized functions are evaluated by the same code. The domain defines operations on values that are known
only at run time: tiles (`tiles.py`, for `jit`) or elements (`vectorizing/elements.py`, for `vectorize`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import FunctionType
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from tilewright.frontends import hir
from tilewright.frontends.evaluate.explain import as_compilation_error
from tilewright.ir.attributes import Attribute, CallLocation, FileLocation, Location, span_of
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Value
from tilewright.support.diagnostics import CompilationError, Diagnostic, InternalError, located

Handler = Callable[["Frame[Any]", Any], None]
Reader = Callable[[FunctionType], hir.Function]
Structure = Any
"""How SSA values sit in a value of the program; each domain has its own leaves."""

CHOICE = "… if … else …"
"""The name, for messages, of a merged value that is not in a variable; no variable has a blank in its name."""


HERE = frozenset((0,))
"""The path goes on where the program does, as all paths of most programs."""


class Domain(Protocol):
    """The meaning of the values that are known only at run time.

    Attributes:
        handlers: what to do, per class of step.
        one_sided: the reason why a variable that one side of a branch gives a value has none after it.
    """

    handlers: Mapping[type, Handler]
    one_sided: ClassVar[str]

    def read(self, python: FunctionType, /) -> hir.Function:
        """The HIR of a Python function, read or remembered."""

    def outside(self, frame: Any, name: str, location: FileLocation) -> Any:
        """The value of a name that is no variable of the function (now)."""

    def condition(self, frame: Any, value: Any, location: FileLocation) -> Any:
        """A condition: a run-time value of type i1, or True or False."""

    def loop_condition(self, frame: Any, value: Any, location: FileLocation) -> tuple[Any, dict[str, Attribute]]:
        """The condition of a `while`, and the attributes of the loop; False if it is known never to run."""

    def items(self, frame: Any, iterable: Any, location: FileLocation) -> Any:
        """The items that a comprehension goes over."""

    def holds(self, frame: Any, value: Any, location: FileLocation) -> bool:
        """The truth of a comprehension's filter."""

    def is_fixed(self, value: Any) -> bool:
        """Whether a loop that stores this variable carries it only if the body really changes it."""

    def structure_of(self, value: Any) -> Structure:
        """The structure of a value once it is at run time."""

    def wider(self, structure: Structure, value: Any) -> Structure | None:
        """The structure that stands for `value` as well; None if there is none."""

    def handles_of(self, value: Any, structure: Structure) -> list[Value]:
        """The SSA values inside `value`, converted to the structure."""

    def rebuild(self, structure: Structure, handles: Iterator[Value], name: str = "") -> Any:
        """The value of that structure, for the variable `name`, with its SSA values taken from `handles`."""

    def check_choice(self, value: Any) -> None:
        """Raise if no expression may choose between this value and another one at run time."""

    def certain(self) -> Any:
        """True, as a condition at run time."""

    def no_return(self, frame: Any, other: Any) -> Any:
        """The value of a side that does not return, where the other side returns `other`."""

    def any_like(self, frame: Any, value: Any) -> Any:
        """A value that can be merged with this one, and that nothing will read."""

    def mismatch(self, name: str, then: Any, orelse: Any) -> Diagnostic:
        """The mistake of two values on the two sides of a branch that cannot be merged."""

    def carried_mismatch(self, frame: Any, name: str, before: Any, names: dict[str, Any]) -> Diagnostic:
        """The mistake of a variable that a loop, which leaves the variables `names`, changes into something else."""


D = TypeVar("D", bound=Domain)


class Frame(Generic[D]):
    """Evaluates one function.

    Attributes:
        domain: the meaning of run-time values, and what the frames of one program share.
        names: the variables and their values.
        values: the registers.
        declared: where the program declares its constants, by name.
        lost: variables that have no value any more, and why.
        outer: values from outside of the function that have been looked up.
        result: what `return` gave, or NOT_RETURNED.
        regions: how many run-time regions (loops, branches) surround the current step.
        copies: how many copies are made of the steps that follow, since several paths go on with them.
        postponed: the blocks of steps that are evaluated behind the branches that lead to them, with their numbers.
        going: the numbers of the blocks that the path may go on with; HERE if it may just follow the program.
        caller: where the function is called from, when its ops go straight into the caller's block.
    """

    NOT_RETURNED: ClassVar[Any] = object()
    """The result of a path that has met no `return`."""

    __slots__ = (
        "caller",
        "copies",
        "declared",
        "domain",
        "emitter",
        "function",
        "going",
        "lost",
        "names",
        "outer",
        "postponed",
        "regions",
        "result",
        "values",
    )

    def __init__(
        self,
        domain: D,
        function: hir.Function,
        emitter: Builder,
        names: dict[str, Any],
        caller: Location | None = None,
    ) -> None:
        self.domain = domain
        self.function = function
        self.emitter = emitter
        self.names = names
        self.values: list[Any] = list(function.initial)
        self.declared: dict[str, FileLocation] = {}
        self.lost: dict[str, str] = {}
        self.outer: dict[str, Any] = {}
        self.result: Any = self.NOT_RETURNED
        self.regions = 0
        self.copies = 1
        self.postponed: dict[hir.Block, int] = {}
        self.going = HERE
        self.caller = caller

    def evaluate(self) -> Any:
        """Evaluate the whole function; the value that it returns."""
        self.run(self.function.body)
        return None if self.result is self.NOT_RETURNED else self.result

    def run(self, block: hir.Block) -> None:
        """Evaluate the steps of a block."""
        handlers = self.domain.handlers
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

    def mark(self, location: FileLocation) -> None:
        """The next ops come from `location`."""
        self.emitter.location = location if self.caller is None else CallLocation(location, self.caller)

    def fail(self, diagnostic: Diagnostic, location: FileLocation) -> CompilationError:
        """The exception for a mistake at `location`."""
        return located(diagnostic, span_of(location))

    def region(self, block: Block) -> RegionOfFrame:
        """Send ops to `block`, inside an op that is about to be made, until the end of the `with`.

        Variables assigned in the meantime are forgotten at the end.
        """
        return RegionOfFrame(self, block)


class RegionOfFrame:
    """The `with` of `Frame.region`; a generator would take thrice the calls."""

    __slots__ = ("_frame", "_other")

    def __init__(self, frame: Frame[Any], block: Block) -> None:
        self._frame = frame
        self._other = dict(frame.names), block, frame.regions + 1

    def __enter__(self) -> Block:
        self._swap()
        return self._frame.emitter.block

    def __exit__(self, *_error: object) -> None:
        self._swap()

    def _swap(self) -> None:
        frame, (names, block, regions) = self._frame, self._other
        self._other = frame.names, frame.emitter.block, frame.regions
        frame.names, frame.emitter.block, frame.regions = names, block, regions


def _function_called(frame: Frame[Any], step: hir.Step) -> str:
    """The name of what the step calls, for messages about its arguments."""
    if isinstance(step, hir.Call):
        return str(getattr(frame.values[step.callee], "__name__", ""))
    return ""


def discard(block: Block) -> None:
    """Throw away the ops of a block that is not part of anything."""
    for op in block:
        op.drop_uses()
