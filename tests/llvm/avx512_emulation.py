"""AVX-512's own instructions in terms of AVX2, so that what is written for it can be run where it is missing.

    w = writer_for(host_target("x86-64-v4"))      # an LlvmWriter; on a machine without AVX-512 one that emulates
    obj = compile_object(w.render(), machine_for(host_target("x86-64-v4")))

Only the intrinsics that `math_registers.py` uses. Other instructions on 512 bits LLVM takes apart by itself.
"""

import re

from tilewright.backends.llvm.lanes import Lanes, LaneType
from tilewright.backends.llvm.machine import Target, host_target
from tilewright.backends.llvm.writer import LlvmWriter

PREFIX = "llvm.x86.avx512."
KEPT_APART = re.compile(r'call <.*> asm "", "=k,0"\((?P<operand>.*)\)')
NAN = float("nan")


def machine_for(target: Target) -> Target:
    """The target that code for `target` is compiled for: itself, or this machine, which then emulates it."""
    return target if target.runs_here() else host_target()


def can_run(target: Target) -> bool:
    """Does code for `target` run here, perhaps emulated?"""
    return target.runs_here() or (target.has_avx512f and host_target().has_avx2)


def writer_for(target: Target) -> LlvmWriter:
    return LlvmWriter(target) if target.runs_here() else _Emulator(target)


class _Emulator(LlvmWriter):
    """Chooses what AVX-512 has, and writes it for this machine."""

    def __init__(self, target):
        super().__init__(target)
        self.attributes = host_target().function_attributes

    def emit(self, instruction):
        """Masks stay where they are: AVX2 has no registers for them that an assembly text could name."""
        kept = KEPT_APART.fullmatch(instruction)
        return super().emit(f"freeze {kept['operand']}" if kept else instruction)

    def call(self, result, function, arguments, *, flags=""):
        if not function.startswith(PREFIX):
            return super().call(result, function, arguments, flags=flags)
        name = function.removeprefix(PREFIX).removeprefix("mask.").split(".")[0]
        lanes, element = result.strip("<>").split(" x ")
        return EMULATIONS[name](LaneType(self, element, int(lanes)), [value for _, value in arguments]).name


def _scaled(k, arguments):
    """a · 2^floor(b), in a wider type, so that it rounds once."""
    assert k.element == "float", "emulated for float only"
    double = k.with_element("double")
    a, b = (double.cast("fpext", k(value)) for value in arguments[:2])
    n = double.call("llvm.floor", double.call("llvm.minnum", double.call("llvm.maxnum", b, -400.0), 400.0))
    power = double.from_bits((double.integers.cast("fptosi", n) + 1023) << 52)
    return k.select(k(arguments[1]).is_nan(), NAN, k.cast("fptrunc", a * power))


def _nearer_to_zero(k, arguments):
    """The operand with the smaller absolute value, with the first one's sign; of a number and NaN the number."""
    first, second, immediate = arguments[:3]
    assert immediate == "2", "emulated for the smaller absolute value only"
    return k.with_sign_of(k.call("llvm.minnum", abs(k(first)), abs(k(second))), k(first))


def _rest(k, arguments):
    """The part that rounding to an integer, ties to even, or down to a sixteenth takes away; 0 of infinity."""
    x = k(arguments[0])
    assert arguments[1] in ("8", "73"), "emulated for whole numbers and the nearest, and for sixteenths and down, only"
    scaled = x if arguments[1] == "8" else x * 16.0
    rest = scaled - k.call("llvm.roundeven" if arguments[1] == "8" else "llvm.floor", scaled)
    return k.select(abs(scaled).equals(float("inf")), 0.0, rest if arguments[1] == "8" else rest * (1 / 16))


def _added_down(k, arguments):
    """A positive sum with a larger number, rounded down: the nearest float may be the next larger one."""
    assert arguments[2] == "9", "emulated for rounding down only"
    double = k.with_element("double")
    a, b = (double.cast("fpext", k(value)) for value in arguments[:2])
    nearest = k.cast("fptrunc", a + b)
    is_larger = double.cast("fpext", nearest) - b > a
    return k.select(is_larger, k.from_bits(nearest.bits - 1), nearest)


def _looked_up(k, arguments):
    """Sixteen entries as two permutations of eight."""
    (table, index), w = arguments, k.writer
    return _from_tables(k, [w.slice(table, k.element, 16, start, 8) for start in (0, 8)], index)


def _looked_up_in_two(k, arguments):
    low, index, high = arguments
    halves = [k.writer.slice(table, k.element, 16, start, 8) for table in (low, high) for start in (0, 8)]
    return _from_tables(k, halves, index)


def _from_tables(k, tables, index):
    """Entries of tables of eight; the bits of `index` above the third choose the table."""
    w, half = k.writer, LaneType(k.writer, k.element, 8)
    found = []
    for start in (0, 8):
        i = half.with_element("i32")(w.slice(index, "i32", 16, start, 8))
        permute = "llvm.x86.avx2.permps" if k.element == "float" else "llvm.x86.avx2.permd"
        ways = [half(w.call(half.type, permute, [(half.type, table), (i.kind.type, i.name)])) for table in tables]
        bit = 8
        while len(ways) > 1:
            is_set = (i & bit).differs(0)
            ways = [half.select(is_set, b, a) for a, b in zip(ways[::2], ways[1::2], strict=True)]
            bit *= 2
        found.append(ways[0].name)
    return Lanes(k, w.concat(found, k.element, 8))


EMULATIONS = {
    "add": _added_down,
    "permvar": _looked_up,
    "range": _nearer_to_zero,
    "reduce": _rest,
    "scalef": _scaled,
    "vpermi2var": _looked_up_in_two,
}
