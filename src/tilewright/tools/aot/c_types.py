"""The arguments of a kernel as they appear in C.

    parameter("x_ptr", "*fp32", is_stored=False)        TT_ConstPointer x_ptr
    parameter("n", "i32", is_stored=False)              int32_t n

Every type is one word, because the linker reads signatures from the comments of headers.
"""

from __future__ import annotations

from typing import NamedTuple

_INTEGERS = {
    f"{sign}{bits}": f"{prefix}int{bits}_t" for sign, prefix in (("i", ""), ("u", "u")) for bits in (8, 16, 32, 64)
}
TYPES = {
    **_INTEGERS,
    "i1": "int8_t",
    "u1": "uint8_t",
    "fp16": "float",
    "bf16": "float",
    "fp32": "float",
    "fp64": "double",
}
FIELDS = {"float": "single", "double": "real"}
"""The field of a slot in the launch record by C type; the others are integers or pointers."""

POINTER, CONST_POINTER = "TT_Pointer", "TT_ConstPointer"

_WORDS = """
auto break case char const continue default do double else enum extern float for goto if inline int long register
restrict return short signed sizeof static struct switch typedef union unsigned void volatile while asm
catch class delete explicit export friend mutable namespace new operator private protected public template this
throw try typename using virtual bool true false
"""
_KEYWORDS = frozenset(_WORDS.split())
"""Keywords of C and C++."""


class Parameter(NamedTuple):
    """One argument of a C function.

    Attributes:
        name: the name in C.
        type: one word.
    """

    name: str
    type: str

    def __str__(self) -> str:
        return f"{self.type} {self.name}"

    @property
    def slot(self) -> str:
        """The assignment of the argument to a slot of the launch record."""
        if self.type in (POINTER, CONST_POINTER):
            return f".pointer = {self.name}"
        return f".{FIELDS.get(self.type, 'integer')} = {self.name}"


def parameter(name: str, kind: str, *, is_stored: bool) -> Parameter:
    """An argument as it appears in C.

    Args:
        name: the name of the kernel's parameter.
        kind: its type string.
        is_stored: the kernel stores through it.
    """
    safe = f"{name}_" if name in _KEYWORDS or name.lower().startswith("tt_") else name
    if kind.startswith("*"):
        return Parameter(safe, POINTER if is_stored else CONST_POINTER)
    return Parameter(safe, TYPES[kind])


def declared(parameters: list[Parameter]) -> str:
    """Parameters in a declaration, each with a comma in front."""
    return "".join(f", {parameter}" for parameter in parameters)


def passed(parameters: list[Parameter]) -> str:
    """Parameters in a call, each with a comma in front."""
    return "".join(f", {parameter.name}" for parameter in parameters)
