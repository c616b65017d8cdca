"""All instructions the simulator knows: the tables of every family in one. `decoder.py` says how to add a family."""

from __future__ import annotations

from tilewright.backends.ptxsim import accesses, bits, control, cta_barriers, integers, moves, shuffles
from tilewright.backends.ptxsim.decoder import Handlers

HANDLERS: Handlers = {
    **accesses.HANDLERS,
    **bits.HANDLERS,
    **control.HANDLERS,
    **cta_barriers.HANDLERS,
    **integers.HANDLERS,
    **moves.HANDLERS,
    **shuffles.HANDLERS,
}
