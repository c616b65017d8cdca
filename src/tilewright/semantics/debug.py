"""Output, checks and hints that kernels may contain.

device_print("x = ", x)       tt.print " x = " {hex = false, isSigned = array<i32: 1>} : %x
assume(n > 0)                 llvm.intr.assume
multiple_of(x, 16)            tt.divisibility on the op that computes x
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.ir.attributes import Attribute, Dense, DenseArray, Number
from tilewright.ir.core import Block, Op
from tilewright.ir.types import TensorType, i32
from tilewright.semantics.active import active, context, gpu_capability
from tilewright.semantics.arithmetic import invert, or_, to_bool, to_tensor
from tilewright.semantics.casting import cast
from tilewright.semantics.constexpr import unwrap
from tilewright.semantics.errors import BadArgument
from tilewright.semantics.promotion import dtype_of_number
from tilewright.semantics.shapes import constant_shape
from tilewright.semantics.tile import Tile
from tilewright.semantics.types import float16, int1
from tilewright.support.diagnostics import SemanticError


def device_print(prefix: Any, values: Sequence[Any], *, as_hex: bool = False) -> None:
    """Print `values` with `prefix` from every program."""
    text = unwrap(prefix)
    if not isinstance(text, str) or not text.isascii() or not text.isprintable():
        raise SemanticError(BadArgument("device_print", "prefix", repr(text), "a literal of printable ASCII"))
    tiles = [_printable(to_tensor(value)) for value in values]
    signs = DenseArray(i32, tuple(int(tile.type.scalar.signed) for tile in tiles))
    attributes: dict[str, Attribute] = {
        "prefix": _spaced(text, has_values=bool(tiles)),
        "hex": as_hex,
        "isSigned": signs,
    }
    active().emit("tt.print", [tile.handle for tile in tiles], (), attributes)


def _printable(tile: Tile) -> Tile:
    return cast(tile, float16) if tile.type.scalar.is_fp8e4b15() else tile


def _spaced(prefix: str, *, has_values: bool) -> str:
    """The prefix as it appears between the program's index and the value, ` x: `, or at the end of the line, ` x`."""
    name = prefix.rstrip().removesuffix(":") if has_values else prefix
    return f"{'' if name.startswith(' ') or not name else ' '}{name}{': ' if has_values else ''}"


def device_assert(condition: Any, message: Any, mask: Any = None) -> None:
    """When debugging, stop the program where `condition` is false (and `mask` true).

    Raises:
        SemanticError: `condition` is neither a tile nor a number, whether debugging or not.
    """
    if not isinstance(condition, Tile):
        dtype_of_number(unwrap(condition))
    if not context().debug:
        return
    checked = to_bool(to_tensor(condition))
    if unwrap(mask) is not None:
        checked = or_(checked, invert(to_bool(to_tensor(mask))))
    active().emit("tt.assert", [checked.handle], (), {"message": str(unwrap(message))})


def assume(condition: Any) -> None:
    """Let the compiler rely on a scalar condition.

    Raises:
        SemanticError: it is no boolean, or a tile of them.
    """
    tile = to_tensor(condition)
    if tile.type is not int1:
        raise SemanticError(BadArgument("assume", "cond", f"a {tile.type}", "a boolean scalar, such as n > 0"))
    active().emit("llvm.intr.assume", [tile.handle])


def debug_barrier() -> None:
    """Wait until all threads of the program are here."""
    active().emit("gpu.barrier")


def hint(name: str, tile: Any, values: Any) -> Any:
    """Note what the user promises about `tile` (per axis) on the op that computes it; returns `tile`.

    A number, as the argument 1 is one, tells itself what it is a multiple of.
    """
    promised = constant_shape(values, "values")
    if not isinstance(tile, Tile):
        dtype_of_number(unwrap(tile))
        return tile
    if len(promised) != max(1, len(tile.type.shape)):
        raise SemanticError(BadArgument(name, "values", promised, "one number per axis"))
    owner: Op | Block | None = tile.handle.owner
    if isinstance(owner, Block) and not _hint_argument(name, owner, tile.handle.index, promised):
        owner = _copied(tile, owner)
    if isinstance(owner, Op) and not owner.definition.constant:
        kind = TensorType((len(promised),), i32)
        same = len(set(promised)) == 1
        owner.attributes[name] = Number(promised[0], kind) if same else Dense(promised, kind)
    return tile


def _copied(tile: Tile, block: Block) -> Op | None:
    """Let `tile`, which a loop carries, stand for an op that carries its hints; loops have no place for them.

    Only for GPUs, whose loads need to know, and only in the loop's own block, where the op is seen by all that follows.
    """
    if not gpu_capability() or getattr(active(), "block", None) is not block:
        return None
    (tile.handle,) = active().emit("tt.bitcast", [tile.handle], (tile.handle.type,))
    return tile.handle.op


def _hint_argument(name: str, block: Block, index: int, promised: tuple[int, ...]) -> bool:
    """Note the promise on the function, if `block` holds its arguments; whether it does."""
    function = None if block.region is None else block.region.op
    known = None if function is None else function.attributes.get("arg_attrs")
    if function is None or not isinstance(known, tuple):
        return False
    details: list[Any] = list(known)
    details[index] = {**details[index], name: Number(promised[0], i32)}
    function.attributes["arg_attrs"] = tuple(details)
    return True
