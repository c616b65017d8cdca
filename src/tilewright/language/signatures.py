"""Types as they appear in signatures: `"*fp32"`."""

from __future__ import annotations

from builtins import slice
from typing import Any

from tilewright.semantics.constexpr import constexpr_type
from tilewright.semantics.types import AnyType, dtype, float32, float64, int1, int32, pointer_type

__all__ = ["pi32_t", "slice", "str_to_ty"]

pi32_t = pointer_type(int32)


_SIGNATURE_NAMES = {
    "i1": int1,
    "u1": int1,
    "B": int1,
    "fp8e4b8": dtype("fp8e4b8"),
    **{f"i{bits}": dtype(f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"u{bits}": dtype(f"uint{bits}") for bits in (8, 16, 32, 64)},
    "f32": float32,
    "f64": float64,
}


def str_to_ty(name: str, c: Any = None) -> AnyType | constexpr_type:
    """The type that a signature string means: `i32`, `*fp16`, `*ki8` (const pointer), `constexpr`.

    Args:
        name: as Triton spells types in signatures.
        c: the value, for `constexpr`.

    Raises:
        ValueError: there is no such type.
    """
    if name.startswith("*"):
        constant = name.startswith("*k")
        element = str_to_ty(name[2 if constant else 1 :])
        assert not isinstance(element, constexpr_type), "nothing points at constants"
        return pointer_type(element, const=constant)
    if name == "constexpr":
        return constexpr_type(c)
    return _SIGNATURE_NAMES.get(name) or dtype(name)
