"""All simulated instructions: the joined tables of every family. `decoder.py` says how to add a family."""

from __future__ import annotations

from tilewright.backends.ptxsim import (
    accesses,
    async_copies,
    atomics,
    bulk_copies,
    bulk_groups,
    cluster_launch,
    comparisons,
    control,
    conversions,
    cta_barriers,
    floats,
    integers,
    mbarriers,
    mma,
    moves,
    register_counts,
    shuffles,
    stored_maps,
    tcgen05,
    tensor_memory,
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


SCALARS = (integers, comparisons, conversions, moves, control)
MEMORY = (accesses, async_copies, atomics, bulk_copies, bulk_groups, stored_maps)
THREADS = (cluster_launch, cta_barriers, mbarriers, register_counts, shuffles)
TILES = (mma, tcgen05, tensor_memory, wgmma)
SHARED = floats.HANDLERS.keys() & integers.HANDLERS.keys()
HANDLERS: Handlers = dict(floats.HANDLERS)
for _family in (*SCALARS, *MEMORY, *THREADS, *TILES):
    HANDLERS |= _family.HANDLERS
HANDLERS |= {name: _by_type(floats.HANDLERS[name], integers.HANDLERS[name]) for name in SHARED}
