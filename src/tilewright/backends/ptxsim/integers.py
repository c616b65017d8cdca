"""Integer arithmetic.

    add.s32 %r3, %r1, %r2;      mad.wide.s32 %rd1, %r1, 4, %rd2;      min.s16x2 %r3, %r1, %r2;      dp4a.s32.s32 %r1, …;

Results wrap. Division truncates; by zero it gives all ones, its remainder the dividend, as hardware does.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from tilewright.backends.ptxsim.code import Run
from tilewright.backends.ptxsim.decoder import Decoder, Handlers, InstructionSemantics, applied, elementwise, simple
from tilewright.backends.ptxsim.machine import Machine
from tilewright.backends.ptxsim.value_types import TYPES, Array, Mask
from tilewright.support.ptx_syntax import Instruction

PACKED = {"u16x2": np.dtype("u2"), "s16x2": np.dtype("i2")}
"""Pairs of halves, by how each half is read."""


def _binary(semantics: InstructionSemantics, *, saturating: InstructionSemantics | None = None) -> Any:
    """An instruction of two operands, also on pairs of halves, and `.sat` where `saturating` is given."""

    def decode(instruction: Instruction, code: Decoder) -> Run:
        if instruction.type in PACKED:
            return elementwise(instruction, code, _on_halves(semantics, instruction), source="b32", result="b32")
        if instruction.has("sat") and saturating is not None:
            return elementwise(instruction, code, saturating, source="s32", result="s32")
        return simple(semantics)(instruction, code)

    return decode


def _on_halves(semantics: InstructionSemantics, instruction: Instruction) -> InstructionSemantics:
    half = PACKED[instruction.type]

    def on_halves(*values: Array) -> Array:
        found = semantics(*[np.ascontiguousarray(value).view(half) for value in np.broadcast_arrays(*values)])
        found = np.maximum(found, 0) if instruction.has("relu") else found
        return np.ascontiguousarray(found, half).view(np.uint32)

    return on_halves


def _clamped(semantics: InstructionSemantics) -> InstructionSemantics:
    """The exact result, brought into the range of s32."""

    def clamped(a: Array, b: Array) -> Array:
        return np.clip(semantics(a.astype(np.int64), b.astype(np.int64)), -(2**31), 2**31 - 1).astype(np.int32)

    return clamped


def _with_relu(semantics: InstructionSemantics) -> Any:
    plain = _binary(semantics)

    def decode(instruction: Instruction, code: Decoder) -> Run:
        if instruction.has("relu") and instruction.type not in PACKED:
            return simple(lambda a, b: np.maximum(semantics(a, b), 0).astype(a.dtype))(instruction, code)
        run: Run = plain(instruction, code)
        return run

    return decode


class Carry:
    """The carry flag of every lane."""

    def __init__(self, machine: Machine) -> None:
        self.flag = np.zeros(machine.lanes, bool)


def _with_carry(subtracts: bool) -> Any:
    """add{c}{.cc}, sub{c}{.cc}: the flag comes in after `c`, and goes out with `.cc`; a borrow sets it, too."""

    def decode(instruction: Instruction, code: Decoder) -> Run:
        takes, gives = instruction.opcode.endswith("c"), instruction.has("cc")
        kind = f"u{TYPES[instruction.type].bits}"
        first, second = code.sources(instruction, kind)
        write = code.target(instruction.destination, kind)

        def run(machine: Machine, active: Mask) -> None:
            state, a, b = machine.family(Carry), first(machine), second(machine)
            came = state.flag if takes else np.zeros(1, bool)
            one = came.astype(a.dtype)
            result = a - b - one if subtracts else a + b + one
            if gives:
                out = (a < b) | (came & (a == b)) if subtracts else (result < a) | (came & (result == a))
                state.flag = out if active is None else np.where(active, out, state.flag)
                state.flag = np.broadcast_to(state.flag, machine.lanes)
            write(machine, active, result)

        return run

    return decode


def multiply_high(a: Array, b: Array) -> Array:
    """The upper half of the exact product."""
    if a.dtype.itemsize < 8:
        wide = np.dtype(f"{a.dtype.kind}{a.dtype.itemsize * 2}")
        return ((a.astype(wide) * b.astype(wide)) >> wide.type(a.dtype.itemsize * 8)).astype(a.dtype)
    high = _high_unsigned(a.view(np.uint64), b.view(np.uint64))
    if a.dtype.kind == "i":
        high = high - np.where(a < 0, b.view(np.uint64), 0) - np.where(b < 0, a.view(np.uint64), 0)
    return high.astype(np.uint64).view(a.dtype)


def _high_unsigned(a: Array, b: Array) -> Array:
    low, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    a0, a1, b0, b1 = a & low, a >> shift, b & low, b >> shift
    middle = a1 * b0 + ((a0 * b0) >> shift)
    other = a0 * b1 + (middle & low)
    return np.asarray(a1 * b1 + (middle >> shift) + (other >> shift))


def multiply_wide(a: Array, b: Array) -> Array:
    wide = np.dtype(f"{a.dtype.kind}{a.dtype.itemsize * 2}")
    return np.asarray(a.astype(wide) * b.astype(wide))


def _wide(kind: str) -> str:
    return f"{kind[0]}{int(kind[1:]) * 2}"


def decode_multiply(instruction: Instruction, code: Decoder) -> Run:
    kind = instruction.type
    if instruction.has("wide"):
        return elementwise(instruction, code, multiply_wide, source=kind, result=_wide(kind))
    return simple(multiply_high if instruction.has("hi") else operator.mul)(instruction, code)


def decode_multiply_add(instruction: Instruction, code: Decoder) -> Run:
    kind = instruction.type
    if instruction.has("cc") or instruction.opcode == "madc":
        return _decode_multiply_carry(instruction, code)
    product = {"wide": multiply_wide, "hi": multiply_high}.get(instruction.parts[1], operator.mul)
    result = _wide(kind) if instruction.has("wide") else kind
    a, b, added = instruction.sources
    reads = [code.source(a, kind), code.source(b, kind), code.source(added, result)]
    if instruction.has("sat"):
        return applied(instruction, code, _saturating_high_add, reads, result)
    return applied(instruction, code, lambda a, b, c: product(a, b) + c, reads, result)


def _saturating_high_add(a: Array, b: Array, c: Array) -> Array:
    return np.asarray(_clamped(operator.add)(multiply_high(a, b), c))


def _decode_multiply_carry(instruction: Instruction, code: Decoder) -> Run:
    """mad{c}.{lo, hi}.cc: the sum may carry, and takes the flag after `madc`."""
    kind = instruction.type
    unsigned = f"u{TYPES[kind].bits}"
    a, b, added = instruction.sources
    first, second, third = code.source(a, kind), code.source(b, kind), code.source(added, unsigned)
    write = code.target(instruction.destination, unsigned)
    product = multiply_high if instruction.has("hi") else operator.mul
    takes, gives = instruction.opcode == "madc", instruction.has("cc")

    def run(machine: Machine, active: Mask) -> None:
        state = machine.family(Carry)
        c = third(machine)
        came = state.flag if takes else np.zeros(1, bool)
        result = product(first(machine), second(machine)).view(c.dtype) + c + came.astype(c.dtype)
        if gives:
            out = np.broadcast_to((result < c) | (came & (result == c)), machine.lanes)
            state.flag = out if active is None else np.where(active, out, state.flag)
        write(machine, active, result)

    return run


def divide(a: Array, b: Array) -> Array:
    """The quotient, truncated; all ones where the divisor is zero."""
    safe = np.where(b == 0, b.dtype.type(1), b)
    quotient = a // safe
    if a.dtype.kind == "i":
        quotient = quotient + ((quotient < 0) & (quotient * safe != a)).astype(a.dtype)
        # The least number by -1 wraps to itself.
        quotient = np.where(b == -1, -a, quotient)
    return np.where(b == 0, ~a.dtype.type(0), quotient)


def remainder(a: Array, b: Array) -> Array:
    """The remainder of truncating division; the dividend where the divisor is zero."""
    safe = np.where((b == 0) | (b == b.dtype.type(-1) if b.dtype.kind == "i" else b == 0), b.dtype.type(1), b)
    return np.where(b == 0, a, np.fmod(a, safe))


def absolute_difference(a: Array, b: Array) -> Array:
    return np.asarray(np.maximum(a, b) - np.minimum(a, b))


def decode_sad(instruction: Instruction, code: Decoder) -> Run:
    return simple(lambda a, b, c: c + absolute_difference(a, b))(instruction, code)


def _dot(instruction: Instruction, code: Decoder, *, pairs: bool) -> Run:
    """dp4a.atype.btype, dp2a.{lo, hi}.atype.btype d, a, b, c: c plus the dot product of bytes (dp2a: a has halves)."""
    a_type, b_type = instruction.parts[-2:]
    result = "u32" if (a_type, b_type) == ("u32", "u32") else "s32"
    a, b, added = instruction.sources
    reads = [code.source(a, "b32"), code.source(b, "b32"), code.source(added, result)]
    a_part = np.dtype({"s": "i", "u": "u"}[a_type[0]] + ("2" if pairs else "1"))
    b_part = np.dtype({"s": "i1", "u": "u1"}[b_type[0]])
    start = 2 if pairs and instruction.has("hi") else 0
    count = 2 if pairs else 4

    def semantics(a: Array, b: Array, c: Array) -> Array:
        left = np.ascontiguousarray(a).view(a_part).reshape(-1, count).astype(np.int64)
        right = np.ascontiguousarray(b).view(b_part).reshape(-1, 4)[:, start : start + count].astype(np.int64)
        return (c + (left * right).sum(axis=1)).astype(np.uint32).view(c.dtype)

    return applied(instruction, code, semantics, reads, result)


HANDLERS: Handlers = {
    "abs": simple(np.abs),
    "add": _binary(operator.add, saturating=_clamped(operator.add)),
    "add.cc": _with_carry(subtracts=False),
    "addc": _with_carry(subtracts=False),
    "div": simple(divide),
    "dp2a": lambda instruction, code: _dot(instruction, code, pairs=True),
    "dp4a": lambda instruction, code: _dot(instruction, code, pairs=False),
    "mad": decode_multiply_add,
    "madc": decode_multiply_add,
    "max": _with_relu(np.maximum),
    "min": _with_relu(np.minimum),
    "mul": decode_multiply,
    "neg": simple(operator.neg),
    "rem": simple(remainder),
    "sad": decode_sad,
    "sub": _binary(operator.sub, saturating=_clamped(operator.sub)),
    "sub.cc": _with_carry(subtracts=True),
    "subc": _with_carry(subtracts=True),
}
