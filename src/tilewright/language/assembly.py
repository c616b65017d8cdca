"""`tl.inline_asm_elementwise`: PTX that a program brings along.

    tl.inline_asm_elementwise("shf.l.wrap.b32 $0, $1, $2, $3;", "=r,r,r,r", [low, high, 5], tl.int32, True, 1)

For a GPU the text stays what it is. Elsewhere it is read: instructions of `ptx/`, which have one meaning on every
machine, become operations on tiles, and any other instruction is refused by its name.
"""

from __future__ import annotations

import builtins
import functools
import math
import string
from collections.abc import Sequence
from typing import Any

from tilewright.language.ptx.errors import refused
from tilewright.language.ptx.packs import elements_of, how_many, registers_of, stretched
from tilewright.language.ptx.registers import Register, Registers, width_of
from tilewright.language.ptx.run import run
from tilewright.semantics.active import gpu_capability
from tilewright.semantics.arithmetic import to_tensor
from tilewright.semantics.broadcasting import broadcast_shapes, stretch
from tilewright.semantics.constexpr import unwrap, unwrap_all
from tilewright.semantics.errors import BadArgument
from tilewright.semantics.inline_assembly import inline_assembly
from tilewright.semantics.tile import Tile
from tilewright.semantics.types import dtype, int1
from tilewright.support.diagnostics import SemanticError

WORD = 32
REGISTERS = {"h": 16, "r": 32, "f": 32, "l": 64, "d": 64}
"""The bits of registers, by LLVM's letters for them."""


def inline_asm_elementwise(asm: Any, constraints: Any, args: Any, dtype: Any, is_pure: Any, pack: Any) -> Any:
    """PTX for each element, or for `pack` at a time.

    Args:
        asm: the text, with `$0`, `$1`, … for results and operands.
        constraints: the kinds of registers, as LLVM spells them: `=r,r`.
        args: tiles and numbers, which broadcast. Elements narrower than 32 bits share registers, zeros above them.
        dtype: the element type of the result, or a tuple for several.
        is_pure: the text does nothing but compute its results.
        pack: how many elements the text takes, a power of two. Without a GPU they are neighbours in row-major order.

    Raises:
        SemanticError: packs do not divide the tiles; or the kernel is not compiled for a GPU, and the text has an
            instruction that only GPUs have, or elements do not fit their registers.
    """
    kinds = unwrap_all(dtype)
    several = isinstance(kinds, (builtins.tuple, list))
    results = list(kinds) if several else [kinds]
    text, registers, packed = str(unwrap(asm)), str(unwrap(constraints)), unwrap(pack)
    tiles = [to_tensor(value) for value in unwrap(args)]
    shape: builtins.tuple[int, ...] = functools.reduce(broadcast_shapes, [tile.extents for tile in tiles], ())
    if not isinstance(packed, int) or packed < 1 or packed & (packed - 1) or (shape and math.prod(shape) % packed):
        wanted = "a power of two that divides the number of elements"
        raise SemanticError(BadArgument("inline_asm_elementwise", "pack", packed, wanted))
    if gpu_capability():
        found = inline_assembly(text, registers, tiles, results, pure=bool(unwrap(is_pure)), packed=packed)
    else:
        found = computed(text, registers.split(","), [stretch(tile, shape) for tile in tiles], results, packed)
    return builtins.tuple(found) if several else found[0]


def computed(
    text: str, constraints: Sequence[str], tiles: Sequence[Any], results: Sequence[dtype], pack: int
) -> list[Tile]:
    """The results of `text` on tiles of one shape, as operations on tiles."""
    kinds, shape = [tile.type.scalar for tile in tiles], tiles[0].extents if tiles else ()
    if pack > 1 and int1 in (*kinds, *results):
        raise refused("truth values do not share registers")
    places = _places(constraints, results, kinds, pack)
    registers = Registers(_numbered(tiles, places, pack))
    run(text, registers)
    return [_result(kind, names, registers, shape, pack) for kind, names in zip(results, places[0], strict=True)]


Place = builtins.tuple[str, str]
"""A register: its name in the text, and the constraint that says what kind it is."""


def _places(
    constraints: Sequence[str], results: Sequence[dtype], operands: Sequence[dtype], pack: int
) -> builtins.tuple[list[list[Place]], list[list[Place]]]:
    """The registers of each result and of each operand, in the order of the constraints."""
    named = [name.strip() for name in constraints if not name.strip().startswith("~")]
    counts = [how_many(kind, pack)[0] for kind in (*results, *operands)]
    if sum(counts) != len(named):
        raise refused(f"the constraints are {len(named)}, and results and operands take {sum(counts)} registers")
    places = iter([(f"${number}", _kind_of(name, named)) for number, name in enumerate(named)])
    found = [[next(places) for _ in range(count)] for count in counts]
    return found[: len(results)], found[len(results) :]


def _kind_of(constraint: str, constraints: Sequence[str]) -> str:
    """The letter of a constraint; that of a result for an operand that is tied to it."""
    letter = constraint.lstrip("=&")
    if letter.isdigit() and int(letter) < len(constraints):
        return letter + constraints[int(letter)].lstrip("=&")
    return letter


def _numbered(
    tiles: Sequence[Tile], places: builtins.tuple[list[list[Place]], list[list[Place]]], pack: int
) -> dict[str, Register]:
    """The registers by their names; a result has no value, unless an operand is tied to it."""
    registers = {name: Register(_bits(name, letter)) for of_one in places[0] for name, letter in of_one}
    for tile, of_one in zip(tiles, places[1], strict=True):
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


def _result(
    kind: dtype, places: Sequence[Place], registers: Registers, shape: builtins.tuple[int, ...], pack: int
) -> Any:
    found = [registers.target(name) for name, _ in places]
    for (name, letter), register in zip(places, found, strict=True):
        _check_fit((name, letter), width_of(kind) * (pack // len(places)), register.bits)
        if register.tile is None:
            raise refused(f"the text gives {name} no value")
    return elements_of([stretched(register.tile, shape, pack) for register in found], kind, shape, pack)
