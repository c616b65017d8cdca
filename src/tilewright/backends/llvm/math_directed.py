"""Arithmetic with directed rounding, in functions that set the rounding mode and restore it.

    define internal <8 x float> @tw_add_rd_v8f32(…) noinline strictfp      set rounding, the sum, set rounding back

No other code may move between the two changes of the mode, so the function is never inlined. Without FMA instructions,
`fma` of float is an addition in double of an exact product; rounding twice in one direction is the same as once. `fma`
of double is then computed as in `math_fused`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.backends.llvm.lanes import Lanes, LaneType
from tilewright.backends.llvm.math_fused import fused_in_double, fused_multiply_add
from tilewright.backends.llvm.spelling import suffix
from tilewright.backends.llvm.writer import LlvmWriter

MODES = {"rn": 1, "rz": 0, "rd": 3, "ru": 2}
"""The codes of rounding modes for `llvm.set.rounding`."""
OPCODES = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv", "fma": "fma", "sqrt": "sqrt"}
AS_SET = (("metadata", '!"round.dynamic"'), ("metadata", '!"fpexcept.ignore"'))


def directed(operation: str, mode: str, operands: Sequence[Lanes]) -> Lanes:
    """`operation` of lanes, rounded by `mode`."""
    k, *_ = (x.kind for x in operands)
    if mode == "rn":
        return _nearest(operation, operands, k)
    if operation == "fma" and not k.writer.target.has_fma:
        if k.element == "double":
            a, b, c = operands
            return fused_in_double(a, b, c, mode)
        double = k.with_element("double")
        return _called("fma", mode, [double.cast("fpext", x) for x in operands], double.type, result=k)
    return _called(operation, mode, operands, k.type, result=k)


def _nearest(operation: str, operands: Sequence[Lanes], k: LaneType) -> Lanes:
    if operation == "fma":
        return fused_multiply_add(*operands)
    if operation == "sqrt":
        return k.call("llvm.sqrt", *operands)
    return k.binary(OPCODES[operation], *operands)


def _called(operation: str, mode: str, operands: Sequence[Lanes], type: str, *, result: LaneType) -> Lanes:
    """A call of the function for operands of LLVM type `type`."""
    w, parameters = result.writer, [f"%a{number}" for number in range(len(operands))]

    def write() -> str:
        w.call_void("llvm.set.rounding", [("i32", str(MODES[mode]))])
        found = _constrained(w, operation, type, parameters)
        if type != result.type:
            name = f"llvm.experimental.constrained.fptrunc.{suffix(result.type)}.{suffix(type)}"
            found = w.call(result.type, name, [(type, found), *AS_SET])
        w.call_void("llvm.set.rounding", [("i32", str(MODES["rn"]))])
        return found

    name = f"tw_{operation}_{mode}_{suffix(type)}_{suffix(result.type)}"
    w.helper(name, [(type, x) for x in parameters], result.type, write, attributes="noinline strictfp")
    return Lanes(result, w.call(result.type, name, [(type, x.name) for x in operands]))


def _constrained(w: LlvmWriter, operation: str, type: str, operands: Sequence[str]) -> str:
    if operation == "fma" and not w.target.has_fma:
        a, b, c = operands
        return _constrained(w, "add", type, (_constrained(w, "mul", type, (a, b)), c))
    name = f"llvm.experimental.constrained.{OPCODES[operation]}.{suffix(type)}"
    return w.call(type, name, [*((type, x) for x in operands), *AS_SET])
