"""Compiled kernels compute what Python computes: the kernels of tests/kernels, and random programs."""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import branches
import calls
import loops
import numpy as np
import objects
import pytest

Array = np.ndarray[Any, Any]


def ints(*values: int) -> Array:
    """An array of int32."""
    return np.array(values, dtype=np.int32)


def floats(*values: float) -> Array:
    """An array of float32."""
    return np.array(values, dtype=np.float32)


def first(kernel: Any, *arguments: Any, grid: int = 1) -> list[Any]:
    """The first array after a launch."""
    kernel[(grid,)](*arguments)
    result: list[Any] = arguments[0].tolist()
    return result


def collatz(n: int) -> int:
    """The number of steps from n to 1."""
    steps = 0
    while n > 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


def descriptor_sums() -> list[float]:
    """The values that the kernel with the descriptor writes."""
    out = floats(*[0] * 64)
    objects.descriptor_to_helper[(1,)](floats(*range(128)), out)
    sums: list[float] = out.tolist()
    return sums


CASES: list[tuple[str, Callable[[], Any], Any]] = [
    ("constants_by_value", lambda: first(calls.constants_by_value, floats(-1, 4)), [3.0, 4.0]),
    ("count_down", lambda: first(loops.count_down, ints(0), 9), [9 + 7 + 5 + 3 + 1]),
    ("hints", lambda: first(loops.hints, ints(*[-1] * 6), 5), [0, -1, 2, -1, 4, -1]),
    ("unrolled", lambda: first(loops.unrolled, floats(1, 2, 3), 3)[0], 8.0),
    ("nested", lambda: first(loops.nested, ints(0), 4, 5), [60]),
    ("collatz", lambda: first(loops.collatz, ints(27), (out := ints(0))) and out[0], collatz(27)),
    ("carried_tuple", lambda: first(loops.carried_tuple, floats(0), 4), [22.0]),
    ("constant_changes", lambda: first(loops.constant_parameter_changes, ints(0), 4, 5), [11]),
    ("constant_stays", lambda: first(loops.constant_parameter_stays, ints(*[0] * 16), 4, 16, False), [3] * 16),
    ("swapped", lambda: first(loops.swapped, ints(7, 3), 3), [-4, 3]),
    ("hinted_while", lambda: first(loops.hinted_while, ints(*[9] * 5), 4), [0, 1, 2, 3, 9]),
    ("tuples", lambda: first(loops.tuples_by_number, ints(0, 0), 4, 5), [4, 5]),
    ("assigned_in_condition", lambda: first(loops.assigned_in_condition, ints(0), 7), [899]),
    ("condition_stays", lambda: first(loops.condition_that_stays, ints(7), 3), [0]),
    ("early_return", lambda: first(branches.early_return, ints(*[9] * 5), 3, grid=5), [0, 1, 2, 9, 9]),
    ("two_returns", lambda: first(branches.two_early_returns, ints(*[9] * 5), 3, 0, grid=5), [9, 1, 2, 3, 9]),
    ("other_return", lambda: first(branches.two_early_returns, ints(*[9] * 5), 3, 1, grid=5), [1, 9, 9, 9, 9]),
    ("elif", lambda: [first(branches.elif_chain, ints(5), n)[0] for n in (1, 2, 3, 4)], [10, 20, 30, 0]),
    ("perhaps", lambda: [first(branches.perhaps_returned, ints(5), n)[0] for n in (2, 3)], [5, 13]),
    ("ternary", lambda: [first(branches.ternary, ints(5), n, True)[0] for n in (2, 3)], [11, 12]),
    ("no_bias", lambda: first(branches.optional_pointer, floats(5), None), [5.0]),
    ("bias", lambda: first(branches.optional_pointer, floats(5), floats(2)), [7.0]),
    ("defaults", lambda: first(calls.defaults_and_keywords, ints(5)), [83]),
    ("star", lambda: first(calls.star_arguments, ints(5, 6, 7))[0], 18),
    ("tuple_result", lambda: first(calls.tuple_result, ints(5, 6))[0], -11),
    ("recursion", lambda: first(calls.static_recursion, ints(5)), [125]),
    ("constant_result", lambda: first(calls.constant_result, ints(*[0] * 32), 64)[-1], 31),
    ("helper_returns", lambda: [first(calls.early_return_in_helper, ints(x), 3)[0] for x in (5, 2)], [3, 2]),
    ("function_parameter", lambda: first(calls.function_parameter, ints(5), calls.scaled), [25]),
    ("carried_object", lambda: first(objects.carried_object, ints(1), 4), [33]),
    ("operators_of_aggregate", lambda: first(objects.operators_of_aggregate, ints(*range(1, 9)), 4), [11] * 8),
    ("descriptor", lambda: descriptor_sums(), [2.0 * i + 64 for i in range(64)]),
    ("comprehension", lambda: first(calls.comprehension, ints(5, 6, 7), 3)[0], 12),
]


@pytest.mark.parametrize(("run", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_kernel(run: Callable[[], Any], expected: Any) -> None:
    assert run() == expected


class Program:
    """Writes a random function of two integers out of loops, branches and arithmetic without overflow."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.counters = 0

    def text(self) -> str:
        """The module with the function `program` and a kernel that stores what it returns."""
        self.block(1, loops=0, returns=True, size=6)
        body = "\n".join(self.lines)
        return (
            "import tilewright as tw\nimport tilewright.language as tl\n\n\n"
            "@tw.jit\ndef program(n, m):\n    a = n\n    b = m + 1\n    c = 3\n"
            f"{body}\n    return a + 3 * b + 5 * c\n\n\n"
            "@tw.jit\ndef kernel(x, n, m):\n    tl.store(x, program(n, m))\n"
        )

    def say(self, depth: int, line: str) -> None:
        self.lines.append("    " * depth + line)

    def block(self, depth: int, *, loops: int, returns: bool, size: int) -> None:
        for _ in range(self.random.randint(1, size)):
            kinds = [self.assign] * 3 + [self.unpack]
            if depth < 4:
                kinds += [self.branch, self.branch, self.count, self.repeat, self.unroll]
            self.random.choice(kinds)(depth, loops, returns)

    def variable(self) -> str:
        return self.random.choice("abc")

    def atom(self) -> str:
        return self.random.choice(["a", "b", "c", "n", "m", str(self.random.randint(-3, 7))])

    def value(self) -> str:
        form = self.random.choice(["{} + {}", "{} - {}", "({} & 63) * ({} & 63)", "{} ^ {}", "({1} if {2} else {0})"])
        return f"({form.format(self.atom(), self.atom(), self.condition())}) & 1023"

    def condition(self) -> str:
        simple = [f"{self.atom()} {self.random.choice(['<', '<=', '==', '!=', '>'])} {self.atom()}" for _ in range(2)]
        return self.random.choice(["{0}", "{0} and {1}", "({0}) or {1}", "not {0}", "n < {2} <= m"]).format(
            *simple, self.atom()
        )

    def assign(self, depth: int, loops: int, returns: bool) -> None:
        operator = self.random.choice(["=", "=", "+=", "-="])
        self.say(depth, f"{self.variable()} {operator} {self.value()}")

    def unpack(self, depth: int, loops: int, returns: bool) -> None:
        self.say(depth, f"a, (b, c) = {self.variable()}, ({self.value()}, {self.variable()})")

    def branch(self, depth: int, loops: int, returns: bool) -> None:
        self.say(depth, f"if {self.condition()}:")
        self.block(depth + 1, loops=loops, returns=returns, size=2)
        if returns and self.random.random() < 0.4:
            self.say(depth + 1, f"return {self.value()}")
        for keyword in self.random.choice([(), ("else:",), (f"elif {self.condition()}:", "else:")]):
            self.say(depth, keyword)
            self.block(depth + 1, loops=loops, returns=returns, size=2)

    def count(self, depth: int, loops: int, returns: bool) -> None:
        bounds = self.random.choice(["n & 3", "1, 5, 2", "m & 3, -1, -1", "b & 1, 3"])
        self.say(depth, f"for i{depth} in range({bounds}):")
        self.say(depth + 1, f"{self.variable()} += i{depth}")
        self.block(depth + 1, loops=loops + 1, returns=False, size=2)

    def repeat(self, depth: int, loops: int, returns: bool) -> None:
        self.counters += 1
        name = f"w{self.counters}"
        self.say(depth, f"{name} = n & 3")
        self.say(depth, f"while {name} > 0 and {self.variable()} != 77:")
        self.say(depth + 1, f"{name} -= 1")
        self.block(depth + 1, loops=loops + 1, returns=False, size=2)

    def unroll(self, depth: int, loops: int, returns: bool) -> None:
        self.say(depth, f"for s{depth} in tl.static_range(2):")
        self.say(depth + 1, f"{self.variable()} += s{depth}")
        self.block(depth + 1, loops=loops + 1, returns=False, size=1)


@pytest.mark.parametrize("seed", range(25))
def test_random_program(seed: int, tmp_path: Path) -> None:
    path = tmp_path / f"program_{seed}.py"
    path.write_text(Program(seed).text())
    specification = importlib.util.spec_from_file_location(path.stem, path)
    assert specification is not None
    assert specification.loader is not None
    module: Any = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    for n, m in ((0, 1), (3, 2), (6, -5), (15, 14)):
        assert first(module.kernel, ints(0), np.int32(n), np.int32(m)) == [module.program.fn(n, m)], path.read_text()
