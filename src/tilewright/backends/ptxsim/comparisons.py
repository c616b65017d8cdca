"""Comparisons and tests.

    setp.ltu.and.f32 %p1|%p2, %r1, %r2, !%p3;      set.gt.u32.s32 %r3, %r1, %r2;      testp.finite.f32 %p1, %r1;

Plain comparisons of floats are false for NaNs, `ne` as well; those that end in `u` are true for them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from tilewright.backends.ptxsim.code import Run
from tilewright.backends.ptxsim.decoder import Decoder, Handlers, Read, applied, simple
from tilewright.backends.ptxsim.floats import FLOATS, MIN_NORMAL, lens_of
from tilewright.backends.ptxsim.machine import Machine
from tilewright.backends.ptxsim.value_types import TYPES, Array, Mask
from tilewright.support.ptx_syntax import Instruction, Pair, Sink

Compare: TypeAlias = Callable[[Array, Array], Array]

ORDERED: dict[str, Compare] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "lo": operator.lt,
    "ls": operator.le,
    "hi": operator.gt,
    "hs": operator.ge,
}
CONNECTIVES = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}


def _has_nan(a: Array, b: Array) -> Array:
    return (a != a) | (b != b)


def comparison(name: str, *, floats: bool) -> Compare:
    """The meaning of `eq`, `ltu`, `num`, …"""
    if name == "num":
        return lambda a, b: ~_has_nan(a, b)
    if name == "nan":
        return _has_nan
    if name in ORDERED:
        compare = ORDERED[name]
        return (lambda a, b: compare(a, b) & ~_has_nan(a, b)) if floats and name == "ne" else compare
    unordered = ORDERED[name.removesuffix("u")]
    return lambda a, b: unordered(a, b) | _has_nan(a, b)


def _operands(instruction: Instruction, code: Decoder) -> list[Read]:
    """Readers of the two operands: floats as numbers, other types as NumPy has them."""
    kind = TYPES[instruction.type]
    if kind.name not in FLOATS:
        return code.sources(instruction, kind.name)[:2]
    lens = lens_of(instruction)
    return [_through(code.source(operand, f"b{kind.bits}"), lens.numbers) for operand in instruction.sources[:2]]


def _through(read: Read, numbers: Callable[[Array], Array]) -> Read:
    return lambda machine: numbers(read(machine))


def decode_set_predicate(instruction: Instruction, code: Decoder) -> Run:
    """setp.cmp{.bool}{.ftz}.type p{|q}, a, b{, {!}c}: p = cmp op c, and q = !cmp op c."""
    compare = comparison(instruction.parts[1], floats=instruction.type in FLOATS)
    connective = CONNECTIVES.get(instruction.parts[2])
    first, second = _operands(instruction, code)
    target, (_, _, *others) = instruction.destination, instruction.sources
    write, write_other = code.pair(target, "pred", "pred")
    third = code.source(others[0], "pred") if connective else None
    packed = instruction.type in FLOATS and instruction.type.endswith("x2") and instruction.type != "f32x2"
    wants_other = isinstance(target, Pair) and not isinstance(target.second, Sink)

    def run(machine: Machine, active: Mask) -> None:
        found = compare(first(machine), second(machine))
        other = found[:, 1] if packed else ~found if wants_other else found
        found = found[:, 0] if packed else found
        if connective is not None and third is not None:
            extra = third(machine)
            found, other = connective(found, extra), connective(other, extra)
        write(machine, active, np.ascontiguousarray(found))
        write_other(machine, active, np.ascontiguousarray(other))

    return run


def decode_set(instruction: Instruction, code: Decoder) -> Run:
    """set.cmp{.bool}{.ftz}.dtype.stype d, a, b{, {!}c}: all ones or zero, for a float type 1.0 or 0.0."""
    result = TYPES[instruction.parts[-2]]
    compare = comparison(instruction.parts[1], floats=instruction.type in FLOATS)
    connective = CONNECTIVES.get(instruction.parts[2])
    reads = _operands(instruction, code)
    ones = {"f32": 0x3F800000, "f16": 0x3C00, "f16x2": 0x3C00, "bf16": 0x3F80, "bf16x2": 0x3F80}
    packed = instruction.type.endswith("x2")
    unit = np.dtype(f"u{result.bytes // 2 if packed else result.bytes}")
    true = unit.type(ones.get(result.name, (1 << (8 * unit.itemsize)) - 1))
    if connective is not None:
        *_, last = instruction.sources
        reads.append(code.source(last, "pred"))

    def semantics(a: Array, b: Array, *extra: Array) -> Array:
        found = compare(a, b)
        for value in extra:
            found = CONNECTIVES[instruction.parts[2]](found, value[:, None] if packed else value)
        bits = np.where(found, true, unit.type(0))
        return np.ascontiguousarray(bits).view(f"u{result.bytes}")[:, 0] if packed else bits

    return applied(instruction, code, semantics, reads, f"b{result.bits}")


def decode_test(instruction: Instruction, code: Decoder) -> Run:
    """testp.{finite, infinite, number, notanumber, normal, subnormal}.type p, a."""
    name, kind = instruction.parts[1], instruction.type
    tests: dict[str, Callable[[Array], Array]] = {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda v: ~np.isnan(v),
        "notanumber": np.isnan,
        "normal": lambda v: np.isfinite(v) & (np.abs(v) >= MIN_NORMAL[kind]),
        "subnormal": lambda v: (np.abs(v) < MIN_NORMAL[kind]) & (v != 0),
    }
    return applied(instruction, code, tests[name], code.sources(instruction, kind), "pred")


HANDLERS: Handlers = {
    "copysign": simple(lambda a, b: np.copysign(b, a)),
    "set": decode_set,
    "setp": decode_set_predicate,
    "testp": decode_test,
}
