"""Integer arithmetic, logic and bits.

    add.s32 %r3, %r1, %r2;      mad.wide.s32 %rd1, %r1, 4, %rd2;      min.s16x2 %r3, %r1, %r2;      dp4a.s32.s32 %r1, …;
    shl.b32 %r2, %r1, 5;        prmt.b32 %r3, %r1, %r2, 0x5410;       lop3.b32 %r4, %r1, %r2, %r3, 0x96;

Results wrap. Division truncates; division by zero gives all ones, with the dividend as remainder, as on hardware.
Shifts by the width or more give zero, and the sign for `shr.s`; amounts are unsigned.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from tilewright.backends.ptxsim.code import Run
from tilewright.backends.ptxsim.decoder import Decoder, Handlers, InstructionSemantics, applied, elementwise, simple
from tilewright.backends.ptxsim.errors import SimulationError
from tilewright.backends.ptxsim.machine import Machine
from tilewright.backends.ptxsim.value_types import TYPES, Array, Mask
from tilewright.support.ptx_syntax import Instruction

U64 = np.uint64


def shift_left(value: Array, amount: Array) -> Array:
    bits = value.dtype.itemsize * 8
    shifted = value << np.minimum(amount, bits - 1).astype(value.dtype)
    return np.where(amount < bits, shifted, value.dtype.type(0))


def shift_right(value: Array, amount: Array) -> Array:
    bits = value.dtype.itemsize * 8
    shifted = value >> np.minimum(amount, bits - 1).astype(value.dtype)
    return shifted if value.dtype.kind == "i" else np.where(amount < bits, shifted, value.dtype.type(0))


def decode_shift(instruction: Instruction, code: Decoder) -> Run:
    kind, (value, amount) = instruction.type, instruction.sources
    reads = [code.source(value, kind), code.source(amount, "u32")]
    return applied(instruction, code, shift_left if instruction.opcode == "shl" else shift_right, reads, kind)


def decode_funnel(instruction: Instruction, code: Decoder) -> Run:
    """shf.{l, r}.{wrap, clamp}.b32 d, a, b, c: shifts b:a, and takes its upper half (l) or lower half (r)."""
    wraps, right = instruction.has("wrap"), instruction.parts[1] == "r"

    def semantics(low: Array, high: Array, amount: Array) -> Array:
        count = (amount & 31 if wraps else np.minimum(amount, 32)).astype(U64)
        both = low.astype(U64) | (high.astype(U64) << U64(32))
        return (both >> count if right else (both << count) >> U64(32)).astype(np.uint32)

    return elementwise(instruction, code, semantics, source="b32", result="b32")


def _low_ones(count: Array) -> Array:
    """Numbers with `count` ones at the bottom, up to 64."""
    return ~shift_left(~U64(0), count)


def decode_extract(instruction: Instruction, code: Decoder) -> Run:
    """bfe.type d, a, position, length: bits of a; beyond its end the sign (s) or zeros (u)."""
    kind, (source, *_) = TYPES[instruction.type], instruction.sources
    reads = [code.source(source, kind.name), *code.sources(instruction, "u32", start=2)]

    def semantics(value: Array, position: Array, length: Array) -> Array:
        start, count = (position & 255).astype(np.int64), (length & 255).astype(np.int64)
        wide = value.astype(np.int64 if kind.kind == "s" else U64)
        kept = shift_right(wide, start).view(U64) & _low_ones(count)
        if kind.kind == "s":
            last = shift_right(wide, np.minimum(start + count - 1, kind.bits - 1))
            kept = np.where((count > 0) & (last & 1 != 0), kept | ~_low_ones(count), kept)
        return kept.astype(kind.dtype)

    return applied(instruction, code, semantics, reads, kind.name)


def decode_insert(instruction: Instruction, code: Decoder) -> Run:
    """bfi.type d, a, b, position, length: b with the low bits of a at a position."""
    kind = instruction.type
    reads = [*code.sources(instruction, kind)[:2], *code.sources(instruction, "u32", start=3)]

    def semantics(bits: Array, base: Array, position: Array, length: Array) -> Array:
        start, count = (position & 255).astype(np.int64), (length & 255).astype(np.int64)
        field = shift_left(_low_ones(count), start)
        return ((base & ~field) | (shift_left(bits.astype(U64), start) & field)).astype(base.dtype)

    return applied(instruction, code, semantics, reads, kind)


PERMUTE_MODES = {
    # What each of the four bytes of the result is, by the two low bits of the selector: f4e, b4e, rc8, ecl, ecr, rc16.
    "f4e": ((0, 1, 2, 3), (1, 2, 3, 4), (2, 3, 4, 5), (3, 4, 5, 6)),
    "b4e": ((0, 7, 6, 5), (1, 0, 7, 6), (2, 1, 0, 7), (3, 2, 1, 0)),
    "rc8": ((0, 0, 0, 0), (1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 3)),
    "ecl": ((0, 1, 2, 3), (1, 1, 2, 3), (2, 2, 2, 3), (3, 3, 3, 3)),
    "ecr": ((0, 0, 0, 0), (0, 1, 1, 1), (0, 1, 2, 2), (0, 1, 2, 3)),
    "rc16": ((0, 1, 0, 1), (2, 3, 2, 3), (0, 1, 0, 1), (2, 3, 2, 3)),
}


def permute(low: Array, high: Array, selector: Array) -> Array:
    """Four bytes of the eight of high:low, each by a nibble of the selector; its bit 3 replicates the sign."""
    low, high, selector = np.broadcast_arrays(low, high, selector)
    pool = np.stack([low, high], axis=1).astype("<u4").view(np.uint8)
    nibbles = np.stack([(selector >> np.uint32(4 * place)) & 15 for place in range(4)], axis=1)
    chosen = np.take_along_axis(pool, (nibbles & 7).astype(np.int64), axis=1)
    signs = np.where(chosen & 0x80, np.uint8(255), np.uint8(0))
    return np.where(nibbles & 8, signs, chosen).astype(np.uint8).view("<u4")[:, 0]


def decode_permute(instruction: Instruction, code: Decoder) -> Run:
    rows = PERMUTE_MODES.get(instruction.type)
    if rows is None:
        return elementwise(instruction, code, permute, source="b32", result="b32")
    selectors = np.array([sum(byte << 4 * place for place, byte in enumerate(row)) for row in rows], np.uint32)

    def semantics(low: Array, high: Array, selector: Array) -> Array:
        return permute(low, high, selectors[selector & 3])

    return elementwise(instruction, code, semantics, source="b32", result="b32")


def decode_lookup(instruction: Instruction, code: Decoder) -> Run:
    """lop3.b32 d, a, b, c, table: any function of three bits."""
    if instruction.type != "b32" or instruction.has("BoolOp"):
        raise SimulationError("unsupported", "this form of lop3 is not simulated")
    *sources, last = instruction.sources
    reads = [code.source(operand, "b32") for operand in sources]
    table = int(code.source(last, "u32")(None)[0])  # type: ignore[arg-type]  # an immediate

    def semantics(a: Array, b: Array, c: Array) -> Array:
        result = np.zeros(1, np.uint32)
        for row in range(8):
            if table >> row & 1:
                result = result | ((a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c))
        return result

    return applied(instruction, code, semantics, reads, "b32")


COUNTS: dict[str, InstructionSemantics] = {
    "popc": lambda value: np.bitwise_count(value).astype(np.uint32),
    "clz": lambda value: np.uint32(value.dtype.itemsize * 8 - 1) - highest(value),
}


def highest(value: Array) -> Array:
    """The place of the highest one, or all ones where there is none."""
    spread = value.copy()
    for step in (1, 2, 4, 8, 16, 32):
        if step < value.dtype.itemsize * 8:
            spread |= spread >> value.dtype.type(step)
    return np.bitwise_count(spread).astype(np.uint32) - np.uint32(1)


def decode_count(instruction: Instruction, code: Decoder) -> Run:
    semantics = COUNTS[instruction.opcode]
    return elementwise(instruction, code, semantics, source=instruction.type, result="u32")


def decode_find(instruction: Instruction, code: Decoder) -> Run:
    """bfind{.shiftamt}.type d, a: the highest bit that is not the sign."""
    kind = TYPES[instruction.type]
    unsigned = np.dtype(f"u{kind.bytes}")

    def semantics(value: Array) -> Array:
        bits = np.where(value < 0, ~value, value).view(unsigned) if kind.kind == "s" else value
        found = highest(bits)
        if not instruction.has("shiftamt"):
            return found
        return np.where(found == 0xFFFFFFFF, found, np.uint32(kind.bits - 1) - found)

    return elementwise(instruction, code, semantics, source=kind.name, result="u32")


def reverse(value: Array) -> Array:
    raw = np.ascontiguousarray(value).view(np.uint8).reshape(len(value), -1)
    flipped = np.packbits(np.unpackbits(raw, axis=1, bitorder="little")[:, ::-1], axis=1, bitorder="little")
    return flipped.view(value.dtype)[:, 0]


def decode_mask(instruction: Instruction, code: Decoder) -> Run:
    """bmsk.{clamp, wrap}.b32 d, position, width: that many ones from a position on."""
    wraps = instruction.has("wrap")

    def semantics(position: Array, width: Array) -> Array:
        start, count = position.astype(np.int64), width.astype(np.int64)
        if wraps:
            start, count = start & 31, count & 31
        return shift_left(_low_ones(count), start).astype(np.uint32)

    return elementwise(instruction, code, semantics, source="b32", result="b32")


def decode_extend(instruction: Instruction, code: Decoder) -> Run:
    """szext.{clamp, wrap}.{u32, s32} d, a, width: the low bits of a, widened by sign or zero."""
    wraps, signed = instruction.has("wrap"), instruction.type == "s32"

    def semantics(value: Array, width: Array) -> Array:
        count = (width & 31 if wraps else np.minimum(width, 32)).astype(np.int64)
        field = _low_ones(count)
        kept = value.astype(U64) & field
        negative = signed & (count > 0) & ((kept >> np.maximum(count - 1, 0).astype(U64)) & U64(1) != 0)
        return np.where(negative, kept | ~field, kept).astype(np.uint32)

    return elementwise(instruction, code, semantics, source="b32", result="b32")


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
        self.lanes = machine.lanes
        self.flag = np.zeros(machine.lanes, bool)

    def give(self, active: Mask, out: Array) -> None:
        """Lanes set their flags."""
        out = np.broadcast_to(out, self.lanes)
        self.flag = out if active is None else np.where(active, out, self.flag)


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
                state.give(active, out)
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
        add = _clamped(operator.add)
        return applied(instruction, code, lambda a, b, c: add(multiply_high(a, b), c), reads, result)
    return applied(instruction, code, lambda a, b, c: product(a, b) + c, reads, result)


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
            state.give(active, (result < c) | (came & (result == c)))
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


def absolute_difference(a: Array, b: Array, c: Array) -> Array:
    """The size of a - b, added to c."""
    return c + (np.maximum(a, b) - np.minimum(a, b))


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
    "and": simple(operator.and_),
    "bfe": decode_extract,
    "bfi": decode_insert,
    "bfind": decode_find,
    "bmsk": decode_mask,
    "brev": simple(reverse),
    "clz": decode_count,
    "cnot": simple(lambda value: (value == 0).astype(value.dtype)),
    "lop3": decode_lookup,
    "not": simple(operator.invert),
    "or": simple(operator.or_),
    "popc": decode_count,
    "prmt": decode_permute,
    "shf": decode_funnel,
    "shl": decode_shift,
    "shr": decode_shift,
    "szext": decode_extend,
    "xor": simple(operator.xor),
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
    "sad": simple(absolute_difference),
    "sub": _binary(operator.sub, saturating=_clamped(operator.sub)),
    "sub.cc": _with_carry(subtracts=True),
    "subc": _with_carry(subtracts=True),
}
