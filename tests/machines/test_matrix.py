"""The rows of `matrix.py`, from logs as programs write them."""

from __future__ import annotations

import matrix
import pytest

FIRST = "ok     Python  CPython\ndoctor: nothing wrong\ndemo: 13 rows right\nlaunch: 1.25 µs\n"


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (
            f"tests on it\n{FIRST}FAILED a.py::f - in 3s\n2 failed, 1589 passed, 88 skipped in 400.02s (0:06:40)\n",
            "| it | 1589 | 2 | 88 | nothing wrong | 13 rows right | 1.25 µs | 3 |",
        ),
        (
            f"{FIRST}tests/a: 1 failed, 2 passed, 1 warning, 3 errors in 9.1s\ntests/b: 40 passed in 3.00s\n",
            "| it | 42 | 4 | 0 | nothing wrong | 13 rows right | 1.25 µs | 3 |",
        ),
        (
            "doctor: wrong  cache  no\r\nTraceback\n",
            "| it | 0 | 0 | 0 | wrong  cache  no | not run | not run | 3 |",
        ),
    ],
)
def test_row(log: str, expected: str) -> None:
    assert matrix.row("it", log, 3.2) == expected
