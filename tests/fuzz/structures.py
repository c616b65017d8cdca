"""Kernels of tuples, named tuples and aggregates: through helpers that return early, branches, loops and items.

drawn(Random(7)).text      the source of a module with a function `kernel`

All is integers, and floats that stay small halves, so every way of running gives the same bits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

HEAD = """\
from typing import NamedTuple

import tilewright as tw
import tilewright.language as tl


class Pair(NamedTuple):
    low: tl.tensor
    high: tl.tensor


@tw.aggregate
class Box:
    tile: tl.tensor
    scalar: tl.tensor
    number: tl.constexpr

    @tw.constexpr_function
    def __init__(self, tile, scalar, number):
        self.tile = tile
        self.scalar = scalar
        self.number = tl.constexpr(number)

    @tw.jit
    def moved(self, step):
        return Box(self.tile + step, self.scalar - 1, self.number)

    @tw.jit
    def total(self):
        return tl.sum(self.tile, 0) + self.scalar * self.number


@tw.jit
def small(value):
    return tl.where((value > 64) | (value < -64), value * 0, value)


"""
PARAMETERS = "x, y, o_tile, o_scalar, o_real, o_single, o_wide, n, C: tl.constexpr"
BEGINNING = """\
    tile = tl.load(x + tl.arange(0, 16))
    scalar = n + tl.program_id(0) * 0
    real = (tile & 7) * 0.5
    single = tl.load(y)
    wide = tl.cast(n, tl.int64) * 1000000007
    box = Box(tile, scalar, 3)
"""
STORED = {"tile": 16, "scalar": 1, "real": 16, "single": 1, "wide": 1}
"""The kinds that have an array of results, and their elements."""
FORMS: Mapping[str, tuple[str, ...]] = {
    "tile": (
        *("({tile} + {tile})", "({tile} - {scalar})", "({tile} * {tile})", "({tile} ^ {scalar})", "({tile} | {tile})"),
        *("{pair}.low", "{pair}.high", "{both}[0]", "{box}.tile", "{nested}[0][0]", "{nested}[1]"),
        *("tl.where({tile} > {tile}, {tile}, {scalar})", "({tile} if {condition} else {tile})"),
        *("[{tile}, {tile}][-1]", "({tile} << ({number} & 3))", "({tile} + {number})"),
    ),
    "scalar": (
        *("({scalar} + {scalar})", "({scalar} * {scalar})", "({scalar} & {scalar})", "tl.cast({wide}, tl.int32)"),
        *("{both}[1]", "{box}.scalar", "{nested}[0][1]", "tl.sum({tile}, 0)", "tl.max({tile}, 0)", "{box}.total()"),
        *("({scalar} if {condition} else {scalar})", "({scalar} // 3)", "({scalar} % -7)", "({scalar} * {number})"),
    ),
    "real": (
        *("small({real} + {real})", "small({real} - {single})", "({tile} & 15).to(tl.float32)"),
        *("tl.where({real} > {single}, {real}, 0.0)", "tl.maximum({real}, {real})"),
    ),
    "single": (
        *("tl.max({real}, 0)", "({scalar} & 7).to(tl.float32)", "small({single} + {single})"),
        "({single} if {condition} else {single})",
    ),
    "wide": ("({wide} + {scalar})", "{scalar}.to(tl.int64)", "({wide} * {number})", "({wide} >> 3)"),
    "number": (
        *("0", "1", "2", "5", "-3", "({number} + {number})", "({number} * {number})", "({number} // 2)"),
        *("({number} if {number} > 1 else {number})", "{box}.number", "len(({number}, {number}))", "max({number}, 2)"),
    ),
    "pair": ("Pair({tile}, {tile})", "Pair(high={tile}, low={tile})"),
    "both": ("({tile}, {scalar})", "{nested}[0]", "(({tile},) + ({scalar},))", "({tile}, {scalar}, {scalar})[:2]"),
    "box": ("Box({tile}, {scalar}, 3)", "{box}.moved({tile})", "{box}.moved({scalar})"),
    "nested": ("({both}, {tile})",),
    "condition": (
        *("{scalar} > {scalar}", "({scalar} & 1) != 0", "({scalar} > {scalar} and {scalar} < 100)"),
        *("({scalar} < {scalar} or {single} > 2.0)", "not ({scalar} > {scalar})", "{number} > 1"),
        *("({scalar} > {number} and {number} > 0)", "{scalar} <= {scalar} < 50"),
    ),
}
"""Expressions of each kind."""
LEAVES: Mapping[str, str] = {
    "tile": "tl.arange(0, 16)",
    "scalar": "tl.cast(3, tl.int32)",
    "real": "tl.full([16], 1.5, tl.float32)",
    "single": "tl.cast(0.5, tl.float32)",
    "wide": "tl.cast(7, tl.int64)",
    "number": "2",
    "pair": "Pair(tl.arange(0, 16), tl.arange(0, 16) * 2)",
    "both": "(tl.arange(0, 16), tl.cast(4, tl.int32))",
    "box": "Box(tl.arange(0, 16), tl.cast(9, tl.int32), 3)",
    "nested": "((tl.arange(0, 16), tl.cast(5, tl.int32)), tl.arange(0, 16))",
    "condition": "n != n + 1",
}
"""The ends of expressions where no variable is in sight."""
VALUES = tuple(kind for kind in FORMS if kind not in ("condition", "number"))


@dataclass
class Drawn:
    """A kernel being drawn.

    Attributes:
        scope: the kinds of the variables in sight.
        helpers: the kinds of the parameters and of the result of each function.
        places: the elements of results that are taken.
        returns: the kind that the function returns that is drawn; "" for the kernel.
    """

    rng: Random
    scope: dict[str, str] = field(default_factory=dict)
    helpers: dict[str, tuple[list[str], str]] = field(default_factory=dict)
    heads: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    places: int = 0
    names: int = 0
    returns: str = ""

    @property
    def text(self) -> str:
        """The module."""
        body = "\n".join(self.lines)
        return f"{HEAD}{''.join(self.heads)}@tw.jit\ndef kernel({PARAMETERS}):\n{BEGINNING}{body}\n"

    def name(self) -> str:
        self.names += 1
        return f"v{self.names}"

    def say(self, depth: int, line: str) -> None:
        self.lines.append("    " * depth + line)

    def expression(self, kind: str, depth: int) -> str:
        """An expression of at most `depth` operations, and a few more where no variable fits."""
        known = [name for name, its in self.scope.items() if its == kind]
        if known and (depth <= 0 or self.rng.random() < 0.35):
            return self.rng.choice(known)
        if depth <= -2:
            return LEAVES["scalar" if kind == "condition" and self.returns else kind].replace("n != n + 1", "n > 1")
        calls = [name for name, (_, result) in self.helpers.items() if result == kind]
        if calls and depth > 0 and self.rng.random() < 0.35:
            name = self.rng.choice(calls)
            return f"{name}({', '.join(self.expression(its, depth - 1) for its in self.helpers[name][0])})"
        form = self.rng.choice(FORMS[kind])
        return re.sub(r"\{(\w+)\}", lambda found: self.expression(found[1], depth - 1), form)


def drawn(rng: Random) -> Drawn:
    """A kernel of some statements, with up to three helpers."""
    found = Drawn(rng)
    for _ in range(rng.randint(0, 3)):
        helper(found)
    found.lines, found.returns = [], ""
    found.scope = {kind: kind for kind in (*STORED, "box")} | {"C": "number"}
    block(found, 1, rng.randint(3, 8))
    for name, kind in list(found.scope.items())[-6:]:
        if kind != "number":
            store(found, 1, name, kind)
    return found


def helper(found: Drawn) -> None:
    """A function of any kinds, which may return early."""
    kinds, found.returns = [found.rng.choice(VALUES) for _ in range(found.rng.randint(1, 3))], found.rng.choice(VALUES)
    found.scope, found.lines = {f"p{place}": kind for place, kind in enumerate(kinds)}, []
    name, parameters = found.name().replace("v", "helper"), ", ".join(found.scope)
    block(found, 1, found.rng.randint(0, 3))
    found.say(1, f"return {found.expression(found.returns, 2)}")
    found.heads.append(f"@tw.jit\ndef {name}({parameters}):\n" + "\n".join(found.lines) + "\n\n\n")
    found.helpers[name] = (kinds, found.returns)


def block(found: Drawn, depth: int, size: int, *, in_loop: bool = False) -> None:
    """Some statements; what they name first is out of sight behind them, unless they are the function's own."""
    outer = dict(found.scope)
    for _ in range(size):
        statement(found, depth, in_loop)
    if depth > 1:
        found.say(depth, "pass")
        found.scope = outer


def statement(found: Drawn, depth: int, in_loop: bool) -> None:
    rng, again = found.rng, [name for name, kind in found.scope.items() if kind != "number"]
    match rng.choice(("new", "new", "again", "again", "number", "items", "if", "for", "while", "leave")):
        case "again" if again:
            name = rng.choice(again)
            found.say(depth, f"{name} = {found.expression(found.scope[name], 2)}")
        case "number":
            name = found.name()
            found.say(depth, f"{name}: tl.constexpr = {found.expression('number', 1)}")
            found.scope[name] = "number"
        case "items":
            first, second = found.name(), found.name()
            found.say(depth, f"{first}, {second} = {found.expression('both', 1)}")
            found.scope |= {first: "tile", second: "scalar"}
        case "if" if depth < 4:
            found.say(depth, f"if {found.expression('condition', 1)}:")
            block(found, depth + 1, rng.randint(1, 2), in_loop=in_loop)
            found.say(depth, "else:")
            block(found, depth + 1, rng.randint(0, 2), in_loop=in_loop)
        case "for" if depth < 4:
            found.say(depth, f"for {found.name()} in range({rng.choice(('3', '2, 9, 3', '4, 0, -2', '0'))}):")
            block(found, depth + 1, rng.randint(1, 3), in_loop=True)
        case "while" if depth < 4:
            count = found.name()
            found.say(depth, f"{count} = 0")
            found.say(depth, f"while {count} < 3 and ({found.expression('condition', 0)}):")
            found.say(depth + 1, f"{count} += 1")
            block(found, depth + 1, rng.randint(1, 2), in_loop=True)
        case "leave" if found.returns and not in_loop and depth < 3:
            found.say(depth, f"if {found.expression('condition', 0)}:")
            found.say(depth + 1, f"return {found.expression(found.returns, 1)}")
        case _:
            name, kind = found.name(), rng.choice(VALUES)
            found.say(depth, f"{name} = {found.expression(kind, 2)}")
            found.scope[name] = kind


PARTS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "pair": ((".low", "tile"), (".high", "tile")),
    "both": (("[0]", "tile"), ("[1]", "scalar")),
    "box": ((".tile", "tile"), (".scalar", "scalar"), (".total()", "scalar")),
    "nested": (("[0][0]", "tile"), ("[0][1]", "scalar"), ("[1]", "tile")),
}


def store(found: Drawn, depth: int, value: str, kind: str) -> None:
    """Store a value, or its parts."""
    for part, its in PARTS.get(kind, (("", kind),)):
        lanes = " + tl.arange(0, 16)" if STORED[its] > 1 else ""
        found.say(depth, f"tl.store(o_{its} + {found.places}{lanes}, {value}{part})")
        found.places += STORED[its]
