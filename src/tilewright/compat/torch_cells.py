"""Kernels of the cells of recurrent layers, for one step of all rows: the gates that products have left become states.

A program computes `BLOCK` hidden values of a row.
"""

from __future__ import annotations

from typing import Any

from tilewright import language as tl
from tilewright.language.extra import libdevice
from tilewright.runtime.jit import jit

BLOCK = 256
"""The number of hidden values that a program computes."""


def grid(h: Any) -> tuple[int, int]:
    """The programs of a step whose hidden values are `h`: by blocks of them, and by rows."""
    rows, width = h.shape
    return -(-width // BLOCK), rows


@jit
def lstm_cell(gates: Any, before: Any, after: Any, y: Any, width: Any, block: tl.constexpr) -> None:
    """Apply the gates of a row to its cells; they are stored as the gradient needs them."""
    row = tl.program_id(1)
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < width
    gates += 4 * row * width + at
    at += row * width
    let_in = tl.sigmoid(tl.load(gates, inside))
    keep = tl.sigmoid(tl.load(gates + width, inside))
    new = libdevice.tanh(tl.load(gates + 2 * width, inside))
    let_out = tl.sigmoid(tl.load(gates + 3 * width, inside))
    cell = keep * tl.load(before + at, inside) + let_in * new
    tl.store(gates, let_in, inside)
    tl.store(gates + width, keep, inside)
    tl.store(gates + 2 * width, new, inside)
    tl.store(gates + 3 * width, let_out, inside)
    tl.store(after + at, cell, inside)
    tl.store(y + at, let_out * libdevice.tanh(cell), inside)


@jit
def lstm_cell_backward(
    gates: Any, before: Any, after: Any, dy: Any, dh: Any, dc: Any, dgates: Any, width: Any, block: tl.constexpr
) -> None:
    """The gradients of a row's gates, and of its cells before, from those of its hidden values and cells after."""
    row = tl.program_id(1)
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < width
    gates += 4 * row * width + at
    dgates += 4 * row * width + at
    at += row * width
    let_in = tl.load(gates, inside)
    keep = tl.load(gates + width, inside)
    new = tl.load(gates + 2 * width, inside)
    let_out = tl.load(gates + 3 * width, inside)
    shown = libdevice.tanh(tl.load(after + at, inside))
    of_hidden = tl.load(dy + at, inside) + tl.load(dh + at, inside)
    of_cell = tl.load(dc + at, inside) + of_hidden * let_out * (1 - shown * shown)
    tl.store(dgates, of_cell * new * let_in * (1 - let_in), inside)
    tl.store(dgates + width, of_cell * tl.load(before + at, inside) * keep * (1 - keep), inside)
    tl.store(dgates + 2 * width, of_cell * let_in * (1 - new * new), inside)
    tl.store(dgates + 3 * width, of_hidden * shown * let_out * (1 - let_out), inside)
    tl.store(dc + at, of_cell * keep, inside)


@jit
def gru_cell(
    of_inputs: Any, of_hidden: Any, before: Any, gates: Any, after: Any, width: Any, block: tl.constexpr
) -> None:
    """Apply the gates of a row to its hidden values; what the gradient needs is stored in `gates`."""
    row = tl.program_id(1)
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < width
    of_inputs += 3 * row * width + at
    of_hidden += 3 * row * width + at
    gates += 4 * row * width + at
    at += row * width
    reset = tl.sigmoid(tl.load(of_inputs, inside) + tl.load(of_hidden, inside))
    keep = tl.sigmoid(tl.load(of_inputs + width, inside) + tl.load(of_hidden + width, inside))
    shown = tl.load(of_hidden + 2 * width, inside)
    new = libdevice.tanh(tl.load(of_inputs + 2 * width, inside) + reset * shown)
    tl.store(gates, reset, inside)
    tl.store(gates + width, keep, inside)
    tl.store(gates + 2 * width, new, inside)
    tl.store(gates + 3 * width, shown, inside)
    tl.store(after + at, new + keep * (tl.load(before + at, inside) - new), inside)


@jit
def gru_cell_backward(
    gates: Any, before: Any, dy: Any, dh: Any, dinputs: Any, dhidden: Any, width: Any, block: tl.constexpr
) -> None:
    """The gradients of what a row's gates were added up from; `dh` becomes what reaches the step before directly."""
    row = tl.program_id(1)
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < width
    gates += 4 * row * width + at
    dinputs += 3 * row * width + at
    dhidden += 3 * row * width + at
    at += row * width
    reset = tl.load(gates, inside)
    keep = tl.load(gates + width, inside)
    new = tl.load(gates + 2 * width, inside)
    of_state = tl.load(dy + at, inside) + tl.load(dh + at, inside)
    of_new = of_state * (1 - keep) * (1 - new * new)
    of_reset = of_new * tl.load(gates + 3 * width, inside) * reset * (1 - reset)
    of_keep = of_state * (tl.load(before + at, inside) - new) * keep * (1 - keep)
    tl.store(dinputs, of_reset, inside)
    tl.store(dinputs + width, of_keep, inside)
    tl.store(dinputs + 2 * width, of_new, inside)
    tl.store(dhidden, of_reset, inside)
    tl.store(dhidden + width, of_keep, inside)
    tl.store(dhidden + 2 * width, of_new * reset, inside)
    tl.store(dh + at, of_state * keep, inside)
