"""Reports of programs to the user while they run: prints and assertions."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from tilewright.dialects.cpu import AssertAt, PrintBuffer
from tilewright.dialects.tt_program import Assert, Print, print_format
from tilewright.interpreter.machine import Interpreter, executes
from tilewright.ir.attributes import UNKNOWN, span_of
from tilewright.ir.types import FloatType, PointerType, Type
from tilewright.support.diagnostics import DeviceAssertError
from tilewright.support.kernel_output import operand_text, printed, printed_text


@executes("tt.print")
def _print(machine: Interpreter, op: Print, *operands: Any) -> Any:
    prefix, as_hex = op.prefix, op.hex
    if not operands:
        sys.stdout.write(printed_text(machine.program, prefix))
    flags = op.signs or (1,) * len(operands)
    for number, (value, array, is_signed) in enumerate(zip(op.operands, operands, flags, strict=True)):
        text = operand_text(prefix, number, len(operands))
        values = _shown(np.ravel(array), value.type.scalar, as_bits=as_hex, signed=bool(is_signed))
        format = print_format(value.type.scalar, as_hex=as_hex)
        sys.stdout.write(printed(machine.program, text, np.shape(array), values, format))


def _shown(flat: Any, element: Type, *, as_bits: bool, signed: bool) -> list[int | float]:
    """The numbers to show for the elements: their bits for hexadecimal digits, else their values."""
    if isinstance(element, FloatType) and not as_bits:
        flat = flat.astype(np.float64)
    elif as_bits or isinstance(element, PointerType) or not signed:
        flat = flat.view(f"u{flat.dtype.itemsize}")
    return list(flat.tolist())


@executes("tt.assert")
def _assert(machine: Interpreter, op: Assert, *operands: Any) -> Any:
    (holds,) = map(np.asarray, operands)
    if not holds.all():
        raise _failure(machine, op, int(np.argmin(holds)), holds.shape)


@executes("cpu.print")
def _print_buffer(machine: Interpreter, op: PrintBuffer, buffer: Any = None) -> Any:
    if buffer is None:
        sys.stdout.write(printed_text(machine.program, op.text))
        return
    flat = buffer.ravel() if op.signed else buffer.ravel().view(f"u{buffer.dtype.itemsize}")
    sys.stdout.write(printed(machine.program, op.text, op.shape, flat.tolist(), op.format))


@executes("cpu.assert")
def _assert_first(machine: Interpreter, op: AssertAt, holds: Any, first: Any) -> Any:
    if not holds:
        raise _failure(machine, op, int(first), op.shape)


def _failure(machine: Interpreter, op: Assert | AssertAt, first: int, shape: tuple[int, ...]) -> DeviceAssertError:
    index = tuple(map(int, np.unravel_index(first, shape))) if shape else ()
    span = None if op.location == UNKNOWN else span_of(op.location)
    return DeviceAssertError(op.message, machine.program, index, span)
