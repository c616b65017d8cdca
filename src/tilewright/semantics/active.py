"""The one context variable: the current emitter, and how functions of the program are called from inside an op.

with emitting_into(builder):
    x + y          # records arith.addf into the builder

The builder records; the eager interpreter computes at once. Semantics cannot tell these emitters apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from tilewright.support.named_tuple import NamedTuple

if TYPE_CHECKING:  # the runtime asks whether a kernel is evaluated, and does without the IR
    from tilewright.ir.attributes import Attribute, Location
    from tilewright.ir.core import Block, Region, Value
    from tilewright.ir.types import Type


class Emitter(Protocol):
    """Takes ops one at a time."""

    location: Location
    """The place where the user's program is now; the next ops get it."""

    @property
    def runs_now(self) -> bool:
        """Whether ops are executed as they are emitted."""
        ...

    def emit(
        self,
        name: str,
        operands: Sequence[Value] = (),
        result_types: Sequence[Type] = (),
        attributes: dict[str, Attribute] | None = None,
        regions: Sequence[Region] = (),
    ) -> list[Value]:
        """Add an op of kind `name` and return its results.

        Args:
            name: a declared kind of ops.
            regions: the regions, which the op takes over.
        """
        ...

    def constant(self, value: int | float, type: Type) -> Value:
        """The number `value` as a scalar, or as a splat when `type` is a tensor; equal constants may share a value."""
        ...

    def recording(self, block: Block) -> AbstractContextManager[None]:
        """Record ops at the end of `block` until the end of the `with` (also by an eager emitter)."""
        ...

    def concrete(self, value: Value) -> int | float | bool | None:
        """The run-time value of a scalar if it is already known (eager emitter), else None."""
        ...

    def region_of_calls(self, call: Callable[[list[Value]], list[Value]]) -> Region:
        """A region of a reduction, scan or map that calls back for each element (eager emitter)."""
        ...


Caller = Callable[[Any, Sequence[Any], Mapping[str, Any]], Any]


NOTHING: Mapping[str, Any] = MappingProxyType({})


class Context(NamedTuple):
    """The state that the semantics need from outside.

    Attributes:
        emitter: takes the ops.
        call: `call(function, arguments, keywords)` evaluates a `@jit` function of the user; None lets Python run the
            function on the tiles.
        debug: whether `device_assert` checks anything.
        dot_precision: how `dot` rounds fp32 operands when the program does not say.
        imprecise_sums: how many fp8 products `dot` may add with low precision when the program does not say.
        checks_overflow: whether sums, differences and products of integers assert that they fit.
        in_python: Python runs the functions of the kernel.
        capability: the compute capability of the GPU that the kernel is compiled for, 0 for anything else.
        warps: how many warps a program has there; in a worker of Gluon, how many the worker has.
        worker_warps: how many warps the worker of Gluon that is evaluated has; 0 outside of workers.
        specialized: whether a function of `gl.warp_specialize` is evaluated, be it that of a worker or the first one.
        ctas: how many CTAs a program has there.
        deprecated_fp8: 8-bit floats that `dot` warns of.
        calls_libraries: functions of libdevice are calls of NVIDIA's library, as Triton's text of Gluon has them.
        call_apart: as `call`, but the function becomes one of the module, and the call an op.
    """

    emitter: Emitter
    call: Caller | None = None
    debug: bool = False
    dot_precision: str = "tf32"
    imprecise_sums: int = 0
    checks_overflow: bool = False
    in_python: bool = False
    capability: int = 0
    warps: int = 1
    ctas: int = 1
    worker_warps: int = 0
    specialized: bool = False
    deprecated_fp8: tuple[str, ...] = ()
    calls_libraries: bool = False
    call_apart: Caller | None = None


OUTSIDE = "tl functions work only inside a kernel: put @jit on the function and launch it"
_context: ContextVar[Context] = ContextVar("context")


@contextmanager
def emitting_into(emitter: Emitter, **facts: Any) -> Iterator[Emitter]:
    """Send every operation of the language to `emitter`, with these fields of `Context`, to the end of the `with`."""
    token = _context.set(Context(emitter, **facts))
    try:
        yield emitter
    finally:
        _context.reset(token)


@contextmanager
def in_specialized(worker_warps: int = 0) -> Iterator[None]:
    """Until the end of the `with`, a function of `gl.warp_specialize` is evaluated; a worker has warps of its own."""
    here = context()
    warps = worker_warps or here.warps
    token = _context.set(here._replace(warps=warps, worker_warps=worker_warps, specialized=True))
    try:
        yield
    finally:
        _context.reset(token)


def context() -> Context:
    """The innermost context.

    Raises:
        RuntimeError: a function of the language was called outside a kernel.
    """
    try:
        return _context.get()
    except LookupError:
        raise RuntimeError(OUTSIDE) from None


def active() -> Emitter:
    """The emitter that ops go to now."""
    try:
        return _context.get().emitter
    except LookupError:
        return context().emitter


def gpu_capability() -> int:
    """The compute capability of the GPU that the kernel is compiled for; 0 for anything else, and outside kernels."""
    found = _context.get(None)
    return 0 if found is None else found.capability


def is_running() -> bool:
    """Whether a kernel is being evaluated or run in Python."""
    return _context.get(None) is not None


def is_in_python() -> bool:
    """Whether a kernel is running whose functions Python runs: it is traced or interpreted."""
    found = _context.get(None)
    return found is not None and (found.in_python or found.call is None)


def call_function(function: Any, arguments: Sequence[Any], keywords: Mapping[str, Any] = NOTHING) -> Any:
    """Run `function`, a plain callable or a `@jit` function, on values of a kernel."""
    python = getattr(function, "fn", None)
    if python is None:
        return function(*arguments, **keywords)
    call = context().call
    return python(*arguments, **keywords) if call is None else call(function, arguments, keywords)
