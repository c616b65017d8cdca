"""Functions that every GPU has: `vprintf` and `__assertfail`, with which kernels print and check.

vprintf("pid (%d, %d): x = %f\n", &arguments)       # arguments stand one behind the other, each at its alignment
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import TypeAlias

from tilewright.backends.ptxsim.code import Run
from tilewright.backends.ptxsim.machine import Machine
from tilewright.backends.ptxsim.spaces import generic_bytes, place_of
from tilewright.backends.ptxsim.value_types import Mask

BuiltIn: TypeAlias = Callable[[list[int], list[int]], Run]
"""(offsets of the results in the frame, of the arguments) → the call."""

_CONVERSION = re.compile(r"%([-+ #0]*)(\d+|\*)?(?:\.(\d+|\*))?(hh|h|ll|l|z|j|t)?([diouxXcsfFeEgGaAp%])")


def print_formatted(results: list[int], arguments: list[int]) -> Run:
    """int vprintf(const char *format, void *arguments); returns the number of arguments."""

    def run(machine: Machine, active: Mask) -> None:
        frame = machine.frame[1].reshape(machine.lanes, -1)
        for lane in machine.active_lanes(active):
            format_, values = (frame[lane, offset : offset + 8].view("u8")[0] for offset in arguments)
            text = c_string(machine, int(format_), int(lane))
            machine.output(formatted(machine, text, int(values), int(lane)))
            if results:
                count = len([found for found in _CONVERSION.finditer(text) if found[5] != "%"])
                frame[lane, results[0] : results[0] + 4] = list(struct.pack("<i", count))

    return run


def formatted(machine: Machine, text: str, values: int, lane: int) -> str:
    """The text with its arguments, which stand in memory from `values` on (a generic address)."""
    place = values

    def replace(found: re.Match[str]) -> str:
        nonlocal place
        flags, width, precision, length, kind = found.groups()
        if kind == "%":
            return "%"
        size = 8 if kind in "fFeEgGaAps" or length in ("ll", "l", "z", "j", "t") else 4
        place = -(-place // size) * size
        raw = generic_bytes(machine, place, size, lane)
        place += size
        how = f"%{flags}{width or ''}" + (f".{precision}" if precision is not None else "")
        return _one(machine, how, kind, raw, lane)

    return _CONVERSION.sub(replace, text)


def _one(machine: Machine, how: str, kind: str, raw: bytes, lane: int) -> str:
    if kind in "fFeEgG":
        return str((how + kind) % struct.unpack("<d", raw)[0])
    if kind in "aA":
        text: str = struct.unpack("<d", raw)[0].hex()
        return text.upper() if kind == "A" else text
    if kind == "s":
        return (how + "s") % c_string(machine, int.from_bytes(raw, "little"), lane)
    if kind == "p":
        return f"0x{int.from_bytes(raw, 'little'):x}"
    if kind == "c":
        return chr(raw[0])
    number = int.from_bytes(raw, "little", signed=kind in "di")
    return (how + ("d" if kind in "diu" else kind)) % number


def c_string(machine: Machine, address: int, lane: int) -> str:
    """The text at a generic address, up to its zero byte."""
    texts = machine.family(_Texts).known
    if address not in texts or place_of(address)[0] != "global":
        found = bytearray()
        while (byte := generic_bytes(machine, address + len(found), 1, lane)) != b"\0":
            found += byte
        texts[address] = found.decode(errors="replace")
    return texts[address]


class _Texts:
    """The constants that prints have read, by their addresses."""

    def __init__(self, _: Machine) -> None:
        self.known: dict[int, str] = {}


def assertion_failed(results: list[int], arguments: list[int]) -> Run:
    """void __assertfail(const char *message, const char *file, unsigned line, const char *function, size_t size)."""
    place = arguments[0]  # where it stands, `.loc` says better

    def run(machine: Machine, active: Mask) -> None:
        lane = int(machine.active_lanes(active)[0])
        frame = machine.frame[1].reshape(machine.lanes, -1)[lane]
        machine.fail("assertion", c_string(machine, int(frame[place : place + 8].view("u8")[0]), lane), lane)

    return run


BUILT_IN: dict[str, BuiltIn] = {"vprintf": print_formatted, "__assertfail": assertion_failed}
