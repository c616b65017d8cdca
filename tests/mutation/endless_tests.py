"""A plugin of pytest that ends the process when a test computes for far longer than it took: `-p endless_tests`.

    TEST_SECONDS='{"tests/ir/test_core.py::test_walk": 0.01}' python -m pytest -p endless_tests tests/ir

The processor's time counts, so a busy machine ends no test that would have passed.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator

import pytest

PATIENCE = 5
"""The processor's time that a test may take, in times of what it took before."""
MIN_SECONDS = 15
"""The processor's seconds that any test may take: the first one imports the package."""
ENDED = -signal.SIGPROF
"""The exit status of a process whose test took longer."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    seconds = json.loads(os.environ["TEST_SECONDS"])
    signal.setitimer(signal.ITIMER_PROF, MIN_SECONDS + PATIENCE * seconds.get(item.nodeid, 0))
    result = yield
    signal.setitimer(signal.ITIMER_PROF, 0)
    return result
