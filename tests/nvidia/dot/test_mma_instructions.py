"""The forms of `mma.sync` by elements and device."""

from __future__ import annotations

import pytest

from tilewright.backends.nvidia.lower.dot.instructions import (
    instruction_bits,
    instruction_for,
    scaled_instruction,
    scaled_kind,
)
from tilewright.ir.types import FLOATS, Type, bf16, f16, f32, f64, i8, i32

E4, E5 = FLOATS["f8E4M3FN"], FLOATS["f8E5M2"]


@pytest.mark.quick
@pytest.mark.parametrize(
    ("a", "b", "sum", "capability", "name"),
    [
        (f16, f16, f32, 75, "m16n8k8.row.col.f32.f16.f16.f32"),
        (f16, f16, f16, 75, "m16n8k8.row.col.f16.f16.f16.f16"),
        (i8, i8, i32, 75, "m8n8k16.row.col.satfinite.s32.s8.s8.s32"),
        (f16, f16, f32, 80, "m16n8k16.row.col.f32.f16.f16.f32"),
        (f16, f16, f16, 80, "m16n8k16.row.col.f16.f16.f16.f16"),
        (bf16, bf16, f32, 90, "m16n8k16.row.col.f32.bf16.bf16.f32"),
        (f32, f32, f32, 80, "m16n8k8.row.col.f32.tf32.tf32.f32"),
        (i8, i8, i32, 80, "m16n8k32.row.col.satfinite.s32.s8.s8.s32"),
        (f64, f64, f64, 80, "m8n8k4.row.col.f64.f64.f64.f64"),
        (E4, E5, f32, 89, "m16n8k32.row.col.f32.e4m3.e5m2.f32"),
        (E5, E5, f16, 120, "m16n8k32.row.col.f16.e5m2.e5m2.f16"),
    ],
)
def test_names(a: Type, b: Type, sum: Type, capability: int, name: str) -> None:
    found = instruction_for(a, b, sum, capability)
    assert found is not None
    assert found.name == name


@pytest.mark.quick
@pytest.mark.parametrize(
    ("a", "sum", "capability"), [(bf16, f32, 75), (f64, f64, 75), (E4, f32, 80), (bf16, f16, 90), (i8, f32, 80)]
)
def test_what_no_instruction_multiplies(a: Type, sum: Type, capability: int) -> None:
    assert instruction_for(a, a, sum, capability) is None


def test_products_of_f64_are_as_long_as_the_sum_allows() -> None:
    found = [instruction_for(f64, f64, f64, 90, k) for k in (4, 8, 16, 64)]
    assert [one.k for one in found if one] == [4, 8, 16, 16]


def test_scaled_products() -> None:
    eight, four, exact = (
        scaled_instruction(*kinds) for kinds in (("e4m3", "e5m2", i8), ("e2m1", "e2m1", i8), ("e2m1", "e2m1", E4))
    )
    prefix = "row.col.kind::mxf8f6f4.block_scale.scale_vec::1X"
    assert eight.name == f"m16n8k32.{prefix}.f32.e4m3.e5m2.f32.ue8m0"
    assert four.name == "m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0"
    assert exact.name.endswith("scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3")


def test_what_products_into_tensor_memory_are_told() -> None:
    # 128x128 of f16 into f32, the right operand read across what is summed over: as in Triton 3.9's code.
    assert instruction_bits("f16", "f16", "f32", 128, 128, across=(False, True)) == 136380432
    assert (
        instruction_bits("s8", "s8", "s32", 64, 8, across=(False, False))
        == 4 << 24 | 1 << 17 | 1 << 10 | 1 << 7 | 2 << 4
    )
    numbers = {"f16": 0, "bf16": 1, "tf32": 2, "e4m3": 0, "e5m2": 1}
    found = {kind: instruction_bits(kind, kind, "f32", 64, 8, across=(False, False)) >> 7 & 0x3F for kind in numbers}
    assert found == {kind: number << 3 | number for kind, number in numbers.items()}


def test_kinds_of_scaled_products_into_tensor_memory() -> None:
    def name(a: str, b: str, *, exponents: bool = True, across: bool = False) -> str:
        return scaled_kind(a, b, exponents=exponents, across=across).name.split(".")[0]

    assert name("e4m3", "e2m1") == "mxf8f6f4"
    assert name("e2m1", "e2m1") == "mxf4"
    assert name("e2m1", "e2m1", across=True) == "mxf8f6f4"
    assert name("e2m1", "e2m1", exponents=False) == "mxf4nvf4"
    kind = scaled_kind("e2m1", "e2m1", exponents=True, across=False)
    third = kind.bits("e2m1", "e2m1", 128, 64, 3, across=(False, False))
    assert third >> 29 & 3 == third >> 4 & 3 == 2  # the second half of a word
    assert third >> 7 & 7 == third >> 10 & 7 == 1
