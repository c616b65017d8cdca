"""Types as they appear in annotations and signatures: `tl.const`, `"*fp32"`."""

from __future__ import annotations

from builtins import slice
from typing import Any

from tilewright.semantics.constexpr import constexpr_type
from tilewright.semantics.types import AnyType, dtype, float32, float64, int1, int32, pointer_type

__all__ = ["const", "constexpr_type", "pi32_t", "slice", "str_to_ty", "tuple_type"]

pi32_t = pointer_type(int32)


class const:  # noqa: N801 - Triton's name
    """Annotation of a pointer parameter through which nothing is written."""


class tuple_type:  # noqa: N801 - Triton's name
    """The type of a tuple: those of its values, possibly with names.

    Attributes:
        types: one for each value.
        fields: the names of the values, or None.
    """

    def __init__(self, types: Any, fields: Any = None) -> None:
        self.types = list(types)
        self.fields = fields

    def __eq__(self, other: object) -> bool:
        return isinstance(other, tuple_type) and (self.types, self.fields) == (other.types, other.fields)

    def __hash__(self) -> int:
        return hash(tuple(self.types))

    def __repr__(self) -> str:
        return f"[{','.join(map(str, self.types))}]"


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
