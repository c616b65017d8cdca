"""The registers of inline assembly: each holds a tile, one element per execution of the text.

    registers = RegisterFile({"$1": Held(32, tile)}, {"t0": 8, "t1": 8})
    registers.read(Register("$1"), uint32)      the bits of $1 as uint32
    registers.write(Register("t0"), tile)

A register has a width and no type: each instruction interprets its bits.

The semantics of one kind of instruction are its function and its types:

    "shl": Semantics(shift_left, only("b16 b32 b64"), then(uint32))

    shl.b64 d, a, n      a is a uint64, n is a uint32
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.language.extra.bits import bitcast, width
from tilewright.language.operations import cast, where
from tilewright.semantics.arithmetic import invert, to_tensor
from tilewright.semantics.errors import NotOnThisTarget
from tilewright.semantics.types import (
    bfloat16,
    dtype,
    float16,
    float32,
    float64,
    int1,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from tilewright.support.diagnostics import SemanticError
from tilewright.support.ptx_syntax import Immediate, Instruction, Operand, Register, Sink

UNSIGNED = {1: int1, 8: uint8, 16: uint16, 32: uint32, 64: uint64}
"""Types of plain bits, by their number."""
TYPES: dict[str, dtype] = {
    **{f"{letter}{bits}": UNSIGNED[bits] for letter in "bu" for bits in (8, 16, 32, 64)},
    "s8": int8,
    "s16": int16,
    "s32": int32,
    "s64": int64,
    "f16": float16,
    "bf16": bfloat16,
    "f32": float32,
    "f64": float64,
    "f16x2": uint32,
    "bf16x2": uint32,
    "u16x2": uint32,
    "s16x2": uint32,
    "f32x2": uint64,
    "pred": int1,
}
"""Types of PTX → those of the language; two halves in one register are bits."""


def refused(reason: str) -> SemanticError:
    """The error for inline assembly that a CPU refuses, and why: `bar.sync` is an instruction of GPUs."""
    return SemanticError(NotOnThisTarget("inline_asm_elementwise", reason, "write the operation with tl functions"))


@dataclass
class Held:
    """The content of a register of `bits` bits, for each element."""

    bits: int
    tile: Any = None


class RegisterFile:
    """The contents of a text's registers.

    Args:
        named: results and operands.
        declared: bits of the registers that the text declares.
    """

    def __init__(self, named: Mapping[str, Held], declared: Mapping[str, int]) -> None:
        self._held = {name: Held(bits) for name, bits in declared.items()} | dict(named)

    def target(self, operand: Operand) -> Held:
        """The register that an instruction writes."""
        found = self._find(operand)
        if found is None:
            raise refused(f"`{operand}` is no register of the text")
        return found

    def _find(self, operand: Operand) -> Held | None:
        return self._held.get(operand.name) if isinstance(operand, Register) else None

    def read(self, operand: Operand, kind: dtype, *, chops: bool = False) -> Any:
        """A register or a number as a tile of `kind`; with `chops` the low bits of a wider register."""
        register = self._find(operand)
        if register is None:
            return number(operand, kind)
        if register.tile is None:
            raise refused(f"`{operand}` has no value yet")
        if chops and register.bits > width_of(kind):
            return read_as(chopped(raw(register.tile), width_of(kind)), kind)
        return read_as(register.tile, kind)

    def guard(self, instruction: Instruction) -> Any:
        """The mask under which an instruction runs, or None for everywhere."""
        if instruction.guard is None:
            return None
        held = self.read(Register(instruction.guard), int1)
        return invert(held) if instruction.guard_negated else held

    def write(self, operand: Operand, tile: Any, guard: Any = None, *, extends: bool = False) -> None:
        """Give a register a value where `guard` holds; with `extends` it may be wider than the value.

        Elsewhere it keeps what it had; if that was nothing, PTX leaves open what stands there.
        """
        if isinstance(operand, Sink):
            return
        register = self.target(operand)
        if extends and width_of(tile.type.scalar) < register.bits:
            tile = extended(tile, register.bits)
        if width_of(tile.type.scalar) != register.bits:
            raise refused(f"a value of {width_of(tile.type.scalar)} bits is written to `{operand}`, of {register.bits}")
        if guard is not None and register.tile is not None:
            tile = where(guard, tile, self.read(operand, tile.type.scalar))
        register.tile = tile


def width_of(kind: dtype) -> int:
    """The bits of a type; pointers have 64."""
    return 64 if kind.is_ptr() else int(kind.primitive_bitwidth)


def raw(tile: Any) -> Any:
    """The bits of each element, as an unsigned integer; truth values stay."""
    kind = tile.type.scalar
    return cast(tile, uint64) if kind.is_ptr() else bitcast(tile, UNSIGNED[width_of(kind)])


def chopped(tile: Any, bits: int) -> Any:
    """The lowest bits of each element."""
    return tile if width_of(tile.type.scalar) == bits else cast(tile, UNSIGNED[bits])


def extended(tile: Any, bits: int) -> Any:
    """A narrower value in more bits: with its sign, if it has one that counts."""
    kind = tile.type.scalar
    return cast(tile if kind.is_int() else raw(tile), UNSIGNED[bits])


def read_as(tile: Any, kind: dtype) -> Any:
    """The bits of `tile` under another type."""
    held = tile.type.scalar
    if width_of(held) != width_of(kind):
        raise refused(f"a register of {width_of(held)} bits is used as {kind}")
    if held == kind:
        return tile
    return cast(raw(tile), kind) if kind.is_ptr() else bitcast(raw(tile), kind)


def number(operand: Operand, kind: dtype) -> Any:
    """A constant of the text as `kind`: an integer, a float in decimals, or the bits of one."""
    if isinstance(operand, Immediate):
        if operand.float_bits is not None:
            return read_as(constant(*operand.float_bits), kind)
        if operand.whole is None and kind in (float32, float64):
            return cast(to_tensor(float(operand.text)), kind)
        if operand.whole is not None and not kind.is_floating():
            return read_as(constant(operand.whole, width_of(kind)), kind)
    raise refused(f"`{operand}` is no register with a value, and no number of {kind}")


def constant(value: int, size: int) -> Any:
    """A constant of `size` bits."""
    return cast(to_tensor(value % (1 << size)), UNSIGNED[size])


def parts(tile: Any, count: int) -> list[Any]:
    """`count` equal parts of the bits, the lowest first."""
    whole, size = raw(tile), width(tile) // count
    return [cast(whole >> (size * place), UNSIGNED[size]) for place in range(count)]


def joined(tiles: Sequence[Any], size: int) -> Any:
    """Several values in one of `size` bits, the first one lowest; zeros above them."""
    kind, place = UNSIGNED[size], 0
    whole: Any = None
    for tile in tiles:
        wide = cast(raw(tile), kind) << place if place else cast(raw(tile), kind)
        whole = wide if whole is None else whole | wide
        place += width(tile)
    return whole


Kinds = Callable[[dtype, int], Sequence[dtype]]
"""The types of the operands, from the type that the instruction names and their number."""


def alike(kind: dtype, count: int) -> Sequence[dtype]:
    """All operands are of the type that the instruction names."""
    return [kind] * count


def then(*last: dtype) -> Kinds:
    """Kinds as those of `alike`, but the last operands are of these types."""
    return lambda kind, count: [*[kind] * (count - len(last)), *last]


def only(types: str) -> frozenset[str]:
    """A set of types of PTX, from a line of them."""
    return frozenset(types.split())


@dataclass(frozen=True)
class Semantics:
    """`compute` takes tiles of `kinds`; `types` are those that may stand at the end of the name.

    With `halves` the operands are registers of 32 bits with two halves each. With `extends` the target may have more
    bits than the result. With `constant` the last operand is a number, and `compute` takes it as one.
    """

    compute: Callable[..., Any]
    types: frozenset[str]
    kinds: Kinds = alike
    extends: bool = False
    constant: bool = False
