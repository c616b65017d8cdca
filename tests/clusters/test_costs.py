"""The costs of scheduling: messages and bytes as counted, and what they make of 1,000 workers."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

from distributed_costs import Costs, measured, modelled


@pytest.fixture(scope="module")
def costs() -> Costs:
    return measured()


def test_a_kernel_is_one_message_each_way(costs: Costs) -> None:
    assert costs.messages == 2


def test_messages_are_small(costs: Costs) -> None:
    """By reference and by source; no code and no result is in them. Host names count."""
    assert costs.task < 900
    assert costs.task_by_source < 1_800
    assert costs.report < 200 + len(os.uname().nodename)


def test_a_warm_start_is_two_commands_to_the_remote_cache(costs: Costs) -> None:
    """Index and image are fetched; texts of the stages only when somebody asks for them."""
    assert costs.loads == 2
    assert costs.loaded < 5_000 < costs.stored < 40_000
    assert costs.stores <= 10


def test_a_thousand_workers(costs: Costs) -> None:
    """200 kernels compiled once and loaded by all: with the workers grow only the loads from the cache."""
    few, many = modelled(costs, 4, 200), modelled(costs, 1000, 200)
    assert many.client_seconds == few.client_seconds < 5
    assert many.client_megabytes == few.client_megabytes < 0.5
    assert many.cache_commands <= 200 * (10 + 2 * 1000)
    assert many.cache_megabytes < 1_000
    assert many.cache_seconds < 10
