"""Mutants that our simulator notices: Triton's kernels with one mistake each, in barriers, waits, fences and the like.

Every mutant is noticed, or stands in `EQUIVALENT` with the reason why it makes no difference. Barriers that are not
missed because others stand for them are in `TOGETHER`: without the whole group the kernel is refused.
`TRITON_PYTHON` names an interpreter with Triton 3.9, `TRITON_TREE` a checkout of Triton.
"""

from __future__ import annotations

import numpy as np
import pytest
from ptx_mutants import mutants, without_barriers
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


@pytest.mark.needs_triton_python
@pytest.mark.needs_triton_tree
@pytest.mark.slow
@pytest.mark.parametrize("name", SUBJECTS)
def test_every_mutant_is_noticed(name: str) -> None:
    answer, (case, _) = answers()[name], subject(name)
    text = str(answer["ptx"])
    survivors: dict[tuple[str, str], set[int]] = {}
    count = 0
    for mutant in mutants(text):
        count += 1
        equivalent = EQUIVALENT.get((name, mutant.kind), {})
        if not is_noticed(case, answer, mutant.text) and mutant.number not in equivalent:
            if mutant.proof and not is_noticed(case, answer, mutant.proof):
                continue
            survivors.setdefault((name, mutant.kind), set()).add(mutant.number)
    assert not survivors
    assert 20 <= count <= 60


@pytest.mark.needs_triton_python
@pytest.mark.needs_triton_tree
@pytest.mark.slow
@pytest.mark.parametrize("name", TOGETHER)
def test_barriers_that_stand_for_each_other(name: str) -> None:
    answer, (case, _) = answers()[name], subject(name)
    for group in TOGETHER[name]:
        assert is_noticed(case, answer, without_barriers(str(answer["ptx"]), group)), group
