"""Registers of whole warps, as instructions of a warp read and write them; and rows of shared memory.

warps = machine.whole_warps(active)
words = read_warps(machine, reads, warps)               # (warp, lane, register)
write_warps(machine, active, warps, writes, words)
rows = read_rows(machine, addresses, lanes, 16)         # (lane, byte), checked
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.backends.ptxsim.accesses import check_shared, locate_shared
from tilewright.backends.ptxsim.decoder import Read, Write
from tilewright.backends.ptxsim.machine import WARP, Machine
from tilewright.backends.ptxsim.value_types import Array, Mask


def by_warp(machine: Machine, values: Array, warps: Array) -> Array:
    """Values of all lanes as (warp, lane), for some warps."""
    found: Array = np.broadcast_to(values, machine.lanes).reshape(-1, WARP)[warps]
    return found


def read_warps(machine: Machine, reads: Sequence[Read], warps: Array) -> Array:
    """Registers of warps: (warp, lane, register)."""
    return np.stack([by_warp(machine, read(machine), warps) for read in reads], axis=-1)


def write_warps(machine: Machine, active: Mask, warps: Array, writes: Sequence[Write], values: Array) -> None:
    """Write registers of warps, from (warp, lane, register)."""
    for number, write in enumerate(writes):
        if len(warps) * WARP == machine.lanes:
            full = values[..., number]
        else:
            full = np.zeros((machine.warps, WARP), values.dtype)
            full[warps] = values[..., number]
        write(machine, active, np.ascontiguousarray(full).reshape(-1))


def lanes_of(warps: Array, count: int = WARP) -> Array:
    """The first so many lanes of warps, one after the other."""
    lanes: Array = (warps[:, None] * WARP + np.arange(count)).ravel()
    return lanes


def read_rows(machine: Machine, addresses: Array, lanes: Array, width: int) -> Array:
    """Bytes of shared memory at the addresses of some lanes: (lane, byte). Rows of `width` bytes are aligned to it."""
    index = locate_shared(machine, addresses, lanes, width, "load")
    check_shared(machine, index, lanes, width, "read")
    found: Array = machine.shared.data[index[:, None] + np.arange(width)]
    return found


def write_rows(machine: Machine, addresses: Array, lanes: Array, rows: Array) -> None:
    """Store bytes of (lane, byte) at the addresses of some lanes in shared memory."""
    width = rows.shape[1]
    index = locate_shared(machine, addresses, lanes, width, "store")
    check_shared(machine, index, lanes, width, "write")
    machine.shared.data[index[:, None] + np.arange(width)] = rows
    machine.changes += 1
