"""Scalar ops that are not elementwise: pointers, memory, atomics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.backends.llvm.atomics import atomic
from tilewright.backends.llvm.memory import gather, scatter
from tilewright.backends.llvm.spelling import bits_of, element_of, literal
from tilewright.backends.llvm.writer import LlvmWriter
from tilewright.dialects.builtin import Poison
from tilewright.dialects.tt_atomics import AtomicCas, AtomicRmw
from tilewright.dialects.tt_elementwise import Bitcast, InlineAsm
from tilewright.dialects.tt_memory import AddPtr, Load, Store, pointee_type

MONOTONIC = 1
"""Linux's name for the clock."""


def _add_pointer(w: LlvmWriter, op: AddPtr, operands: Sequence[str]) -> str:
    pointer, offset = operands
    if not offset.lstrip("-").isdigit():
        offset = w.convert("sext", offset, element_of(op.offset.type), "i64")
    element = element_of(pointee_type(op.result.type))
    return w.emit(f"getelementptr {'i8' if element == 'i1' else element}, ptr {pointer}, i64 {offset}")


def _load(w: LlvmWriter, op: Load, operands: Sequence[str]) -> str:
    element = element_of(op.result.type)
    inside = "i8" if element == "i1" else element
    pointer, *rest = operands
    if not rest:
        volatile = "volatile " if op.is_volatile else ""
        value = w.emit(f"load {volatile}{inside}, ptr {pointer}, align {bits_of(inside) // 8}")
    else:
        other = rest[1] if len(rest) > 1 else literal(0, element)
        if element == "i1":
            other = w.emit(f"zext i1 {other} to i8")
        value = gather(w, [pointer], inside, align=1, mask=rest[0], other=other)
    return w.emit(f"icmp ne i8 {value}, 0") if element == "i1" else value


def _store(w: LlvmWriter, op: Store, operands: Sequence[str]) -> None:
    element = element_of(op.value.type)
    pointer, value, *mask = operands
    if element == "i1":
        element, value = "i8", w.emit(f"zext i1 {value} to i8")
    scatter(w, [pointer], element, value, align=bits_of(element) // 8, mask=mask[0] if mask else None)


def _rmw(w: LlvmWriter, op: AtomicRmw, operands: Sequence[str]) -> str:
    pointer, value, *mask = operands
    return atomic(w, op, pointer, [value], mask[0] if mask else None)


def _cas(w: LlvmWriter, op: AtomicCas, operands: Sequence[str]) -> str:
    pointer, *values = operands
    return atomic(w, op, pointer, values, None)


def _clock(w: LlvmWriter, op: InlineAsm, operands: Sequence[str]) -> str:
    """The clock in nanoseconds; no other assembly comes here."""
    return w.call("i64", w.helper("__tw_nanoseconds", (), "i64", lambda: _nanoseconds(w), attributes="noinline"), [])


def _nanoseconds(w: LlvmWriter) -> str:
    """The clock of the C library that only goes forward: seconds and nanoseconds."""
    both = w.alloca(16)
    w.call("i32", "clock_gettime", [("i32", str(MONOTONIC)), ("ptr", both)])
    seconds, rest = w.load("i64", both, align=8), w.load("i64", w.offset(both, "i64", 1), align=8)
    return w.emit(f"add i64 {w.emit(f'mul i64 {seconds}, 1000000000')}, {rest}")


def _bitcast(w: LlvmWriter, op: Bitcast, operands: Sequence[str]) -> str:
    (operand,) = operands
    return w.convert("bitcast", operand, element_of(op.operand.type), element_of(op.result.type))


def _poison(w: LlvmWriter, op: Poison, operands: Sequence[str]) -> str:
    return literal(0, element_of(op.result.type))


SCALARS: dict[str, Callable[[LlvmWriter, Any, Sequence[str]], str | None]] = {
    "tt.addptr": _add_pointer,
    "tt.atomic_cas": _cas,
    "tt.atomic_rmw": _rmw,
    "tt.bitcast": _bitcast,
    "tt.elementwise_inline_asm": _clock,
    "tt.load": _load,
    "tt.store": _store,
    "ub.poison": _poison,
}
