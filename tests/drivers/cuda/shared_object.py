"""A shared library for dlopen out of one object file, without a linker.

    write_library(object_code(text), path)
    ctypes.CDLL(path).exported_function()

The file, at the addresses that it has in memory: headers; what a loader looks up; code and constants; what is written;
and behind its end zeros. All references are relative, so nothing is left for the loader to relocate.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

from tilewright.backends.llvm.machine import compile_object, host_target
from tilewright.runtime.drivers.cpu import blob
from tilewright.runtime.drivers.cpu.blob import MACHINES, ObjectFile, Section, read_object
from tilewright.runtime.drivers.cpu.routines import ROUTINES

PAGE = 65536
TABLES, CODE = PAGE, 4 * PAGE
HEADER, SEGMENT, SYMBOL, ENTRY = (struct.Struct(form) for form in ("<16sHHIQQQIHHHHHH", "<IIQQQQQQ", "<IBBHQQ", "<QQ"))
LOAD, DYNAMIC, STACK, READ, WRITE, EXECUTE = 1, 2, 0x6474E551, 4, 2, 1
HASH, STRINGS, SYMBOLS, STRINGS_SIZE, SYMBOL_SIZE = 4, 5, 6, 10, 11
DYNAMIC_BYTES = 6 * ENTRY.size
FUNCTION = 1 << 4 | 2  # global, a function
SOME_SECTION = 1


def object_code(text: str) -> bytes:
    """LLVM IR as an object file for this machine."""
    return compile_object(text, host_target())


def write_library(code: bytes, path: Path) -> None:
    """Write the library; all exported symbols of the object are its own."""
    source = read_object(code)
    places = placed(source)
    image = bytearray(places.file_end)
    for section in source.sections:
        start = places.sections[section.index]
        image[start : start + len(section.content)] = section.content
    for name, start in places.routines.items():
        routine = ROUTINES[source.machine][name]
        image[start : start + len(routine)] = routine
    for one in source.relocations:
        symbol = one.symbol
        origin = places.routines.get(symbol.name)
        if symbol.section is not None:
            origin = places.sections[symbol.section] + symbol.value
        where = places.sections[one.section] + one.offset
        assert origin is not None, f"{symbol.name} is not defined"
        blob.apply(source.machine, one.kind, image=image, place=where, target=origin + one.addend)
    exported = {s.name: s for s in source.symbols if s.exported and s.section is not None}
    tables = symbol_tables({name: places.sections[s.section] + s.value for name, s in exported.items() if s.section})
    image[TABLES : TABLES + len(tables)] = tables
    headers = program_headers(source.machine, places, len(tables))
    image[: len(headers)] = headers
    path.write_bytes(image)


class Places(NamedTuple):
    """Addresses: of sections, of what LLVM calls by itself, and where parts end."""

    sections: dict[int, int]
    routines: dict[str, int]
    code_end: int
    written: int
    file_end: int
    end: int


def placed(source: ObjectFile) -> Places:
    """Code and constants, routines, what is written, zeros."""
    constant = [section for section in source.sections if not section.writable]
    filled = [section for section in source.sections if section.writable and section.content]
    zeros = [section for section in source.sections if section.writable and not section.content]
    sections: dict[int, int] = {}
    routines: dict[str, int] = {}
    place = _laid_out(constant, CODE, sections)
    for name in sorted({one.symbol.name for one in source.relocations if one.symbol.section is None}):
        place = routines[name] = _up(place, 16)
        place += len(ROUTINES[source.machine][name])
    written = _up(place, PAGE)
    file_end = _laid_out(filled, written, sections)
    return Places(sections, routines, place, written, file_end, _laid_out(zeros, file_end, sections))


def _laid_out(chosen: list[Section], place: int, starts: dict[int, int]) -> int:
    for section in chosen:
        starts[section.index] = place = _up(place, section.alignment)
        place += section.size
    return place


def _up(value: int, alignment: int) -> int:
    return -(-value // alignment) * alignment


def symbol_tables(addresses: dict[str, int]) -> bytes:
    """The tables that a loader looks up: the dynamic section, symbols, a hash table of one bucket, names."""
    names = sorted(addresses)
    strings = b"\0" + b"".join(name.encode() + b"\0" for name in names)
    at = [strings.index(b"\0" + name.encode() + b"\0") + 1 for name in names]
    symbols = bytes(SYMBOL.size) + b"".join(
        SYMBOL.pack(where, FUNCTION, 0, SOME_SECTION, addresses[name], 0) for name, where in zip(names, at, strict=True)
    )
    chain = [0, *range(2, len(names) + 1), 0]
    hashes = struct.pack(f"<3I{len(chain)}I", 1, len(chain), 1, *chain)
    symbols_at = TABLES + DYNAMIC_BYTES
    hashes_at = symbols_at + len(symbols)
    strings_at = hashes_at + len(hashes)
    entries = (
        (HASH, hashes_at),
        (STRINGS, strings_at),
        (SYMBOLS, symbols_at),
        (STRINGS_SIZE, len(strings)),
        (SYMBOL_SIZE, SYMBOL.size),
        (0, 0),
    )
    made = b"".join(ENTRY.pack(*entry) for entry in entries) + symbols + hashes + strings
    assert TABLES + len(made) <= CODE, "the symbols have room"
    return made


def program_headers(machine: str, places: Places, tables: int) -> bytes:
    """The ELF header and the segments."""
    number = next(number for number, name in MACHINES.items() if name == machine)
    code, data = places.code_end - CODE, places.file_end - places.written
    segments = (
        (LOAD, READ, 0, 0, 0, PAGE, PAGE, PAGE),
        (LOAD, READ | WRITE, TABLES, TABLES, TABLES, tables, tables, PAGE),
        (LOAD, READ | EXECUTE, CODE, CODE, CODE, code, code, PAGE),
        (LOAD, READ | WRITE, *(places.written,) * 3, data, places.end - places.written, PAGE),
        (DYNAMIC, READ | WRITE, TABLES, TABLES, TABLES, DYNAMIC_BYTES, DYNAMIC_BYTES, 8),
        (STACK, READ | WRITE, 0, 0, 0, 0, 0, 16),  # without it the stack must be executable, which glibc 2.41 refuses
    )
    identity = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    header = HEADER.pack(
        identity, 3, number, 1, 0, HEADER.size, 0, 0, HEADER.size, SEGMENT.size, len(segments), 0, 0, 0
    )
    return header + b"".join(SEGMENT.pack(*segment) for segment in segments)
