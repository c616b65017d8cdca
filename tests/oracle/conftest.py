"""Chooses the machine that kernels run on."""

from fnmatch import fnmatch

import agreement
import pytest

from tilewright.semantics import dot

RACES = "threads of a program load what others have stored, and on a GPU nothing orders them"
EARLY = "a pipelined loop loads early what an earlier step stores"
MEETING = "lanes of an atomic meet, and a GPU takes them in any order"
ORDER = "tl.cat may reorder, and does"
SIGNS = "the NaN that inf - inf gives has another sign on x86"
NOT_ON_GPUS = {
    "test_atomics_whose_lanes_meet[[]*": MEETING,
    "test_join_split_cat*": ORDER,
    "test_loads_before_regions_that_store*": RACES,
    "test_memory_that_a_loop_carries*": RACES,
    "test_overlapping_rows*": RACES,
    "test_products[[]*-operands_overwritten]": EARLY,
    "test_row_results_over_the_rows*": RACES,
    "test_store_then_load*": RACES,
    "test_stores_of_every_kind_after_each_other*": RACES,
    "test_the_bits_of_nan_beyond_a_mask_count*": SIGNS,
}
"""Tests whose kernels rely on what only a CPU, or this one, promises."""


@pytest.hookimpl(trylast=True)  # behind `-m`
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """`--first-cases` leaves the first of the cases of a test that are chosen, which takes half of the time."""
    if config.getoption("--first-cases"):
        first = {item.nodeid.partition("[")[0]: item for item in reversed(items)}
        items[:] = first.values()


@pytest.fixture(autouse=True)
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--gpu 90` has `agreement.agree` run kernels on a simulated GPU."""
    gpu = request.config.getoption("--gpu")
    monkeypatch.setattr(agreement, "GPU", gpu)
    if gpu:
        monkeypatch.setattr(dot, "MIN_DEPTH", {})  # what a GPU computes, also where the language refuses it there
    reason = next((reason for pattern, reason in NOT_ON_GPUS.items() if fnmatch(request.node.name, pattern)), "")
    if gpu and reason:
        pytest.skip(reason)
