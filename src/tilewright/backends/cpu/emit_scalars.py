"""Scalar ops that are not elementwise: pointers, memory, atomics."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.backends.cpu.nest.atomics import atomic
from tilewright.backends.cpu.nest.evaluate import memory_element
from tilewright.backends.llvm.memory import gather, scatter
from tilewright.backends.llvm.spelling import bits_of, element_of, in_registers, literal
from tilewright.backends.llvm.writer import LlvmWriter
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op
from tilewright.ir.types import PointerType

MONOTONIC = 1
"""Linux's name for the clock."""


def scalar_constant(op: Op) -> str:
    """The literal of a scalar arith.constant."""
    number = op.attributes["value"]
    assert isinstance(number, Number), "a scalar constant is one number"
    return literal(in_registers(number.value, op.result.type), element_of(op.result.type))


def _add_pointer(w: LlvmWriter, op: Op, operands: Sequence[str]) -> str:
    pointee = op.result.type
    assert isinstance(pointee, PointerType)
    offset = operands[1]
    if not offset.lstrip("-").isdigit():
        offset = w.convert("sext", offset, element_of(op.operands[1].type), "i64")
    return w.emit(f"getelementptr {memory_element(pointee)}, ptr {operands[0]}, i64 {offset}")


def _load(w: LlvmWriter, op: Op, operands: Sequence[str]) -> str:
    element = element_of(op.result.type)
    inside = "i8" if element == "i1" else element
    pointer, *rest = operands
    if not rest:
        volatile = "volatile " if op.attributes.get("isVolatile") is True else ""
        value = w.emit(f"load {volatile}{inside}, ptr {pointer}, align {bits_of(inside) // 8}")
    else:
        other = rest[1] if len(rest) > 1 else literal(0, element)
        if element == "i1":
            other = w.emit(f"zext i1 {other} to i8")
        value = gather(w, [pointer], inside, align=1, mask=rest[0], other=other)
    return w.emit(f"icmp ne i8 {value}, 0") if element == "i1" else value


def _store(w: LlvmWriter, op: Op, operands: Sequence[str]) -> None:
    element = element_of(op.operands[1].type)
    pointer, value, *mask = operands
    if element == "i1":
        element, value = "i8", w.emit(f"zext i1 {value} to i8")
    scatter(w, [pointer], element, value, align=bits_of(element) // 8, mask=mask[0] if mask else None)


def _rmw(w: LlvmWriter, op: Op, operands: Sequence[str]) -> str:
    pointer, value, *mask = operands
    return atomic(w, op, pointer, [value], mask[0] if mask else None)


def _cas(w: LlvmWriter, op: Op, operands: Sequence[str]) -> str:
    return atomic(w, op, operands[0], operands[1:3], None)


def _clock(w: LlvmWriter, op: Op, operands: Sequence[str]) -> str:
    """Nanoseconds; no other assembly comes here."""
    return w.call("i64", w.helper("__tw_nanoseconds", (), "i64", lambda: _nanoseconds(w), attributes="noinline"), [])


def _nanoseconds(w: LlvmWriter) -> str:
    """The clock of the C library that only goes forward: seconds and nanoseconds."""
    both = w.alloca(16)
    w.call("i32", "clock_gettime", [("i32", str(MONOTONIC)), ("ptr", both)])
    seconds, rest = w.load("i64", both, align=8), w.load("i64", w.offset(both, "i64", 1), align=8)
    return w.emit(f"add i64 {w.emit(f'mul i64 {seconds}, 1000000000')}, {rest}")


def _same(w: LlvmWriter, op: Op, operands: Sequence[str]) -> str:
    return operands[0]


def _bitcast(w: LlvmWriter, op: Op, operands: Sequence[str]) -> str:
    source, target = element_of(op.operands[0].type), element_of(op.result.type)
    return w.convert("bitcast", operands[0], source, target)


def _poison(w: LlvmWriter, op: Op, operands: Sequence[str]) -> str:
    return literal(0, element_of(op.result.type))


SCALARS: dict[str, Callable[[LlvmWriter, Op, Sequence[str]], str | None]] = {
    "tt.addptr": _add_pointer,
    "tt.atomic_cas": _cas,
    "tt.atomic_rmw": _rmw,
    "tt.bitcast": _bitcast,
    "tt.elementwise_inline_asm": _clock,
    "tt.load": _load,
    "tt.store": _store,
    "ub.poison": _poison,
}
