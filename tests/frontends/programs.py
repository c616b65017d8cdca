"""Random programs of the language's statements, on integers, as source text."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

VARIABLES = ("a", "b", "c", "d")
INPUTS = ("x", "y")
CONSTANTS = ("K", "L")
BINARY = ("+", "-", "*", "&", "|", "^")
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
MASK = 0xFFFF
"""Variables stay below this, so that Python's integers and 32-bit ones agree."""


class Program:
    """One random program.

    Args:
        random: decides everything.
        is_static: conditions and loops depend on constants only, so that it can be traced.
    """

    def __init__(self, random: Random, *, is_static: bool) -> None:
        self._random = random
        self._is_static = is_static
        self._counters = 0
        self._budget = 12
        self._is_helper = False

    def text(self) -> str:
        """Two functions: `helper(p, q)`, which may return early, and `body(x, y, K, L)`, which returns a tuple."""
        return "\n".join([*self._helper(), "", *self._body()]) + "\n"

    def _helper(self) -> Iterator[str]:
        yield "def helper(p, q=3):"
        if not self._is_static:
            yield from self._early_returns(1)
            if self._random.random() < 0.5:
                yield from self._return_in_loop()
        yield f"    return (p {self._random.choice(BINARY)} q) & {MASK}"

    def _early_returns(self, depth: int) -> Iterator[str]:
        indent = "    " * depth
        yield f"{indent}if p {self._random.choice(COMPARISONS)} q:"
        if depth < 3 and self._random.random() < 0.4:
            yield from self._early_returns(depth + 1)
        if self._random.random() < 0.3:
            yield f"{indent}    p = (p + {self._random.randint(1, 9)}) & {MASK}"
        else:
            yield f"{indent}    return (p * {self._random.randint(1, 9)}) & {MASK}"
        if depth < 3 and self._random.random() < 0.4:
            yield f"{indent}else:"
            yield f"{indent}    q = (q ^ p) & {MASK}"
            yield from self._early_returns(depth + 1)

    def _return_in_loop(self) -> Iterator[str]:
        counter = self._counter()
        values = [f"(q + {counter} * p) & {MASK}", "p ^ 5", "77"]
        test, value = f"p & {self._random.randint(1, 7)}", self._random.choice(values)
        yield f"    for {counter} in {self._random.choice(['range(p & 3)', 'tl.static_range(3)'])}:"
        yield f"        p = (p * 3 + {counter}) & {MASK}"
        if self._random.random() < 0.4:
            yield f"        for {self._counter()} in range(2):"
            yield f"            if {test} == 1:"
            yield f"                {self._random.choice(['continue', 'break'])}"
            yield f"            if {test} == 2:"
            yield f"                return {self._random.choice(values)}"
            yield "            q = q ^ p"
        yield f"        if {test} == {self._random.randint(0, 3)}:"
        yield f"            return {value}"
        if self._random.random() < 0.5:
            yield "    else:"
            yield "        q = q & 15"

    def _body(self) -> Iterator[str]:
        yield "def body(x, y, K, L):"
        for name in VARIABLES:
            yield f"    {name} = {self._expression(1, INPUTS)} & {MASK}"
        yield from self._statements(1, 0)
        yield f"    return {', '.join(VARIABLES)}"

    def _statements(self, depth: int, loops: int) -> Iterator[str]:
        for _ in range(self._random.randint(1, 4)):
            self._budget -= 1
            yield from self._statement(depth, loops)

    def _statement(self, depth: int, loops: int) -> Iterator[str]:
        compound = {"leave": self._leave, "if": self._if, "for": self._for, "each": self._each, "while": self._while}
        kinds = ["assign", "assign", "augment", "unpack", "call", "choose", "rotate", "collect", "named"]
        if loops:
            kinds += ["leave"]
        if self._budget > 0 and depth < 4:
            kinds += ["if", "if", "for", "each"] + ["while"] * (not self._is_static)
        kind = self._random.choice(kinds)
        if kind in compound:
            yield from compound[kind](depth, loops)
        else:
            yield from self._simple_lines(depth, kind)

    def _simple_lines(self, depth: int, kind: str = "assign") -> Iterator[str]:
        for line in self._simple(kind):
            yield "    " * depth + line

    def _simple(self, kind: str) -> Iterator[str]:
        target = self._random.choice(VARIABLES)
        other = self._random.choice([name for name in VARIABLES if name != target])
        match kind:
            case "assign":
                yield f"{target} = {self._expression(2)} & {MASK}"
            case "augment":
                yield f"{target} {self._random.choice(BINARY)}= {self._expression(1)} & {MASK}"
                yield f"{target} &= {MASK}"
            case "unpack":
                yield f"{target}, {other} = {self._masked()}, {self._masked()}"
            case "call":
                arguments = self._random.choice(["{}, {}", "{}", "{}, q={}", "p={}, q={}"])
                yield f"{target} = helper({arguments.format(self._masked(), self._masked())})"
            case "choose":
                yield f"{target} = {self._masked()} if {self._condition(2)} else {self._masked()}"
            case "rotate":
                names = self._random.sample(VARIABLES, 3)
                yield f"{', '.join(names)} = {', '.join(self._random.sample(names, 3))}"
            case "collect":
                counter, item = self._counter(), self._masked()
                test = f"{counter} {self._random.choice(COMPARISONS)} {self._random.randint(0, 3)}"
                items = self._random.choice(["(0, 1, 2)", "(1, 2)"])
                yield f"{target} = [0, *[({item} + {counter}) & {MASK} for {counter} in {items} if {test}]][-1]"
            case "named":
                yield f"{target} = (({other} := {self._masked()}) + {self._masked()}) & {MASK}"

    def _if(self, depth: int, loops: int) -> Iterator[str]:
        indent = "    " * depth
        yield f"{indent}if {self._condition(2)}:"
        yield from self._statements(depth + 1, loops)
        if self._random.random() < 0.3:
            yield f"{indent}elif {self._condition(1)}:"
            yield from self._statements(depth + 1, loops)
        if self._random.random() < 0.5:
            yield f"{indent}else:"
            yield from self._statements(depth + 1, loops)

    def _leave(self, depth: int, loops: int) -> Iterator[str]:
        """`break` or `continue`, mostly under an `if`."""
        indent, word = "    " * depth, self._random.choice(["break", "continue"])
        if self._random.random() < 0.05:
            yield f"{indent}{word}"
        elif self._random.random() < 0.3:
            yield f"{indent}if {self._condition(1)}: {word}"
        else:
            yield f"{indent}if {self._condition(1)}:"
            if self._random.random() < 0.5:
                yield from self._simple_lines(depth + 1)
            yield f"{indent}    {word}"
            if self._random.random() < 0.3:
                yield f"{indent}else:"
                yield from self._statements(depth + 1, loops)

    def _else(self, depth: int, loops: int) -> Iterator[str]:
        """Sometimes the `else` of a loop inside of `loops` others."""
        if self._random.random() < 0.15:
            yield f"{'    ' * depth}else:"
            yield from self._statements(depth + 1, loops)

    def _for(self, depth: int, loops: int) -> Iterator[str]:
        indent, counter = "    " * depth, self._counter()
        bounds = str(self._random.randint(0, 3)) if self._is_static else f"{self._random.choice(VARIABLES)} & 3"
        if self._random.random() < 0.3:
            bounds = f"1, {bounds}" if self._is_static else f"1, ({bounds}) + 2"
        yield f"{indent}for {counter} in range({bounds}):"
        yield f"{indent}    {self._random.choice(VARIABLES)} ^= {counter}"
        yield from self._statements(depth + 1, loops + 1)
        yield from self._else(depth, loops)

    def _each(self, depth: int, loops: int) -> Iterator[str]:
        indent, counter, item = "    " * depth, self._counter(), self._counter()
        items = f"({self._masked()}, {self._random.choice(VARIABLES)})"
        yield f"{indent}{item} = {items}"
        yield f"{indent}for {counter} in tl.static_range(2):"
        yield f"{indent}    {self._random.choice(VARIABLES)} ^= {item}[{counter}] & (255 << {counter})"
        yield from self._statements(depth + 1, loops + 1)
        yield from self._else(depth, loops)

    def _while(self, depth: int, loops: int) -> Iterator[str]:
        indent, counter = "    " * depth, self._counter()
        yield f"{indent}{counter} = {self._random.randint(0, 3)}"
        if self._random.random() < 0.3:
            yield f"{indent}while True:"
            yield f"{indent}    {counter} -= 1"
            yield f"{indent}    if {counter} < 0:"
            yield f"{indent}        break"
        else:
            yield f"{indent}while {counter} > 0 and ({self._condition(1)}):"
            yield f"{indent}    {counter} -= 1"
        yield from self._statements(depth + 1, loops + 1)
        yield from self._else(depth, loops)

    def _counter(self) -> str:
        self._counters += 1
        return f"i{self._counters}"

    def _condition(self, depth: int) -> str:
        if depth and self._random.random() < 0.5:
            parts = [self._condition(depth - 1) for _ in range(3)]
            form = self._random.choice(
                ["{} and {}", "{} or {}", "({} or {})", "({} and {})", "not {1}", "({} if {} else {})"]
            )
            return form.format(*parts)
        names = CONSTANTS if self._is_static else (*VARIABLES, *INPUTS)
        first, second, third = (self._random.choice(names) for _ in range(3))
        less = self._random.choice(COMPARISONS[:2])
        return self._random.choice(
            [
                f"{first} {self._random.choice(COMPARISONS)} {second}",
                f"{first} {self._random.choice(COMPARISONS)} {self._random.randint(0, 50)}",
                f"{first} {less} {second} {less} {third}",
            ]
        )

    def _masked(self) -> str:
        return f"({self._expression(1)} & {MASK})"

    def _expression(self, depth: int, names: tuple[str, ...] = (*VARIABLES, *INPUTS)) -> str:
        if depth == 0 or self._random.random() < 0.2:
            choices = [self._random.choice(names), str(self._random.randint(0, 99)), self._random.choice(CONSTANTS)]
            return self._random.choice(choices)
        left, right = self._expression(depth - 1, names), self._expression(depth - 1, names)
        return f"({left} {self._random.choice(BINARY)} {right})"
