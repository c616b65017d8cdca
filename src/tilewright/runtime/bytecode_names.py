"""The outer names that a function reads, from its code object.

    global_reads(f.__code__)      [("BLOCK", ()), ("tl", ("load",)), …]

This is faster than parsing the source (a new process does it before its first launch), and works without it. Only this
file of the runtime depends on how CPython encodes these reads.
"""

from __future__ import annotations

import dis
import re
from collections.abc import Container, Iterator
from itertools import chain
from types import CodeType

from tilewright.support.named_tuple import NamedTuple


class Read(NamedTuple):
    """A read of an outer name and of the attributes that follow it: `tl.math.exp` is ("tl", ("math", "exp"))."""

    name: str
    attributes: tuple[str, ...]
    captured: bool
    """The name belongs to an enclosing function, not to the module."""


_LOAD_GLOBAL = dis.opmap["LOAD_GLOBAL"]
_LOAD_DEREF = dis.opmap["LOAD_DEREF"]
_LOAD_ATTR = dis.opmap["LOAD_ATTR"]
_LOAD_METHOD = dis.opmap.get("LOAD_METHOD", -1)  # until 3.11
_EXTENDED_ARG = dis.opmap["EXTENDED_ARG"]
_ATTR_SHIFT = 0 if "LOAD_METHOD" in dis.opmap and dis.opmap["LOAD_METHOD"] < 256 else 1  # 3.12 folded one flag into it


def global_reads(code: CodeType) -> Iterator[Read]:
    """The outer names that `code` and the functions inside it read, with repetitions, in order."""
    names, captured = code.co_names, frozenset(code.co_freevars)
    reading: tuple[str, bool] | None = None
    attributes: list[str] = []
    for opcode, argument in chain(_instructions(code.co_code), ((-1, 0),)):
        if reading and opcode in (_LOAD_ATTR, _LOAD_METHOD):
            attributes.append(names[argument >> _ATTR_SHIFT if opcode == _LOAD_ATTR else argument])
            continue
        if reading:
            yield Read(reading[0], tuple(attributes), reading[1])
            reading, attributes = None, []
        if opcode == _LOAD_GLOBAL:
            reading = names[argument >> 1], False
        elif opcode == _LOAD_DEREF and captured:
            name = code._varname_from_oparg(argument)  # type: ignore[attr-defined]  # CPython has it, its stubs do not
            reading = (name, True) if name in captured else None
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from global_reads(constant)


def early_reads(code: CodeType, names: Container[str]) -> set[str]:
    """Those of the function's variables `names` that it reads before it stores to them, in the order of the text."""
    stored: set[str] = set(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    early = set()
    for instruction in dis.get_instructions(code):
        variables = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
        for access, name in zip(re.findall("LOAD_FAST|STORE_FAST", instruction.opname), variables, strict=False):
            if access == "STORE_FAST":
                stored.add(name)
            elif name in names and name not in stored and "CLEAR" not in instruction.opname:
                early.add(name)
    return early


def _instructions(bytecode: bytes) -> Iterator[tuple[int, int]]:
    """Opcode and argument of each instruction, without caches."""
    high = 0
    for opcode, low in zip(bytecode[::2], bytecode[1::2], strict=True):
        if opcode == _EXTENDED_ARG:
            high = (high | low) << 8
        elif opcode:  # 0 is a cache slot
            yield opcode, high | low
            high = 0
