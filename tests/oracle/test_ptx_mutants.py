"""Mutants that our simulator notices: Triton's kernels with one mistake each, in barriers, waits, fences and the like.

Every mutant is noticed, or stands in `EQUIVALENT` with the reason why it makes no difference, and nothing else stands
there. Barriers that are not missed because others stand for them are in `TOGETHER`: without the whole group the
kernel is refused.
`TRITON_PYTHON` names an interpreter with Triton 3.9, `TRITON_TREE` a checkout of Triton.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from ptx_mutants import BARRIERS, KINDS, Mutant, mutants, without_barriers
from simulated_ptx import compiled
from test_tritons_gpu_text import version
from test_tritons_ptx import RUNS, Case

from tilewright.backends.ptxsim import SimulationError

LAST = "nothing comes behind it that uses the bytes"
MERGED = "the first group is one with the second, and every wait covers both"
TWICE = "another wait, for as many groups, stands with nothing between"
ITSELF = "every warp waits at the mbarrier behind it"
OTHERS = "others stand between the same accesses: see TOGETHER"

EQUIVALENT: dict[tuple[str, str], dict[int, str]] = {
    ("softmax_kernel-80", "without barrier"): {4: LAST},
    ("softmax_kernel-80", "waits for one copy less"): {1: LAST},
    ("matmul_kernel-80", "without barrier"): {
        1: "the barrier in front of the loop, or at its end, orders the same copies"
    },
    ("matmul_kernel-80", "without commit of copies"): {0: MERGED},
    ("matmul_kernel-80", "waits for one copy less"): {1: TWICE, 2: TWICE, 3: TWICE, 4: LAST},
    ("matmul_kernel-90", "without commit of copies"): {0: MERGED},
    ("matmul_kernel-90", "waits for one copy less"): {1: LAST},
    ("matmul_kernel-100", "without commit of copies"): {0: MERGED},
    ("matmul_kernel-100", "waits for one copy less"): {2: LAST},
    ("matmul_kernel-100", "without barrier"): {
        **dict.fromkeys((2, 3, 5, 6), OTHERS),
        **dict.fromkeys((4, 7), ITSELF),
        16: "barriers of the result's conversion stand between the last loads and the end of the allocation",
    },
    ("matmul_kernel_tma-90", "without barrier"): {
        **dict.fromkeys((0, 1, 2, 3, 4, 5, 7, 8, 9), OTHERS),
        6: ITSELF,
        10: "those of the loop's end stand between the last looks at the mbarriers and their end",
        11: "those of the loop's end stand between the last looks at the mbarriers and their end",
        13: LAST,
    },
}
TOGETHER = {
    "matmul_kernel-100": ((2, 3), (5, 6)),
    "matmul_kernel_tma-90": ((0, 1, 2, 3, 4, 5), (7, 8, 9)),
}
SUBJECTS = ("softmax_kernel-80", "matmul_kernel-80", "matmul_kernel-90", "matmul_kernel-100", "matmul_kernel_tma-90")


def subject(name: str) -> tuple[Case, int]:
    return next((case, capability) for case, capability in RUNS if f"{case.kernel}{case.label}-{capability}" == name)


def answers() -> dict[str, dict[str, object]]:
    if version() != "3.9":
        pytest.skip("TRITON_PYTHON is not Triton 3.9, whose arguments of launches these are")
    chosen = [subject(name) for name in SUBJECTS]
    found = compiled(tuple(case.request(capability) for case, capability in chosen))
    return dict(zip(SUBJECTS, found, strict=True))


def is_noticed(case: Case, answer: dict[str, object], text: str) -> bool:
    try:
        with np.errstate(all="ignore"):
            case.check({**answer, "ptx": text})
    except (SimulationError, AssertionError):
        return True
    return False


def listed(name: str) -> set[tuple[str, int]]:
    """The mutants of a subject that make no difference, by kind and number."""
    return {(kind, number) for (of, kind), numbers in EQUIVALENT.items() if of == name for number in numbers}


def surprises(found: list[Mutant], equivalent: set[tuple[str, int]], noticed: Callable[[str], bool]) -> list[str]:
    """Mutants that nothing notices although they are not listed, and entries of the list without such a mutant."""
    survivors = {
        (mutant.kind, mutant.number)
        for mutant in found
        if not noticed(mutant.text) and (not mutant.proof or noticed(mutant.proof))
    }
    return [
        *(f"{kind} {number} is not noticed" for kind, number in sorted(survivors - equivalent)),
        *(f"{kind} {number} is noticed, or no mutant" for kind, number in sorted(equivalent - survivors)),
    ]


@pytest.mark.needs_triton_python
@pytest.mark.needs_triton_tree
@pytest.mark.slow
@pytest.mark.parametrize("name", SUBJECTS)
def test_every_mutant_is_noticed(name: str) -> None:
    answer, (case, _) = answers()[name], subject(name)
    found = list(mutants(str(answer["ptx"])))
    assert 20 <= len(found) <= 60
    assert surprises(found, listed(name), lambda text: is_noticed(case, answer, text)) == []


def test_an_entry_whose_mutant_is_noticed_or_gone_is_a_surprise() -> None:
    """The first of three barriers is needed; there is no fourth."""
    text = "bar.sync 0;\nbar.sync 1;\nbar.sync 2;"
    equivalent = {(BARRIERS, number) for number in (0, 1, 3)}
    found = surprises(list(mutants(text)), equivalent, lambda mutant: "bar.sync 0" not in mutant)
    assert found == [
        f"{BARRIERS} 2 is not noticed",
        f"{BARRIERS} 0 is noticed, or no mutant",
        f"{BARRIERS} 3 is noticed, or no mutant",
    ]


def test_equivalent_mutants_are_of_subjects_and_kinds_that_there_are() -> None:
    """An entry whose subject or kind was renamed is looked up by no run."""
    assert {name for name, _ in EQUIVALENT} | set(TOGETHER) <= set(SUBJECTS)
    assert {kind for _, kind in EQUIVALENT} <= set(KINDS)


@pytest.mark.needs_triton_python
@pytest.mark.needs_triton_tree
@pytest.mark.slow
@pytest.mark.parametrize("name", TOGETHER)
def test_barriers_that_stand_for_each_other(name: str) -> None:
    answer, (case, _) = answers()[name], subject(name)
    for group in TOGETHER[name]:
        assert is_noticed(case, answer, without_barriers(str(answer["ptx"]), group)), group
