"""The promotion table, measured with Triton: `dtype of load(*A) + load(*B)`; rows and columns in one order."""

from __future__ import annotations

import itertools

import pytest

from tilewright.semantics.promotion import dtype_of_number, number_as, promote
from tilewright.semantics.types import (
    bfloat16,
    dtype,
    float16,
    float32,
    float64,
    int1,
    int8,
    int32,
    int64,
    uint8,
    uint32,
    uint64,
)
from tilewright.support.diagnostics import SemanticError

pytestmark = pytest.mark.quick

TABLE = """
         int1   int8   int16  int32  int64  uint8  uint16 uint32 uint64 fp16   bf16   fp32   fp64   fp8e5  fp8e4nv
int1     int1   int8   int16  int32  int64  uint8  uint16 uint32 uint64 fp16   fp32   fp32   fp64   ERR    ERR
int8     int8   int8   int16  int32  int64  uint8  uint16 uint32 uint64 fp16   fp32   fp32   fp64   ERR    ERR
int16    int16  int16  int16  int32  int64  int16  uint16 uint32 uint64 fp16   fp32   fp32   fp64   ERR    ERR
int32    int32  int32  int32  int32  int64  int32  int32  uint32 uint64 fp16   fp32   fp32   fp64   ERR    ERR
int64    int64  int64  int64  int64  int64  int64  int64  int64  uint64 fp16   fp32   fp32   fp64   ERR    ERR
uint8    uint8  uint8  int16  int32  int64  uint8  uint16 uint32 uint64 fp16   fp32   fp32   fp64   ERR    ERR
uint16   uint16 uint16 uint16 int32  int64  uint16 uint16 uint32 uint64 fp16   fp32   fp32   fp64   ERR    ERR
uint32   uint32 uint32 uint32 uint32 int64  uint32 uint32 uint32 uint64 fp16   fp32   fp32   fp64   ERR    ERR
uint64   uint64 uint64 uint64 uint64 uint64 uint64 uint64 uint64 uint64 fp16   fp32   fp32   fp64   ERR    ERR
fp16     fp16   fp16   fp16   fp16   fp16   fp16   fp16   fp16   fp16   fp16   fp16   fp32   fp64   fp16   fp16
bf16     fp32   fp32   fp32   fp32   fp32   fp32   fp32   fp32   fp32   fp16   bf16   fp32   fp64   fp32   fp32
fp32     fp32   fp32   fp32   fp32   fp32   fp32   fp32   fp32   fp32   fp32   fp32   fp32   fp64   fp32   fp32
fp64     fp64   fp64   fp64   fp64   fp64   fp64   fp64   fp64   fp64   fp64   fp64   fp64   fp64   fp64   fp64
fp8e5    ERR    ERR    ERR    ERR    ERR    ERR    ERR    ERR    ERR    fp16   fp32   fp32   fp64   fp8e5  fp16
fp8e4nv  ERR    ERR    ERR    ERR    ERR    ERR    ERR    ERR    ERR    fp16   fp32   fp32   fp64   fp16   fp8e4nv
"""

HEADER, *ROWS = [line.split() for line in TABLE.strip().splitlines()]
INTEGERS = [name for name in HEADER if "int" in name]


def promoted(left: str, right: str, **facts: bool) -> str:
    try:
        return promote(dtype(left), dtype(right), **facts).name
    except SemanticError:
        return "ERR"


def test_two_tiles() -> None:
    found = {(row[0], column): promoted(row[0], column) for row in ROWS for column in HEADER}
    assert found == {(row[0], column): name for row in ROWS for column, name in zip(HEADER, row[1:], strict=True)}


def test_division_computes_narrow_floats_in_fp32() -> None:
    for left, right in itertools.product(HEADER, HEADER):
        usual, division = promoted(left, right), promoted(left, right, division=True)
        if left in INTEGERS and right in INTEGERS:
            same_sign = dtype(left).signed == dtype(right).signed
            assert division == (usual if same_sign else "ERR"), (left, right)
        else:
            assert division == ("fp64" if usual == "fp64" else "fp32"), (left, right)


@pytest.mark.parametrize(
    ("tile", "number", "expected"),
    [
        ("int8", "int32", "int8"),
        ("int1", "int32", "int32"),
        ("uint8", "int32", "uint8"),
        ("int32", "fp32", "fp32"),
        ("fp16", "fp32", "fp16"),
        ("bf16", "fp32", "bf16"),
        ("bf16", "int32", "bf16"),
        ("fp8e5", "fp32", "fp8e5"),
        ("fp16", "int1", "fp16"),
        ("fp32", "fp64", "fp32"),
    ],
)
def test_a_number_of_no_higher_kind_adapts(tile: str, number: str, expected: str) -> None:
    assert promoted(tile, number, right_is_number=True) == expected
    assert promoted(number, tile, left_is_number=True) == expected


def test_a_number_divides_halves_in_fp32() -> None:
    assert promoted("fp16", "int32", right_is_number=True, division=True) == "fp32"
    assert promoted("fp32", "int32", right_is_number=True, division=True) == "fp32"


@pytest.mark.quick
@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (True, int1),
        (0, int32),
        (-(2**31), int32),
        (2**31, uint32),
        (2**32, int64),
        (-(2**31) - 1, int64),
        (2**63, uint64),
        (0.0, float32),
        (1e38, float32),
        (1e39, float64),
        (1e-40, float64),
        (float("inf"), float32),
        (float("nan"), float32),
    ],
)
def test_type_of_a_number(number: float, expected: dtype) -> None:
    assert dtype_of_number(number) is expected


def test_numbers_beyond_64_bits_are_refused() -> None:
    with pytest.raises(SemanticError, match="does not fit"):
        dtype_of_number(2**64)


@pytest.mark.parametrize(
    ("number", "target", "expected"),
    [
        (300, uint8, 44),
        (200, int8, -56),
        (2**32 - 1, uint32, -1),
        (-1.7, int32, -1),
        (0.5, int1, True),
        (3, float16, 3.0),
        (7, bfloat16, 7.0),
        (1, int64, 1),
    ],
)
def test_number_in_a_type(number: float, target: dtype, expected: float) -> None:
    assert number_as(number, target) == expected
    assert type(number_as(number, target)) is type(expected)
