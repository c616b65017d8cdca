"""Draws functions of two integers, with loops that end early, as Python text.

def function(a, b):             after `function_text(Random(1))`, something like this
    for i in range(b & 3):
        if a > i:
            return a + i
        a = (a * 3) & 255
    return a ^ b
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

CONDITIONS = ("{} > {}", "{} == {}", "{} < {} + 2", "({} & 1) == ({} & 1)", "{} * 2 >= {}")
VALUES = ("({} + {}) & 255", "({} * 3 - {}) & 255", "{} ^ {}", "({} >> 1) + ({} & 15)", "({} - {}) & 63")
DEPTH = 3


class _Writer:
    """The lines of one function so far.

    Attributes:
        names: the variables that have a value here.
        loops: how many loops the next line is inside of.
    """

    def __init__(self, rng: Random) -> None:
        self.rng, self.lines = rng, list[str]()
        self.names, self.loops = ["a", "b"], 0

    def put(self, depth: int, line: str) -> None:
        self.lines.append("    " * (depth + 1) + line)

    def drawn(self, forms: tuple[str, ...]) -> str:
        return self.rng.choice(forms).format(self.rng.choice(self.names), self.rng.choice(self.names))

    def block(self, depth: int) -> None:
        """Some statements, the last of which may leave the loop or the function."""
        for _ in range(self.rng.choice((1, 1, 2))):
            kinds = (self.assignment, self.branch, self.counted, self.repeated)
            self.rng.choice(kinds if depth < DEPTH else kinds[:1])(depth)
        if self.loops and self.rng.random() < 0.3:
            self.leave(depth)

    def assignment(self, depth: int) -> None:
        self.put(depth, f"{self.rng.choice('ab')} = {self.drawn(VALUES)}")

    def leave(self, depth: int) -> None:
        self.put(depth, self.rng.choice(("break", "continue", f"return {self.drawn(VALUES)}", "return 7")))

    def branch(self, depth: int) -> None:
        self.put(depth, f"if {self.drawn(CONDITIONS)}:")
        self.block(depth + 1)
        if self.loops and self.rng.random() < 0.4:
            self.leave(depth + 1)
        if self.rng.random() < 0.4:
            self.put(depth, "else:")
            self.block(depth + 1)

    def counted(self, depth: int) -> None:
        counter = f"i{depth}"
        bounds = self.rng.choice(("4", f"{self.rng.choice(self.names)} & 3", "5, 0, -2", "1, 6, 3"))
        self.put(depth, f"for {counter} in range({bounds}):")
        self.inside(depth, counter, lambda: None)

    def repeated(self, depth: int) -> None:
        counter = f"j{depth}"
        self.put(depth, f"{counter} = 0")
        self.put(depth, f"while {counter} < 4 and {self.drawn(CONDITIONS)}:")
        self.inside(depth, counter, lambda: self.put(depth + 1, f"{counter} += 1"))

    def inside(self, depth: int, counter: str, first: Callable[[], None]) -> None:
        """The body of a loop, which knows its counter."""
        self.names.append(counter)
        self.loops += 1
        first()
        self.block(depth + 1)
        self.loops -= 1
        self.names.remove(counter)


def function_text(rng: Random) -> str:
    """The text of `function`; what it returns fits into 16 bits."""
    writer = _Writer(rng)
    writer.block(0)
    writer.block(0)
    writer.put(0, f"return {writer.drawn(VALUES)}")
    return "\n".join(["def function(a, b):", *writer.lines, ""])
