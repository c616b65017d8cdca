"""All instructions the simulator knows: the tables of every family in one. `decoder.py` says how to add a family."""

from __future__ import annotations

from tilewright.backends.ptxsim import (
    accesses,
    async_copies,
    atomics,
    bits,
    bulk_copies,
    clusters,
    comparisons,
    control,
    conversions,
    cta_barriers,
    floats,
    integers,
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
from tilewright.backends.ptxsim.code import Run
from tilewright.backends.ptxsim.decoder import Decode, Decoder, Handlers
from tilewright.support.ptx_syntax import Instruction


def _by_type(on_floats: Decode, on_integers: Decode) -> Decode:
    """For opcodes that integers and floats share: the type at the end decides."""

    def decode(instruction: Instruction, code: Decoder) -> Run:
        return (on_floats if instruction.type in floats.FLOATS else on_integers)(instruction, code)

    return decode


SHARED = floats.HANDLERS.keys() & integers.HANDLERS.keys()


HANDLERS: Handlers = {
    **floats.HANDLERS,
    **integers.HANDLERS,
    **{name: _by_type(floats.HANDLERS[name], integers.HANDLERS[name]) for name in SHARED},
    **accesses.HANDLERS,
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
