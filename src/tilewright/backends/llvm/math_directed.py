"""Arithmetic that rounds as asked: in a function of its own, which sets the processor's rounding and sets it back.

    define internal <8 x float> @tw_add_rd_v8f32(…) noinline strictfp      set rounding, the sum, set rounding back

Nothing else may move between the two, so the function is never inlined. Without fused instructions, `fma` of float is a
sum of doubles whose product is exact, and rounds twice in one direction, which is the same as once; that of double
rounds its product as well, as it does wherever there is no instruction for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.backends.llvm.conversions import odd_sum
from tilewright.backends.llvm.lanes import Kind, Lanes
from tilewright.backends.llvm.spelling import suffix
from tilewright.backends.llvm.writer import LlvmWriter, Typed

MODES = {"rn": 1, "rz": 0, "rd": 3, "ru": 2}
"""What `llvm.set.rounding` calls them."""
OPCODES = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv", "fma": "fma", "sqrt": "sqrt"}
AS_SET = (("metadata", '!"round.dynamic"'), ("metadata", '!"fpexcept.ignore"'))


def directed(operation: str, mode: str, operands: Sequence[Lanes]) -> Lanes:
    """`operation` of lanes, rounded by `mode`."""
    k = operands[0].kind
    if mode == "rn":
        return _nearest(operation, operands)
    if operation == "fma" and not k.writer.target.has_fma and k.element == "float":
        double = k.with_element("double")
        return _called("fma", mode, [double.cast("fpext", x) for x in operands], result=k)
    return _called(operation, mode, operands, result=k)


def _nearest(operation: str, operands: Sequence[Lanes]) -> Lanes:
    k = operands[0].kind
    if operation == "fma" and k.element == "float" and not k.writer.target.has_fma:
        a, b, c = (k.with_element("double").cast("fpext", x) for x in operands)
        return k.cast("fptrunc", odd_sum(a * b, c))
    if operation == "fma":
        return k.fma(*operands)
    if operation == "sqrt":
        return k.call("llvm.sqrt", *operands)
    return k.binary(OPCODES[operation], *operands)


def _called(operation: str, mode: str, operands: Sequence[Lanes], *, result: Kind) -> Lanes:
    w, type = result.writer, operands[0].kind.type
    parameters = [(type, f"%a{number}") for number in range(len(operands))]

    def write() -> str:
        w.call_void("llvm.set.rounding", [("i32", str(MODES[mode]))])
        found = _constrained(w, operation, parameters)
        if type != result.type:
            name = f"llvm.experimental.constrained.fptrunc.{suffix(result.type)}.{suffix(type)}"
            found = w.call(result.type, name, [(type, found), *AS_SET])
        w.call_void("llvm.set.rounding", [("i32", str(MODES["rn"]))])
        return found

    name = f"tw_{operation}_{mode}_{suffix(type)}_{suffix(result.type)}"
    w.helper(name, parameters, result.type, write, attributes="noinline strictfp")
    return Lanes(result, w.call(result.type, name, [(type, x.name) for x in operands]))


def _constrained(w: LlvmWriter, operation: str, operands: Sequence[Typed]) -> str:
    type = operands[0][0]
    if operation == "fma" and not w.target.has_fma:
        return _constrained(w, "add", [(type, _constrained(w, "mul", operands[:2])), operands[2]])
    name = f"llvm.experimental.constrained.{OPCODES[operation]}.{suffix(type)}"
    return w.call(type, name, [*operands, *AS_SET])
