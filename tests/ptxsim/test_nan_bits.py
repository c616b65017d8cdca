"""The bits of NaNs, as hardware has given them: the simulator gives the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from ptx_programs import compute

from tilewright.support.ptx_syntax import TYPE_BITS

MEASURED = Path(__file__).with_name("nan_bits_of_sm90.txt")
REGISTERS = {16: "h", 32: "r", 64: "d"}


def measured() -> Iterator[tuple[str, list[list[int]]]]:
    """Each instruction with its rows: the bits of the operands, then those of the result."""
    name, rows = "", list[list[int]]()
    for line in MEASURED.read_text().splitlines()[1:]:
        if line.startswith(" "):
            rows.append([int(number, 16) for number in line.replace("->", "").split()])
        else:
            if rows:
                yield name, rows
            name, rows = line, []
    yield name, rows


def widths(instruction: str) -> tuple[int, int]:
    """The bits of the registers of the result and of the operands."""
    names = [part for part in instruction.split(".") if part in TYPE_BITS]
    result, operand = (max(16, TYPE_BITS[name]) for name in (names[0], names[-1]))
    return result, operand


CASES = dict(measured())


@pytest.mark.parametrize("instruction", CASES)
def test_nans_have_the_bits_that_hardware_gives(instruction: str) -> None:
    *operands, expected = np.array(CASES[instruction], np.uint64).T
    to, of = widths(instruction)
    names = ", ".join(f"%{REGISTERS[of]}{number + 1}" for number in range(len(operands)))
    given = [np.ascontiguousarray(operand).astype(f"u{of // 8}") for operand in operands]
    found = compute(f"{instruction} %{REGISTERS[to]}9, {names};", f"u{to // 8}", *given)
    assert [hex(bits) for bits in found] == [hex(bits) for bits in expected]


def test_of_a_product_and_a_term_the_term_hands_its_nan_on() -> None:
    """No two of three operands were measured of which the second one is a number: the last is taken to win."""
    one, first, last = (np.array([bits], np.uint64) for bits in (0x3FF0 << 48, 0x7FF8 << 48 | 1, 0xFFF8 << 48 | 2))
    found = compute("fma.rn.f64 %d9, %d1, %d2, %d3;", "u8", first, one, last)
    assert found[0] == last[0]
