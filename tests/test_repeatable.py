"""Tests find the same whatever ran before them: random data, and machine code."""

from __future__ import annotations

import os
import time
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import settings

from remembered_code import DAYS, forget_old, remembering
from tilewright.backends.llvm.machine import host_target

RNG, PLAIN = np.random.default_rng(3), Random(3)


@pytest.mark.parametrize("turn", range(2))
def test_generators_of_a_module_start_anew(turn: int) -> None:
    assert RNG.random() == np.random.default_rng(3).random()
    assert PLAIN.random() == Random(3).random()


def test_hypothesis_draws_the_same_examples() -> None:
    assert settings().derandomize
    assert settings().deadline is None


def test_machine_code_is_made_once_for_the_same_text_machine_and_level() -> None:
    made: list[tuple[object, ...]] = []
    code = remembering(lambda *facts, optimize: made.append((*facts, optimize)) or str(len(made)).encode())
    host, other = host_target(), host_target("neoverse-n1")
    asked = [("a", host, 1), ("b", host, 1), ("a", other, 1), ("a", host, 2), ("b", host, 1), ("a", other, 1)]
    assert [code(*facts, optimize=False) for facts in asked] == [b"1", b"2", b"3", b"4", b"2", b"3"]
    assert code("a", host, 1, optimize=True) == b"5"
    assert len(made) == 5


def test_machine_code_is_kept_for_other_processes_and_forgotten_when_nobody_asks_for_it(tmp_path: Path) -> None:
    made: list[str] = []

    def compiled(text: str, *, optimize: bool) -> bytes:
        made.append(text)
        return f"{text}{len(made)}".encode()

    first, second = (remembering(compiled, tmp_path, b"LLVM 20") for _ in range(2))
    assert [first("a", optimize=True), second("a", optimize=True), first("b", optimize=True)] == [b"a1", b"a1", b"b2"]
    assert remembering(compiled, tmp_path, b"LLVM 21")("a", optimize=True) == b"a3"
    assert remembering(compiled)("a", optimize=True) == b"a4"
    assert len([*tmp_path.iterdir()]) == 3
    (of_b,) = (file for file in tmp_path.iterdir() if file.read_bytes() == b"b2")
    for days, left in ((DAYS - 1, 3), (DAYS + 1, 2)):
        os.utime(of_b, (time.time() - days * 86400,) * 2)
        forget_old(tmp_path)
        assert len([*tmp_path.iterdir()]) == left
    assert remembering(compiled, tmp_path, b"LLVM 20")("b", optimize=True) == b"b5"
