"""`bench/run.py`: a row compares on equal terms, and says when those are not the usual ones."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

RUN = runpy.run_path(str(Path(__file__).parents[2] / "bench" / "run.py"))
ROW: dict[str, Any] = {
    "row": "layer norm",
    "ours": 1e-3,
    "anew": 2e-3,
    "peers": {"numpy": 3e-3, "torch": 3e-3},
    "making": ["torch"],
    "against": "torch",
}


def test_a_peer_that_makes_its_result_is_compared_with_ours_that_does_so() -> None:
    assert RUN["ratio"](ROW, "torch") == pytest.approx(1.5)
    assert RUN["ratio"](ROW, "numpy") == pytest.approx(3)
    assert RUN["line"](ROW).split() == ["layer", "norm", "2", "ms", "torch*", "3", "ms", "1.50", "numpy", "3.00"]


@pytest.mark.parametrize(("against", "verdict"), [("torch", "MISS"), ("numpy", "ok")])
def test_the_bar_is_for_equal_terms(against: str, verdict: str) -> None:
    assert RUN["verdict"]({**ROW, "against": against, "bar": 2.0}) == verdict


def test_without_such_peers_nothing_is_marked() -> None:
    row = {"row": "add", "ours": 1e-3, "peers": {"numpy": 3e-3}, "against": "numpy", "bar": 1.0}
    assert RUN["line"](row).split() == ["add", "1", "ms", "numpy", "3", "ms", "3.00", "≥", "1.00", "ok"]
