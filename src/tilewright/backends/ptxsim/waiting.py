"""The report of a deadlock: the waiting warps, and what each of them waits for.

    deadlock: threads poll memory that nobody changes any more
      kernel `pipelined`, thread (128, 0, 0) of CTA (0, 0, 0)
      warps 0 to 3 of CTA (0, 0, 0), kernel.py:31:9: the mbarrier at shared address 0x4008, phase 2 (parity 0), wants
      1 more of 1 arrivals and 8192 more bytes
      warps 4 to 7 of CTA (0, 0, 0), kernel.py:40:5: bar.sync 1, 128
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tilewright.backends.ptxsim.value_types import Mask

if TYPE_CHECKING:
    from tilewright.backends.ptxsim.machine import Machine

Reasons: TypeAlias = dict[int, tuple[int, str]]
"""Per warp the step at which it waits, and for what."""
Explain: TypeAlias = Callable[[], Reasons]


def who_waits(machine: Machine) -> tuple[str, ...]:
    """A line for each run of warps of a CTA that wait for the same."""
    reasons: Reasons = {}
    for at, mask in (*machine.groups.items(), *machine.parked.items()):
        for warp in _warps(machine, mask):
            reasons[warp] = (at, machine.code.steps[at].instruction.text)
    standing = set(reasons)
    for explain in machine.at_deadlock:
        reasons |= {warp: reason for warp, reason in explain().items() if warp in standing}
    runs = groupby(sorted(reasons), key=lambda warp: (warp // machine.warps_per_cta, reasons[warp]))
    return tuple(_line(machine, list(warps), *reason) for (_, reason), warps in runs)


def _warps(machine: Machine, mask: Mask) -> list[int]:
    alive = machine.alive if mask is None else mask & machine.alive
    return [int(warp) for warp in np.unique(machine.warp[alive])]


def _line(machine: Machine, warps: list[int], at: int, reason: str) -> str:
    first, *_ = numbers = [warp % machine.warps_per_cta for warp in warps]
    who = f"warps {first} to {numbers[-1]}" if len(numbers) > 1 else f"warp {first}"
    x, y, z = (int(n) for n in machine.ctas[warps[0] // machine.warps_per_cta])
    instruction = machine.code.steps[at].instruction
    place = instruction.source or f"PTX line {instruction.line}"
    return f"{who} of CTA {(x, y, z)}, {place}: {reason}"
