"""The language's types: interned, and with the IR's spelling."""

from __future__ import annotations

import pickle

import pytest

from tilewright.semantics.types import (
    block_type,
    dtype,
    float32,
    float64,
    int1,
    int8,
    int32,
    pointer_type,
    uint8,
    uint32,
)
from tilewright.support.diagnostics import SemanticError

NAMES = [*dtype.SINT_TYPES, *dtype.UINT_TYPES, *dtype.FP_TYPES]


def test_types_are_interned() -> None:
    assert dtype("fp32") is float32
    assert pointer_type(float32) is pointer_type(float32)
    assert pointer_type(float32, const=True) is not pointer_type(float32)
    assert block_type(float32, [4, 2]) is block_type(float32, (4, 2))


@pytest.mark.quick
@pytest.mark.parametrize("kind", [float32, uint8, pointer_type(int1), block_type(uint32, (4,))], ids=str)
def test_pickling_keeps_identity(kind: dtype) -> None:
    assert pickle.loads(pickle.dumps(kind)) is kind


def test_ir_types_have_no_sign() -> None:
    assert int32.ir is uint32.ir
    assert block_type(pointer_type(float32), (4,)).ir.text == "tensor<4x!tt.ptr<f32>>"
    assert {dtype(name).ir.text for name in dtype.FP_TYPES} == {
        *("f8E4M3B11FNUZ", "f8E4M3FN", "f8E4M3FNUZ", "f8E5M2", "f8E5M2FNUZ", "f16", "bf16", "f32", "f64")
    }


@pytest.mark.quick
@pytest.mark.parametrize("name", NAMES)
def test_predicates_agree_with_the_name(name: str) -> None:
    kind = dtype(name)
    assert getattr(kind, f"is_{name}")()
    assert kind.is_int() == ("int" in name)
    assert kind.is_floating() != kind.is_int()


def test_pointers_say_so() -> None:
    assert pointer_type(float32).is_ptr()
    assert not float32.is_ptr()


def test_limits_of_integers() -> None:
    assert (int8.get_int_min_value(), int8.get_int_max_value()) == (-128, 127)
    assert (uint8.get_int_min_value(), uint8.get_int_max_value()) == (0, 255)


def test_mangling() -> None:
    assert pointer_type(float64).mangle() == "Pfp64"
    assert block_type(uint8, (2, 4)).mangle() == "u8S2_4S"


@pytest.mark.parametrize(
    ("shape", "message"),
    [((), "no shape"), ((3,), "powers of two"), ((4, 0), "powers of two"), ((2048, 1024), "too large")],
)
def test_impossible_shapes(shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(SemanticError, match=message):
        block_type(float32, shape)


def test_unknown_names() -> None:
    with pytest.raises(ValueError, match="float33"):
        dtype("float33")
