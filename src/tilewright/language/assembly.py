"""`tl.inline_asm_elementwise`: inline PTX of a program.

    tl.inline_asm_elementwise("shf.l.wrap.b32 $0, $1, $2, $3;", "=r,r,r,r", [low, high, 5], tl.int32, True, 1)

For a GPU the text is passed through. Elsewhere it is parsed: instructions of `ptx/`, which have the same meaning on
every machine, become operations on tiles, and any other instruction is an error that names it.
"""

from __future__ import annotations

import builtins
import functools
import math
from typing import Any

from tilewright.semantics.active import gpu_capability
from tilewright.semantics.arithmetic import to_tensor
from tilewright.semantics.broadcasting import common_type, stretch
from tilewright.semantics.constexpr import unwrap, unwrap_all
from tilewright.semantics.errors import BadArgument
from tilewright.semantics.math import inline_assembly
from tilewright.semantics.types import AnyType, int32
from tilewright.support.diagnostics import SemanticError
from tilewright.support.locks import importing


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
    values = unwrap_all(unwrap(args))
    tiles = [to_tensor(value) for value in values]
    scalar: AnyType = int32
    like = functools.reduce(common_type, [tile.type for tile in tiles], scalar)
    shape: builtins.tuple[int, ...] = like.shape
    if not isinstance(packed, int) or packed < 1 or packed & (packed - 1) or (shape and math.prod(shape) % packed):
        wanted = "a power of two that divides the number of elements"
        raise SemanticError(BadArgument("inline_asm_elementwise", "pack", packed, wanted))
    if gpu_capability():
        found = inline_assembly(text, registers, tiles, results, pure=bool(unwrap(is_pure)), packed=packed)
    else:
        with importing:
            from tilewright.language.ptx.run import computed

        numbers = [int(value) if isinstance(value, int) else None for value in values]
        stretched = [stretch(tile, like) for tile in tiles]
        found = computed(text, registers.split(","), stretched, results, packed, numbers=numbers)
    return builtins.tuple(found) if several else found[0]
