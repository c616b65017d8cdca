"""Tensor memory of sm_100: `ttng.tmem_alloc`, `ttng.tmem_load`, `ttng.tmem_store`, …

%m, %t = ttng.tmem_alloc : () -> (!ttg.memdesc<128x64xf32, #tmem, #ttng.tensor_memory, mutable>, !ttg.async.token)
%x, %u = ttng.tmem_load %m[%t] : … -> tensor<128x64xf32, #linear>
"""

from __future__ import annotations

from tilewright.dialects.assembly import assembly
from tilewright.dialects.rules import number
from tilewright.dialects.traits import LayoutAnchor
from tilewright.dialects.ttg_memory import allocation_effect
from tilewright.dialects.ttng_mma import token_piece
from tilewright.dialects.ttng_rules import (
    verify_tensor_alloc,
    verify_tensor_copy,
    verify_tensor_load,
    verify_tensor_store,
    verify_tensor_subslice,
)
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op
from tilewright.ir.declare import Effect, declare, declares
from tilewright.ir.fields import Integer, NamedOperand, Operand, OptionalNamedOperand, OptionalOperand
from tilewright.ir.types import i1, i32

_TOKEN = {"token": token_piece("dep", "token")}


@declares(
    "ttng.tmem_alloc",
    verify=verify_tensor_alloc,
    effect=Effect.ALLOCATE,
    effect_of=allocation_effect,
    **assembly("?( %src){} : =>", "src?", "result token?"),
)
class TmemAlloc(Op):
    """Tensor memory, which starts with the elements of `source` if there is one."""

    __slots__ = ()
    source = OptionalOperand(0)

    @property
    def column(self) -> int:
        """Its first column, once it has its place."""
        return number(self, "tensor_memory_col_offset")


@declares(
    "ttng.tmem_load",
    verify=verify_tensor_load,
    effect=Effect.READ,
    **assembly(" %src$token{} : !src -> !result?(, !red)", "src dep?", "result token? red?", custom=_TOKEN),
)
class TmemLoad(LayoutAnchor):
    """The elements of `buffer`."""

    __slots__ = ()
    buffer = Operand(0)
    token = OptionalOperand(1)


@declares(
    "ttng.tmem_store",
    verify=verify_tensor_store,
    effect=Effect.WRITE,
    **assembly(
        " %src, %dst$token, %pred{} : !src -> !dst",
        "dst dep? src pred",
        "token?",
        types={"pred": i1},
        custom=_TOKEN,
    ),
)
class TmemStore(Op):
    """Puts `value` into `buffer` if `predicate` holds."""

    __slots__ = ()
    buffer = Operand(0)
    token = OptionalNamedOperand("dep")
    value, predicate = NamedOperand("src"), NamedOperand("pred")


@declares(
    "ttng.tmem_subslice",
    verify=verify_tensor_subslice,
    **assembly(" %src{} : !src -> !result", "src", "result", defaults={"dim": Number(1, i32)}),
)
class TmemSubslice(Op):
    """The part of `source` that starts at `offset` along `axis`."""

    __slots__ = ()
    source = Operand(0)
    axis = Integer("dim", 1)

    @property
    def offset(self) -> int:
        """The index of its first element."""
        return number(self, "N" if "N" in self.attributes else "offset")


@declares(
    "ttng.tmem_copy",
    buffers=Effect.READ,
    verify=verify_tensor_copy,
    effect=Effect.READ_WRITE,
    **assembly(" %src, %dst?(, %barrier){} : !src, !dst?(, !barrier)", "src dst barrier?"),
)
class TmemCopy(Op):
    """Copies `source` in shared memory to `target`; `barrier` hears when that is done."""

    __slots__ = ()
    source, target = Operand(0), Operand(1)
    barrier = OptionalOperand(2)


declare("ttng.tmem_wait", required=("kind",), effect=Effect.READ_WRITE, **assembly(" @kind{}"))
