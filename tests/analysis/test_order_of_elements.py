"""Results of functions of reductions that depend on the order of two elements."""

from __future__ import annotations

import pytest

import tilewright.dialects
from tilewright.analysis.order_of_elements import ordered_results
from tilewright.dialects.tt_reduce import Reduce
from tilewright.ir.parser import parse_module

assert tilewright.dialects.__all__

INDEX_OF_LARGEST = """
    %above = arith.cmp{compare} %a, %b : {type}
    %equal = arith.cmp{equal}, %a, %b : {type}
    %first = arith.cmpi slt, %i, %j : i32
    %tie = arith.andi %equal, %first : i1
    %chosen = arith.ori %above, %tie : i1
    %value = arith.select %chosen, %a, %b : {type}
    %number = arith.select %chosen, %i, %j : i32
    tt.reduce.return %value, %number : {type}, i32
"""
NAN_IS_LARGEST = INDEX_OF_LARGEST.replace(
    "%above = arith.cmp{compare} %a, %b : {type}",
    """%above_ = arith.cmpf ogt, %a, %b : f32
    %none = arith.cmpf une, %a, %a : f32
    %other = arith.cmpf oeq, %b, %b : f32
    %only = arith.andi %none, %other : i1
    %above = arith.ori %above_, %only : i1""",
).replace(
    "%tie = arith.andi %equal,",
    """%none_ = arith.cmpf une, %b, %b : f32
    %both_ = arith.andi %none, %none_ : i1
    %both = arith.ori %equal, %both_ : i1
    %tie = arith.andi %both,""",
)
MEAN = """
    %0 = arith.subf %b, %a : f32
    %1 = arith.addi %i, %j : i32
    %2 = arith.sitofp %1 : i32 to f32
    %3 = arith.divf %0, %2 : f32
    %4 = arith.addf %a, %3 : f32
    tt.reduce.return %4, %1 : f32, i32
"""
SUMS = """
    %0 = arith.addf %a, %b : f32
    %1 = arith.addi %j, %i : i32
    tt.reduce.return %0, %1 : f32, i32
"""
DIFFERENCE_OF_SUMS = """
    %0 = arith.addf %a, %b : f32
    %1 = arith.addf %b, %a : f32
    %2 = arith.subf %0, %1 : f32
    %3 = arith.fptosi %2 : f32 to i32
    tt.reduce.return %1, %3 : f32, i32
"""
SUM_OF_DIFFERENCES = """
    %0 = arith.subf %a, %b : f32
    %1 = arith.fptosi %a : f32 to i32
    %2 = arith.fptosi %b : f32 to i32
    %3 = arith.addi %1, %2 : i32
    tt.reduce.return %0, %3 : f32, i32
"""
BY_SIGN = """
    %s = arith.cmpi sgt, %i, %j : i32
    %u = arith.cmpi ugt, %i, %j : i32
    %c = arith.andi %s, %u : i1
    %0 = arith.select %c, %i, %j : i32
    tt.reduce.return %a, %0 : f32, i32
"""
LARGER_NUMBER = """
    %s = arith.cmpi sgt, %i, %j : i32
    %0 = arith.select %s, %i, %j : i32
    %1 = arith.maxnumf %a, %b : f32
    tt.reduce.return %1, %0 : f32, i32
"""


def ordered(body: str, type: str = "f32") -> set[int]:
    """The numbers of the results that depend on the order in a function of `%a` and `%i`, and `%b` and `%j`."""
    text = f"""
tt.func @f(%x: tensor<64x{type}>, %y: tensor<64xi32>) -> ({type}, i32) {{
  %r:2 = "tt.reduce"(%x, %y) <{{axis = 0 : i32}}> ({{
  ^bb0(%a: {type}, %i: i32, %b: {type}, %j: i32):
{body}
  }}) : (tensor<64x{type}>, tensor<64xi32>) -> ({type}, i32)
  tt.return %r#0, %r#1 : {type}, i32
}}
"""
    (op,) = (op for op in parse_module(text).walk() if isinstance(op, Reduce))
    return set(ordered_results(op))


@pytest.mark.quick
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (SUMS, set()),
        (DIFFERENCE_OF_SUMS, set()),
        (MEAN, {0}),
        (SUM_OF_DIFFERENCES, {0, 1}),  # the second is computed from the first of the fold before
        (BY_SIGN, {0, 1}),
        (LARGER_NUMBER, {1}),  # it is not executed: maxnumf computes
        (NAN_IS_LARGEST.format(type="f32", equal="f oeq"), set()),
    ],
)
def test_functions(body: str, expected: set[int]) -> None:
    assert ordered(body) == expected


def test_the_place_of_the_largest_is_that_of_any_order_unless_there_are_nans() -> None:
    assert ordered(INDEX_OF_LARGEST.format(type="i32", compare="i sgt,", equal="i eq"), "i32") == set()
    assert ordered(INDEX_OF_LARGEST.format(type="f32", compare="f ogt,", equal="f oeq")) == {0, 1}


def test_the_last_of_two_equal_elements_depends_on_the_order() -> None:
    body = INDEX_OF_LARGEST.format(type="i32", compare="i sgt,", equal="i eq").replace("slt", "eq")
    assert ordered(body, "i32") == {0, 1}  # the next comparison reads what depends on it
