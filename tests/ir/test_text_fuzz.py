"""Damaged text: some cases always, 4,000 of them with the slow tests; `text_fuzz.py --minutes 60` goes on longer."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from text_fuzz import FILES, damaged, outcome, run

from long_runs import LONG


@pytest.mark.spared
def test_undamaged_texts_are_kept() -> None:
    assert {outcome(path.read_text()) for path in FILES} == {"kept"}


def test_damage_is_reported_or_harmless() -> None:
    outcomes = Counter(outcome(damaged(random.Random(seed))) for seed in range(150))
    assert outcomes.keys() == {"refused", "kept"}


@pytest.mark.slow
@pytest.mark.parametrize("count", [700, pytest.param(4000, marks=LONG)])
def test_more_damage(count: int) -> None:
    counts, found = run(range(1000, 1000 + count))
    assert not found, [(seed, result) for seed, result, _ in found[:5]]
    assert min(counts["refused"], counts["kept"]) > count // 40


def test_bytes_that_are_no_text_survive() -> None:
    assert outcome('tt.func @f(%x: i32) {\n  tt.print "a\\99" : %x : i32\n  tt.return\n}') == "kept"
