"""The `amx` dialect: tiles of 16 rows of 64 bytes in registers of Intel's processors, under MLIR's names.

    %a = amx.tile_load %p[%o], %s : !tt.ptr<i8> -> vector<16x32xbf16>     row i from address %p + %o + i · %s bytes
    %c = amx.tile_mulf %a, %b, %acc : vector<16x32xbf16>, vector<16x32xbf16> -> vector<16x16xf32>
    %d = amx.tile_muli %i, %j, %acc : vector<16x64xi8>, vector<16x64xi8> -> vector<16x16xi32>
    amx.tile_store %c, %p[%o], %s : !tt.ptr<i8>, vector<16x16xf32>

A row of `b` has a word of 32 bits for each column of the result: as many neighbours along k as fit into it.

Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18.
"""

from __future__ import annotations

from tilewright.dialects.assembly import TypeOf, assembly, type_of
from tilewright.dialects.rules import pointer
from tilewright.dialects.traits import WritesMemory
from tilewright.ir.core import Op, Value
from tilewright.ir.declare import Effect, declare
from tilewright.ir.errors import require
from tilewright.ir.fields import Operand
from tilewright.ir.types import Type, VectorType, bf16, f32, i8, i32, i64

ROWS, ROW_BYTES = 16, 64
"""The rows of a tile, and the bytes of each."""


class TileLoad(Op):
    """The rows that begin `offset` bytes behind `base`, and each `stride` bytes further."""

    __slots__ = ()
    base, offset, stride = Operand(0), Operand(1), Operand(2)


class TileStore(WritesMemory):
    """Puts `value` where a `TileLoad` with these operands would read it."""

    __slots__ = ()
    base, offset, value, stride = Operand(0), Operand(1), Operand(2), Operand(3)


class TileMultiply(Op):
    """`accumulator`, plus the rows of `a` by the columns of `b`, whose words are neighbours along k.

        acc[i, j] += a[i, 2·k]·b[k, 2·j] + a[i, 2·k + 1]·b[k, 2·j + 1]       bf16 into f32; i8 into i32 take four

    Subnormal bf16 count as zero. How sums of bf16 are rounded on the way is the machine's business.
    """

    __slots__ = ()
    a, b, accumulator = Operand(0), Operand(1), Operand(2)


def is_tile(type: Type) -> bool:
    """Whether values of `type` are in a tile register."""
    return isinstance(type, VectorType) and len(type.shape) == 2


def tile_type(element: Type) -> VectorType:
    """The tile of such elements."""
    return VectorType((ROWS, 8 * ROW_BYTES // element.bits), element)


def _verify_access(op: TileLoad | TileStore, moved: Value) -> None:
    pointer(op, op.base)
    require(op.offset.type is i64 and op.stride.type is i64, op, "offset and stride are i64, in bytes")
    _check_tile(op, moved.type)


def _check_tile(op: Op, type: Type) -> None:
    fits = is_tile(type) and type is tile_type(type.scalar)
    require(fits, op, f"{type} is no tile of {ROWS} rows of {ROW_BYTES} bytes")


def _verify_load(op: TileLoad) -> None:
    _verify_access(op, op.results[0])


def _verify_store(op: TileStore) -> None:
    _verify_access(op, op.value)


def _verify_floats(op: TileMultiply) -> None:
    _verify_multiply(op, bf16, f32)


def _verify_integers(op: TileMultiply) -> None:
    _verify_multiply(op, i8, i32)


def _verify_multiply(op: TileMultiply, element: Type, total: Type) -> None:
    a, b, sums = tile_type(element), tile_type(element), tile_type(total)
    fits = (op.a.type, op.b.type, op.accumulator.type, op.results[0].type) == (a, b, sums, sums)
    require(fits, op, f"multiplies {a} by {b} into {sums}")


_BYTES: dict[str, TypeOf] = {"offset": i64, "stride": i64}

declare(
    "amx.tile_load",
    kind=TileLoad,
    effect=Effect.READ,
    verify=_verify_load,
    **assembly(" %base[%offset], %stride{} : !base -> !result", "base offset stride", "result", types=_BYTES),
)
declare(
    "amx.tile_store",
    kind=TileStore,
    effect=Effect.WRITE,
    verify=_verify_store,
    **assembly(" %value, %base[%offset], %stride{} : !base, !value", "base offset value stride", types=_BYTES),
)
for _name, _verify in (("tile_mulf", _verify_floats), ("tile_muli", _verify_integers)):
    declare(
        f"amx.{_name}",
        kind=TileMultiply,
        verify=_verify,
        **assembly(
            " %a, %b, %accumulator{} : !a, !b -> !result",
            "a b accumulator",
            "result",
            types={"accumulator": type_of("result")},
        ),
    )
