"""The number of bits in a part of the thread's number, made visible to ptxas.

    .reqntid 128
    mov.u32  %r1, %tid.x;
    shr.u32  %r2, %r1, 6;            bfe.u32  %r2, %r1, 6, 1;
    or.b32   %r3, %r2, 2;            or.b32   %r3, %r2, 2;
    …                                …

LLVM knows the number of threads of a CTA, and removes masks that change nothing. ptxas does not use it, and treats an
`or` as an addition only where it sees that the operands have no common bits. If it does, the addresses of a thread are
one register and constant offsets; otherwise they take a register each: 79 registers instead of 56 for a transposition
of 64x64. Threads with few addresses, as in matrix products, are left as they are: the change cost them up to 26
registers. Where addresses are widened to 64 bits, and so take two registers each, the limit is lower: 64 instead of 80
registers for paged attention.
"""

from __future__ import annotations

import re

from tilewright.backends.nvidia.address_offsets import FUNCTION

MANY = 16
"""The least number of places for which it pays."""
MANY_WIDE = 3
"""The least number of places of 64 bits for which it pays."""
_THREADS = re.compile(r"^\.reqntid (\d+)\s*$", re.MULTILINE)
_WIDENED = re.compile(r"\bcvt\.u64\.u32\s+%rd\d+, (%r\d+);")
_THREAD = re.compile(r"^\s*mov\.u32\s+(%r\d+), %tid\.x;", re.MULTILINE)


def bound_thread_bits(text: str) -> str:
    """PTX, in which parts of the thread's number that many places are made of have a width."""
    return "".join(map(_bounded, FUNCTION.split(text)))


def _bounded(text: str) -> str:
    """One function, whose registers are its own; it is a kernel if it says how many threads a block has."""
    threads, thread = _THREADS.search(text), _THREAD.search(text)
    if threads is None or thread is None or not _is_set_once(text, thread[1]):
        return text
    bits = (int(threads[1]) - 1).bit_length()

    def with_width(shift: re.Match[str]) -> str:
        start, target, moved = shift[1], shift[2], int(shift[3])
        if moved >= bits or not _has_many_places(text, target):
            return shift[0]
        return f"{start}bfe.u32 \t{target}, {thread[1]}, {moved}, {bits - moved};"

    return re.sub(rf"(?m)^(\s*)shr\.u32\s+(%r\d+), {thread[1]}, (\d+);", with_width, text)


def _is_set_once(text: str, register: str) -> bool:
    """Whether no other instruction, such as the step of a loop, has the register for its result."""
    target = rf"(?m)(?:^|[;{{}}])[ \t]*(?:@!?%p\d+[ \t]+)?[a-z][\w.:]*[ \t]+(?:\{{[^}}\n]*)?{register}\b"
    return len(re.findall(target, text)) == 1


def _has_many_places(text: str, base: str) -> bool:
    """Whether many numbers are put beside the bits of this register, or some and all of them in 64 bits."""
    places = re.findall(rf"\bor\.b32\s+(%r\d+), {base}, \d+;", text)
    if len(places) >= MANY:
        return True
    widened = set(_WIDENED.findall(text))
    return len(places) >= MANY_WIDE and widened.issuperset(places)
