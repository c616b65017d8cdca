"""Kernels that read and write the same memory: addresses, masks, values.

Names `p0`, `p1`, … are views of one array, which begin anywhere; `x` and `y` are arrays of their own, `g` holds
indices. Each program has a region of its own in each of them. No expression here promises that what is drawn is
defined: the interpreter that watches (`watched_run.py`) says so, and what is not is thrown away.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from random import Random

from kinds import FLOATS, Kind

Shape = tuple[int, ...]

COORDINATES = "urc"
"""The names of the indices of a tile, the last axis last: `c`, `r c`, `u r c`; behind them the tile's number."""


@dataclass(frozen=True)
class Habits:
    """The forms that a kernel has: a few of all, so that a rare one is not lost among others that hide what it does.

    Attributes:
        loads, stores: forms of addresses, as places in `LOADED` and `DISTINCT`.
        starts: what is added to addresses.
        masks: numbers that choose forms of masks.
        masked: the part of loads and stores that have a mask.
        by_value: the part of masks that depend on what was loaded.
    """

    loads: tuple[int, ...] = (0,)
    stores: tuple[int, ...] = (0,)
    starts: tuple[str, ...] = ("",)
    masks: tuple[int, ...] = (0,)
    masked: float = 0.3
    by_value: float = 0.1


@dataclass
class Draft:
    """A kernel or a helper being written.

    Attributes:
        rng: makes the choices.
        dtype: of `x`, `y` and of what is computed.
        pointers: the arrays in sight, by name, with their dtypes.
        shapes: of the tiles.
        aligned: whether pointers begin at multiples of 16 bytes, as descriptors need.
        rich: whether all kinds of statements and values are taken, not just those that most kernels have.
        rows: whether the tiles have rows of different lengths, and meet.
        sharing: the part of loads and stores that are to the array with several names; the fewer, the more does one
            pair of them decide.
        habits: the forms that this kernel has.
        tiles: the variables in sight.
        helpers: functions that may be called: the kind of the tile that each takes and gives, its pointers' dtype.
        counters: loop counters in sight.
        combines: the functions of two elements that scans call.
        depth: of the indentation.
    """

    rng: Random
    dtype: str
    pointers: dict[str, str]
    shapes: tuple[Shape, ...]
    aligned: bool = False
    rich: bool = False
    rows: bool = False
    sharing: float = 0.8
    habits: Habits = field(default_factory=lambda: Habits())
    tiles: dict[str, Kind] = field(default_factory=dict)
    helpers: dict[str, tuple[Kind, str]] = field(default_factory=dict)
    counters: list[str] = field(default_factory=list)
    combines: set[str] = field(default_factory=set)
    lines: list[str] = field(default_factory=list)
    depth: int = 1
    names: int = 0

    def name(self, prefix: str) -> str:
        """A name that is not used yet."""
        self.names += 1
        return f"{prefix}{self.names}"

    def say(self, line: str) -> None:
        """Write a line."""
        self.lines.append("    " * self.depth + line)

    def new(self, kind: Kind, text: str) -> str:
        """A new variable."""
        name = self.name("v")
        self.say(f"{name} = {text}")
        self.tiles[name] = kind
        return name

    def some(self, kind: Kind) -> str | None:
        """A variable of the kind, rather one of the last."""
        found = [name for name, its in self.tiles.items() if its == kind]
        return found[-min(self.rng.choice((1, 1, 2, 3)), len(found))] if found else None


def coordinates(draft: Draft) -> None:
    """Write the indices of the tiles: `c0 = tl.arange(0, 32)`, `i0 = c0`."""
    for number, shape in enumerate(draft.shapes):
        names = axes(number, shape)
        for axis, (name, extent) in enumerate(zip(names, shape, strict=True)):
            slices = ", ".join(":" if other == axis else "None" for other in range(len(shape)))
            draft.say(f"{name} = tl.arange(0, {extent})" + (f"[{slices}]" if len(shape) > 1 else ""))
        terms = [
            f"{name} * {prod(shape[axis + 1 :])}" if axis < len(shape) - 1 else name for axis, name in enumerate(names)
        ]
        draft.say(f"i{number} = {' + '.join(terms)}")


def axes(number: int, shape: Shape) -> list[str]:
    """The names of the indices of tile `number`."""
    return [f"{letter}{number}" for letter in COORDINATES[-len(shape) :]]


# --- addresses --------------------------------------------------------------------------------------------------


def index(draft: Draft, shape: Shape, *, distinct: bool) -> str:
    """Indices of a tile; `distinct`: no two of one tile are equal."""
    rng = draft.rng
    number = draft.shapes.index(shape)
    table, habit = (DISTINCT, draft.habits.stores) if distinct else (LOADED, draft.habits.loads)
    text = table[rng.choice(habit)](draft, number, shape)
    start = rng.choice(draft.habits.starts)
    if draft.counters and rng.random() < 0.4:
        start += f" + {rng.choice(draft.counters)} * {rng.choice((1, 1, 2, prod(shape)))}"
    elif draft.rich and rng.random() < 0.1:
        start += f" + ({scalar(draft)} & 7)"
    return text + start


def straight(draft: Draft, number: int, shape: Shape) -> str:
    """Element after element."""
    return f"i{number}"


def turned(draft: Draft, number: int, shape: Shape) -> str:
    """Backwards, by another stride, with bits turned."""
    size, rng = prod(shape), draft.rng
    back, wide = f"{size - 1} - i{number}", f"i{number} * {rng.choice((2, 3, 's', 's'))}"
    bits = f"(i{number} ^ {rng.choice((1, 2, 5, size // 2, size - 1))})"
    return rng.choice((back, wide, bits, f"(i{number} * {rng.choice((3, 5, 7))} & {size - 1})"))


def moved(draft: Draft, number: int, shape: Shape) -> str:
    """Round the corner, shuffled, in two halves."""
    size, rng = prod(shape), draft.rng
    k, i = rng.randint(1, size - 1), f"i{number}"
    forms = (
        f"(({i} + {k}) % {size})",
        f"(({i} + d) % {size})",
        f"tl.where({i} < {k}, {i}, {i} + {rng.randint(1, 9)})",
        f"tl.where({i} < {k}, {i} + {size - k}, {i} - {k})",
        f"({i} % 2 * {size // 2} + {i} // 2)",
        f"({i} // 4 * {rng.choice((4, 5, 8))} + {i} % 4)",
        f"({i} // n * {rng.choice(('n', '(n + 3)', '(n * 4)'))} + {i} % n)",
        f"({i} // n * n * s + {i} % n * s)",
        f"({i} % d * (({size} + d - 1) // d) + {i} // d)",
        f"tl.flip({i})" if len(shape) == 1 else f"tl.flip({i}, {rng.randrange(len(shape))})",
    )
    return rng.choice(forms)


def by_axes(draft: Draft, number: int, shape: Shape) -> str:
    """Rows and columns that lie otherwise than the tile's."""
    rng, names = draft.rng, axes(number, shape)
    if len(shape) == 1:
        return names[0]
    order = list(range(len(shape)))
    rng.shuffle(order)
    stride, terms = 1, []
    for axis in order:
        name = names[axis] if rng.random() < 0.8 else f"({shape[axis] - 1} - {names[axis]})"
        terms.append(f"{name} * {stride}")
        stride *= shape[axis] + (rng.choice((0, 0, 1, 3)) if len(terms) == 1 else 0)
    if draft.rows and shape[-1] == 1:
        terms = [f"{names[0]} * {rng.choice(draft.shapes)[-1]}", names[1]]
    elif rng.random() < 0.15 and len(shape) == 2:
        terms = [f"{names[0]} * (d + {shape[1]})", names[1]]
    if rng.random() < 0.15 and len(shape) == 2 and shape[0] == shape[1]:
        return f"tl.trans(i{number})"
    return f"({' + '.join(terms)})"


def gathered(draft: Draft, number: int, shape: Shape) -> str:
    """Indices out of memory: distinct ones."""
    return f"tl.load(g + i{number})" if "g" in draft.pointers else f"i{number}"


def repeated(draft: Draft, number: int, shape: Shape) -> str:
    """Indices of which some are equal."""
    size, rng, names = prod(shape), draft.rng, axes(number, shape)
    i, k = f"i{number}", rng.randint(1, size - 1)
    forms = [
        f"{i} // {rng.choice((2, 2, 3, 4, 'd', 'n'))}",
        f"{i} % {rng.choice((2, 3, 4, size // 2, 'n', 'n'))}",
        f"tl.minimum({i}, {k})",
        f"tl.minimum({i}, n)",
        f"tl.maximum({i} - {rng.choice((1, 1, 2, k))}, 0)",
        f"tl.maximum({i}, {k})",
        f"tl.where({i} < {k}, {i}, {i} - 1)",
        f"tl.where({i} < n, {i}, 0)",
        f"({i} & {rng.choice((1, 3, size - 2, size // 2))})",
        f"({i} * {rng.choice((0, 0, 2))} % {size - 1})",
    ]
    forms += [f"tl.load(g + {i} + {size})"] if "g" in draft.pointers else []
    if len(shape) > 1:
        forms += [f"({i} * 0 + {rng.choice(names)})", f"({names[0]} + {names[-1]} + {i} * 0)"]
    return rng.choice(forms)


DISTINCT = (straight, turned, moved, by_axes, gathered)
LOADED = (*DISTINCT, repeated, repeated)
STARTS = ("", "", " + 1", " + 3", " + 7", " + 15", " + 16", " + 20", " + 32", " + d", " + d")


def some_habits(rng: Random) -> Habits:
    """The forms of one kernel."""
    return Habits(
        loads=tuple(rng.sample(range(len(LOADED)), rng.choice((1, 1, 2, 3)))),
        stores=rng.choice(((0,), (0,), (0, 3), (0, rng.randrange(len(DISTINCT))), tuple(range(len(DISTINCT))))),
        starts=tuple(rng.sample(STARTS, rng.choice((1, 2, 2, 3)))),
        masks=tuple(rng.randrange(1000) for _ in range(rng.choice((1, 2, 3)))),
        masked=rng.choice((0.0, 0.3, 0.6)),
        by_value=rng.choice((0.0, 0.0, 0.2)),
    )


# --- masks ------------------------------------------------------------------------------------------------------


def mask(draft: Draft, shape: Shape) -> str:
    """The text of a mask: which lanes are on."""
    rng, size, number = draft.rng, prod(shape), draft.shapes.index(shape)
    i, k, names = f"i{number}", rng.randint(1, size - 1), axes(number, shape)
    low = rng.randrange(size)
    forms = [
        *(f"{i} < {k}", f"{i} < n", f"{i} < n", f"{i} >= {k}", f"{i} >= n", f"{i} >= {size // 2}"),
        *(f"({i} >= {low}) & ({i} < {rng.randint(low, size)})", f"({i} >= m) & ({i} < n)", f"({i} < m) | ({i} > n)"),
        *(f"{i} % {rng.choice((2, 3, 4))} == {rng.randrange(3)}", f"{i} % 2 == 0", f"{i} // 2 % 2 == 0", f"{i} != {k}"),
        *(f"({i} < {k}) & (n > m)", f"({i} >= 0) & (n > {rng.randint(0, size)})", f"({i} ^ {k}) < n"),
    ]
    if len(shape) > 1:
        conditions = [f"({name} {rng.choice(('<', '>='))} {rng.choice((1, 'm', 2))})" for name in names[-2:]]
        forms += [" & ".join(conditions)] * 3 + [f"{names[-1]} < {shape[-1] - 1}"] * 2 + [f"{names[0]} < m"] * 2
        forms = [form if all(name in form for name in names) else f"({form}) & ({i} >= 0)" for form in forms]
    text = forms[rng.choice(draft.habits.masks) % len(forms)]
    if rng.random() < draft.habits.by_value:
        kind = Kind(draft.dtype, shape)
        text = f"{draft.some(kind) or load(draft, kind)} {rng.choice(('>', '<', '=='))} {rng.randint(0, 3)}"
    elif draft.rich and rng.random() < 0.1:
        text = f"{i} < ({scalar(draft)} & {size - 1})"
    return f"~({text})" if rng.random() < 0.06 else text


# --- values -----------------------------------------------------------------------------------------------------


def named(draft: Draft, kind: Kind, text: str) -> str:
    """A variable with this value."""
    return text if text.isidentifier() else draft.new(kind, text)


def small(draft: Draft, kind: Kind, text: str) -> str:
    """Numbers whose sums are exact: no float is rounded in any order of adding them up, and no zero has a sign."""
    if not kind.is_float:
        return text
    name = named(draft, kind, text)
    return f"tl.where(tl.abs({name}) < 5, {name} + 0.0, 1)"


def unsigned_zeros(kind: Kind, text: str) -> str:
    """The same numbers, but no -0.0: which zero is the largest is not said."""
    return f"({text} + 0.0)" if kind.is_float else text


def scalar(draft: Draft) -> str:
    """A number of type int32 that only the run knows; perhaps out of memory, perhaps reduced."""
    rng = draft.rng
    found = draft.some(Kind("int32"))
    if found and rng.random() < 0.7:
        return found
    if rng.random() < 0.5 and draft.dtype not in FLOATS:
        shape = rng.choice(draft.shapes)
        kind = Kind(draft.dtype, shape)
        return f"tl.{rng.choice(('sum', 'max', 'min'))}({draft.some(kind) or load(draft, kind)}).to(tl.int32)"
    if "g" in draft.pointers and rng.random() < 0.5:
        return f"tl.load(g + {rng.choice(('n', 'm', '3'))})"
    return rng.choice(("n", "m", "d", "pid"))


def value(draft: Draft, kind: Kind, depth: int = 2) -> str:
    """A tile, or a number of the draft's dtype."""
    rng = draft.rng
    found = draft.some(kind)
    if not kind.shape:
        return found or (load_one(draft) if rng.random() < 0.5 else f"tl.full([], n, tl.{draft.dtype})")
    if found and (depth == 0 or rng.random() < 0.6):
        return found
    number = draft.shapes.index(kind.shape)
    if depth == 0 or rng.random() < 0.1:
        return f"(i{number} + {rng.randint(0, 9)}).to(tl.{kind.dtype})"
    forms = (*(RICH_VALUES if draft.rich else VALUES), *(ROW_VALUES if draft.rows else ()))
    return rng.choice(forms)(draft, kind, depth - 1)


def load(draft: Draft, kind: Kind, depth: int = 1) -> str:
    """A load of a tile."""
    name = some_pointer(draft)
    where = index(draft, kind.shape, distinct=False)
    arguments = ""
    if draft.rng.random() < draft.habits.masked:
        arguments = f", mask={mask(draft, kind.shape)}" if depth else ""
        if arguments and draft.rng.random() < 0.6:
            arguments += f", other={draft.rng.randint(0, 9)}"
    text = f"tl.load({name} + {where}{arguments})"
    return text if draft.pointers[name] == kind.dtype else f"{text}.to(tl.{kind.dtype})"


def load_one(draft: Draft) -> str:
    """A load of one element."""
    name = some_pointer(draft)
    return f"tl.load({name} + {draft.rng.choice(('n', 'm', '0', 'd', '9'))}).to(tl.{draft.dtype})"


def some_pointer(draft: Draft) -> str:
    """A name of the shared array, rarely another."""
    names = [name for name in draft.pointers if name != "g"]
    shared = [name for name in names if name not in "xy"]
    return draft.rng.choice(shared if draft.rng.random() < draft.sharing else names)


def _sum(draft: Draft, kind: Kind, depth: int) -> str:
    operator = draft.rng.choice("+-" if kind.is_float else "+-^|&")
    return f"({value(draft, kind, depth)} {operator} {value(draft, kind, depth)})"


def _with_number(draft: Draft, kind: Kind, depth: int) -> str:
    return f"({value(draft, kind, depth)} + {draft.rng.randint(1, 9)})"


def _negated(draft: Draft, kind: Kind, depth: int) -> str:
    return f"({'-' if kind.is_float else '~'}{value(draft, kind, depth)})"


def _chosen(draft: Draft, kind: Kind, depth: int) -> str:
    return f"tl.where({mask(draft, kind.shape)}, {value(draft, kind, depth)}, {value(draft, kind, depth)})"


def _flipped(draft: Draft, kind: Kind, depth: int) -> str:
    rng, shape = draft.rng, kind.shape
    if len(shape) == 2 and shape[0] == shape[1] and rng.random() < 0.6:
        return f"tl.trans({value(draft, kind, depth)})"
    return f"tl.flip({value(draft, kind, depth)}, {rng.randrange(len(shape))})"


def _reduced(draft: Draft, kind: Kind, depth: int) -> str:
    rng = draft.rng
    axis = rng.randrange(len(kind.shape))
    which = rng.choice(("sum", "sum", "max", "min"))
    operand = value(draft, kind, depth)
    operand = small(draft, kind, operand) if which == "sum" else unsigned_zeros(kind, operand)
    keep = ", keep_dims=True" if len(kind.shape) > 1 else ""
    text = f"tl.{which}({operand}, {axis}{keep}).to(tl.{kind.dtype})"
    return f"({value(draft, kind, 0)} + {text})"


def _scanned(draft: Draft, kind: Kind, depth: int) -> str:
    reverse = draft.rng.choice(("", "", ", reverse=True"))
    operand = small(draft, kind, value(draft, kind, depth))
    return f"tl.cumsum({operand}, {draft.rng.randrange(len(kind.shape))}{reverse}).to(tl.{kind.dtype})"


def with_scalar(draft: Draft, kind: Kind, depth: int) -> str:
    """A tile and a number that was reduced or loaded; where there is none, just a tile."""
    number = draft.some(Kind(kind.dtype))
    tile = draft.rng.choice((value(draft, kind, 0), f"i{draft.shapes.index(kind.shape)}"))
    return f"({tile} + {number}).to(tl.{kind.dtype})" if number else value(draft, kind, depth)


def _positions(draft: Draft, kind: Kind, depth: int) -> str:
    return value(draft, kind, 0)


Production = Callable[[Draft, Kind, int], str]

VALUES: tuple[Production, ...] = (
    *([load] * 12),
    *(_sum, _sum, _with_number, _negated, _chosen, _positions, with_scalar, with_scalar, with_scalar),
)
RICH_VALUES: list[Production] = [
    *([load] * 8),
    *(_sum, _sum, _with_number, _negated, _chosen, _flipped, _reduced, _reduced, _scanned, _positions),
    *(with_scalar, with_scalar),
]
"""`shared_memory_moves.py` adds some."""
ROW_VALUES: list[Production] = []
"""`shared_memory_rows.py` fills it."""
