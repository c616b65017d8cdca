"""Asynchronous copies to shared memory: `ttg.async_copy_global_to_local`, `ttg.async_commit_group`, `ttg.async_wait`.

%c = ttg.async_copy_global_to_local %ptrs, %buffer mask %m other %z : tensor<…> -> <64x64xf16, #shared, #smem, mutable>
%g = ttg.async_commit_group tokens %c
%w = ttg.async_wait %g {num = 2 : i32}
"""

from __future__ import annotations

from tilewright.dialects.assembly import Reading, assembly
from tilewright.dialects.traits import PointerAccess
from tilewright.dialects.tt_memory import CACHE_OPTIONS, pointee_type
from tilewright.ir.attributes import Attribute, Number
from tilewright.ir.core import Op
from tilewright.ir.declare import Effect, declares
from tilewright.ir.fields import Flag, Integer, Operand, Operands, OptionalNamedOperand
from tilewright.ir.types import Type, async_token, i1, i32, with_element

CACHE_DEFAULTS: dict[str, Attribute] = {"isVolatile": False, "contiguity": Number(1, i32)}


def _pointee(reading: Reading) -> Type:
    return pointee_type(reading.type("src"))


@declares(
    "ttg.async_copy_global_to_local",
    buffers=Effect.WRITE,
    effect=Effect.READ_WRITE,
    **assembly(
        " %src, %result?( mask %mask)?( other %other)$cache{} : !src -> ~result",
        "src result mask? other?",
        "token",
        types={
            "mask": lambda reading: with_element(reading.type("src"), i1),
            "other": _pointee,
            "token": async_token,
        },
        defaults=CACHE_DEFAULTS,
        custom={"cache": CACHE_OPTIONS},
    ),
)
class AsyncCopyGlobalToLocal(PointerAccess):
    """Copies from `pointer` to `buffer`, where `mask` holds, and `other` elsewhere; gives a token.

    Attributes:
        contiguity: how many neighbours one instruction may copy.
    """

    __slots__ = ()
    buffer = Operand(1)
    mask, other = OptionalNamedOperand("mask"), OptionalNamedOperand("other")
    is_volatile = Flag("isVolatile")
    contiguity = Integer("contiguity", 1)


@declares(
    "ttg.async_commit_group",
    effect=Effect.READ_WRITE,
    **assembly(
        "?( tokens %inputTokens*){}",
        "inputTokens*",
        "asyncToken",
        types={"inputTokens": async_token, "asyncToken": async_token},
    ),
)
class AsyncCommitGroup(Op):
    """Ends a group of copies."""

    __slots__ = ()
    tokens = Operands()


@declares(
    "ttg.async_wait",
    effect=Effect.READ_WRITE,
    **assembly(
        "?( %asyncToken*){}", "asyncToken*", "retToken", types={"asyncToken": async_token, "retToken": async_token}
    ),
)
class AsyncWait(Op):
    """Waits until at most `pending` groups of copies are on their way."""

    __slots__ = ()
    tokens = Operands()
    pending = Integer("num")
