"""Applies relocations to a position-independent image: one small function per kind of patch, one table per machine.

A patch gets the image, the place (offset of the patched field), and the target (offset of symbol + addend), all
relative to the start of the image, which is loaded at a multiple of 4096; so page-relative AArch64 addressing is
exact.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from tilewright.runtime.drivers.cpu.elf import LinkError

Patch = Callable[[bytearray, int, int], None]


def apply(machine: str, kind: int, *, image: bytearray, place: int, target: int) -> None:
    """Patches `image` at `place` to refer to `target`.

    Errors: LinkError for kinds that need an absolute address, are unknown, or do not reach their target.
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
