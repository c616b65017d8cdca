"""The `vector` dialect: what vector loops read, write and spread over lanes, under MLIR's names.

    %v = vector.load %p[%o] : !tt.ptr<i8> -> vector<16xf32>         16 neighbours, from byte %o behind %p on
    %w = vector.load %p[%o, %s] : !tt.ptr<i8> -> vector<16xf32>     elements whose addresses are %s bytes apart
    vector.store %v, %p[%o] {nontemporal} : …                       the same to write, here past the caches
    %b = vector.broadcast %x : f32 to vector<16xf32>                a number in every lane
    %any = vector.reduction <or>, %m : vector<16xi1> into i1        whether a lane is set

Arithmetic on vectors is that of the dialects `arith`, `math` and `tt`. Where a vector could stand, a number may, too:
it is a vector of one lane.
"""

from __future__ import annotations

from tilewright.dialects.assembly import assembly
from tilewright.dialects.rules import keyword_in, pointer
from tilewright.dialects.traits import WritesMemory
from tilewright.ir.core import Op, Value
from tilewright.ir.declare import Effect, declare
from tilewright.ir.errors import VerificationError, require
from tilewright.ir.fields import Flag, Operand, OptionalOperand, Word
from tilewright.ir.types import Type, VectorType, i1, i64

REDUCTIONS = ("or",)
"""The ways to join all lanes."""


class Load(Op):
    """The elements from `offset` bytes behind `base` on: neighbours, or `stride` bytes apart."""

    __slots__ = ()
    base, offset = Operand(0), Operand(1)
    stride = OptionalOperand(2)


class Store(WritesMemory):
    """Puts `value` where a `Load` with these operands would read it; `nontemporal`: past the caches."""

    __slots__ = ()
    base, offset, value = Operand(0), Operand(1), Operand(2)
    stride = OptionalOperand(3)
    nontemporal = Flag("nontemporal")


class Broadcast(Op):
    """The number `source` in every lane."""

    __slots__ = ()
    source = Operand(0)


class Reduction(Op):
    """All lanes of `source` in one number, joined by `kind`."""

    __slots__ = ()
    source = Operand(0)
    kind = Word("kind")


def lanes_of(type: Type) -> int:
    """The number of lanes of a value; 1 for a number."""
    return type.numel if isinstance(type, VectorType) else 1


def _verify_access(op: Load | Store, moved: Value) -> None:
    pointer(op, op.base)
    integers = [op.offset, *([] if op.stride is None else [op.stride])]
    require(all(value.type is i64 for value in integers), op, "offset and stride are i64, in bytes")
    require(moved.type.scalar is not i1, op, "truth values are bytes in memory")


def _verify_load(op: Load) -> None:
    _verify_access(op, op.results[0])


def _verify_store(op: Store) -> None:
    _verify_access(op, op.value)


def _verify_broadcast(op: Broadcast) -> None:
    source, result = op.source.type, op.results[0].type
    fits = isinstance(result, VectorType) and source is result.element
    require(fits, op, f"cannot spread {source} over {result}")


def _verify_reduction(op: Reduction) -> None:
    keyword_in(op, "kind", REDUCTIONS)
    source, result = op.source.type, op.results[0].type
    if not isinstance(source, VectorType) or result is not source.element:
        raise VerificationError(op, f"cannot join the lanes of {source} in {result}")


_OFFSETS: dict[str, Type] = {"offset": i64, "stride": i64}

declare(
    "vector.load",
    kind=Load,
    effect=Effect.READ,
    verify=_verify_load,
    **assembly(" %base[%offset?(, %stride)]{} : !base -> !result", "base offset stride?", "result", types=_OFFSETS),
)
declare(
    "vector.store",
    kind=Store,
    effect=Effect.WRITE,
    verify=_verify_store,
    **assembly(" %value, %base[%offset?(, %stride)]{} : !base, !value", "base offset value stride?", types=_OFFSETS),
)
declare(
    "vector.broadcast",
    kind=Broadcast,
    verify=_verify_broadcast,
    **assembly(" %source{} : !source to !result", "source", "result"),
)
declare(
    "vector.reduction",
    kind=Reduction,
    verify=_verify_reduction,
    **assembly(" <@kind>, %source{} : !source into !result", "source", "result"),
)
