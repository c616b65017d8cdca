"""All instructions the simulator knows: the tables of every family in one. `decoder.py` says how to add a family."""

from __future__ import annotations

from tilewright.backends.ptxsim import (
    accesses,
    arithmetic,
    async_copies,
    atomics,
    bits,
    bulk_copies,
    clusters,
    comparisons,
    control,
    conversions,
    cta_barriers,
    matrix_moves,
    mbarriers,
    mma,
    moves,
    proxies,
    shuffles,
    tcgen05,
    tensor_map_edits,
    tensor_memory,
    warp_reductions,
    wgmma,
)
from tilewright.backends.ptxsim.decoder import Handlers

HANDLERS: Handlers = {
    **accesses.HANDLERS,
    **arithmetic.HANDLERS,
    **async_copies.HANDLERS,
    **atomics.HANDLERS,
    **bits.HANDLERS,
    **bulk_copies.HANDLERS,
    **clusters.HANDLERS,
    **comparisons.HANDLERS,
    **control.HANDLERS,
    **conversions.HANDLERS,
    **cta_barriers.HANDLERS,
    **matrix_moves.HANDLERS,
    **mbarriers.HANDLERS,
    **mma.HANDLERS,
    **moves.HANDLERS,
    **proxies.HANDLERS,
    **shuffles.HANDLERS,
    **tcgen05.HANDLERS,
    **tensor_map_edits.HANDLERS,
    **tensor_memory.HANDLERS,
    **warp_reductions.HANDLERS,
    **wgmma.HANDLERS,
}
