"""A dot element by element, for tiles smaller than one step of the target's instructions."""

from __future__ import annotations

from tilewright.backends.cpu.dot.address import behind, repeat, times
from tilewright.backends.cpu.dot.packing import BIAS
from tilewright.backends.cpu.dot.spec import DotSpec, Offset
from tilewright.backends.llvm.spelling import bits_of, element_of, is_float, literal
from tilewright.backends.llvm.writer import LlvmWriter
from tilewright.ir.types import Type


def emit_scalar_dot(w: LlvmWriter, spec: DotSpec, a: str, b: str, c: str) -> None:
    """Write three loops; the arguments are those of `emit_dot`."""
    acc = element_of(spec.acc_type)
    acc_bytes = bits_of(acc) // 8
    a_row, a_step = _strides(w, spec.a_type, spec.a_stride, transposed=spec.a_transposed)
    b_step, b_column = _strides(w, spec.b_type, spec.b_stride, transposed=spec.b_transposed)

    def element(i: Offset, j: Offset) -> None:
        row, column = behind(w, a, i, a_row), behind(w, b, j, b_column)
        place = behind(w, behind(w, c, i, spec.c_stride * acc_bytes), j, acc_bytes)

        def step(p: Offset, carried: list[str]) -> list[str]:
            left = _widened(w, spec.a_type, behind(w, row, p, a_step), acc, biased=spec.a_biased)
            right = _widened(w, spec.b_type, behind(w, column, p, b_step), acc)
            if is_float(acc):
                return [w.fma(acc, left, right, carried[0])]
            return [w.emit(f"add {acc} {carried[0]}, {w.emit(f'mul {acc} {left}, {right}')}")]

        start = literal(0, acc) if spec.zero_init else w.load(acc, place, align=acc_bytes)
        (total,) = repeat(w, spec.k, step, [(acc, start)])
        w.store(acc, total, place, align=acc_bytes)

    def row(i: Offset, _: list[str]) -> list[str]:
        def column(j: Offset, _: list[str]) -> list[str]:
            element(i, j)
            return []

        repeat(w, spec.n, column)
        return []

    repeat(w, spec.m, row)


def _strides(w: LlvmWriter, type: Type, stride: Offset, *, transposed: bool) -> tuple[Offset, Offset]:
    """Bytes between neighbours along the first and the second axis."""
    near = type.bits // 8
    far = times(w, stride, near)
    return (near, far) if transposed else (far, near)


def _widened(w: LlvmWriter, type: Type, pointer: str, acc: str, *, biased: bool = False) -> str:
    element = element_of(type)
    value = w.load(element, pointer, align=type.bits // 8)
    if biased:
        value = w.emit(f"xor {element} {value}, {BIAS}")
    return w.convert("fpext" if is_float(element) else "sext", value, element, acc)
