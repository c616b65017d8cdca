"""`tl.inline_asm_elementwise`: PTX that a program brings along.

    tl.inline_asm_elementwise("shf.l.wrap.b32 $0, $1, $2, $3;", "=r,r,r,r", [low, high, 5], tl.int32, True, 1)

For a GPU the text stays what it is. Elsewhere it is read: lines of `extra.instructions`, which have one meaning on
every machine, become operations on tiles, and any other instruction is refused by its name.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Sequence
from typing import Any

from tilewright.language.extra.bits import bitcast, width
from tilewright.language.extra.instructions import INSTRUCTIONS, SHIFTS, TYPES
from tilewright.language.operations import cast
from tilewright.semantics.active import gpu_capability
from tilewright.semantics.arithmetic import to_tensor
from tilewright.semantics.broadcasting import broadcast_shapes, stretch
from tilewright.semantics.constexpr import unwrap, unwrap_all
from tilewright.semantics.errors import NotOnThisTarget
from tilewright.semantics.inline_assembly import inline_assembly
from tilewright.semantics.tile import Tile
from tilewright.semantics.types import dtype, float32, float64, uint32, uint64
from tilewright.support.diagnostics import SemanticError

NUMBER = re.compile(r"-?(0x[0-9a-fA-F]+|\d+)U?\Z")
FLOAT = re.compile(r"0[fFdD]([0-9a-fA-F]{8}|[0-9a-fA-F]{16})\Z")
REGISTERS_32 = "rf"
REGISTERS_64 = "ld"


def inline_asm_elementwise(asm: Any, constraints: Any, args: Any, dtype: Any, is_pure: Any, pack: Any) -> Any:
    """PTX for each element, or for `pack` at a time.

    Args:
        asm: the text, with `$0`, `$1`, … for results and operands.
        constraints: the kinds of registers, as LLVM spells them: `=r,r`.
        args: tiles and numbers, which broadcast. Elements narrower than 32 bits share registers.
        dtype: the element type of the result, or a tuple for several.
        is_pure: the text does nothing but compute its results.
        pack: how many elements the text takes; 1 where the kernel is not compiled for a GPU.

    Raises:
        SemanticError: the kernel is not compiled for a GPU, and the text has an instruction that only GPUs have.
    """
    kinds = unwrap_all(dtype)
    several = isinstance(kinds, (builtins.tuple, list))
    results = list(kinds) if several else [kinds]
    text, registers, values = str(unwrap(asm)), str(unwrap(constraints)), unwrap(args)
    if gpu_capability():
        found = inline_assembly(text, registers, values, results, pure=bool(unwrap(is_pure)), packed=unwrap(pack))
    else:
        found = computed(text, registers.split(","), values, results, unwrap(pack))
    return builtins.tuple(found) if several else found[0]


def computed(
    text: str, constraints: Sequence[str], values: Sequence[Any], results: Sequence[dtype], pack: int
) -> list[Tile]:
    """What `text` computes, as operations on tiles."""
    if pack != 1:
        raise _refused("`pack` shares the registers of a GPU between elements")
    tiles = [to_tensor(value) for value in values]
    shape: builtins.tuple[int, ...] = ()
    for tile in tiles:
        shape = broadcast_shapes(shape, tile.extents)
    registers = _operands([stretch(tile, shape) for tile in tiles], constraints, len(results))
    for line in _lines(text):
        _execute(line, registers)
    missing = [f"${number}" for number in range(len(results)) if f"${number}" not in registers]
    if missing:
        raise _refused(f"the text gives {missing[0]} no value")
    return [stretch(_read_as(registers[f"${number}"], kind), shape) for number, kind in enumerate(results)]


def _operands(tiles: Sequence[Tile], constraints: Sequence[str], results: int) -> dict[str, Tile]:
    """The operands by their names in the text; one that is tied to a result has the result's name, too."""
    registers = {}
    for number, (tile, constraint) in enumerate(zip(tiles, constraints[results:], strict=False), results):
        kind = constraints[int(constraint)].lstrip("=&") if constraint.isdigit() else constraint
        bits = 32 if kind in REGISTERS_32 else 64 if kind in REGISTERS_64 else 0
        if width(tile) != bits:
            raise _refused(f"operand {number} has {width(tile)} bits, and its register {constraint!r} is another one")
        registers[f"${number}"] = tile
        if constraint.isdigit():
            registers[f"${constraint}"] = tile
    return registers


def _lines(text: str) -> list[str]:
    """The instructions; what only declares registers is none."""
    without_comments = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
    lines = [" ".join(line.split()) for line in re.split(r"[;{}]", without_comments)]
    return [line for line in lines if line and not line.startswith(".reg ")]


def _execute(line: str, registers: dict[str, Tile]) -> None:
    """Compute one instruction and keep its result in `registers`."""
    name, _, rest = line.partition(" ")
    stem, _, suffix = name.rpartition(".")
    meaning, kind = INSTRUCTIONS.get(stem), TYPES.get(suffix)
    target, *operands = [operand.strip() for operand in rest.split(",")]
    if meaning is None or kind is None:
        raise _refused(f"`{name}` is an instruction of GPUs")
    kinds = [kind] * len(operands)
    if stem in SHIFTS:
        kinds[-1] = uint32
    registers[target] = meaning(*(_value(text, kind, registers) for text, kind in zip(operands, kinds, strict=True)))


def _value(text: str, kind: dtype, registers: dict[str, Tile]) -> Tile:
    """A register or a number, as what the instruction takes it for."""
    if text in registers:
        return _read_as(registers[text], kind)
    bits = uint64 if kind.primitive_bitwidth == uint64.primitive_bitwidth else uint32
    if NUMBER.match(text):
        value = int(text.removesuffix("U"), 0) % (1 << bits.primitive_bitwidth)
        return _read_as(cast(to_tensor(value), bits), kind)
    if FLOAT.match(text):
        return _read_as(cast(to_tensor(int(text[2:], 16)), uint64 if len(text) > len("0f00000000") else uint32), kind)
    raise _refused(f"`{text}` is no register with a value, and no number")


def _read_as(tile: Tile, kind: dtype) -> Tile:
    """The bits of `tile` under another type."""
    if width(tile) != kind.primitive_bitwidth:
        raise _refused(f"a register of {width(tile)} bits is used as {kind}")
    floats = (float32, float64)
    is_as_asked = tile.type.scalar == kind or (tile.type.scalar in floats and kind in floats)
    found: Tile = tile if is_as_asked else bitcast(tile, kind)
    return found


def _refused(reason: str) -> SemanticError:
    return SemanticError(NotOnThisTarget("inline_asm_elementwise", reason, "write the operation with tl functions"))
