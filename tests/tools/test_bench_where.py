"""Loops of machine code that `bench/where.py` finds, and what it calls them."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "bench"))

from where import Loop, loops_of

CODE = [
    (0x00, "xor    eax,eax"),
    (0x10, "vmovups zmm0,ZMMWORD PTR [rsi]"),
    (0x20, "inc    rax"),
    (0x28, "jne    0x20"),
    (0x30, "vfmadd231ps zmm1,zmm0,DWORD BCST [rdi]"),
    (0x38, "vfmadd231ps zmm2,zmm0,DWORD BCST [rdi+rax*1]"),
    (0x40, "dec    rcx"),
    (0x44, "jne    0x30"),
    (0x50, "jl     0x10"),
    (0x58, "jmp    0x90"),
    (0x90, "ret"),
]


def test_innermost_loops_are_told_by_their_multiply_adds() -> None:
    """The loop from 0x10 holds both others, and the last jump goes forward."""
    packing, product = loops_of(CODE)
    assert (packing, product) == (Loop(0x20, 0x28, 2, 0), Loop(0x30, 0x44, 4, 2))
    assert (packing.kind, product.kind) == ("packing", "product")
    assert product.line(0.5).endswith("4 instructions, 2 multiply-adds, 2.00 each")


def test_jumps_into_what_is_no_code_make_no_loop() -> None:
    assert loops_of([(0x10, "nop"), (0x18, "jne    0x12")]) == []
