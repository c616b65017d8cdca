"""Writes a blob as an ELF shared object, which dlopen loads, without a linker.

    shared_object(link(object_bytes), ["kernel"])       # bytes of a file; dlsym finds `kernel` in it

A blob is position-independent already, so the object has no relocations and needs no other library. It has three
segments: the tables that dlsym reads, the blob with its code, and the dynamic section, which older versions of glibc
write to. The section headers describe the same ranges again; only nm, readelf and gdb read them.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from typing import NamedTuple

from tilewright.runtime.drivers.cpu.blob import MACHINES, SECTION, SYMBOL, LinkError, round_up
from tilewright.runtime.drivers.cpu.loader import Blob

_HEADER = struct.Struct("<4sBBB9xHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_DYNAMIC = struct.Struct("<qQ")

_PAGE = 65536  # the largest page of Linux on either machine, in bytes
_SHARED_OBJECT = 3
_LOAD, _DYNAMIC_SEGMENT, _STACK = 1, 2, 0x6474E551
_EXECUTE, _WRITE, _READ = 1, 2, 4
_HASH_TAG, _STRINGS_TAG, _SYMBOLS_TAG, _STRINGS_SIZE_TAG, _SYMBOL_SIZE_TAG = 4, 5, 6, 10, 11
_GLOBAL_FUNCTION = 0x12
_TEXT_INDEX = 4  # of the section .text, which the symbols name
_SEGMENTS = 5


class _Section(NamedTuple):
    """A row of the table of sections; `link` and `first_global` are what its kind makes of them."""

    name: str
    kind: int
    flags: int
    start: int
    size: int
    link: int = 0
    first_global: int = 0
    alignment: int = 8
    entry_size: int = 0


def shared_object(blob: Blob, names: Collection[str]) -> bytes:
    """The file of a shared object that runs what a blob runs.

    Args: names: the symbols of the blob that dlsym shall find, each a function.
    Errors: LinkError when the blob has no such symbol.
    """
    if missing := sorted(set(names) - blob.symbols.keys()):
        raise LinkError(f"the blob does not define {', '.join(missing)}")
    strings, symbols = _tables(blob, names)
    hashes = _hash_table(len(names) + 1)
    symbols_start = _HEADER.size + _SEGMENTS * _SEGMENT.size
    hash_start = symbols_start + len(symbols)
    strings_start = hash_start + len(hashes)
    tables_end = strings_start + len(strings)
    dynamic_start = _PAGE + round_up(len(blob.image), _PAGE)
    dynamic = _dynamic_section(hash_start, strings_start, symbols_start, len(strings))
    sections = (
        _Section(".dynsym", 11, 2, symbols_start, len(symbols), link=3, first_global=1, entry_size=SYMBOL.size),
        _Section(".hash", 5, 2, hash_start, len(hashes), link=1, alignment=4, entry_size=4),
        _Section(".dynstr", 3, 2, strings_start, len(strings), alignment=1),
        _Section(".text", 1, 6, _PAGE, len(blob.image), alignment=4096),
        _Section(".dynamic", 6, 3, dynamic_start, len(dynamic), link=3, entry_size=_DYNAMIC.size),
    )
    rows, section_names, rows_start = _section_table(sections, dynamic_start + len(dynamic))
    segments = (
        _segment(_LOAD, _READ, 0, tables_end),
        _segment(_LOAD, _READ | _EXECUTE, _PAGE, len(blob.image)),
        _segment(_LOAD, _READ | _WRITE, dynamic_start, len(dynamic)),
        _segment(_DYNAMIC_SEGMENT, _READ | _WRITE, dynamic_start, len(dynamic), alignment=8),
        _segment(_STACK, _READ | _WRITE, 0, 0, alignment=16),  # without it, Linux makes the stack executable
    )
    head = _file_header(blob.machine, rows_start, len(sections) + 2) + b"".join(segments)
    front = head + symbols + hashes + strings
    return (front.ljust(_PAGE, b"\0") + blob.image).ljust(dynamic_start, b"\0") + dynamic + section_names + rows


def _tables(blob: Blob, names: Collection[str]) -> tuple[bytes, bytes]:
    """The strings, and the symbols that refer to them; the first symbol is none."""
    strings, symbols = b"\0", bytes(SYMBOL.size)
    for name in names:
        symbols += SYMBOL.pack(len(strings), _GLOBAL_FUNCTION, 0, _TEXT_INDEX, _PAGE + blob.symbols[name], 0)
        strings += name.encode() + b"\0"
    return strings, symbols


def _hash_table(count: int) -> bytes:
    """A table with one bucket: a chain of all symbols, so no name needs to be hashed."""
    chain = [0, *range(2, count), 0] if count > 1 else [0]
    return struct.pack(f"<{3 + count}I", 1, count, int(count > 1), *chain)


def _dynamic_section(hashes: int, strings: int, symbols: int, strings_size: int) -> bytes:
    entries = (
        (_HASH_TAG, hashes),
        (_STRINGS_TAG, strings),
        (_SYMBOLS_TAG, symbols),
        (_STRINGS_SIZE_TAG, strings_size),
        (_SYMBOL_SIZE_TAG, SYMBOL.size),
        (0, 0),
    )
    return b"".join(_DYNAMIC.pack(tag, value) for tag, value in entries)


def _segment(kind: int, flags: int, start: int, size: int, *, alignment: int = _PAGE) -> bytes:
    """A segment lies in memory where it lies in the file."""
    return _SEGMENT.pack(kind, flags, start, start, start, size, size, alignment)


def _section_table(sections: tuple[_Section, ...], names_start: int) -> tuple[bytes, bytes, int]:
    """The rows for the sections, an empty one before and the names' own after; the names; where the rows lie."""
    names, rows = b"\0", bytes(SECTION.size)
    for section in sections:
        rows += _row(section, len(names), section.start)
        names += section.name.encode() + b"\0"
    label = len(names)
    names += b".shstrtab\0"
    rows += _row(_Section(".shstrtab", 3, 0, names_start, len(names), alignment=1), label, 0)
    names = names.ljust(round_up(names_start + len(names), 8) - names_start, b"\0")
    return rows, names, names_start + len(names)


def _row(section: _Section, label: int, address: int) -> bytes:
    return SECTION.pack(
        label,
        section.kind,
        section.flags,
        address,
        section.start,
        section.size,
        section.link,
        section.first_global,
        section.alignment,
        section.entry_size,
    )


def _file_header(machine: str, rows_start: int, rows: int) -> bytes:
    number = next(number for number, name in MACHINES.items() if name == machine)
    return _HEADER.pack(
        b"\x7fELF", 2, 1, 1, _SHARED_OBJECT, number, 1, 0, _HEADER.size, rows_start, 0,
        _HEADER.size, _SEGMENT.size, _SEGMENTS, SECTION.size, rows, rows - 1,
    )  # fmt: skip
