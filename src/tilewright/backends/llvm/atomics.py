"""Atomic read-modify-write of one element. Where the mask is off, nothing happens.

With `scope="cta"` only the program itself uses the memory, and a program is one thread, so a plain load, the operation
and a plain store are enough. They take a fifth of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.backends.llvm.conversions import from_single, to_single
from tilewright.backends.llvm.spelling import bits_of, element_of, literal
from tilewright.backends.llvm.writer import LlvmWriter
from tilewright.dialects.tt_atomics import AtomicCas, AtomicRmw

_OPERATION = {
    "add": "add",
    "and": "and",
    "exch": "xchg",
    "fadd": "fadd",
    "max": "max",
    "min": "min",
    "or": "or",
    "umax": "umax",
    "umin": "umin",
    "xor": "xor",
}
_PLAIN = frozenset(("add", "and", "fadd", "or", "xor"))
"""Operations that need no atomic instruction on elements which no other program touches."""
_PLAIN_ELEMENTS = ("i8", "i16", "i32", "i64", "float", "double")
_ORDERING = {"acq_rel": "acq_rel", "acquire": "acquire", "relaxed": "monotonic", "release": "release"}


def atomic(w: LlvmWriter, op: AtomicRmw | AtomicCas, pointer: str, values: Sequence[str], mask: str | None) -> str:
    """Emit the atomic on scalars; returns the old value (zero when masked off).

    Args:
        w: writes the text.
        pointer: the address.
        values: the operands besides it.
        mask: an i1; None: it is on.
    """
    element = element_of(op.value.type)
    if mask is None or mask == "true":
        return _do(w, op, pointer, values, element)
    with w.branch(mask) as branch, branch.then():
        old = _do(w, op, pointer, values, element)
    return branch.join(element, old, literal(0, element))


def _do(w: LlvmWriter, op: AtomicRmw | AtomicCas, pointer: str, values: Sequence[str], element: str) -> str:
    ordering = _ORDERING[op.sem]
    if isinstance(op, AtomicRmw):
        operation = _OPERATION[op.operation]
        if op.scope == "cta" and operation in _PLAIN and element in _PLAIN_ELEMENTS:
            return _without_others(w, operation, pointer, values[0], element)
        if operation == "xchg" and not element.startswith("i"):
            return _as_integers(w, element, values, lambda v: f"atomicrmw xchg ptr {pointer}, {v[0]} {ordering}")
        if operation == "fadd" and (element == "bfloat" or (element == "half" and not w.target.has_f16c)):
            return _add_short(w, pointer, values[0], element)
        return w.emit(f"atomicrmw {operation} ptr {pointer}, {element} {values[0]} {ordering}")
    failure = {"acq_rel": "acquire", "release": "monotonic"}.get(ordering, ordering)

    def exchange(v: Sequence[str]) -> str:
        pair = w.emit(f"cmpxchg ptr {pointer}, {v[0]}, {v[1]} {ordering} {failure}")
        return f"extractvalue {{ {v[0].split()[0]}, i1 }} {pair}, 0"

    return _as_integers(w, element, values, exchange)


def _without_others(w: LlvmWriter, opcode: str, pointer: str, value: str, element: str) -> str:
    align = bits_of(element) // 8
    old = w.load(element, pointer, align=align)
    w.store(element, w.emit(f"{opcode} {element} {old}, {value}"), pointer, align=align)
    return old


def _add_short(w: LlvmWriter, pointer: str, value: str, element: str) -> str:
    """An addition of floats of 16 bits, rounded once.

    LLVM would call functions, of which those for halves are not there, or take the processor's instruction for bf16,
    which flushes subnormals.
    """
    format = "bf16" if element == "bfloat" else "f16"
    added = to_single(w, value, format, 1)
    first = w.emit(f"load atomic i16, ptr {pointer} monotonic, align 2")
    head, end = w.fresh_label("add"), w.fresh_label("added")
    entered = w.leave_to(head)
    w.start_block(head)
    phis = w.open_section()
    bits = w.fresh("old")
    old = w.emit(f"bitcast i16 {bits} to {element}")
    total = from_single(w, w.emit(f"fadd float {to_single(w, old, format, 1)}, {added}"), format, 1)
    new = w.emit(f"bitcast {element} {total} to i16")
    pair = w.emit(f"cmpxchg ptr {pointer}, i16 {bits}, i16 {new} seq_cst seq_cst")
    found, done = (w.emit(f"extractvalue {{ i16, i1 }} {pair}, {part}") for part in (0, 1))
    latch = w.label
    w.do(f"br i1 {done}, label %{end}, label %{head}")
    phis.lines.append(f"  {bits} = phi i16 [ {first}, %{entered} ], [ {found}, %{latch} ]")
    w.start_block(end)
    return old


def _as_integers(w: LlvmWriter, element: str, values: Sequence[str], build: Callable[[Sequence[str]], str]) -> str:
    """Do it on the bits of the values, and give the old bits back as `element`."""
    if element.startswith("i") or element == "ptr":
        return w.emit(build([f"{element} {v}" for v in values]))
    bits = f"i{bits_of(element)}"
    casted = [f"{bits} {w.emit(f'bitcast {element} {v} to {bits}')}" for v in values]
    old = w.emit(build(casted))
    return w.emit(f"bitcast {bits} {old} to {element}")
