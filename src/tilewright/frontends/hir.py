"""HIR: the untyped form of a Python function. Readers write it, `evaluate` turns it into TTIR.

Expressions are flattened into steps over numbered registers; every operation is a call of a Python callable;
variables stay names. A block knows which names it stores, so the values that a loop carries are known before
any type is.

    def kernel(x, n):                 r0 = load x
        acc = x * 2                   r2 = mul(r0, r1)            # r1 holds the constant 2
        for i in range(n):            store acc = r2
            acc += i                  r3 = load range; r4 = load n; r5 = r3(r4)
                                      for i in r5:                # stores acc
                                          r6 = load acc; r7 = load i; r8 = add(r6, r7); store acc = r8

A register is written by one step; `Function.initial` holds the registers at the start (constants filled in).

`break`, `continue` and `return` inside a loop are no jumps. They set variables made for this purpose, and the code
after them moves into the sides of branches that do not leave:

    for i in range(n):                bind left 1 = False
        if i == x:                    for i in r3:                # left early if `left 1` is true
            break                         if r5: leave `break`; bind left 1 = True
        f(i)                              else: f(i)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

from tilewright.ir.attributes import FileLocation

Register: TypeAlias = int

RESULT = "the result"
RETURNED = "returned early"
"""Hidden variables: what a `return` inside a loop gives, and whether one was met. Others have no blank in the name."""


def left_variable(depth: int) -> str:
    """The hidden variable that says whether the loop inside of `depth - 1` others was left early."""
    return f"left {depth}"


class Block:
    """Steps in order.

    Attributes:
        steps: what they are.
        stores: the names that they store (nested blocks included), in order of appearance.
        next: the blocks that its paths go on with.
        later: those, and the blocks that these go on with, and so on.
    """

    __slots__ = ("later", "next", "steps", "stores")

    def __init__(self, steps: tuple[Step, ...]) -> None:
        self.steps = steps
        self.stores: tuple[str, ...] = tuple(dict.fromkeys(_stored_names(steps)))
        self.next: tuple[Block, ...] = tuple(dict.fromkeys(_next_blocks(steps)))
        self.later: frozenset[Block] = frozenset(self.next).union(*(block.later for block in self.next))


class Operate(NamedTuple):
    """result = function(*operands), with a function known to the reader (`operator.add`, `getattr`)."""

    result: Register
    function: Callable[..., Any]
    operands: tuple[Register, ...]
    location: FileLocation


class Call(NamedTuple):
    """result = callee(*arguments, **keywords).

    `starred` are the positions of `*argument`s; a keyword None is `**`. Where the program drops the result, `unused` is
    how it writes the callee.
    """

    result: Register
    callee: Register
    arguments: tuple[Register, ...]
    starred: frozenset[int]
    keywords: tuple[tuple[str | None, Register], ...]
    location: FileLocation
    unused: str = ""


class Load(NamedTuple):
    """result = the variable `name`."""

    result: Register
    name: str
    location: FileLocation


class Store(NamedTuple):
    """The variable `name` = value.

    Attributes:
        constant: the program says `name: tl.constexpr`.
        location: of the name.
        new: it says so here, so there is no such variable yet.
    """

    name: str
    value: Register
    constant: bool
    location: FileLocation
    new: bool = False


class Bind(NamedTuple):
    """The variable `name` = value, as it is: what `for` and comprehensions do to their targets."""

    name: str
    value: Register
    location: FileLocation


class Delete(NamedTuple):
    """Forget the variable `name`."""

    name: str
    location: FileLocation


class Unpack(NamedTuple):
    """results = the items of the tuple `value`; the result number `star` (or none: -1) takes the surplus."""

    results: tuple[Register, ...]
    star: int
    value: Register
    location: FileLocation


class Choose(NamedTuple):
    """result = then_value if test else else_value; only the chosen block is evaluated."""

    result: Register
    test: Register
    then: Block
    then_value: Register
    orelse: Block
    else_value: Register
    location: FileLocation


class ShortCircuit(NamedTuple):
    """result = left and right (`conjunction`), or left or right."""

    result: Register
    conjunction: bool
    left: Register
    right: Block
    right_value: Register
    location: FileLocation


class Collect(NamedTuple):
    """result = tuple of `value` for each item of `iterable` that passes all `filters`; `target` binds the item."""

    result: Register
    item: Register
    iterable: Register
    target: Block
    filters: tuple[tuple[Block, Register], ...]
    body: Block
    value: Register
    location: FileLocation


class If(NamedTuple):
    """`tail`: nothing follows, both sides end the function (a side that does not return, returns None)."""

    test: Register
    then: Block
    orelse: Block
    tail: bool
    location: FileLocation


class Continue(NamedTuple):
    """Go on with the steps of `block`, which several sides of branches may share; the last step of its block."""

    block: Block
    location: FileLocation


class For(NamedTuple):
    """`for target in iterable: body`; no iteration follows one that made the variable `left` (if any) true."""

    target: str
    iterable: Register
    body: Block
    location: FileLocation
    left: str = ""


class While(NamedTuple):
    """`while test_value: body`, where the block `test` computes test_value each time; `left` as in `For`."""

    test: Block
    test_value: Register
    body: Block
    location: FileLocation
    left: str = ""


class Leave(NamedTuple):
    """Here the program leaves a loop or its iteration early, by `what`: `break`, `continue`, `return`."""

    what: str
    location: FileLocation


class Return(NamedTuple):
    """`return value`; the last step of its block."""

    value: Register
    location: FileLocation


class Refuse(NamedTuple):
    """A statement that no path of a kernel may reach, such as `raise` on a side that a constant rules out."""

    what: str
    location: FileLocation


class Assert(NamedTuple):
    """`assert test, message`."""

    test: Register
    message: Block
    message_value: Register
    location: FileLocation


Step: TypeAlias = (
    Operate
    | Call
    | Load
    | Store
    | Bind
    | Delete
    | Unpack
    | Choose
    | ShortCircuit
    | Collect
    | If
    | Continue
    | For
    | While
    | Leave
    | Return
    | Refuse
    | Assert
)


class Parameter(NamedTuple):
    """One parameter as declared. `variadic`: it is the `*name` one; `keyword_only`: it follows it."""

    name: str
    constant: bool
    variadic: bool
    keyword_only: bool
    location: FileLocation


class Function(NamedTuple):
    """One Python function; `python` is the function itself, for its globals, closure and defaults.

    `annotated`: the reader could see which stores say `name: tl.constexpr = …`.
    """

    name: str
    parameters: tuple[Parameter, ...]
    body: Block
    initial: tuple[Any, ...]
    python: Any
    location: FileLocation
    annotated: bool = True

    def defaults(self) -> dict[str, Any]:
        """The default values that the function has now."""
        positional = [p.name for p in self.parameters if not (p.variadic or p.keyword_only)]
        values = self.python.__defaults__ or ()
        named = dict(zip(positional[len(positional) - len(values) :], values, strict=True))
        return {**named, **(self.python.__kwdefaults__ or {})}


def nested_blocks(step: Step) -> tuple[Block, ...]:
    """The blocks inside a step."""
    return tuple(field for field in step if isinstance(field, Block)) + tuple(
        block for block, _ in (step.filters if isinstance(step, Collect) else ())
    )


def walk(block: Block) -> Iterator[Step]:
    """All steps of a block, outer before inner; those that several paths go on with are met once."""
    return _walk(block, set())


def _walk(block: Block, met: set[Block]) -> Iterator[Step]:
    for step in block.steps:
        yield step
        if isinstance(step, Continue):
            if step.block in met:
                continue
            met.add(step.block)
        for inner in nested_blocks(step):
            yield from _walk(inner, met)


def _next_blocks(steps: tuple[Step, ...]) -> Iterator[Block]:
    for step in steps:
        if isinstance(step, Continue):
            yield step.block
        elif isinstance(step, If):
            yield from step.then.next
            yield from step.orelse.next


def _stored_names(steps: tuple[Step, ...]) -> Iterator[str]:
    for step in steps:
        if isinstance(step, Store):
            if not step.constant:
                yield step.name
        elif isinstance(step, Bind):
            yield step.name
        elif type(step) in _WITH_BLOCKS:
            for block in nested_blocks(step):
                yield from block.stores
            if isinstance(step, For):
                yield step.target


_WITH_BLOCKS = frozenset((Choose, ShortCircuit, If, Continue, For, While, Assert))
