"""Links an ELF object into a blob: position-independent bytes that run wherever they are mapped.

    blob = link(object_bytes)
    mapping = map_code(blob.image)                      # loader.py
    entry = mapping.address + blob.symbols["kernel"]

A blob has no writable data and calls nothing outside itself: helpers come in through arguments. Only the routines that
LLVM calls implicitly and a clock are provided (`routines.py`), as a few instructions inside the blob. Code, constants
and routines share one image; the relocations are applied once, here, so loading a cached blob is a copy. The image is
loaded at a multiple of 4096, so page-relative AArch64 addressing is exact.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tilewright.runtime.drivers.cpu.loader import Blob, machine_of
from tilewright.runtime.drivers.cpu.routines import ROUTINES
from tilewright.support.system import SYSTEM

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
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
    raw = [SECTION.unpack_from(data, table + entry_size * index) for index in range(count)]
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
    for name, info, _, section, value, _ in SYMBOL.iter_unpack(data[table.offset : table.offset + table.size]):
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


Patch = Callable[[bytearray, int, int], None]


def apply(machine: str, kind: int, *, image: bytearray, place: int, target: int) -> None:
    """Patches `image` at `place` to refer to `target`.

    Errors: LinkError for kinds that need an absolute address, are unknown, or do not reach their target.

    Args:
        machine: the architecture.
        kind: the number of the relocation's kind there.
        image: the code.
        place: the offset of what is patched, in bytes.
        target: the offset of what it refers to.
    """
    patch = PATCHES[machine].get(kind)
    if patch is None:
        raise LinkError(f"relocation {kind} of {machine} is not position-independent or not supported")
    patch(image, place, target)


def _relative(code: str) -> Patch:
    field = struct.Struct(f"<{code}")

    def patch(image: bytearray, place: int, target: int) -> None:
        try:
            field.pack_into(image, place, target - place)
        except struct.error as error:
            raise LinkError(f"target out of reach: {target - place} bytes") from error

    return patch


def _load_through_got(image: bytearray, place: int, target: int) -> None:
    """mov symbol@GOTPCREL(%rip), reg → lea symbol(%rip), reg: there is no table of addresses in a blob."""
    if image[place - 2] != 0x8B:
        raise LinkError("an instruction other than mov reads an address from the GOT")
    image[place - 2] = 0x8D
    _relative("i")(image, place, target)


def _set_bits(image: bytearray, place: int, value: int, mask: int) -> None:
    (word,) = struct.unpack_from("<I", image, place)
    struct.pack_into("<I", image, place, word & ~mask | value & mask)


def _branch(bits: int, shift: int) -> Patch:
    """A signed word distance of `bits` bits at bit `shift`."""

    def patch(image: bytearray, place: int, target: int) -> None:
        words = (target - place) >> 2
        if not -(1 << bits - 1) <= words < 1 << bits - 1:
            raise LinkError(f"target out of reach: {target - place} bytes")
        _set_bits(image, place, words << shift, ((1 << bits) - 1) << shift)

    return patch


def _adr(image: bytearray, place: int, target: int) -> None:
    _split_immediate(image, place, target - place)


def _adrp(image: bytearray, place: int, target: int) -> None:
    _split_immediate(image, place, (target >> 12) - (place >> 12))


def _split_immediate(image: bytearray, place: int, value: int) -> None:
    if not -(1 << 20) <= value < 1 << 20:
        raise LinkError("target out of reach of adr")
    _set_bits(image, place, (value & 3) << 29 | (value >> 2 & 0x7FFFF) << 5, 0x60FFFFE0)


def _low12(scale: int) -> Patch:
    """The low 12 bits of the target in an add (`scale` 0) or a load or store of 2**scale bytes."""

    def patch(image: bytearray, place: int, target: int) -> None:
        low = target & 0xFFF
        if low & (1 << scale) - 1:
            raise LinkError(f"target is not aligned to {1 << scale} bytes")
        _set_bits(image, place, low >> scale << 10, 0xFFF << 10)

    return patch


def _load_page_offset(image: bytearray, place: int, target: int) -> None:
    """ldr xD, [xN, :got_lo12:symbol] → add xD, xN, :lo12:symbol."""
    (word,) = struct.unpack_from("<I", image, place)
    if word & 0xFFC00000 != 0xF9400000:
        raise LinkError("an instruction other than ldr reads an address from the GOT")
    struct.pack_into("<I", image, place, 0x91000000 | word & 0x3FF)
    _low12(0)(image, place, target)


PATCHES: dict[str, dict[int, Patch]] = {
    "x86-64": {
        2: _relative("i"),  # PC32
        4: _relative("i"),  # PLT32
        24: _relative("q"),  # PC64
        41: _load_through_got,  # GOTPCRELX
        42: _load_through_got,  # REX_GOTPCRELX
    },
    "aarch64": {
        260: _relative("q"),  # PREL64
        261: _relative("i"),  # PREL32
        273: _branch(19, 5),  # LD_PREL_LO19
        274: _adr,  # ADR_PREL_LO21
        275: _adrp,  # ADR_PREL_PG_HI21
        276: _adrp,  # ADR_PREL_PG_HI21_NC
        277: _low12(0),  # ADD_ABS_LO12_NC
        278: _low12(0),  # LDST8_ABS_LO12_NC
        279: _branch(14, 5),  # TSTBR14
        280: _branch(19, 5),  # CONDBR19
        282: _branch(26, 0),  # JUMP26
        283: _branch(26, 0),  # CALL26
        284: _low12(1),  # LDST16_ABS_LO12_NC
        285: _low12(2),  # LDST32_ABS_LO12_NC
        286: _low12(3),  # LDST64_ABS_LO12_NC
        299: _low12(4),  # LDST128_ABS_LO12_NC
        311: _adrp,  # ADR_GOT_PAGE
        312: _load_page_offset,  # LD64_GOT_LO12_NC
    },
}


_PAGE = 4096


def link(object_file: bytes, system: str = SYSTEM.name) -> Blob:
    """Links one relocatable object into a blob.

    Args: object_file: ELF for x86-64 or AArch64, compiled position-independent with the small code model; system: the
        name of the one whose calling convention the code has.
    Errors: LinkError for other formats, undefined symbols (all are named), writable data and absolute addresses.
    """
    source = read_object(object_file)
    starts, size = _place(source.sections)
    machine = machine_of(source.machine, system)
    routines, size = _place_routines(source, ROUTINES[machine], size)
    image = bytearray(size)
    for section in source.sections:
        image[starts[section.index] : starts[section.index] + section.size] = section.content.ljust(section.size, b"\0")
    for name, start in routines.items():
        routine = ROUTINES[machine][name]
        image[start : start + len(routine)] = routine
    _relocate(source, starts, routines, image)
    symbols = {
        symbol.name: starts[symbol.section] + symbol.value
        for symbol in source.symbols
        if symbol.exported and symbol.section in starts
    }
    return Blob(machine, bytes(image), symbols)


def _place(sections: tuple[Section, ...]) -> tuple[dict[int, int], int]:
    starts: dict[int, int] = {}
    size = 0
    for section in sections:
        if section.writable:
            raise LinkError(f"section {section.name} is writable; a blob has no variables of its own")
        if section.alignment > _PAGE:
            raise LinkError(f"section {section.name} wants an alignment of {section.alignment} bytes")
        starts[section.index] = start = round_up(size, section.alignment)
        size = start + section.size
    return starts, size


def _place_routines(source: ObjectFile, known: Mapping[str, bytes], size: int) -> tuple[dict[str, int], int]:
    undefined = {relocation.symbol.name for relocation in source.relocations if relocation.symbol.section is None}
    if missing := sorted(undefined - known.keys()):
        raise LinkError(f"undefined symbols: {', '.join(missing)}")
    starts: dict[str, int] = {}
    for name in sorted(undefined):
        starts[name] = round_up(size, 16)
        size = starts[name] + len(known[name])
    return starts, size


def _relocate(source: ObjectFile, starts: dict[int, int], routines: dict[str, int], image: bytearray) -> None:
    for relocation in source.relocations:
        symbol = relocation.symbol
        if symbol.section is None:
            origin = routines[symbol.name]
        elif symbol.section in starts:
            origin = starts[symbol.section] + symbol.value
        else:
            raise LinkError(f"symbol {symbol.name} lies in a section that is not loaded")
        place = starts[relocation.section] + relocation.offset
        apply(source.machine, relocation.kind, image=image, place=place, target=origin + relocation.addend)


def round_up(value: int, alignment: int) -> int:
    """The first multiple of `alignment` from `value` on."""
    return -(-value // alignment) * alignment
