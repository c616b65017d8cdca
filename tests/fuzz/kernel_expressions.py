"""Expressions of a wanted kind: arithmetic, comparisons, casts. Other files add productions of theirs to `PRODUCTIONS`.

    expression(draft, Kind("int8", (4, 16)), depth=2)  ->  "(v1 + v2[:, None]).to(tl.int8)"

A production gives an expression of exactly the dtype and shape asked for, or None where it has none. Results are the
same to the last bit in whatever order things are computed: what may come out as -0.0 or 0.0 gets 0.0 added, NaNs lose
their payload before anyone looks at bits, and what is only nearly the same is stored at once (`stored_nearly`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from kinds import BITS, DTYPES, EIGHTHS, FLOATS, INTEGERS, UNSIGNED, Kind, literal

COMPARISONS = ("<", "<=", "==", "!=", ">", ">=")


@dataclass
class Draft:
    """A kernel being written.

    Attributes:
        rng: makes the choices.
        scope: the variables in sight, by name.
        inputs: dtypes whose array `x_DTYPE` the kernel reads.
        outputs: by array, how many elements each program stores there.
        counted: arrays `a_DTYPE_OPERATION` of 64 elements in which lanes of all programs meet.
        shapes: the shapes that variables have.
        helpers: functions that may be called, by name: the kinds of their parameters and of the result.
        heads: the texts of functions that stand in front of the kernel.
        gpu: whether a GPU must give the same; else also what only CPUs define.
        loops: how many loops are around.
        in_helper: whether a helper is being written, which has no pointers.
        returns: what the helper returns; None in a kernel.
    """

    rng: Random
    gpu: bool = False
    scope: dict[str, Kind] = field(default_factory=dict)
    inputs: set[str] = field(default_factory=set)
    outputs: dict[str, int] = field(default_factory=dict)
    counted: set[str] = field(default_factory=set)
    shapes: list[tuple[int, ...]] = field(default_factory=lambda: [()])
    helpers: dict[str, tuple[list[Kind], Kind]] = field(default_factory=dict)
    heads: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    in_helper: bool = False
    returns: Kind | None = None
    names: int = 0
    loops: int = 0

    def name(self, prefix: str) -> str:
        """A name that is not used yet."""
        self.names += 1
        return f"{prefix}{self.names}"

    def say(self, depth: int, line: str) -> None:
        """Write a line, indented by `depth`."""
        self.lines.append("    " * depth + line)

    def variables(self, kind: Kind) -> list[str]:
        """The variables of the kind."""
        return [name for name, its in self.scope.items() if its == kind]


Production = Callable[[Draft, Kind, int], str | None]
PRODUCTIONS: list[Production] = []
LEAVES: list[Production] = []


def production(weight: int = 1) -> Callable[[Production], Production]:
    """Enter the decorated function into PRODUCTIONS, `weight` times."""

    def enter(function: Production) -> Production:
        PRODUCTIONS.extend([function] * weight)
        return function

    return enter


def leaf(weight: int = 1) -> Callable[[Production], Production]:
    """Enter the decorated function into LEAVES and PRODUCTIONS."""

    def enter(function: Production) -> Production:
        LEAVES.extend([function] * weight)
        return function

    return enter


def expression(draft: Draft, kind: Kind, depth: int) -> str:
    """An expression of the kind, of at most `depth` operations inside each other."""
    table = PRODUCTIONS if depth > 0 else LEAVES
    for _ in range(20):
        found = draft.rng.choice(table)(draft, kind, depth - 1)
        if found is not None:
            return found
    return constant(draft, kind, 0)


def scalar(draft: Draft, low: int, high: int) -> str:
    """An int32 that is only known when the kernel runs, in low ..= high, whose distance is a power of two less one."""
    return f"(({expression(draft, Kind('int32'), 1)} & {high - low}) + {low})"


def condition(draft: Draft, depth: int = 1) -> str:
    """A condition of `if` and `while`."""
    simple = [expression(draft, Kind("int1"), depth) for _ in range(3)]
    number = [expression(draft, Kind("int32"), depth) for _ in range(3)]
    forms = ("{0}", "{0}", "{0} and {1}", "{0} or not {1}", "({0} or {1}) and {2}", "not ({0} and {1})")
    chained = (f"{number[0]} < {number[1]}", f"{number[0]} <= {number[1]} < {number[2]}")
    return draft.rng.choice((*forms, *chained)).format(*simple)


def plain(draft: Draft, kind: Kind, depth: int) -> str:
    """A float without NaN and -0.0, or any integer."""
    text = expression(draft, kind, depth)
    return f"no_nan({text} + 0.0)" if kind.is_float else text


def whole(draft: Draft, kind: Kind, depth: int, limit: int = 8) -> str:
    """Floats that are small whole numbers, so that sums and products of them are exact; any integers."""
    if not kind.is_float:
        return expression(draft, kind, depth)
    wide = kind.of("float32") if kind.dtype != "float64" else kind
    limit = min(limit, max(1, 2048 // kind.size)) if kind.dtype == "float16" else limit
    return kind.cast(f"tl.floor(tl.clamp({plain(draft, wide, depth)}, -{limit}.0, {limit}.0))")


# --- leaves -----------------------------------------------------------------------------------------------------


@leaf(6)
def variable(draft: Draft, kind: Kind, depth: int) -> str | None:
    """A variable of the kind."""
    found = draft.variables(kind)
    return draft.rng.choice(found) if found else None


@leaf(3)
def cast_variable(draft: Draft, kind: Kind, depth: int) -> str | None:
    """A variable of another dtype, cast."""
    found = [name for name, its in draft.scope.items() if its.shape == kind.shape]
    if not found:
        return None
    name = draft.rng.choice(found)
    return cast_text(draft, name, draft.scope[name], kind.dtype)


@leaf(2)
def constant(draft: Draft, kind: Kind, depth: int) -> str:
    """The same number in all elements."""
    number = literal(kind.dtype, draft.rng)
    if kind.shape and draft.rng.random() < 0.1:
        return f"tl.zeros({list(kind.shape)}, tl.{kind.dtype})"
    return f"tl.full({list(kind.shape)}, {number}, tl.{kind.dtype})"


@leaf(2)
def positions(draft: Draft, kind: Kind, depth: int) -> str | None:
    """Numbers that differ from element to element."""
    if not kind.shape:
        return None
    start = draft.rng.choice((0, 0, 0, 1, 32))
    text = f"tl.arange({start}, {kind.size + start})"
    if len(kind.shape) > 1:
        text = f"tl.reshape({text}, {list(kind.shape)})"
    return cast_text(draft, text, kind.of("int32"), kind.dtype)


def cast_text(draft: Draft, text: str, kind: Kind, dtype: str) -> str:
    """`text`, which is of `kind`, in another dtype."""
    if dtype == kind.dtype:
        return text
    if dtype in EIGHTHS:
        return kind.of(dtype).cast(text)
    if kind.dtype in FLOATS and dtype not in FLOATS:
        if dtype == "int1":
            return f"({text} != 0)"
        if draft.gpu or draft.rng.random() < 0.8:
            low, high = ("0.0" if dtype in UNSIGNED else "-100.0"), "100.0"
            text = f"tl.clamp(no_nan({text}), {low}, {high})"
    return kind.of(dtype).cast(text)


# --- operations -------------------------------------------------------------------------------------------------


def operand(draft: Draft, kind: Kind, depth: int) -> str:
    """A value that broadcasts to the shape of the kind, of exactly its dtype."""
    form = draft.rng.random()
    if form < 0.65 or not kind.shape:
        return expression(draft, kind, depth)
    if form < 0.75:
        return expression(draft, Kind(kind.dtype), depth)
    shape = tuple(extent if draft.rng.random() < 0.5 else 1 for extent in kind.shape)
    cut = draft.rng.randrange(len(shape)) if draft.rng.random() < 0.3 else 0
    return expression(draft, Kind(kind.dtype, shape[cut:]), depth)


def some_dtype(draft: Draft, kind: Kind) -> str:
    """A dtype that takes part in arithmetic whose result becomes `kind`."""
    if draft.rng.random() < 0.6:
        return kind.dtype
    return draft.rng.choice(DTYPES if kind.is_float else INTEGERS)


@production(8)
def arithmetic(draft: Draft, kind: Kind, depth: int) -> str:
    """a + b and the like, of dtypes that may differ, or with a number of Python's."""
    operators = ("+", "-", "*") if kind.is_float else ("+", "-", "*", "&", "|", "^")
    left = expression(draft, kind.of(some_dtype(draft, kind)), depth)
    if draft.rng.random() < 0.2:
        right = "0.5" if kind.is_float else draft.rng.choice("123")
    else:
        right = operand(draft, kind.of(some_dtype(draft, kind)), depth)
    if draft.rng.random() < 0.3:
        left, right = right, left
    return kind.cast(f"({left} {draft.rng.choice(operators)} {right})")


@production(2)
def division(draft: Draft, kind: Kind, depth: int) -> str | None:
    """Integer division and remainder as in C, and division of floats."""
    if kind.dtype == "int1":
        return None
    left, right = expression(draft, kind, depth), operand(draft, kind, depth)
    if not kind.is_float:
        if draft.gpu or draft.rng.random() < 0.9:
            right = f"({right} | 1)"
        return kind.cast(f"({left} {draft.rng.choice(('//', '%'))} {right})")
    if draft.rng.random() < 0.2 and not draft.gpu:
        return kind.cast(f"({left} % {right})")
    quotient = f"tl.div_rn({left}, {right})" if kind.dtype == "float32" else f"({left} / {right})"
    return kind.cast(quotient) if not draft.gpu else None


@production(2)
def shift(draft: Draft, kind: Kind, depth: int) -> str | None:
    """Shifts, by less than the width."""
    if kind.dtype not in INTEGERS:
        return None
    amount = f"({operand(draft, kind, depth)} & {BITS[kind.dtype] - 1})"
    return kind.cast(f"({expression(draft, kind, depth)} {draft.rng.choice(('<<', '>>'))} {amount})")


@production(2)
def unary(draft: Draft, kind: Kind, depth: int) -> str:
    """One operand."""
    text = expression(draft, kind, depth)
    forms: tuple[str, ...] = ("-{}", "~{}", "tl.abs({})")
    if kind.dtype == "int1":
        forms = ("~{}", "({} == 0)")
    elif kind.is_float:
        forms = ("-{}", "tl.abs({})")
        if kind.dtype in ("float32", "float64"):
            forms += ("tl.floor({})", "tl.ceil({})")
            forms += ("tl.sqrt_rn({})",) if kind.dtype == "float32" else ()
    return kind.cast(draft.rng.choice(forms).format(f"({text})"))


@production(3)
def comparison(draft: Draft, kind: Kind, depth: int) -> str | None:
    """A comparison, cast to the kind if that is no condition."""
    if kind.dtype != "int1" and draft.rng.random() < 0.7:
        return None
    dtype = draft.rng.choice(DTYPES)
    other = draft.rng.choice(DTYPES) if draft.rng.random() < 0.3 else dtype
    left = expression(draft, kind.of(dtype), depth)
    right = operand(draft, kind.of(other), depth)
    return kind.cast(f"({left} {draft.rng.choice(COMPARISONS)} {right})")


@production(3)
def where(draft: Draft, kind: Kind, depth: int) -> str:
    """tl.where of operands that may have to be broadcast."""
    test = operand(draft, kind.of("int1"), depth)
    return kind.cast(f"tl.where({test}, {expression(draft, kind, depth)}, {operand(draft, kind, depth)})")


@production(3)
def extremum(draft: Draft, kind: Kind, depth: int) -> str | None:
    """Minimum, maximum, clamp."""
    if kind.dtype == "int1":
        return None
    nan = draft.rng.choice(("", "", ", propagate_nan=tl.PropagateNan.ALL")) if kind.is_float else ""
    left, right = expression(draft, kind, depth), operand(draft, kind, depth)
    if draft.rng.random() < 0.3 and kind.is_float:
        a, b = sorted(draft.rng.sample((-7, -1, 0, 2, 50), 2))
        return kind.cast(f"tl.clamp({left}, {a}.0, {b}.0{nan})")
    return kind.cast(f"tl.{draft.rng.choice(('minimum', 'maximum'))}({left}, {right}{nan})")


@production(2)
def cast(draft: Draft, kind: Kind, depth: int) -> str:
    """Another dtype, cast; also through fp8."""
    dtype = draft.rng.choice(DTYPES)
    text = expression(draft, kind.of(dtype), depth)
    if kind.is_float and dtype in FLOATS and draft.rng.random() < 0.3:
        eighth = draft.rng.choice(EIGHTHS)
        if draft.gpu and eighth == "float8e4nv":
            eighth = "float8e5"
        return kind.cast(f"({text}).to(tl.{eighth})")
    if kind.dtype == "float16" and dtype == "float32" and draft.rng.random() < 0.3:
        return f"tl.cast({text}, tl.float16, fp_downcast_rounding='rtz')"
    return cast_text(draft, text, kind.of(dtype), kind.dtype)


@production(1)
def bitcast(draft: Draft, kind: Kind, depth: int) -> str | None:
    """The same bits, read as another dtype."""
    same = [dtype for dtype in DTYPES if BITS[dtype] == BITS[kind.dtype] and dtype != kind.dtype]
    if not same:
        return None
    source = kind.of(draft.rng.choice(same))
    text = plain(draft, source, depth)
    return f"tl.cast({text}, tl.{kind.dtype}, bitcast=True)"


@production(1)
def fused(draft: Draft, kind: Kind, depth: int) -> str | None:
    """Three operands: fused multiply-add, the high half of a product."""
    if kind.dtype in ("int32", "int64", "uint32", "uint64"):
        unsigned = kind.of("u" + kind.dtype.removeprefix("u"))
        a, b = expression(draft, unsigned, depth), expression(draft, unsigned, depth)
        return kind.cast(f"tl.umulhi({a}, {b})")
    if kind.dtype not in ("float32", "float64"):
        return None
    a, b, c = (expression(draft, kind, depth) for _ in range(3))
    return f"tl.fma({a}, {b}, {c})"


@production(1)
def chosen(draft: Draft, kind: Kind, depth: int) -> str | None:
    """A conditional expression of Python's."""
    test = condition(draft, 0)
    return f"({expression(draft, kind, depth)} if {test} else {expression(draft, kind, depth)})"


@production(3)
def called(draft: Draft, kind: Kind, depth: int) -> str | None:
    """A call of a function of the program's own."""
    fitting = [name for name, (_, result) in draft.helpers.items() if result == kind]
    if not fitting:
        return None
    name = draft.rng.choice(fitting)
    arguments = [expression(draft, parameter, depth) for parameter in draft.helpers[name][0]]
    return f"{name}({', '.join(arguments)})"
