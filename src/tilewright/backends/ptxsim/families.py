"""All instructions the simulator knows: the tables of every family in one. `decoder.py` says how to add a family."""

from __future__ import annotations

from tilewright.backends.ptxsim import (
    accesses,
    async_copies,
    bits,
    control,
    cta_barriers,
    integers,
    matrix_moves,
    mbarriers,
    mma,
    moves,
    proxies,
    shuffles,
    warp_reductions,
    wgmma,
)
from tilewright.backends.ptxsim.decoder import Handlers

HANDLERS: Handlers = {
    **accesses.HANDLERS,
    **async_copies.HANDLERS,
    **bits.HANDLERS,
    **control.HANDLERS,
    **cta_barriers.HANDLERS,
    **integers.HANDLERS,
    **matrix_moves.HANDLERS,
    **mbarriers.HANDLERS,
    **mma.HANDLERS,
    **moves.HANDLERS,
    **proxies.HANDLERS,
    **shuffles.HANDLERS,
    **warp_reductions.HANDLERS,
    **wgmma.HANDLERS,
}
