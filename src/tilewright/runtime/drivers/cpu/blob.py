"""Links an ELF object into a blob: position-independent bytes that run wherever they are mapped.

    blob = link(object_bytes)
    mapping = map_code(blob.image)                      # loader.py
    entry = mapping.address + blob.symbols["kernel"]

A blob has no writable data and calls nothing outside itself: helpers come in through arguments. Only what LLVM calls
by itself, for large copies and for scalars of bfloat, and a clock are provided, as a few instructions inside the blob.
Code, constants and routines share one image; the relocations are applied once, here, so loading a cached blob is a
copy.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.runtime.drivers.cpu import relocate
from tilewright.runtime.drivers.cpu.elf import LinkError, ObjectFile, Section, Symbol, read_object
from tilewright.runtime.drivers.cpu.loader import Blob

_PAGE = 4096

# x86-64: rep movsb / rep stosb; aarch64: a byte loop. `__truncsfbf2`: LLVM keeps a bfloat that several blocks use as a
# float where the machine has no such type, so what comes here has no bits to round: psrld xmm0, 16;
# ushr v0.4s, v0.4s, 16. `clock_gettime`, of kernels that look at the time: Linux's system call 228, on aarch64 113.
ROUTINES: Mapping[str, Mapping[str, bytes]] = {
    "x86-64": {
        "__truncsfbf2": bytes.fromhex("660f72d010 c3"),
        "clock_gettime": bytes.fromhex("b8e4000000 0f05 c3"),
        "memcpy": bytes.fromhex("4889f8 4889d1 f3a4 c3"),
        "memset": bytes.fromhex("4989f8 89f0 4889d1 f3aa 4c89c0 c3"),
    },
    "aarch64": {
        "__truncsfbf2": bytes.fromhex("0004306f c0035fd6"),
        "clock_gettime": bytes.fromhex("280e80d2 010000d4 c0035fd6"),
        "memcpy": bytes.fromhex("e30300aa a20000b4 24144038 64140038 420400f1 a1ffff54 c0035fd6"),
        "memset": bytes.fromhex("e30300aa 820000b4 61140038 420400f1 c1ffff54 c0035fd6"),
    },
}


def link(object_file: bytes) -> Blob:
    """Links one relocatable object into a blob.

    Args: object_file: ELF for x86-64 or AArch64, compiled position-independent with the small code model.
    Returns: the blob.
    Errors: LinkError for other formats, undefined symbols (all are named), writable data and absolute addresses.
    """
    source = read_object(object_file)
    starts, size = _place(source.sections)
    routines, size = _place_routines(source, size)
    image = bytearray(size)
    for section in source.sections:
        image[starts[section.index] : starts[section.index] + section.size] = section.content.ljust(section.size, b"\0")
    for name, start in routines.items():
        routine = ROUTINES[source.machine][name]
        image[start : start + len(routine)] = routine
    _relocate(source, starts, routines, image)
    symbols = {
        symbol.name: starts[symbol.section] + symbol.value
        for symbol in source.symbols
        if symbol.exported and symbol.section in starts
    }
    return Blob(source.machine, bytes(image), symbols)


def _place(sections: tuple[Section, ...]) -> tuple[dict[int, int], int]:
    starts: dict[int, int] = {}
    size = 0
    for section in sections:
        if section.writable:
            raise LinkError(f"section {section.name} is writable; a blob has no variables of its own")
        if section.alignment > _PAGE:
            raise LinkError(f"section {section.name} wants an alignment of {section.alignment} bytes")
        starts[section.index] = start = _round_up(size, section.alignment)
        size = start + section.size
    return starts, size


def _place_routines(source: ObjectFile, size: int) -> tuple[dict[str, int], int]:
    undefined = {relocation.symbol.name for relocation in source.relocations if _is_undefined(relocation.symbol)}
    known = ROUTINES[source.machine]
    if missing := sorted(undefined - known.keys()):
        raise LinkError(f"undefined symbols: {', '.join(missing)}")
    starts: dict[str, int] = {}
    for name in sorted(undefined):
        starts[name] = _round_up(size, 16)
        size = starts[name] + len(known[name])
    return starts, size


def _is_undefined(symbol: Symbol) -> bool:
    return symbol.section is None


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
        relocate.apply(source.machine, relocation.kind, image=image, place=place, target=origin + relocation.addend)


def _round_up(value: int, alignment: int) -> int:
    return -(-value // alignment) * alignment
