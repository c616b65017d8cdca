"""Errors of reading and evaluating a Python function; their titles name the kind."""

from __future__ import annotations

from typing import ClassVar

from tilewright.support.diagnostics import Diagnostic, Exit, Limit


class NoSource(Diagnostic):
    title: ClassVar[str] = "the source of `{name}` is not available"
    label: ClassVar[str] = "looked in {file}"
    help: ClassVar[str] = 'define kernels with `def` in a file or a notebook cell, or use frontend="bytecode"'
    name: str
    file: str


class MissingFp8(Diagnostic):
    """An 8-bit float that the device has not."""

    title: ClassVar[str] = "type {name} not supported in this architecture"
    label: ClassVar[str] = "the supported fp8 dtypes are {available}"
    help: ClassVar[str] = "convert to one of these, or have it emulated: supported_fp8_dtypes={asked}"
    name: str
    available: tuple[str, ...]

    @property
    def asked(self) -> tuple[str, ...]:
        return (*self.available, self.name)


class OutsideChanged(Diagnostic):
    """A value that a function reads from outside is another one after it was traced."""

    title: ClassVar[str] = "tracing `{function}` changes `{name}`, which is not its own"
    label: ClassVar[str] = "this {kind} is not what it was before the trace"
    help: ClassVar[str] = "a trace is made once and runs often: pass values as arguments and results"
    function: str
    name: str
    kind: str


class LeakedValue(Diagnostic):
    """A tile that was kept when the trace that it belongs to had ended."""

    title: ClassVar[str] = "a value of another trace is used"
    label: ClassVar[str] = "this {type}{origin} belongs to another trace"
    help: ClassVar[str] = "pass values as arguments and results; do not keep them in globals, objects or lists"
    type: str
    origin: str


class UndefinedName(Diagnostic):
    """A name that is neither a local variable, nor a global, nor a built-in of kernels."""

    title: ClassVar[str] = "name `{name}` is not defined"
    label: ClassVar[str] = "{reason}"
    help: ClassVar[str] = "{advice}"
    name: str
    reason: str = "unknown here"
    advice: str = "define it before this line"


class GlobalNotConstant(Diagnostic):
    """A kernel reads a global that could change after compilation."""

    title: ClassVar[str] = "cannot access global variable `{name}` from within a kernel"
    label: ClassVar[str] = "it is an ordinary {kind}, whose changes a compiled kernel would not see"
    help: ClassVar[str] = "write `{name} = tl.constexpr(…)`, or pass it to the kernel as a tl.constexpr parameter"
    name: str
    kind: str


class PythonNotForKernels(Diagnostic):
    title: ClassVar[str] = "cannot access `{name}` from within a kernel"
    label: ClassVar[str] = "it is a {kind} of plain Python"
    help: ClassVar[str] = "{advice}"
    name: str
    kind: str
    advice: str


class LoopTypeChange(Diagnostic):
    title: ClassVar[str] = "loop-carried variable `{name}` changes its type"
    label: ClassVar[str] = "`{name}` is {before} before the loop and {after} after one iteration"
    help: ClassVar[str] = "give `{name}` its final type before the loop, or convert it back with .to(…) inside"
    name: str
    before: str
    after: str


class BranchTypeMismatch(Diagnostic):
    title: ClassVar[str] = "`{name}` has different types on the two sides of an `if`"
    label: ClassVar[str] = "{then} if the condition holds, {orelse} otherwise"
    help: ClassVar[str] = "convert one side with .to(…), or make the condition a tl.constexpr"
    name: str
    then: str
    orelse: str


class ChoiceTypeMismatch(BranchTypeMismatch):
    """The two values of an `if` expression on a run-time condition have different types."""


class ReturnTypeMismatch(Diagnostic):
    """Two `return`s that are chosen between at run time give different types."""

    title: ClassVar[str] = "inconsistent return types"
    label: ClassVar[str] = "{then} if the condition holds, {orelse} otherwise"
    help: ClassVar[str] = "every `return` must give values of the same types"
    then: str
    orelse: str


class KernelReturnsValue(Diagnostic):
    title: ClassVar[str] = "a kernel cannot return a value"
    label: ClassVar[str] = "returns {type}"
    help: ClassVar[str] = "write the result to memory with tl.store"
    type: str


class BadArguments(Diagnostic):
    title: ClassVar[str] = "call does not fit the parameters of `{function}`"
    label: ClassVar[str] = "{reason}"
    function: str
    reason: str


class NotCallable(Diagnostic):
    title: ClassVar[str] = "{type} cannot be called"
    label: ClassVar[str] = "this is no function"
    type: str


class NotAKernelFunction(Diagnostic):
    title: ClassVar[str] = "`{function}` cannot be called from a kernel"
    label: ClassVar[str] = "an ordinary {kind}, called with {argument}"
    help: ClassVar[str] = "decorate it with @{package}.jit, or call it with compile-time values only"
    function: str
    kind: str
    argument: str


class PythonMathematics(Diagnostic):
    """A function of Python's `math`, or one like it, is called on a run-time value."""

    title: ClassVar[str] = "`{function}` cannot compute with {argument}"
    label: ClassVar[str] = "it takes numbers that are known at compile time"
    help: ClassVar[str] = "{advice}"
    function: str
    argument: str
    advice: str


class NotIterable(Diagnostic):
    title: ClassVar[str] = "cannot iterate over {type} in a kernel"
    label: ClassVar[str] = "only over range, tl.range and tl.static_range; in a comprehension over a tuple"
    type: str


class BoundNotInteger(Diagnostic):
    title: ClassVar[str] = "bounds and step of a loop must be integers"
    label: ClassVar[str] = "they are {start}, {end} and {step}"
    start: str
    end: str
    step: str


class BoundNotScalar(Diagnostic):
    title: ClassVar[str] = "bounds and step of a loop must be scalars"
    label: ClassVar[str] = "the {which} is {type}"
    which: str
    type: str


class BoundNotConstant(Diagnostic):
    """tl.static_range, or a range in a comprehension, over values known only at run time."""

    title: ClassVar[str] = "the bounds of {loop} must be compile-time constants"
    label: ClassVar[str] = "the {which} is {type}"
    help: ClassVar[str] = "use a loop over range or tl.range, or make the bound a tl.constexpr"
    which: str
    type: str
    loop: str


class BadCondition(Diagnostic):
    title: ClassVar[str] = "{type} cannot be a condition"
    label: ClassVar[str] = "{reason}"
    type: str
    reason: str = "conditions are scalars, compile-time bools and ints, or None"


class TileAsCondition(BadCondition):
    """A tile of several elements as a condition: Triton's class for that is the one of unsupported constructs."""

    exit: ClassVar[Exit] = Exit.LIMIT


class NotCarried(Diagnostic):
    """A value that is no run-time value changes under a run-time condition or loop."""

    title: ClassVar[str] = "`{name}` cannot change {where}"
    label: ClassVar[str] = "{before} is not a run-time value"
    help: ClassVar[str] = "only tensors, numbers and tuples of them can change at run time"
    name: str
    where: str
    before: str


class WrongUnpacking(Diagnostic):
    title: ClassVar[str] = "cannot unpack {type} into {expected} variables"
    label: ClassVar[str] = "{actual}"
    type: str
    expected: str
    actual: str


class UnknownAttribute(Diagnostic):
    title: ClassVar[str] = "{owner} has no attribute `{name}`"
    label: ClassVar[str] = "unknown here"
    help: ClassVar[str] = "{advice}"
    owner: str
    name: str
    advice: str = "the reference of the language lists what there is"


class PythonRaised(Diagnostic):
    title: ClassVar[str] = "{kind}: {message}"
    label: ClassVar[str] = "while this was evaluated at compile time"
    kind: str
    message: str


class RecursionTooDeep(Limit):
    """A jit function calls itself without end (with ever new types or constants), or at run time."""

    title: ClassVar[str] = "`{function}` calls itself"
    label: ClassVar[str] = "recursion must end at compile time"
    function: str


class TraceTooLong(Limit):
    title: ClassVar[str] = "the trace does not come to an end"
    label: ClassVar[str] = "{count} values, and more of them here"
    help: ClassVar[str] = "write loops that do not depend on constants with tl.fori_loop or tl.while_loop"
    count: int


class TooManyIterations(Limit):
    title: ClassVar[str] = "{loop} has {count} iterations, each of which is compiled"
    label: ClassVar[str] = "at most {most} are"
    help: ClassVar[str] = "use a loop over range or tl.range"
    loop: str
    count: int
    most: int


class NoinlineNeedsScalars(Limit):
    title: ClassVar[str] = "`{function}` is marked noinline and can only take scalars"
    label: ClassVar[str] = "argument `{argument}` is {type}"
    function: str
    argument: str
    type: str


class ConstantRedefined(Diagnostic):
    title: ClassVar[str] = "`{name}` is already defined, and a constexpr cannot be reassigned"
    label: ClassVar[str] = "it has a value from before this line"
    help: ClassVar[str] = "choose another name; iterations of a tl.static_range may give it a value each"
    name: str
