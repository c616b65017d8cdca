"""Machine code for a function, a form and the kinds of its arguments: from the disk cache, or compiled.

code = build(function, Request("span", (Kind("float32"), WEAK_INT), "vuv"))
code.address, code.result, code.lanes
"""

from __future__ import annotations

from typing import Any

from tilewright.backends.llvm.machine import Target, host_target
from tilewright.compiler.cache_key import CacheKey, llvm_identity
from tilewright.runtime.build import PreparationCounter, compiler_identity
from tilewright.runtime.cache.store import Entry, load, store, warn_of_damage
from tilewright.runtime.captured import CapturedFunction
from tilewright.runtime.drivers.cpu.loader import BASE_CPUS, Blob
from tilewright.runtime.errors import ArgumentError
from tilewright.runtime.lazy_imports import deferred, native_blob
from tilewright.support import knobs
from tilewright.support.executable_memory import map_code
from tilewright.support.named_tuple import NamedTuple
from tilewright.vectorizing.kinds import Kind

SCALAR, SPAN, FOLD = "scalar", "span", "fold"
"""Forms of machine code: a call with numbers, elements of arrays, a fold of one array; see `bodies.py`."""
IMAGE = "image"


class Request(NamedTuple):
    """A request for code.

    Attributes:
        form: SCALAR, SPAN or FOLD.
        kinds: of the arguments.
        pattern: how a span accesses its operands, the result last; see `bodies.py`.
        select: the last two inputs of a span are a mask and what the result had before.
    """

    form: str
    kinds: tuple[Kind, ...]
    pattern: str = ""
    select: bool = False

    @property
    def text(self) -> str:
        """A text that differs for requests that compile differently."""
        kinds = ",".join(f"{'weak ' if kind.weak else ''}{kind.name}" for kind in self.kinds)
        return f"{self.form}({kinds}){self.pattern}{'?' if self.select else ''}"


class Product(NamedTuple):
    """The result of compiling: linked code, facts, and texts of the stages."""

    image: bytes
    facts: dict[str, Any]
    texts: dict[str, str]


class Code(NamedTuple):
    """Machine code in memory.

    Attributes:
        address: of its entry.
        result: the kind of what it computes.
        lanes: elements that a span computes at once.
        checks: errors are possible, which the machine code reports.
        quick: there is so little to compute that large results are best written past the caches.
        stage: a function that gives a text by its name, `ttir`, `loops` or `llir`.
    """

    address: int
    result: Kind
    lanes: int
    checks: bool
    quick: bool
    stage: Any

    @property
    def text(self) -> dict[str, str]:
        """The TTIR, the loops over arrays and the LLVM IR."""
        return {name: self.stage(name) for name in ("ttir", "loops", "llir")}


def build(function: CapturedFunction, request: Request) -> Code:
    """The code for a request.

    Raises:
        CompilationError: the function is wrong.
    """
    PreparationCounter.count += 1
    digest = _digest(function, request)
    stored = None if knobs.compilation.always_compile else load(digest, function.fn.__name__)
    if stored is not None:
        try:
            image, facts = stored.read(IMAGE), stored.facts
            return _loaded(image, facts, lambda name: stored.read(name).decode())
        except (OSError, KeyError) as error:
            warn_of_damage(str(error))
    made: Product = compiled(function.fn, function.frontend, request)
    files = {IMAGE: made.image, **{name: text.encode() for name, text in made.texts.items()}}
    store(digest, function.fn.__name__, Entry(made.facts, files))
    return _loaded(made.image, made.facts, made.texts.__getitem__)


def current_target() -> Target:
    """The target of compilation: this machine, or the CPU that TILEWRIGHT_CPU names.

    Raises:
        ArgumentError: this machine does not have that CPU's instructions.
    """
    target = host_target(knobs.tilewright.cpu)
    if not target.runs_here():
        raise ArgumentError(f"vectorized functions for {knobs.tilewright.cpu} cannot run on this machine")
    return target


def _digest(function: CapturedFunction, request: Request) -> str:
    return CacheKey(
        function=function.cache_key,
        name=function.fn.__name__,
        signature=request.text,
        target=current_target().identity,
        options="",
        changes="vectorize",
        compiler=compiler_identity(),
        llvm=llvm_identity(),
    ).digest


def _loaded(image: bytes, facts: Any, stage: Any) -> Code:
    result = Kind(facts["result"], facts["weak"])
    return Code(
        map_code(image).address + facts["entry"], result, facts["lanes"], facts["checks"], facts["quick"], stage
    )


compiled = deferred("vectorizing.compile", "compiled")


def calls_blob(machine: str) -> Blob:
    """The native side of calls, compiled; errors as of `native_blob`."""
    return native_blob("vectorizing.native.calls", "calls_text", BASE_CPUS[machine], machine)
