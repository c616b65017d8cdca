"""The examples do nothing wrong: with all checks on, on one thread and two, they report nothing and compute the same.

The slow tests run the scripts as they are; the others one small problem of each.
"""

from __future__ import annotations

import json
import runpy
import time
from functools import partial
from pathlib import Path

import pytest
from arrays import largest_error
from matmul import matmul
from small_cases import CASES, Example, gradients, normal
from softmax import softmax

from tilewright.support import knobs

EXAMPLES = Path(__file__).parents[2] / "examples"
ALL = "bounds,races,uninit"


LARGE: dict[str, Example] = {
    "gradients": partial(gradients, rows=1000, columns=1000),
    "matmul": partial(matmul, normal(500, 400), normal(400, 300)),
    "softmax": partial(softmax, normal(1000, 1000)),
}


def seconds(work: Example) -> float:
    start = time.thread_time()
    work()
    return time.thread_time() - start


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_reported(name: str, num_threads: int) -> None:
    expected = CASES[name](num_threads=num_threads)
    assert largest_error(CASES[name](sanitize=ALL, num_threads=num_threads), expected) < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_checks_take_less_than_ten_times_as_long(name: str) -> None:
    """They take 1.4 to 5 times as long, when nobody else uses the machine."""
    plain, checked = partial(LARGE[name], num_threads=1), partial(LARGE[name], num_threads=1, sanitize=ALL)
    pairs = [(seconds(plain), seconds(checked)) for _ in range(12)]
    assert min(pair[1] for pair in pairs[2:]) < 10 * min(pair[0] for pair in pairs[2:])


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem != "demo"))
def test_scripts_report_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As scripts, in this process: `test_example_scripts.py` starts each in one of its own.

    Their IR is verified at the ends of stages: after every pass, that of the small problems is.
    """
    monkeypatch.setenv("TILEWRIGHT_VERIFY_PASSES", "0")
    monkeypatch.setenv("TILEWRIGHT_SANITIZE", ALL)
    sanitized: list[str] = []
    for num_threads in (1, 2):
        monkeypatch.setenv("TILEWRIGHT_NUM_THREADS", str(num_threads))
        with knobs.compilation.scope():
            knobs.compilation.listener = lambda *, metadata, **_: sanitized.append(metadata["sanitizer"])
            runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    checked = {check for checks in sanitized for check in json.loads(checks)["checks"]}
    assert checked == set(() if name == "arrays" else ALL.split(","))
