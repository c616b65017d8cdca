"""Calls between functions of a module in LLVM IR.

    tt.call @scaled(%x) : (f16) -> (f16, i32)

    %r = call { i16, i32 } @scaled.1(ptr %launch, ptr %scratch, i32 %x, i32 %y, i32 %z, i16 …)

A function receives the state of its program: the launch record, the thread's scratch memory, the program's indices.
Only scalars and pointers are passed; 16-bit floats are passed as integers, because not every CPU can pass them
otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from tilewright.backends.cpu.emit_control import may_leave, only_waits
from tilewright.backends.cpu.emit_reports import Places, Site, may_report
from tilewright.backends.llvm.spelling import element_of
from tilewright.backends.llvm.writer import LlvmWriter, Typed
from tilewright.dialects.scf import While
from tilewright.dialects.traits import Loop
from tilewright.ir.core import Op
from tilewright.ir.types import Type
from tilewright.transforms.functions import functions_of, is_public

CONTEXT: tuple[Typed, ...] = (
    ("ptr noalias", "%launch"),
    ("ptr noalias", "%scratch"),
    ("i32", "%x"),
    ("i32", "%y"),
    ("i32", "%z"),
)
"""The leading parameters of every called function."""

_AS_INTEGERS = {"half": "i16", "bfloat": "i16"}


def called_names(module: Op) -> dict[str, str]:
    """A name in LLVM IR for each function that is not the kernel."""
    called = [function.symbol for function in functions_of(module) if not is_public(function)]
    return {name: f"{re.sub(r'[^A-Za-z0-9_]', '_', name)}.{number}" for number, name in enumerate(called)}


class Shared(NamedTuple):
    """State that the functions of a module share.

    Attributes:
        names: LLVM names of the functions that are called.
        polling: the loops in which programs look whether their launch is still wanted.
        waiting: the loops that only wait for other programs.
        reporting: symbols of the functions that may print or assert, perhaps in functions that they call.
        leaving: symbols of the functions in the middle of which a program may end, theirs among them.
        sites: prints and assertions so far.
        waits: loops so far that only wait.
    """

    names: dict[str, str]
    polling: set[Loop]
    waiting: set[While]
    reporting: set[str]
    leaving: set[str]
    sites: list[Site]
    waits: list[Places]


def shared_by(module: Op, polled: Sequence[str]) -> Shared:
    """The state that the functions of `module` (ttcir) share, before any of them is written.

    Args:
        module: ttcir, whose loops are all the program's own.
        polled: names of the loops in which programs look whether their launch is still wanted.
    """
    functions = functions_of(module)
    polling = {op for op in module.ops_of(Loop) if op.name in polled}
    waiting = {op for op in module.ops_of(While) if only_waits(op)}
    reporting = {f.symbol for f in functions if may_report(f, module)}
    leaving = reporting | {f.symbol for f in functions if may_leave(f, module, polled)}
    return Shared(called_names(module), polling, waiting, reporting, leaving, [], [])


def passed_type(type: Type) -> str:
    """The LLVM type in which a value of `type` is passed."""
    return _AS_INTEGERS.get(element_of(type), element_of(type))


def passed(w: LlvmWriter, name: str, type: Type) -> Typed:
    """A value as it is passed."""
    return passed_type(type), w.convert("bitcast", name, element_of(type), passed_type(type))


def received(w: LlvmWriter, name: str, type: Type) -> str:
    """A value that was passed."""
    return w.convert("bitcast", name, passed_type(type), element_of(type))


def result_type(types: Sequence[Type]) -> str:
    """The LLVM return type of a function with results of these types."""
    names = [passed_type(type) for type in types]
    return "void" if not names else names[0] if len(names) == 1 else f"{{ {', '.join(names)} }}"


def returned(w: LlvmWriter, values: Sequence[str], types: Sequence[Type]) -> None:
    """Leave the function with these results."""
    if not values:
        w.do("ret void")
        return
    whole, parts = "poison", [passed(w, value, type) for value, type in zip(values, types, strict=True)]
    if len(parts) == 1:
        whole = parts[0][1]
    else:
        for number, (type, value) in enumerate(parts):
            whole = w.emit(f"insertvalue {result_type(types)} {whole}, {type} {value}, {number}")
    w.do(f"ret {result_type(types)} {whole}")


def call(w: LlvmWriter, op: Op, function: str, program: Sequence[str], operands: Sequence[str]) -> list[str]:
    """Write a tt.call; returns its results.

    Args:
        w: writes the text.
        op: the call.
        function: the name of the called function.
        program: the program's place in the grid, along x, y and z.
        operands: the operands of the call.
    """
    context = zip(CONTEXT, ["%launch", "%scratch", *program], strict=True)
    arguments = [(type.split(" ")[0], value) for (type, _), value in context]
    arguments += [passed(w, value, v.type) for value, v in zip(operands, op.operands, strict=True)]
    types = [result.type for result in op.results]
    text = f"call {result_type(types)} @{function}({', '.join(f'{type} {value}' for type, value in arguments)})"
    if not types:
        w.do(text)
        return []
    whole = w.emit(text)
    if len(types) == 1:
        return [received(w, whole, types[0])]
    parts = [w.emit(f"extractvalue {result_type(types)} {whole}, {number}") for number in range(len(types))]
    return [received(w, part, type) for part, type in zip(parts, types, strict=True)]
