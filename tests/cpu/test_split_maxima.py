"""Maxima that let NaN through: a choice of a choice, bit by bit what it was."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.cpu.split_maxima import split_maxima
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify

TEXT = """
tt.func public @f(%a: vector<8xf32>, %b: vector<8xf32>, %c: vector<8xf32>) -> vector<8xf32> {{
  %more = arith.cmpf {predicate}, {compared} : vector<8xf32>
  %nan = arith.cmpf {nan} : vector<8xf32>
  %first = arith.ori {either} : vector<8xi1>
  %r = arith.select %first, %a, %b : vector<8xi1>, vector<8xf32>
  tt.return %r : vector<8xf32>
}}
"""
MAXIMUM = {"predicate": "ogt", "compared": "%a, %b", "nan": "une, %a, %a", "either": "%more, %nan"}


@pytest.mark.parametrize(
    "changes", [{}, {"predicate": "olt"}, {"either": "%nan, %more"}, {"nan": "uno, %a, %a"}], ids=str
)
def test_a_maximum_is_split(changes: dict[str, str]) -> None:
    module = parse_module(TEXT.format(**MAXIMUM | changes))
    assert split_maxima(module)
    verify(module)
    text = print_op(module)
    assert "arith.ori" not in text
    assert text.count("arith.select") == 2


@pytest.mark.parametrize(
    "changes",
    [
        {"compared": "%b, %a"},
        {"compared": "%a, %c"},
        {"nan": "une, %b, %b"},
        {"nan": "oeq, %a, %a"},
        {"predicate": "oeq"},
    ],
    ids=str,
)
def test_other_choices_stay(changes: dict[str, str]) -> None:
    module = parse_module(TEXT.format(**MAXIMUM | changes))
    before = print_op(module)
    assert not split_maxima(module)
    assert print_op(module) == before


@tw.jit
def greater(x_ptr, y_ptr, out_ptr, least: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    x, y = tl.load(x_ptr + i), tl.load(y_ptr + i)
    more = x < y if least else x > y
    tl.store(out_ptr + i, tl.where(more | (x != x), x, y))


@pytest.mark.parametrize("least", [False, True])
def test_every_bit_is_that_of_the_choice(least: bool) -> None:
    words = [0x7FC00001, 0xFFC00002, 0x7F800001, 0, 0x80000000, 0x7F800000, 0xFF800000, 0x3F800000, 1]
    numbers = np.array(words, np.uint32).view(np.float32)
    x, y = (each.ravel() for each in np.meshgrid(numbers, numbers))
    x, y = (np.resize(each, 128).astype(np.float32, copy=True) for each in (x, y))
    out = np.empty_like(x)
    greater[(1,)](x, y, out, least=least, N=128)
    more = x < y if least else x > y
    expected = np.where(more | np.isnan(x), x.view(np.uint32), y.view(np.uint32))
    np.testing.assert_array_equal(out.view(np.uint32), expected)
