"""The reports of accesses to memory that are misaligned or reach out of it in some lanes: which lane, which address."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from ptx_programs import kernel_text, run

import tilewright

ACCESSES = {
    "ld.{}.b16 %h9, [{}];": 2,
    "ld.{}.v2.b32 {{%r9, %r10}}, [{}];": 8,
    "st.{}.b64 [{}], %d9;": 8,
    "st.{}.v4.b32 [{}], {{%r0, %r0, %r0, %r0}};": 16,
    "atom.{}.add.u32 %r9, [{}], 1;": 4,
    "red.{}.max.u64 [{}], %d9;": 8,
}
SPACES = {
    "global": "mul.wide.u32 %d5, %r0, 16; add.s64 %d5, %d5, %d0;",
    "shared": "mov.u64 %d5, words; mul.wide.u32 %d6, %r0, 16; add.s64 %d5, %d5, %d6;",
    "local": "mov.u64 %d5, frame;",
}
HEAD = ".shared .align 16 .b8 words[1024]; .local .align 16 .b8 frame[16];"
WARPS = 2


def outcome(space: str, access: str, lane: int, offset: int, *, generic: bool = False) -> str:
    """The error where threads from `lane` on access so many bytes further than they may."""
    address = f"cvta.{space}.u64 %d5, %d5;" if generic else ""
    first = f"st.{space}.v4.b32 [%d5], {{%r0, %r0, %r0, %r0}}; mov.u64 %d9, 3; bar.sync 0; {address}"
    moved = f"setp.ge.u32 %p1, %r0, {lane}; @%p1 add.s64 %d5, %d5, {offset};"
    last = access.format(space, "%d5").replace(f".{space}", "" if generic else f".{space}")
    text = kernel_text(HEAD + SPACES[space] + first + moved + last, 1, threads=32 * WARPS)
    try:
        run(text, np.zeros(4 * 32 * WARPS, np.int32))
    except tilewright.SimulationError as error:
        message, thread, *_ = str(error).splitlines()
        return f"{message}; {thread.strip().removeprefix('kernel `k`, ').removesuffix(' of CTA (0, 0, 0)')}"
    return "fine"


@pytest.mark.quick
@pytest.mark.parametrize("space", SPACES)
def test_faults(space: str, golden: Callable[[str, str], None]) -> None:
    lines = []
    for access, width in ACCESSES.items():
        if space == "local" and access.startswith(("atom", "red")):
            continue
        lines.append(access.format(space, "…"))
        for lane, offset in ((5, width // 2), (39, 1), (63, 16), (60, -2048)):
            for generic in (False, True):
                said = outcome(space, access, lane, offset, generic=generic)
                lines.append(f"    from {lane} on {offset:+}{', generic' if generic else ''}: {said}")
    golden("\n".join(lines) + "\n", f"ptxsim/faults_{space}.txt")
