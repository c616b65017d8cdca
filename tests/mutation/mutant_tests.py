"""The tests that may notice a mutant: a few short ones first, then longer ones and those of its folder.

    quick_tests(mutant, tests, seconds=40)              ["tests/ir/test_core.py::test_walk", ...]
    late_tests(mutant, tests, seconds=240)              what comes when none of those has noticed it

`tests` is what `blocks_run` gives: by block of a function the tests that run it, with their seconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePosixPath

from source_mutants import Mutant
from watched_blocks import ANY, mark_of, users_of

MAX_TESTS = 80
"""Max quick tests that are started for one mutant."""
FOLDERS = {
    "backends/cpu": ("cpu", "oracle"),
    "backends/llvm": ("llvm", "exactness"),
    "backends/nvidia": ("nvidia", "oracle"),
    "backends/ptxsim": ("ptxsim", "nvidia"),
    "dialects": ("dialects", "ir"),
    "runtime/drivers": ("drivers", "runtime"),
    "transforms/gpu": ("transforms/gpu", "oracle"),
    "vectorizing": ("vectorize",),
}
"""Where the tests of a part of the package are, if not in the folder of the same name."""

Costs = dict[str, float]
"""Tests with their seconds."""
Rank = Callable[[str], tuple[bool, ...]]


def quick_tests(mutant: Mutant, tests: dict[str, Costs], seconds: float) -> list[str]:
    """The shortest tests that run a mutant's block."""
    return list(_affordable(tests_of(mutant, tests), seconds))[:MAX_TESTS]


def late_tests(mutant: Mutant, tests: dict[str, Costs], seconds: float, tried: Iterable[str] = ()) -> list[str]:
    """The tests that may notice a mutant else: those that run its block, then those in the folder for its own.

    Blocks may run in processes that a test starts, which are not heard, or once for all tests of a process, since their
    result is kept. So of a folder all tests are taken: first those in files with a word of the mutant's file in their
    names.
    """
    mine = tests_of(mutant, tests)
    beside = {test: cost for test, cost in tests.get(ANY, {}).items() if _stands_beside(test, mutant)}
    left = {test: cost for test, cost in (beside | mine).items() if test not in set(tried)}
    return list(_affordable(left, seconds, lambda test: (test not in mine, not _shares_word(test, mutant))))


def tests_of(mutant: Mutant, tests: dict[str, Costs]) -> Costs:
    """The tests that run a mutant's block.

    Of what no function says, they are those that run a function with a name that the mutant's statement binds, or else
    those that run any function of its file.
    """
    module = module_of(mutant.path)
    mark = mark_of(mutant.text, mutant.function, mutant.line)
    if mark is not None:
        return tests.get(f"{module}:{mark}", {})
    users = {f"{module}:{function}" for function in users_of(mutant.text, mutant.line)}
    others = [these for place, these in tests.items() if place in users]
    others = others or [these for place, these in tests.items() if place.partition(":")[0] == module]
    return {test: seconds for these in others for test, seconds in these.items()}


def module_of(path: str) -> str:
    """The module of a file."""
    return "tilewright." + path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _affordable(tests: Costs, seconds: float, rank: Rank = lambda test: ()) -> Iterator[str]:
    """The shortest tests that take so many seconds together, at least one.

    One case of each parametrised test comes before the second case of any: it tells more than cases that are alike.

    Args:
        tests: all of them.
        seconds: how long they may take.
        rank: what comes before the time in their order.
    """
    spent = 0.0
    cases = Counter[str]()
    ordered = []
    for test, cost in sorted(tests.items(), key=lambda item: item[1]):
        function = test.partition("[")[0]
        ordered.append((rank(test), cases[function], cost, test))
        cases[function] += 1
    for number, (*_, cost, test) in enumerate(sorted(ordered)):
        spent += cost
        if number and spent > seconds:
            return
        yield test


def _stands_beside(test: str, mutant: Mutant) -> bool:
    part = next((part for part in FOLDERS if mutant.path.startswith(f"{part}/")), "")
    folders = FOLDERS.get(part) or (mutant.path.partition("/")[0],)
    return test.startswith(tuple(f"tests/{folder}/" for folder in folders))


def _shares_word(test: str, mutant: Mutant) -> bool:
    words = set(PurePosixPath(mutant.path).stem.split("_"))
    return not words.isdisjoint(PurePosixPath(test.partition("::")[0]).stem.split("_"))
