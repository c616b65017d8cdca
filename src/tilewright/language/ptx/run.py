"""Execution of a text of inline assembly: one instruction after the other, each for all elements.

run(parse_inline("shl.b32 $0, $1, 3;", …), registers)      $0 holds what $1 holds, shifted

ld and st access memory at the addresses in a register:

@p ld.global.v2.b32 {$0, $1}, [$2+8];      st.global.b8 [$3], $0;

Elements are in registers; several narrow elements share one of 32 bits:

    registers_of(x, pack=4)      x of uint8: one register with four neighbours; x of float32: four registers
    elements_of(found, uint8, (64,), pack=4)

Neighbours are those of the tile in row-major order. A scalar is one element; the rest of its register is 0.
"""

from __future__ import annotations

import math
import re
import string
from collections.abc import Sequence
from typing import Any

from tilewright.language.extra.bits import plus
from tilewright.language.memory import load, store
from tilewright.language.operations import cast
from tilewright.language.ptx.conversions import conversion
from tilewright.language.ptx.floats import FLOATS, HALVES, SMALLEST, flushed, from_zero_to_one, without_negatives
from tilewright.language.ptx.integers import INTEGERS
from tilewright.language.ptx.registers import (
    TYPES,
    UNSIGNED,
    Held,
    RegisterFile,
    Semantics,
    chopped,
    joined,
    parts,
    raw,
    read_as,
    refused,
    width_of,
)
from tilewright.language.shaping import join, reshape, split
from tilewright.semantics.broadcasting import stretch
from tilewright.semantics.tile import Tile
from tilewright.semantics.types import (
    bfloat16,
    block_type,
    dtype,
    float16,
    float32,
    int1,
    int16,
    pointer_type,
    uint8,
    uint16,
    uint64,
)
from tilewright.support.ptx_parser import parse_inline
from tilewright.support.ptx_syntax import Address, Function, Instruction, Operand, PtxError, Register, Vector, number_of

HALF_OF = {"f16x2": float16, "bf16x2": bfloat16, "u16x2": uint16, "s16x2": int16, "f32x2": float32}
"""The type of each half of a register."""
OF_FLOATS = ("ftz", "sat", "relu")
"""Parts of a name that change the operands or the result of any instruction on floats."""


def run(body: Function, registers: RegisterFile) -> None:
    """Go through the instructions of a text.

    Raises:
        SemanticError: an instruction has no exact meaning here, or a register none of the width that is needed.
    """
    if body.variables:
        raise refused(f"`{body.variables[0].name}` is a variable in the memory of GPUs")
    for instruction in body.instructions:
        _execute(instruction, registers)


def _execute(instruction: Instruction, registers: RegisterFile) -> None:
    if instruction.opcode in ("ld", "st"):
        access(instruction, registers)
    elif instruction.opcode == "mov" and any(isinstance(operand, Vector) for operand in instruction.operands):
        _rearranged(instruction, registers)
    else:
        try:
            _computed(instruction, registers)
        except (TypeError, ValueError) as error:  # of Python: `SemanticError` is none of these
            raise refused(f"`{instruction.name}` does not take these operands") from error


def _computed(instruction: Instruction, registers: RegisterFile) -> None:
    """An instruction that reads registers and writes one."""
    semantics, type, changes = _semantics_of(instruction)
    target, *operands = instruction.operands
    constants = [number_of(operands.pop())] if semantics.constant and operands else []
    kinds = semantics.kinds(TYPES.get(type, TYPES["b32"]), len(operands))
    values = [registers.read(*pair, chops=semantics.extends) for pair in zip(operands, kinds, strict=True)]
    if type in HALF_OF:
        result = _of_halves(semantics, values, type, changes)
    else:
        result = _changed(semantics, [*values, *constants], type, changes)
    registers.write(target, result, registers.guard(instruction), extends=semantics.extends)


def _semantics_of(instruction: Instruction) -> tuple[Semantics, str, list[str]]:
    """The semantics of an instruction, its type, and those of `OF_FLOATS` that its name has."""
    opcode, *modifiers = instruction.parts
    type = modifiers[-1] if modifiers else ""
    if opcode == "cvt" and len(modifiers) > 1:
        found = conversion(modifiers)
        if found is not None:
            return found, type, []
    else:
        exact = ".".join(instruction.parts[:-1])
        plain = ".".join(part for part in instruction.parts[:-1] if part not in OF_FLOATS)
        for table, stem in ((INTEGERS, exact), (FLOATS, plain), (HALVES, plain)):
            entry = table.get(stem)
            if entry is not None and type in entry.types:
                changes = [part for part in modifiers if part in OF_FLOATS] if table is not INTEGERS else []
                if "ftz" not in changes or type in SMALLEST:
                    return entry, type, changes
    raise refused(f"`{instruction.name}` is an instruction of GPUs")


def _changed(semantics: Semantics, values: Sequence[Any], type: str, changes: Sequence[str]) -> Any:
    """The result with what `changes` say of operands and result."""
    if "ftz" in changes:
        values = [flushed(value, type) if value.type.scalar.is_floating() else value for value in values]
    result = semantics.compute(*values)
    if result.type.scalar == int1:
        return result
    result = flushed(result, type) if "ftz" in changes else result
    result = from_zero_to_one(result) if "sat" in changes else result
    return without_negatives(result) if "relu" in changes else result


def _of_halves(semantics: Semantics, values: Sequence[Any], type: str, changes: Sequence[str]) -> Any:
    """The same for both halves of registers."""
    kind = HALF_OF[type]
    lower, upper = zip(*([read_as(half, kind) for half in parts(value, 2)] for value in values), strict=True)
    return joined([_changed(semantics, half, type, changes) for half in (lower, upper)], 2 * width_of(kind))


def _rearranged(instruction: Instruction, registers: RegisterFile) -> None:
    """mov between a register and several that together are as wide."""
    target, source = instruction.operands
    kind = TYPES.get(instruction.name.removeprefix("mov."))
    if kind is None:
        raise refused(f"`{instruction.name}` is an instruction of GPUs")
    guard = registers.guard(instruction)
    if isinstance(source, Vector):
        pieces = _pieces(source)
        part = UNSIGNED[width_of(kind) // len(pieces)]
        registers.write(target, joined([registers.read(piece, part) for piece in pieces], width_of(kind)), guard)
        return
    pieces = _pieces(target)
    for piece, value in zip(pieces, parts(registers.read(source, kind), len(pieces)), strict=True):
        registers.write(piece, value, guard)


def _pieces(vector: Operand) -> Sequence[Operand]:
    items = vector.items if isinstance(vector, Vector) else (vector,)
    if len(items) not in (2, 4):
        raise refused(f"`{vector}` has {len(items)} registers, not 2 or 4")
    return items


IGNORED = re.compile(r"(weak|global|volatile|nc|ca|cg|cs|cv|lu|wb|wt|L[12]::\w+)\Z")
"""Spaces that are all of memory here, and hints to caches."""
VECTORS = {"v2": 2, "v4": 4}


def access(instruction: Instruction, registers: RegisterFile) -> None:
    """Run one ld or st."""
    opcode, *modifiers, type = instruction.parts
    rest = [name for name in modifiers if not IGNORED.match(name)]
    count = VECTORS.get(rest[0], 0) if rest else 1
    kind = TYPES.get(type)
    if kind is None or not count or len(rest) > 1 or len(instruction.operands) != 2:
        raise refused(f"`{instruction.name}` is an instruction of GPUs")
    address, held = instruction.operands if opcode == "st" else reversed(instruction.operands)
    items = held.items if isinstance(held, Vector) else (held,)
    if len(items) != count:
        raise refused(f"`{instruction.name}` takes {count} registers, not {len(items)}")
    pointers = [_pointers(address, place, kind, registers) for place in range(count)]
    guard = registers.guard(instruction)
    if opcode == "st":
        for pointer, item in zip(pointers, items, strict=True):
            store(pointer, registers.read(item, UNSIGNED[width_of(kind)], chops=True), guard)
        return
    loaded = [cast(load(pointer, guard), kind, bitcast=True) for pointer in pointers]
    for item, value in zip(items, loaded, strict=True):
        registers.write(item, value, guard, extends=True)


def _pointers(address: Operand, place: int, kind: dtype, registers: RegisterFile) -> Any:
    if not isinstance(address, Address) or not isinstance(address.base, Register) or address.coordinates:
        raise refused(f"`{address}` is no address in a register")
    start = registers.read(address.base, uint64)
    offset = address.offset + place * width_of(kind) // 8
    bits = UNSIGNED[width_of(kind)]
    return cast(plus(start, offset % (1 << 64)) if offset else start, pointer_type(bits))


WORD = 32
REGISTERS = {"h": 16, "r": 32, "f": 32, "l": 64, "d": 64}
"""The bits of registers, by LLVM's letters for them."""


def computed(
    text: str,
    constraints: Sequence[str],
    tiles: Sequence[Tile],
    results: Sequence[dtype],
    pack: int,
    *,
    numbers: Sequence[int | None],
) -> list[Tile]:
    """The results of `text` on tiles of one shape, as operations on tiles.

    Args:
        text: the assembly.
        constraints: the register of each result and operand, in LLVM's words.
        tiles: the operands.
        results: the element type of each result.
        pack: the number of elements that the text takes at a time.
        numbers: the operands that are constants, for those that stand as numbers in the text (`n`).
    """
    kinds, shape = [tile.type.scalar for tile in tiles], tiles[0].extents if tiles else ()
    if pack > 1 and int1 in (*kinds, *results):
        raise refused("truth values do not share registers")
    places = _places(constraints, results, kinds, pack)
    text = _with_numbers(text, places[1], numbers)
    numbered = _numbered(tiles, places, pack)
    try:
        body = parse_inline(text, {name: register.bits for name, register in numbered.items()})
        registers = RegisterFile(numbered, body.registers)
        run(body, registers)
    except PtxError as error:
        raise refused(error.text) from error
    return [_result(kind, names, registers, shape, pack) for kind, names in zip(results, places[0], strict=True)]


Place = tuple[str, str]
"""A register: its name in the text, and the constraint that says what kind it is."""


def _places(
    constraints: Sequence[str], results: Sequence[dtype], operands: Sequence[dtype], pack: int
) -> tuple[list[list[Place]], list[list[Place]]]:
    """The registers of each result and of each operand, in the order of the constraints."""
    named = [name.strip() for name in constraints if not name.strip().startswith("~")]
    counts = [how_many(kind, pack)[0] for kind in (*results, *operands)]
    if sum(counts) != len(named):
        raise refused(f"the constraints are {len(named)}, and results and operands take {sum(counts)} registers")
    places = iter([(f"${number}", _kind_of(name, named)) for number, name in enumerate(named)])
    found = [[next(places) for _ in range(count)] for count in counts]
    return found[: len(results)], found[len(results) :]


IMMEDIATE = ("n", "i")
"""Constraints of operands that stand as numbers in the text."""


def _with_numbers(text: str, places: Sequence[Sequence[Place]], numbers: Sequence[int | None]) -> str:
    """The text with numbers instead of the operands that are to be numbers."""
    for ((name, letter), *_), number in zip(places, numbers, strict=True):
        if letter in IMMEDIATE:
            if number is None:
                raise refused(f"{name} is to be a number ({letter!r}), and its operand is no constant")
            text = re.sub(rf"{re.escape(name)}(?!\d)", str(number), text)
    return text


def _kind_of(constraint: str, constraints: Sequence[str]) -> str:
    """The letter of a constraint; that of a result for an operand that is tied to it."""
    letter = constraint.lstrip("=&")
    if letter.isdigit() and int(letter) < len(constraints):
        return letter + constraints[int(letter)].lstrip("=&")
    return letter


def _numbered(tiles: Sequence[Tile], places: tuple[list[list[Place]], list[list[Place]]], pack: int) -> dict[str, Held]:
    """The registers by their names; a result has no value, unless an operand is tied to it."""
    registers = {name: Held(_bits(name, letter)) for of_one in places[0] for name, letter in of_one}
    for tile, of_one in zip(tiles, places[1], strict=True):
        if of_one[0][1] in IMMEDIATE:
            continue
        sizes = [_bits(name, letter.lstrip(string.digits)) for name, letter in of_one]
        _check_fit(of_one[0], width_of(tile.type.scalar) * (pack // len(of_one)), sizes[0])
        for (name, letter), register in zip(of_one, registers_of(tile, pack, sizes), strict=True):
            registers[name] = register
            if tied := letter.rstrip(string.ascii_letters):
                registers[f"${tied}"] = register
    return registers


def _bits(name: str, letter: str) -> int:
    if letter not in REGISTERS:
        raise refused(f"{name} is a register {letter!r}, which is none of {', '.join(REGISTERS)}")
    return REGISTERS[letter]


def _check_fit(place: Place, held: int, size: int) -> None:
    """Elements fill a register; only narrow ones may leave some of it."""
    if held != size and (held > size or size > WORD or held == WORD):
        raise refused(f"{place[0]} takes {held} bits, and its register {place[1]!r} has {size}")


def _result(kind: dtype, places: Sequence[Place], registers: RegisterFile, shape: tuple[int, ...], pack: int) -> Any:
    found = [registers.target(Register(name)) for name, _ in places]
    for (name, letter), register in zip(places, found, strict=True):
        _check_fit((name, letter), width_of(kind) * (pack // len(places)), register.bits)
        if register.tile is None:
            raise refused(f"the text gives {name} no value")
    return elements_of([stretched(register.tile, shape, pack) for register in found], kind, shape, pack)


def how_many(kind: dtype, pack: int) -> tuple[int, int]:
    """The registers for `pack` elements, and how many elements are in each."""
    shared = min(max(WORD // width_of(kind), 1), pack)
    return pack // shared, shared


def registers_of(tile: Any, pack: int, sizes: Sequence[int]) -> list[Held]:
    """The registers, of `sizes` bits, that hold a tile."""
    if tile.type.scalar == int1:
        tile = cast(tile, uint8)
    shared = pack // len(sizes)
    values = neighbours(tile, pack)
    groups = [values[first : first + shared] for first in range(0, pack, shared)]
    return [Held(size, joined(group, size)) for group, size in zip(groups, sizes, strict=True)]


def elements_of(registers: Sequence[Any], kind: dtype, shape: Sequence[int], pack: int) -> Any:
    """The tile of `kind` and `shape` whose elements are in these registers; they may be narrower than these."""
    shared, size = pack // len(registers), max(width_of(kind), 8)
    values = []
    for value in registers:
        values += parts(chopped(raw(value), size * shared), shared)
    whole = merged(values, shape)
    if kind == int1:
        return (whole & 1) != 0
    return cast(whole, kind, bitcast=not kind.is_ptr())


def neighbours(tile: Any, pack: int) -> list[Any]:
    """`pack` tiles: the first elements of all packs, the second ones, …"""
    if pack == 1:
        return [tile]
    if not tile.extents:
        return [tile, *[cast(raw(tile) & 0, tile.type.scalar)] * (pack - 1)]
    return _halved(reshape(tile, math.prod(tile.extents) // pack, *[2] * (pack.bit_length() - 1)), pack)


def _halved(tile: Any, pack: int) -> list[Any]:
    if pack == 1:
        return [tile]
    even, odd = split(tile)
    pairs = zip(_halved(even, pack // 2), _halved(odd, pack // 2), strict=True)
    return [tile for pair in pairs for tile in pair]


def stretched(tile: Any, shape: tuple[int, ...], pack: int) -> Any:
    """A value that is the same for all packs, in the shape of those tiles."""
    if tile.extents or not shape:
        return tile
    return stretch(tile, block_type(tile.type.scalar, shape if pack == 1 else (math.prod(shape) // pack,)))


def merged(tiles: Sequence[Any], shape: Sequence[int]) -> Any:
    """The opposite of `neighbours`."""
    if not shape:
        return tiles[0]
    return reshape(_side_by_side(tiles), *shape) if len(tiles) > 1 else tiles[0]


def _side_by_side(tiles: Sequence[Any]) -> Any:
    return tiles[0] if len(tiles) == 1 else join(_side_by_side(tiles[::2]), _side_by_side(tiles[1::2]))
