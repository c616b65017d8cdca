"""`setmaxnreg`: groups of four warps give registers back and take them."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_programs import kernel_text, run

import tilewright

TAKES = "setmaxnreg.inc.sync.aligned.u32"
GIVES = "setmaxnreg.dec.sync.aligned.u32"


def outcome(first: str, second: str, *, at_entry: int | None = 128, threads: int = 256) -> list[int]:
    """The numbers that threads store after warps 0 to 3 have run `first`, and the others `second`."""
    body = f"""
    setp.lt.u32 %p0, %r0, 128;
    @!%p0 bra others;
    {first}
    bra done;
    others:
    {second}
    done:
    mul.wide.u32 %d1, %r0, 4;
    add.s64 %d1, %d1, %d0;
    st.global.u32 [%d1], 1;
    """
    text = kernel_text(body, 1, threads=threads)
    if at_entry is not None:
        text = text.replace(f".reqntid {threads}", f".reqntid {threads}\n.maxnreg {at_entry}")
    (found,) = run(text, np.zeros(threads, np.int32))
    return sorted(set(found.tolist()))


def test_what_one_group_gives_another_takes() -> None:
    assert outcome(f"{TAKES} 232;", f"{GIVES} 24;") == [1]
    assert outcome(f"{GIVES} 24; bar.sync 0; {TAKES} 128;", f"{TAKES} 232; bar.sync 0; {GIVES} 128;") == [1]


def test_nobody_takes_what_nobody_gives() -> None:
    with pytest.raises(tilewright.SimulationError) as caught:
        outcome(f"{TAKES} 240;", f"{GIVES} 24;")
    assert caught.value.kind == "deadlock"
    assert "setmaxnreg.inc" in str(caught.value)


def test_without_a_number_at_entry_nothing_changes() -> None:
    assert outcome(f"{TAKES} 240;", "", at_entry=None) == [1]


@pytest.mark.quick
@pytest.mark.parametrize(
    ("first", "problem"),
    [
        (f"{TAKES} 120;", "a thread that has 128 registers cannot take up to 120"),
        (f"{GIVES} 136;", "a thread that has 128 registers cannot give back up to 136"),
        (f"{GIVES} 16;", "16 registers are no multiple of 8 from 24 to 256"),
        (f"{GIVES} 100;", "100 registers are no multiple of 8 from 24 to 256"),
        (f"{GIVES} 264;", "264 registers are no multiple of 8 from 24 to 256"),
        (
            f"setp.lt.u32 %p1, %r0, 64; @%p1 bra few; {GIVES} 32; bra same; few: {GIVES} 24; same:",
            "warps of one group ask for",
        ),
    ],
)
def test_numbers_that_hardware_does_not_have(first: str, problem: str) -> None:
    with pytest.raises(tilewright.SimulationError) as caught:
        outcome(first, "")
    assert caught.value.kind == "registers"
    assert problem in str(caught.value)


def test_all_warps_of_a_group_come() -> None:
    with pytest.raises(tilewright.SimulationError) as caught:
        outcome(f"setp.lt.u32 %p1, %r0, 64; @%p1 bra out; {GIVES} 24; bra out2; out: bar.sync 1, 96; out2:", "")
    assert caught.value.kind == "deadlock"
