"""Reads the parts of a 64-bit little-endian ELF relocatable object that the blob linker needs.

`read_object(data)` gives the sections that occupy memory at run time, the symbols, and the relocations of those
sections.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")

_PROGBITS, _SYMTAB, _RELA, _NOBITS = 1, 2, 4, 8
_WRITE, _ALLOCATED, _TLS = 1, 2, 0x400
_RELOCATABLE = 1
_ABSOLUTE, _COMMON = 0xFFF1, 0xFFF2

MACHINES = {62: "x86-64", 183: "aarch64"}


class LinkError(Exception):
    """An object file that cannot become a blob; the message says which part of it is in the way."""


@dataclass(frozen=True)
class Section:
    """A section that occupies memory; `content` is empty for zero-initialised ones."""

    index: int
    name: str
    content: bytes
    size: int
    alignment: int
    writable: bool


@dataclass(frozen=True)
class Symbol:
    """A symbol; `section` is None when the object does not define it."""

    name: str
    section: int | None
    value: int
    exported: bool


@dataclass(frozen=True)
class Relocation:
    """A relocation: it patches `section` at `offset`; `kind` is the machine's own relocation number."""

    section: int
    offset: int
    kind: int
    symbol: Symbol
    addend: int


@dataclass(frozen=True)
class ObjectFile:
    """The result of `read_object`; `machine` is a value of `MACHINES`."""

    machine: str
    sections: tuple[Section, ...]
    symbols: tuple[Symbol, ...]
    relocations: tuple[Relocation, ...]


@dataclass(frozen=True)
class _Row:
    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    target: int
    alignment: int


def read_object(data: bytes) -> ObjectFile:
    """Parses an ELF relocatable object.

    Args: data: the whole object file.
    Returns: its run-time sections (`.eh_frame` left out), symbols and relocations.
    Errors: LinkError when it is no such file (Mach-O and COFF are named), or is cut short.
    """
    try:
        return _read(data)
    except (struct.error, IndexError, ValueError) as error:
        raise LinkError(f"damaged object file: {error}") from error


def _read(data: bytes) -> ObjectFile:
    machine, rows = _section_rows(data)
    sections = tuple(_section(index, row, data) for index, row in enumerate(rows) if _is_loaded(row))
    symbols = _symbols(data, rows)
    loaded = {section.index for section in sections}
    relocations = tuple(
        _relocation(row.target, fields, symbols)
        for row in rows
        if row.kind == _RELA and row.target in loaded
        for fields in _RELOCATION.iter_unpack(data[row.offset : row.offset + row.size])
    )
    return ObjectFile(machine, sections, symbols, relocations)


def _section_rows(data: bytes) -> tuple[str, list[_Row]]:
    _refuse_other_formats(data)
    _, kind, machine, _, _, _, table, _, _, _, _, entry_size, count, names_index = _HEADER.unpack_from(data)
    if kind != _RELOCATABLE:
        raise LinkError(f"ELF type {kind} is not a relocatable object")
    if machine not in MACHINES:
        raise LinkError(f"ELF machine {machine} is neither x86-64 nor AArch64")
    raw = [_SECTION.unpack_from(data, table + entry_size * index) for index in range(count)]
    names = raw[names_index][4]
    rows = [
        _Row(_text(data, names + name), kind, flags, offset, size, link, target, alignment)
        for name, kind, flags, _, offset, size, link, target, alignment, _ in raw
    ]
    return MACHINES[machine], rows


def _refuse_other_formats(data: bytes) -> None:
    if data[:4] in (b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe"):
        raise LinkError("a Mach-O object; compile for an ELF triple such as aarch64-unknown-linux-gnu")
    if data[:2] in (b"\x64\x86", b"\x64\xaa"):
        raise LinkError("a COFF object; compile for an ELF triple such as x86_64-unknown-linux-gnu")
    if data[:6] != b"\x7fELF\x02\x01":
        raise LinkError("not a 64-bit little-endian ELF object")


def _is_loaded(row: _Row) -> bool:
    is_memory = bool(row.flags & _ALLOCATED) and row.kind in (_PROGBITS, _NOBITS)
    return is_memory and row.size > 0 and row.name != ".eh_frame"


def _section(index: int, row: _Row, data: bytes) -> Section:
    content = b"" if row.kind == _NOBITS else data[row.offset : row.offset + row.size]
    if row.kind == _PROGBITS and len(content) != row.size:
        raise LinkError(f"section {row.name} is cut short")
    if row.flags & _TLS:
        raise LinkError(f"section {row.name} holds thread-local variables")
    return Section(index, row.name, content, row.size, max(1, row.alignment), bool(row.flags & _WRITE))


def _symbols(data: bytes, rows: list[_Row]) -> tuple[Symbol, ...]:
    table = next((row for row in rows if row.kind == _SYMTAB), None)
    if table is None:
        return ()
    names = rows[table.link].offset
    found = []
    for name, info, _, section, value, _ in _SYMBOL.iter_unpack(data[table.offset : table.offset + table.size]):
        text = _text(data, names + name)
        if section in (_ABSOLUTE, _COMMON) and info & 15 != 4:  # 4: the name of the source file
            raise LinkError(f"symbol {text} is absolute or common")
        found.append(Symbol(text, section or None, value, exported=info >> 4 != 0))
    return tuple(found)


def _relocation(section: int, fields: tuple[int, int, int], symbols: tuple[Symbol, ...]) -> Relocation:
    offset, info, addend = fields
    return Relocation(section, offset, info & 0xFFFFFFFF, symbols[info >> 32], addend)


def _text(data: bytes, start: int) -> str:
    return data[start : data.index(b"\0", start)].decode()
